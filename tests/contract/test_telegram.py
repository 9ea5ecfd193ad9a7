"""The channel contract over Telegram."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nanobot.channel import Channel
from nanobot.contracts.channel import ChannelContract, Platform
from tests.channels.telegram_house import ANN, BOB, House, house


class TelegramPlatform:
    """Two people in private chats. What a poll confirmed counts as acknowledged."""

    def __init__(self, gateway: House) -> None:
        self.port = gateway.port
        self.channel: Channel = gateway.channel
        self._server = gateway.server
        self._said: dict[str, dict[str, Any]] = {}
        self._open: dict[str, int] = {}  # sent and not confirmed yet, with the update's id

    async def say(self, chat: int, text: str, id: str) -> bool:
        fails = self.port.fails is not None
        if id in self._open:
            update = self._open.pop(id)
        elif id in self._said:
            update = self._server.again(self._said[id])
        else:
            self._said[id] = self._server.say((ANN, BOB)[chat], text)
            update = int(self._server.world.updates[-1]["update_id"])
        if fails:  # the poll that follows the refusal confirms nothing
            await self._server.until(lambda: self.port.fails is None)
            self._open[id] = update
            return bool(self._server.updates.confirmed > update)
        await self._server.until(lambda: self._server.updates.confirmed > update)
        return True

    async def shown(self, chat: int) -> list[str]:
        return self._server.texts((ANN, BOB)[chat])


class TestTelegram(ChannelContract):
    @pytest.fixture
    async def platform(self, tmp_path: Path) -> AsyncIterator[Platform]:
        async with house(tmp_path) as gateway:
            yield TelegramPlatform(gateway)
