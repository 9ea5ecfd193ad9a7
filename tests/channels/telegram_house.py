"""The Telegram channel against the emulated Bot API, and the port it talks to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from channels.telegram import TelegramChannel, create
from nanobot.events import TextDelta, ToolEnded, ToolStarted, TurnEnded, TurnStarted, Usage
from nanobot.messages import Address, Inbound, Outbound
from nanobot.testing_port import FakePort
from tests.emulators.telegram import TelegramServer

SECONDS = 10.0
ANN, BOB = 11, 12  # private chats
GROUP = -100_500


class House:
    """One channel, its platform and its port."""

    def __init__(self, server: TelegramServer, port: FakePort, channel: TelegramChannel) -> None:
        self.server = server
        self.port = port
        self.channel = channel

    async def arrival(self) -> Inbound:
        async with asyncio.timeout(SECONDS):
            return await self.port.arrivals.get()

    async def asked(self, chat: int = ANN, text: str = "hello", **fields: Any) -> Inbound:
        """Somebody writes, and the gateway has it."""
        self.server.say(chat, text, **fields)
        return await self.arrival()

    # What a session's actor would do.

    def start(self, message: Inbound) -> str:
        turn = self.port.inbox_id(message)
        self.channel.show(TurnStarted(message.key, turn, message.address, (turn,), 1_000.0))
        return turn

    def delta(self, message: Inbound, text: str, stream: str = "s1") -> None:
        self.channel.show(TextDelta(message.key, self.port.inbox_id(message), message.address, text, stream))

    def tool(self, message: Inbound, name: str, call: str = "c1", **arguments: Any) -> None:
        turn = self.port.inbox_id(message)
        self.channel.show(ToolStarted(message.key, turn, message.address, call, name, arguments))

    def tool_ended(self, message: Inbound, name: str, call: str = "c1") -> None:
        turn = self.port.inbox_id(message)
        self.channel.show(ToolEnded(message.key, turn, message.address, call, name, "ok", False, 0.1))

    def reply(self, message: Inbound, text: str, **fields: Any) -> Outbound:
        meta = {**message.meta, **fields.pop("meta", {})}
        return Outbound(self.port.inbox_id(message), 0, message.address, text, meta=meta, **fields)

    def end(self, message: Inbound, text: str = "") -> Outbound | None:
        """The turn is committed: its reply goes to delivery and its end is announced."""
        reply = self.reply(message, text) if text else None
        if reply is not None:
            self.port.send(reply)
        turn = self.port.inbox_id(message)
        replies = (reply,) if reply else ()
        self.channel.show(
            TurnEnded(message.key, turn, message.address, "completed", (turn,), replies, "", 5, Usage())
        )
        return reply

    def push(self, chat: int, text: str, turn: str = "t-other", **fields: Any) -> Outbound:
        """A reply that belongs to no message of this test."""
        return Outbound(turn, 0, Address("telegram", str(chat)), text, **fields)


@asynccontextmanager
async def house(
    workspace: Path, server: TelegramServer | None = None, *, start: bool = True, **settings: Any
) -> AsyncIterator[House]:
    server = server or TelegramServer()
    if not server.url:
        await server.start()
    table = {"token": server.token, "api_url": server.url, "poll_timeout": 5, **settings}
    port = FakePort(workspace, table, name="telegram")
    channel = create(port)
    port.connect(channel)
    try:
        if start:
            await channel.start()
        yield House(server, port, channel)
    finally:
        await port.settle()
        await channel.stop()
        await server.stop()
