"""A Slack channel on an emulated Slack, with a port that accepts everything; for tests of the adapter."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from channels.slack.adapter import SlackChannel
from channels.slack.settings import Pace
from nanobot.channel import Address, Clock, Inbound, Outbound, TurnEnded, TurnStarted, Usage
from nanobot.http import HttpServer, build
from nanobot.testing_port import FakePort
from tests.emulators.slack import SlackServer

SECONDS = 10.0
QUICK = Pace(start=0.02, append=0.02, edit=0.03, progress=0.15, tick=0.1, starts=6e4, appends=6e4, edits=6e4)


class RecordingPort(FakePort):
    """Remembers the ids of previews, and gives them to the reply that follows, as the gateway does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.refs: dict[tuple[str, int], str] = {}

    async def posted(self, turn: str, part: int, address: Address, ref: str) -> None:
        self.refs[turn, part] = ref


class House:
    """The parts of a test: the platform, the port, the channel."""

    def __init__(self, slack: SlackServer, port: RecordingPort, channel: SlackChannel) -> None:
        self.slack = slack
        self.port = port
        self.channel = channel

    @property
    def workspace(self) -> Any:
        return self.slack.workspace

    def reply(self, to: Inbound, text: str, turn: str = "t", **fields: Any) -> Outbound:
        """The answer to a message, as the gateway makes it."""
        ref = self.port.refs.get((turn, 0), "")
        return Outbound(
            turn, 0, to.address, text, ref=ref, meta={**to.meta, **fields.pop("meta", {})}, **fields
        )

    def begin(self, to: Inbound, turn: str = "t", *, resumed: bool = False) -> tuple[str, str, Address]:
        """A turn starts; returns what all its events begin with."""
        where = (to.key, turn, to.address)
        self.channel.show(TurnStarted(*where, (self.port.inbox_id(to),), 1_000.0, resumed))
        return where

    def end(self, to: Inbound, *replies: Outbound, turn: str = "t", status: Any = "completed") -> None:
        answers = (self.port.inbox_id(to),)
        self.channel.show(TurnEnded(to.key, turn, to.address, status, answers, replies, "s", 5, Usage()))

    async def arrival(self) -> Inbound:
        """The next message that was accepted."""
        async with asyncio.timeout(SECONDS):
            return await self.port.arrivals.get()

    async def asked(self, chat: str, text: str = "hello", user: str = "U1", **fields: Any) -> Inbound:
        """Somebody writes, and it is accepted."""
        self.slack.say(chat, user, text, **fields)
        return await self.arrival()


@asynccontextmanager
async def house(
    folder: Path,
    slack: SlackServer | None = None,
    *,
    start: bool = True,
    pace: Pace = QUICK,
    clock: Clock | None = None,
    **settings: Any,
) -> AsyncIterator[House]:
    """A started channel; people U1 and U2 with direct chats, and the channel C1, which the bot is in."""
    if slack is None:
        async with (
            SlackServer() as made,
            house(folder, made, start=start, pace=pace, clock=clock, **settings) as whole,
        ):
            yield whole
        return
    slack.person("U1", "ann")
    slack.person("U2", "bob")
    slack.workspace.channel("C1")
    values = {
        "bot_token": slack.bot_token,
        "app_token": slack.app_token,
        "api_url": slack.api_url,
        "allow_from": ["*"],
        **settings,
    }
    port = RecordingPort(folder, values, name="slack", clock=clock)
    channel = SlackChannel(port, pace)
    port.connect(channel)
    if start:
        await channel.start()
    try:
        yield House(slack, port, channel)
    finally:
        await channel.stop()


@asynccontextmanager
async def mounted(gateway: House) -> AsyncIterator[str]:
    """The channel's routes on a real HTTP server, which the platform sends its events to."""

    async def health() -> dict[str, str]:
        return {}

    app = build(gateway.channel.routes(), health=health, ready=lambda: True, metrics=lambda: b"")
    server = HttpServer(app, "127.0.0.1", 0)
    await server.start()
    gateway.slack.events.url = f"http://127.0.0.1:{server.port}/slack/events"
    try:
        yield gateway.slack.events.url
    finally:
        await server.stop()


def long_text(size: int) -> str:
    """Paragraphs with lists, tables and fences, numbered so that order can be told."""
    made, number = "", 0
    while len(made) < size:
        number += 1
        made += (
            f"para{number} with **bold** words\n\n- item{number}\n  - nested{number}\n    1. deep{number}\n\n"
            f"| a{number} | b |\n|---|---|\n| 1 | 2 |\n\n```python\ncode{number} = {number}\n```\n\n"
        )
    return made


def seen(gateway: House, channel: str, thread: str | None = None) -> list[str]:
    """The words people read, without fence lines."""
    text = "\n".join(gateway.workspace.shown(channel, thread))
    return [word for word in text.split() if not word.startswith("```")]
