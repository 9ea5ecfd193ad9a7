"""What the owner decides on, for the channels that show it: pairing requests and dead letters."""

from collections.abc import Sequence

from nanobot.channel import Applicant, DeadLetter
from nanobot.delivery import Deliverer
from nanobot.pairing import PairingDesk
from nanobot.store import Outbox

MAX_LETTERS = 100


class OwnersOffice:
    """Implements `channel.Office`."""

    def __init__(self, desk: PairingDesk, outbox: Outbox, deliverer: Deliverer) -> None:
        self._desk = desk
        self._outbox = outbox
        self._deliverer = deliverer

    async def applicants(self) -> Sequence[Applicant]:
        return [
            Applicant(one.channel, one.sender, one.name, one.code, one.status, one.created_at, one.expires_at)
            for one in await self._desk.list()
        ]

    async def decide(self, channel: str, sender: str, *, admit: bool) -> bool:
        return await self._desk.decide(channel, sender, admit=admit)

    async def revoke(self, channel: str, sender: str) -> bool:
        return await self._desk.revoke(channel, sender)

    async def dead_letters(self) -> Sequence[DeadLetter]:
        rows = await self._outbox.list(("dead", "unknown"), MAX_LETTERS)
        letters = [
            DeadLetter(
                row.id, row.message.address.key, row.message.text, row.error, row.status, row.created_at
            )
            for row in rows
        ]
        return sorted(letters, key=lambda letter: letter.created_at, reverse=True)

    async def resend(self, id: int) -> bool:
        delivery = await self._outbox.resend(id)
        if delivery is None:
            return False
        self._deliverer.submit([delivery])
        return True

    async def drop(self, id: int) -> bool:
        rows = await self._outbox.list(("dead", "unknown"), MAX_LETTERS)
        # Only what is shown here may be dropped here: a reply that still waits will arrive.
        return any(row.id == id for row in rows) and await self._outbox.drop(id)
