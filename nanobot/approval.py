"""Who may use the commands that change things: people whom the owner let in, not whoever may speak in a group."""

from collections.abc import Mapping

from nanobot.messages import Inbound
from nanobot.pairing import PairingDesk
from nanobot.routing import Policy


class Approval:
    """`policies` by channel. A channel without `allow_from` knows its people itself."""

    def __init__(self, policies: Mapping[str, Policy], desk: PairingDesk) -> None:
        self._policies = policies
        self._desk = desk

    async def __call__(self, message: Inbound) -> bool:
        policy = self._policies.get(message.channel, Policy())
        if policy.allow_from is None or message.sender in policy.allow_from:
            return True
        if "*" in policy.allow_from and message.private:
            return True
        return await self._desk.paired(message.channel, message.sender)
