"""What every Channel keeps, as tests. A channel's own test module runs them:

class TestMyChannel(ChannelContract):
    @pytest.fixture
    async def platform(self): ...   # a Platform with the channel started and connected to its port
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from starlette.routing import BaseRoute

from nanobot.channel import Channel
from nanobot.errors import StoreFull
from nanobot.events import (
    Event,
    GoalChanged,
    Notice,
    ReasoningDelta,
    ReasoningEnded,
    SessionUpdated,
    Steered,
    TextDelta,
    TextEnded,
    TextReset,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
)
from nanobot.messages import Address, Inbound, Outbound
from nanobot.testing_port import FakePort

SECONDS = 10.0


class Platform(Protocol):
    """A platform with people on it, real or emulated, as the suite drives it."""

    port: FakePort
    channel: Channel

    async def say(self, chat: int, text: str, id: str) -> bool:
        """A person writes in the n-th private chat; the same id is the platform sending the same message again.

        True once the platform was told that the message has arrived, False where it was not.
        """
        ...

    async def shown(self, chat: int) -> list[str]:
        """The bot's messages as the people in that chat have them now, oldest first, edits applied."""
        ...


class ChannelContract:
    async def test_a_message_is_accepted_as_it_was_written_and_acknowledged(self, platform: Platform) -> None:
        text = "Grüße 👋 <b> & *stars* and\ntwo lines"
        assert await platform.say(0, text, "m1")
        message = await arrival(platform)

        assert message.text == text
        assert message.channel == platform.channel.name == platform.port.name
        assert message.sender
        assert message.private
        assert message.kind == "user"

    async def test_the_platform_sending_again_changes_nothing(self, platform: Platform) -> None:
        assert await platform.say(0, "once", "m1")
        assert await platform.say(0, "once", "m1")
        assert await platform.say(0, "once", "m2")

        assert [message.text for message in platform.port.accepted] == ["once", "once"]
        assert len({message.message_id for message in platform.port.accepted}) == 2

    async def test_a_message_that_could_not_be_kept_is_not_acknowledged(self, platform: Platform) -> None:
        platform.port.fails = StoreFull("disk full")
        refused = await platform.say(0, "hello", "m1")
        again = await platform.say(0, "hello", "m1")

        assert (refused, again) == (False, True)
        assert len(platform.port.accepted) == 1

    async def test_chats_are_told_apart(self, platform: Platform) -> None:
        await platform.say(0, "one", "m1")
        await platform.say(1, "two", "m2")
        first, second = await arrival(platform), await arrival(platform)

        assert first.address != second.address
        assert first.key != second.key

    async def test_replies_arrive_in_their_chat_in_order_and_nowhere_else(self, platform: Platform) -> None:
        await platform.say(0, "hello", "m1")
        await platform.say(1, "hello", "m2")
        message = await arrival(platform)
        for number in range(5):
            platform.port.send(reply(message, f"answer {number}", turn=f"t{number}"))
        await platform.port.settle()

        assert await platform.shown(0) == [f"answer {number}" for number in range(5)]
        assert await platform.shown(1) == []
        assert platform.port.outbox == []

    async def test_a_reply_delivered_again_is_seen_once(self, platform: Platform) -> None:
        await platform.say(0, "hello", "m1")
        message = reply(await arrival(platform), "the answer")
        receipt = await platform.channel.deliver(message)
        assert platform.channel.capabilities.repeatable or receipt.ref
        again = Outbound(
            message.turn, message.part, message.address, message.text, ref=receipt.ref, meta=message.meta
        )
        await platform.channel.deliver(again)

        assert await platform.shown(0) == ["the answer"]

    async def test_a_long_reply_arrives_whole(self, platform: Platform) -> None:
        await platform.say(0, "hello", "m1")
        words = [f"word{number}" for number in range(3_000)]
        platform.port.send(reply(await arrival(platform), " ".join(words)))
        await platform.port.settle()

        assert " ".join(await platform.shown(0)).split() == words

    async def test_showing_any_event_of_any_turn_returns_at_once_and_never_raises(
        self, platform: Platform
    ) -> None:
        await platform.say(0, "hello", "m1")
        message = await arrival(platform)
        if platform.channel.capabilities.live:
            for event in every_event(message.key, message.address):
                platform.channel.show(event)
            for event in every_event("other:1", Address(platform.port.name, "1")):
                platform.channel.show(event)
        platform.port.send(reply(message, "still well"))
        await platform.port.settle()

        assert "still well" in await platform.shown(0)

    async def test_its_routes_are_routes(self, platform: Platform) -> None:
        assert all(isinstance(route, BaseRoute) for route in platform.channel.routes())

    async def test_it_stops_in_time(self, platform: Platform) -> None:
        async with asyncio.timeout(5):
            await platform.channel.stop()


async def arrival(platform: Platform) -> Inbound:
    """The next message that the port accepted."""
    async with asyncio.timeout(SECONDS):
        return await platform.port.arrivals.get()


def reply(message: Inbound, text: str, turn: str = "t") -> Outbound:
    """An answer to a message, as the gateway makes it."""
    return Outbound(turn, 0, message.address, text, meta=message.meta)


def every_event(session: str, place: Address, turn: str = "t-events") -> Sequence[Event]:
    """One event of each kind, in an order that a turn could have."""
    return (
        TurnStarted(session, turn, place, (turn,), 1_000.0),
        Steered(session, turn, place, ("m2",)),
        ReasoningDelta(session, turn, place, "thinking", "s1"),
        ReasoningEnded(session, turn, place, "s1"),
        TextDelta(session, turn, place, "I look", "s1"),
        TextReset(session, turn, place, "s1"),
        TextDelta(session, turn, place, "I look", "s2"),
        TextEnded(session, turn, place, "s2", "I look"),
        ToolStarted(session, turn, place, "c1", "exec", {"command": "ls"}),
        ToolProgress(session, turn, place, "c1", "exec", "a.txt"),
        ToolEnded(session, turn, place, "c1", "exec", "a.txt", False, 0.1),
        Notice(session, turn, place, "trying again"),
        GoalChanged(session, turn, place, {"status": "active", "objective": "tidy"}),
        TurnEnded(session, turn, place, "completed", (turn,), (), "", 5, Usage(1, 2)),
        SessionUpdated(session, turn, place),
        # A turn whose beginning nobody saw.
        ToolEnded(session, "t-unseen", place, "c9", "exec", "x", True, 0.1),
        TurnEnded(session, "t-unseen", place, "failed", (), (), "s9", 5, Usage()),
    )
