"""Messages from Slack: which are taken, under which key, once; and what comes with them."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nanobot.channel import Waiting
from nanobot.clock import SystemClock
from nanobot.errors import StoreFull
from nanobot.testing_port import FakePort
from tests.channels.slack_house import House, house
from tests.emulators.slack import BOT_USER, SlackServer

SAMPLES = Path(__file__).parents[2] / "channels" / "slack" / "samples"
HELLO = f"<@{BOT_USER}> hello"


async def test_a_direct_message_belongs_to_the_chat_and_is_acknowledged_after_the_accept(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as gateway:
        message, [way] = gateway.slack.say("DU1", "U1", "hello")
        assert await way.acked()
        [accepted] = gateway.port.accepted

    assert accepted.key == "slack:DU1"
    assert (accepted.private, accepted.sender, accepted.sender_name) == (True, "U1", "ann")
    assert accepted.message_id == f"T1:DU1:{message.ts}"
    assert way.attempts == 1


async def test_a_mention_and_its_message_are_one_and_open_a_thread(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        message, ways = gateway.slack.say("C1", "U1", HELLO, raw=True)
        assert [await way.acked() for way in ways] == [True, True]
        [accepted] = gateway.port.accepted

    assert accepted.key == f"slack:C1:{message.ts}"
    assert (accepted.text, accepted.mentioned, accepted.private) == ("hello", True, False)


async def test_a_mention_that_names_its_team_and_a_message_that_does_not_are_one(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        message, ways = gateway.slack.say("C1", "U1", HELLO, raw=True, fields={"team": "T9"})
        _, more = gateway.slack.say("C1", "U1", HELLO, raw=True, ts=message.ts, fields={"team": None})
        assert all([await way.acked() for way in [*ways, *more]])

    assert len(gateway.port.accepted) == 1


async def test_a_lost_acknowledgement_and_a_duplicate_event_change_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.slack.events.ack_seconds = 0.2
        gateway.slack.events.lose_acks = 1
        message, [way] = gateway.slack.say("DU1", "U1", "hello")
        assert await way.acked()
        _, [again] = gateway.slack.say("DU1", "U1", "hello", ts=message.ts)
        assert await again.acked()

    assert way.attempts == 2
    assert len(gateway.port.accepted) == 1


async def test_what_cannot_be_kept_is_not_acknowledged_and_comes_again(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.slack.events.ack_seconds = 0.2
        gateway.port.fails = StoreFull("disk full")
        _, [way] = gateway.slack.say("DU1", "U1", "hello")
        assert await way.acked()

    assert way.attempts == 2
    assert [message.text for message in gateway.port.accepted] == ["hello"]


@pytest.mark.parametrize(
    "fields",
    [
        {"bot_id": "B9"},
        {"subtype": "bot_message", "bot_id": "B9"},
        {"subtype": "channel_join"},
        {"subtype": "message_deleted"},
        {"subtype": "something_new"},
        {"user": BOT_USER},
        {"user": "USLACKBOT"},
        {"text": ""},
        {"text": None, "user": None},
        {"ts": None},
        {"channel": None},
    ],
    ids=str,
)
async def test_what_nobody_said_is_acknowledged_and_ignored(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    async with house(tmp_path) as gateway:
        _, [way] = gateway.slack.say("DU1", "U1", "hello", fields=fields)
        assert await way.acked()
        _, [way] = gateway.slack.say("DU1", "U1", "the next")
        assert await way.acked()

    assert [message.text for message in gateway.port.accepted] == ["the next"]
    assert gateway.slack.events.sent[0].attempts == 1


@pytest.mark.parametrize(
    "event",
    [
        {"type": "reaction_added", "user": "U1"},
        {"type": "app_home_opened"},
        {"type": "message"},
        {"type": "message", "subtype": "message_changed"},
        {"type": "message", "subtype": "message_changed", "message": 5, "previous_message": []},
        {"type": "assistant_thread_started"},
        {"type": "message", "channel": "DU1", "ts": "1.1", "user": "U1", "files": [1, {}, {"id": "F"}]},
        {"type": "message", "channel": {"a": 1}, "ts": 7, "user": "U1", "text": ["x"], "files": "no"},
    ],
    ids=str,
)
async def test_every_event_is_acknowledged_once(tmp_path: Path, event: dict[str, object]) -> None:
    async with house(tmp_path) as gateway:
        gateway.slack.events.ack_seconds = 1
        way = gateway.slack.event(event)
        assert await way.acked()
        assert way.attempts == 1


ODD: list[Any] = [None, 7, -1.5, True, "", "\u202e\x00" * 50, [], [None], [[]], {}, {"x": {}}]


def damaged(value: Any) -> Iterator[Any]:
    """A payload with one field after the other left out or made something else."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {one: kept for one, kept in value.items() if one != key}
            for other in [*ODD, *damaged(inner)]:
                # Bolt itself cannot read an event whose channel or user is a number: Slack would send it four times.
                if key not in ("channel", "user") or not isinstance(other, int | float):
                    yield {**value, key: other}
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            for other in [*ODD, *damaged(inner)]:
                yield [*value[:number], other, *value[number + 1 :]]


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("event_*.json")), ids=lambda path: path.stem)
async def test_a_damaged_event_is_acknowledged_once_and_harms_no_other(tmp_path: Path, sample: Path) -> None:
    async with house(tmp_path) as gateway:
        here = gateway.slack.url.encode()
        event = msgspec.json.decode(sample.read_bytes().replace(b"https://files.slack.com", here))["event"]
        gateway.slack.events.ack_seconds, gateway.slack.events.retries = 10, 1
        ways = [gateway.slack.event(one) for one in damaged(event)]
        acked = [await way.acked(10) for way in ways]
        _, [way] = gateway.slack.say("DU1", "U1", "still well")
        assert await way.acked()

    assert all(acked)
    assert {way.attempts for way in ways} == {1}
    assert gateway.port.accepted[-1].text == "still well"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("👩‍👩‍👧‍👦 family", "👩‍👩‍👧‍👦 family"),
        ("\u202eright to left\u202c", "\u202eright to left\u202c"),
        ("a\x00b\x07c", "abc"),
        ("&lt;b&gt; &amp; &amp;amp;", "<b> & &amp;"),
        (
            "see <https://a.example/x?y=1&amp;z=2|here> and <https://b.example>",
            "see [here](https://a.example/x?y=1&z=2) and https://b.example",
        ),
        ("<@U2> and <#C9|general> <!here>", "@bob and #general @here"),
        ("x" * 100_000, "x" * 40_000),
    ],
)
async def test_texts_arrive_as_people_read_them(tmp_path: Path, text: str, seen: str) -> None:
    async with house(tmp_path) as gateway:
        accepted = await gateway.asked("DU1", text, raw=True)

    assert accepted.text == seen


async def test_in_a_channel_only_mentions_count_until_the_bot_is_in_the_thread(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        before = await gateway.asked("C1", "not for the bot")
        root = await gateway.asked("C1", HELLO, raw=True)
        await settled(gateway)
        further = await gateway.asked("C1", "and further", user="U2", thread=root.thread)
        other = await gateway.asked("C1", "<@U1> what do you think?", user="U2", thread=root.thread, raw=True)

    assert [one.mentioned for one in (before, root, further, other)] == [False, True, True, False]
    assert further.key == root.key


async def settled(gateway: House) -> None:
    for way in gateway.slack.events.sent:
        assert await way.acked()


async def test_followed_threads_survive_a_restart_and_following_can_be_turned_off(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        async with house(tmp_path, slack) as gateway:
            root = await gateway.asked("C1", HELLO, raw=True)
            keys = gateway.port.keys
            await settled(gateway)
        async with house(tmp_path, slack, start=False) as gateway:
            gateway.port.keys = keys
            gateway.channel._intake._threads._keys = keys
            await gateway.channel.start()
            further = await gateway.asked("C1", "and further", thread=root.thread)
        async with house(tmp_path, slack, thread_follow=False) as gateway:
            alone = await gateway.asked("C1", "and alone", thread=root.thread)

    assert further.mentioned
    assert not alone.mentioned


async def test_a_thread_that_a_stranger_called_the_bot_into_is_not_followed(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.port.refuses = True
        root, ways = gateway.slack.say("C1", "U1", HELLO, raw=True)
        assert all([await way.acked() for way in ways])
        gateway.port.refuses = False
        further = await gateway.asked("C1", "and further", user="U2", thread=root.ts)

        assert not further.mentioned
        assert gateway.port.keys.values == {}  # type: ignore[attr-defined]


class Calendar(SystemClock):
    """Real time, some days later."""

    days = 0

    def now(self) -> datetime:
        return super().now() + timedelta(days=self.days)


async def test_a_thread_is_forgotten_a_month_after_its_last_message(tmp_path: Path) -> None:
    clock = Calendar()
    async with house(tmp_path, clock=clock) as gateway:
        keys = gateway.port.keys.values  # type: ignore[attr-defined]
        keys["thread:C1:0.1"] = "1"  # as it was written once
        left = await gateway.asked("C1", HELLO, raw=True)
        alive = await gateway.asked("C1", HELLO, raw=True)
        for _ in range(3):
            clock.days += 15
            await gateway.asked("C1", "still here", thread=alive.thread)
        async with asyncio.timeout(5):
            while f"thread:C1:{left.thread}" in keys:
                await asyncio.sleep(0.01)
        assert (await gateway.asked("C1", "hello?", thread=left.thread)).mentioned is False
        assert (await gateway.asked("C1", "hello?", thread=alive.thread)).mentioned

    assert "thread:C1:0.1" not in keys


async def test_the_thread_is_told_once_when_the_bot_is_called_into_it(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        root, _ = gateway.slack.say("C1", "U1", "shall we paint it <blue>?")
        await gateway.arrival()
        gateway.slack.say("C1", "U2", "rather green", thread=root.ts)
        await gateway.arrival()
        called = await gateway.asked("C1", f"<@{BOT_USER}> what do you say?", thread=root.ts, raw=True)
        again = await gateway.asked("C1", f"<@{BOT_USER}> well?", thread=root.ts, raw=True)

    assert called.text == (
        "[Said in this thread before]\nann: shall we paint it <blue>?\nbob: rather green\n\n"
        "[Now]\nwhat do you say?"
    )
    assert again.text == "well?"


async def test_of_a_long_thread_its_beginning_and_its_newest_messages_are_told(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        root, _ = gateway.slack.say("C1", "U1", "shall we paint it?")
        for number in range(60):
            gateway.slack.say("C1", "U2", f"coat {number}", thread=root.ts)
        for _ in range(61):
            await gateway.arrival()
        called = await gateway.asked("C1", f"<@{BOT_USER}> well?", thread=root.ts, raw=True)
    lines = called.text.splitlines()

    assert lines[:3] == ["[Said in this thread before]", "ann: shall we paint it?", "[41 more]"]
    assert lines[3:22] == [f"bob: coat {number}" for number in range(41, 60)]
    assert lines[22:] == ["", "[Now]", "well?"]


async def test_group_direct_messages_are_groups_and_assistant_threads_are_conversations(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as gateway:
        gateway.workspace.channel("G1", kind="mpim")
        group = await gateway.asked("G1", HELLO, raw=True)
        root, _ = gateway.slack.say("DU1", "U1", "root")
        await gateway.arrival()
        threaded = await gateway.asked("DU1", "in a thread", thread=root.ts)

    assert (group.private, group.mentioned) == (False, True)
    assert threaded.key == f"slack:DU1:{root.ts}"
    assert threaded.private


async def test_a_changed_message_is_handed_on_as_the_one_it_was(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        root, _ = gateway.slack.say("C1", "U1", "shall we paint it blue?")
        await gateway.arrival()
        asked = await gateway.asked("C1", HELLO, thread=root.ts, raw=True)
        gateway.port.queued[asked.key] = [Waiting("i1", asked, SystemClock().now())]
        assert await gateway.slack.edit("C1", asked.meta["ts"], f"<@{BOT_USER}> ask <@U2> <!here>").acked()
        for text in ("", "ask @bob @here"):  # nothing was said by the first
            assert await gateway.slack.edit("C1", asked.meta["ts"], f"<@{BOT_USER}> {text}").acked()
        [first, *_] = gateway.port.edited

    assert (first.message_id, first.key, first.sender) == (asked.message_id, asked.key, "U1")
    assert asked.text == "[Said in this thread before]\nann: shall we paint it blue?\n\n[Now]\nhello"
    assert first.text == asked.text.removesuffix("hello") + "ask @bob @here"
    assert len(gateway.port.accepted) == 2


async def test_a_message_whose_name_hangs_is_kept_acknowledged_in_time_and_accepted_later(
    tmp_path: Path,
) -> None:
    async with SlackServer() as slack, house(tmp_path, slack) as gateway:
        hanging = slack.fail("users.info", times=9, hang=True)
        _, [way] = slack.say("DU1", "U1", "slowly")
        assert await way.acked()
        assert way.seconds < 3
        assert gateway.port.accepted == []
        hanging.release.set()
        slowly = await gateway.arrival()

    assert slowly.text == "slowly"
    assert way.attempts == 1


async def test_a_late_message_is_taken_up_by_the_next_life(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        async with house(tmp_path, slack) as gateway:
            hanging = slack.fail("users.info", times=9, hang=True)
            _, [way] = slack.say("DU1", "U1", "slowly")
            assert await way.acked()
            keys = gateway.port.keys
        hanging.release.set()
        slack.heal()
        async with house(tmp_path, slack, start=False) as gateway:
            gateway.port.keys = keys
            await gateway.channel.start()
            slowly = await gateway.arrival()
            assert slowly.text == "slowly"
    assert isinstance(gateway.port, FakePort)


async def test_the_slash_command_is_a_command_and_acknowledged(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        way = gateway.slack.slash("DU1", "U1", "goal tidy up\nand rest")
        assert await way.acked()
        bare = gateway.slack.slash("C1", "U1", "")
        assert await bare.acked()
        first, second = gateway.port.accepted

    assert first.text == "/goal tidy up\nand rest"
    assert (first.key, first.private) == ("slack:DU1", True)
    assert (second.text, second.private, second.mentioned) == ("/help", False, True)


async def test_a_new_assistant_thread_gets_prompts(tmp_path: Path) -> None:
    async with house(tmp_path, prompts=["one", "two"]) as gateway:
        thread = {"user_id": "U1", "channel_id": "DU1", "thread_ts": "1.1", "context": {}}
        way = gateway.slack.event({"type": "assistant_thread_started", "assistant_thread": thread})
        assert await way.acked()
        await gateway.workspace.until(lambda: gateway.workspace.prompts)

    assert [one["title"] for one in gateway.workspace.prompts[0]["prompts"]] == ["one", "two"]
