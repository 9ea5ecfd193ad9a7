"""What people see while a turn runs: streamed words, progress, and one message in the end."""

from pathlib import Path
from typing import Any

import pytest

from channels.slack.settings import Pace
from nanobot.channel import Inbound, TextDelta, TextEnded, TextReset, ToolEnded, ToolStarted
from tests.channels.slack_house import QUICK, House, house, long_text, seen
from tests.emulators.slack import BOT_USER, Message, SlackServer

HELLO = f"<@{BOT_USER}> hello"


def bot(gateway: House, asked: Inbound) -> list[Message]:
    return list(gateway.workspace.by_bot(asked.chat_id))


async def preview(gateway: House, asked: Inbound, text: str) -> Message:
    """Wait until the bot's only message shows this."""
    await gateway.workspace.until(
        lambda: (found := bot(gateway, asked)) and len(found) == 1 and text in found[0].shown
    )
    return bot(gateway, asked)[0]


async def finish(gateway: House, asked: Inbound, text: str, turn: str = "t") -> None:
    reply = gateway.reply(asked, text, turn=turn)
    gateway.end(asked, reply, turn=turn)
    await gateway.channel.deliver(reply)


async def test_in_a_thread_the_words_come_by_a_stream_that_becomes_the_answer(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        where = gateway.begin(asked)
        gateway.channel.show(TextDelta(*where, "Good ", "s1"))
        shown = await preview(gateway, asked, "Good")
        assert shown.streaming
        gateway.channel.show(TextDelta(*where, "morning <!chan", "s1"))
        await preview(gateway, asked, "Good morning")
        await finish(gateway, asked, "Good morning <!channel>, Ann.")
        [final] = bot(gateway, asked)

    assert final.shown == "Good morning <\u200b!channel>, Ann."
    assert (final.streaming, final.edits) == (False, 0)
    assert final.metadata["event_payload"]["id"] == "t.0"
    assert gateway.port.refs["t", 0] == final.ts
    assert gateway.workspace.pings == []


async def test_in_a_plain_direct_chat_one_message_is_edited(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        where = gateway.begin(asked)
        gateway.channel.show(TextDelta(*where, "Good ", "s1"))
        shown = await preview(gateway, asked, "Good")
        gateway.channel.show(TextDelta(*where, "morning", "s1"))
        await preview(gateway, asked, "Good morning")
        await finish(gateway, asked, "Good morning!")

        assert [one.shown for one in bot(gateway, asked)] == ["Good morning!"]
        assert bot(gateway, asked)[0].ts == shown.ts
        assert gateway.slack.counts()["chat.startStream"] == 0


async def test_an_answer_that_is_quick_is_one_post(tmp_path: Path) -> None:
    async with house(tmp_path, pace=QUICK) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        gateway.begin(asked)
        await finish(gateway, asked, "Quick.")

        assert [one.shown for one in bot(gateway, asked)] == ["Quick."]
        assert gateway.slack.counts()["chat.update"] == 0


async def test_a_stream_that_expired_goes_on_as_an_edited_message(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        where = gateway.begin(asked)
        gateway.channel.show(TextDelta(*where, "one ", "s1"))
        shown = await preview(gateway, asked, "one")
        gateway.slack.streams.expire(shown)
        gateway.channel.show(TextDelta(*where, "two ", "s1"))
        await preview(gateway, asked, "one two")
        await finish(gateway, asked, "one two three")

        assert [one.shown for one in bot(gateway, asked)] == ["one two three"]


async def test_a_stream_that_a_person_stopped_stays_as_it_is_until_the_turn_has_ended(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        where = gateway.begin(asked)
        gateway.channel.show(TextDelta(*where, "one ", "s1"))
        gateway.slack.press_stop(await preview(gateway, asked, "one"), "U1", told=False)
        gateway.channel.show(TextDelta(*where, "two ", "s1"))
        stop = await gateway.arrival()
        gateway.channel.show(TextDelta(*where, "three ", "s1"))
        assert (stop.text, stop.sender, stop.key) == ("/stop", "U1", asked.key)
        assert gateway.workspace.shown("C1") == ["one "]
        await finish(gateway, asked, "one two")

        assert [one.shown for one in bot(gateway, asked)] == ["one two"]


@pytest.mark.parametrize("how", ["expire", "stopped_by_user"])
async def test_a_stream_that_ended_just_before_the_final_still_becomes_it(tmp_path: Path, how: str) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        where = gateway.begin(asked)
        gateway.channel.show(TextDelta(*where, "one ", "s1"))
        getattr(gateway.slack.streams, how)(await preview(gateway, asked, "one"))
        await finish(gateway, asked, "one two three")

        assert [one.shown for one in bot(gateway, asked)] == ["one two three"]


async def test_where_streams_are_not_permitted_a_post_is_edited_and_streams_are_not_asked_for_again(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as gateway:
        gateway.slack.streams.allowed = False
        for turn in ("t1", "t2"):
            asked = await gateway.asked("C1", HELLO, raw=True)
            where = gateway.begin(asked, turn)
            gateway.channel.show(TextDelta(*where, "one ", "s1"))
            await gateway.workspace.until(lambda: gateway.workspace.shown("C1", asked.thread) == ["one "])  # noqa: B023
            await finish(gateway, asked, "one two", turn)
            assert gateway.workspace.shown("C1", asked.thread) == ["one two"]

        assert gateway.slack.counts()["chat.startStream"] == 1


async def test_work_with_tools_is_one_edited_message_that_the_answer_replaces(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        where = gateway.begin(asked)
        gateway.channel.show(TextDelta(*where, "Let me look.", "s1"))
        await preview(gateway, asked, "Let me look.")
        gateway.channel.show(TextEnded(*where, "s1", "Let me look."))
        gateway.channel.show(ToolStarted(*where, "c1", "exec", {"command": "ls -la <!here>"}))
        await preview(gateway, asked, "`exec` ls -la")
        await preview(gateway, asked, " s")  # the time that has passed
        gateway.channel.show(ToolEnded(*where, "c1", "exec", "a.txt", False, 1.0))
        gateway.channel.show(TextDelta(*where, "There is one file.", "s2"))
        await preview(gateway, asked, "There is one")
        await finish(gateway, asked, "There is one file.")

        assert [one.shown for one in bot(gateway, asked)] == ["There is one file."]
        assert gateway.workspace.pings == []


async def test_work_without_words_is_told_after_a_while_only(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("DU1")
        where = gateway.begin(asked)
        gateway.channel.show(ToolStarted(*where, "c1", "exec", {"command": "sleep"}))
        shown = await preview(gateway, asked, "`exec` sleep")
        await finish(gateway, asked, "Done.")

        assert [(one.ts, one.shown) for one in bot(gateway, asked)] == [(shown.ts, "Done.")]


async def test_work_that_is_quick_leaves_nothing_but_the_answer(tmp_path: Path) -> None:
    async with house(tmp_path, pace=Pace()) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        where = gateway.begin(asked)
        gateway.channel.show(ToolStarted(*where, "c1", "exec", {"command": "ls"}))
        gateway.channel.show(ToolEnded(*where, "c1", "exec", "a.txt", False, 1.0))
        await gateway.port.clock.sleep(0.3)  # of the two seconds after which work is told
        await finish(gateway, asked, "Done.")

        assert [one.shown for one in bot(gateway, asked)] == ["Done."]
        counts = gateway.slack.counts()
        assert (counts["chat.postMessage"], counts["chat.update"], counts["chat.startStream"]) == (1, 0, 0)


async def test_words_that_do_not_count_are_replaced(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        asked = await gateway.asked("C1", HELLO, raw=True)
        where = gateway.begin(asked)
        gateway.channel.show(TextDelta(*where, "wrong", "s1"))
        await preview(gateway, asked, "wrong")
        gateway.channel.show(TextReset(*where, "s1"))
        gateway.channel.show(TextDelta(*where, "right", "s2"))
        await preview(gateway, asked, "right")
        await finish(gateway, asked, "right!")

        assert [one.shown for one in bot(gateway, asked)] == ["right!"]


async def test_a_turn_that_ends_without_an_answer_leaves_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        for chat in ("DU1", "C1"):
            asked = await gateway.asked(chat, HELLO, raw=True)
            where = gateway.begin(asked, chat)
            gateway.channel.show(TextDelta(*where, "I beg", "s1"))
            await preview(gateway, asked, "I beg")
            gateway.end(asked, turn=chat, status="stopped")
            await gateway.workspace.until(lambda: gateway.workspace.by_bot(chat) == [])  # noqa: B023


@pytest.mark.parametrize("size", [5_000, 13_000, 45_000])
@pytest.mark.parametrize("chat", ["C1", "DU1"])
async def test_a_long_answer_streams_and_arrives_whole_and_in_order(
    tmp_path: Path, size: int, chat: str
) -> None:
    text = long_text(size)
    async with house(tmp_path) as gateway:
        asked = await gateway.asked(chat, HELLO, raw=True)
        where = gateway.begin(asked)
        for at in range(0, len(text), 500):
            gateway.channel.show(TextDelta(*where, text[at : at + 500], "s1"))
        await preview(gateway, asked, "para20 ")
        await finish(gateway, asked, text)

        assert seen(gateway, chat) == [word for word in text.split() if not word.startswith("```")]
        assert not any(one.streaming for one in bot(gateway, asked))


STREAM_FAULTS = [
    ("chat.startStream", {"retry_after": 0.1}),
    ("chat.startStream", {"lost": "after"}),
    ("chat.startStream", {"lost": "before"}),
    ("chat.startStream", {"error": "internal_error"}),
    ("chat.appendStream", {"retry_after": 0.1}),
    ("chat.appendStream", {"lost": "after"}),
    ("chat.appendStream", {"lost": "before"}),
    ("chat.appendStream", {"status": 500}),
    ("chat.update", {"retry_after": 0.1}),
    ("chat.update", {"lost": "after"}),
    ("chat.postMessage", {"lost": "after"}),
]


@pytest.mark.parametrize(("method", "fault"), STREAM_FAULTS, ids=str)
@pytest.mark.parametrize("chat", ["C1", "DU1"])
async def test_a_fault_while_streaming_leaves_one_answer(
    tmp_path: Path, method: str, fault: dict[str, Any], chat: str
) -> None:
    async with house(tmp_path) as gateway:
        gateway.slack.fail(method, times=2, **fault)
        asked = await gateway.asked(chat, HELLO, raw=True)
        where = gateway.begin(asked)
        text = ""
        for number in range(20):
            gateway.channel.show(TextDelta(*where, f"word{number} ", "s1"))
            text += f"word{number} "
            await gateway.port.clock.sleep(0.02)  # a model's pace
        gateway.slack.heal()
        await finish(gateway, asked, f"{text}end")

        assert [one.shown for one in bot(gateway, asked)] == [f"{text}end"]


@pytest.mark.parametrize("chat", ["C1", "DU1"])
async def test_a_preview_that_a_killed_life_left_becomes_the_resumed_turns_answer(
    tmp_path: Path, chat: str
) -> None:
    async with SlackServer() as slack:
        async with house(tmp_path, slack) as gateway:
            asked = await gateway.asked(chat, HELLO, raw=True)
            where = gateway.begin(asked)
            gateway.channel.show(TextDelta(*where, "half an ", "s1"))
            await preview(gateway, asked, "half an")
        async with house(tmp_path, slack) as gateway:
            await gateway.port.accept(asked)
            where = gateway.begin(asked, resumed=True)
            gateway.channel.show(TextDelta(*where, "whole ", "s2"))
            await preview(gateway, asked, "whole")
            await finish(gateway, asked, "whole answer")

            assert [one.shown for one in bot(gateway, asked)] == ["whole answer"]
            assert not bot(gateway, asked)[0].streaming


async def test_the_final_of_a_killed_life_takes_over_its_stream(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        async with house(tmp_path, slack) as gateway:
            asked = await gateway.asked("C1", HELLO, raw=True)
            where = gateway.begin(asked)
            gateway.channel.show(TextDelta(*where, "half an ", "s1"))
            await preview(gateway, asked, "half an")
            refs = gateway.port.refs
        async with house(tmp_path, slack) as gateway:
            gateway.port.refs = refs
            await gateway.channel.deliver(gateway.reply(asked, "half an answer"))

            assert [one.shown for one in bot(gateway, asked)] == ["half an answer"]


async def test_marks_say_received_then_done_or_failed(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        for status, mark in (("completed", "white_check_mark"), ("failed", "x")):
            asked = await gateway.asked("DU1")
            message = gateway.workspace.find("DU1", asked.meta["ts"])
            await gateway.workspace.until(lambda: "eyes" in message.reactions)  # noqa: B023
            gateway.begin(asked, status)
            gateway.end(asked, gateway.reply(asked, "x", turn=status), turn=status, status=status)
            await gateway.workspace.until(lambda: list(message.reactions) == [mark])  # noqa: B023


async def test_an_assistant_thread_shows_its_status_and_streams(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        root, _ = gateway.slack.say("DU1", "U1", "root")
        await gateway.arrival()
        asked = await gateway.asked("DU1", "hello", thread=root.ts)
        where = gateway.begin(asked)
        await gateway.workspace.until(lambda: gateway.workspace.statuses)
        gateway.channel.show(ToolStarted(*where, "c1", "exec", {"command": "ls"}))
        await gateway.workspace.until(lambda: "exec" in gateway.workspace.statuses[-1][2])
        await finish(gateway, asked, "Done.")

        assert gateway.workspace.shown("DU1", root.ts) == ["Done."]


async def test_without_streaming_nothing_is_shown_before_the_answer(tmp_path: Path) -> None:
    async with house(tmp_path, streaming=False) as gateway:
        asked = await gateway.asked("DU1")
        where = gateway.begin(asked)
        gateway.channel.show(TextDelta(*where, "word ", "s1"))
        await gateway.port.clock.sleep(0.1)  # a preview would have come by now
        assert bot(gateway, asked) == []
        await finish(gateway, asked, "word")

        assert [one.shown for one in bot(gateway, asked)] == ["word"]
