"""The channel contract over Slack, on an emulated one, by Socket Mode and by HTTP events."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nanobot.channel import Channel
from nanobot.contracts.channel import ChannelContract, Platform
from nanobot.testing_port import FakePort
from tests.channels.slack_house import House, house, mounted


class SlackPlatform:
    """Two people, each in a direct chat with the bot; a message's id is its ts."""

    def __init__(self, gateway: House) -> None:
        self.house = gateway
        self.port: FakePort = gateway.port
        self.channel: Channel = gateway.channel
        self._ids: dict[tuple[int, str], str] = {}
        gateway.slack.events.retries = 0  # the suite repeats by itself

    async def say(self, chat: int, text: str, id: str) -> bool:
        user = f"U{chat + 1}"
        known = self._ids.get((chat, id), "")
        message, [way, *_] = self.house.slack.say(f"D{user}", user, text, ts=known)
        self._ids[chat, id] = message.ts
        return await way.acked(0.7)

    async def shown(self, chat: int) -> list[str]:
        return list(self.house.workspace.shown(f"DU{chat + 1}"))


class TestSlackBySocketMode(ChannelContract):
    @pytest.fixture
    async def platform(self, tmp_path: Path) -> AsyncIterator[Platform]:
        async with house(tmp_path) as gateway:
            yield SlackPlatform(gateway)


class TestSlackByHttpEvents(ChannelContract):
    @pytest.fixture
    async def platform(self, tmp_path: Path) -> AsyncIterator[Platform]:
        by_http: dict[str, Any] = {"app_token": "", "signing_secret": "secret-of-the-test"}
        async with house(tmp_path, **by_http) as gateway, mounted(gateway):
            yield SlackPlatform(gateway)
