"""The channel of sub-sessions: what one answers is delivered into its parent's mailbox."""

from collections.abc import Sequence
from typing import Any

from nanobot.channel import Capabilities, Receipt
from nanobot.child import CHANNEL
from nanobot.children import Children
from nanobot.events import Event
from nanobot.messages import Outbound


class ParentMailbox:
    """Implements `channel.Channel`. Delivering twice is harmless: a result is known by child and turn."""

    name = CHANNEL
    capabilities = Capabilities(repeatable=True)

    def __init__(self, children: Children) -> None:
        self._children = children

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def deliver(self, message: Outbound) -> Receipt:
        await self._children.answered(
            message.address.chat_id, message.turn, message.text, failed=message.kind == "error"
        )
        return Receipt()

    async def find(self, message: Outbound) -> Receipt | None:  # noqa: ARG002 - never asked
        return None

    def show(self, event: Event) -> None: ...

    def routes(self) -> Sequence[Any]:
        return ()
