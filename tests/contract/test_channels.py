"""The channel contract over the channels that are here."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from nanobot.channel import Channel
from nanobot.contracts.channel import ChannelContract, Platform
from tests.channels.websocket_client import Client, House, house


class WebSocketPlatform:
    """Two people, each with a client in a chat of their own; messages are known by their ids."""

    def __init__(self, gateway: House, clients: list[Client]) -> None:
        self.port = gateway.port
        self.channel: Channel = gateway.channel
        self._clients = clients

    async def say(self, chat: int, text: str, id: str) -> bool:
        await self._clients[chat].send(type="message", chat_id=f"chat-{chat}", content=text, id=id)
        while True:
            frame = await self._clients[chat].read()
            if frame["event"] in ("accepted", "error"):
                return bool(frame["event"] == "accepted")

    async def shown(self, chat: int) -> list[str]:
        client = self._clients[chat]
        await client.nothing_more()
        finals = {
            frame["message_id"]: frame["text"]
            for frame in client.frames
            if frame["event"] in ("message", "stream_end") and "message_id" in frame
        }
        return list(finals.values())


class TestWebSocket(ChannelContract):
    @pytest.fixture
    async def platform(self, tmp_path: Path) -> AsyncIterator[Platform]:
        async with AsyncExitStack() as stack:
            gateway = await stack.enter_async_context(house(tmp_path))
            clients = [await stack.enter_async_context(gateway.client()) for _ in range(2)]
            yield WebSocketPlatform(gateway, clients)
