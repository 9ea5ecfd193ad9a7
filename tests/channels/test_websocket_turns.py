"""A turn as clients see it: streams, tools, the order at its end, and what a client that was away is told."""

import asyncio
from pathlib import Path

import pytest

from nanobot.channel import TurnState
from nanobot.events import (
    GoalChanged,
    Notice,
    ReasoningDelta,
    ReasoningEnded,
    SessionUpdated,
    TextDelta,
    TextEnded,
    TextReset,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    Usage,
)
from nanobot.messages import Address, Inbound
from tests.channels.websocket_client import Client, House, events, house


async def ask(gateway: House, client: Client, chat_id: str = "work", text: str = "hello") -> Inbound:
    """Send a message and start its turn."""
    await client.send(type="message", chat_id=chat_id, content=text)
    await client.expect("accepted")
    message = await gateway.arrival()
    gateway.start(message)
    await client.expect("goal_status")
    return message


@pytest.mark.parametrize("first", ["deliver", "end"])
async def test_a_streamed_reply_ends_its_stream_and_is_not_sent_again(tmp_path: Path, first: str) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        message = await ask(gateway, client)
        turn = gateway.port.inbox_id(message)
        gateway.delta(message, "Hel")
        gateway.delta(message, "lo")
        reply = gateway.end(message, "Hello", stream="s1", first=first)
        frames = await client.until("turn_end")
        idle = await client.expect("goal_status")
        rest = await client.nothing_more()

    assert events(frames) == ["delta", "stream_end", "turn_end"]
    assert frames[0]["text"] == "Hello"
    assert frames[1] == {
        "event": "stream_end",
        "chat_id": "work",
        "seq": frames[1]["seq"],
        "turn_id": turn,
        "message_id": reply.id,
        "text": "Hello",
        "stream_id": "s1",
    }
    assert frames[2]["status"] == "completed"
    assert frames[2]["latency_ms"] == 12
    assert frames[2]["usage"]["total"] == 7
    assert frames[2]["answers"] == [turn]
    assert idle["status"] == "idle"
    assert rest == []


@pytest.mark.parametrize("first", ["deliver", "end"])
async def test_a_reply_that_was_not_streamed_is_a_message_before_the_end_of_the_turn(
    tmp_path: Path, first: str
) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        message = await ask(gateway, client)
        reply = gateway.end(message, "Hello", first=first)
        frames = await client.until("turn_end")

    assert events(frames) == ["message", "turn_end"]
    assert (frames[0]["text"], frames[0]["message_id"], frames[0]["kind"]) == ("Hello", reply.id, "reply")


async def test_numbers_rise_and_every_frame_of_a_turn_names_it(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        message = await ask(gateway, client)
        turn, place = gateway.port.inbox_id(message), message.address
        show = gateway.channel.show
        show(ReasoningDelta(message.key, turn, place, "hm", "s1"))
        show(ReasoningEnded(message.key, turn, place, "s1"))
        show(TextDelta(message.key, turn, place, "I look.", "s1"))
        show(TextEnded(message.key, turn, place, "s1", "I look."))
        show(ToolStarted(message.key, turn, place, "c1", "exec", {"command": "ls"}))
        show(ToolProgress(message.key, turn, place, "c1", "exec", "a.txt"))
        show(ToolEnded(message.key, turn, place, "c1", "exec", "a.txt", False, 0.5))
        show(ToolStarted(message.key, turn, place, "c2", "exec", {"command": "false"}))
        show(ToolEnded(message.key, turn, place, "c2", "exec", "exit 1", True, 0.1))
        show(Notice(message.key, turn, place, "trying again"))
        show(GoalChanged(message.key, turn, place, {"status": "active"}))
        gateway.delta(message, "Done", "s2")
        gateway.end(message, "Done", stream="s2")
        frames = await client.until("turn_end")

    assert events(frames) == [
        "reasoning_delta",
        "reasoning_end",
        "delta",
        "stream_end",
        "tool_event",
        "tool_event",
        "tool_event",
        "tool_event",
        "tool_event",
        "notice",
        "goal_state",
        "delta",
        "stream_end",
        "turn_end",
    ]
    assert [frame["phase"] for frame in frames if frame["event"] == "tool_event"] == [
        "start",
        "progress",
        "end",
        "start",
        "error",
    ]
    assert frames[3]["resuming"] is True
    assert "message_id" not in frames[3]
    numbers = [frame["seq"] for frame in frames]
    assert numbers == sorted(set(numbers))
    assert {frame["turn_id"] for frame in frames} == {turn}


async def test_deltas_that_arrive_together_leave_as_one_frame(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        message = await ask(gateway, client)
        for _ in range(500):
            gateway.delta(message, "x")
        gateway.end(message, "x" * 500, stream="s1")
        frames = await client.until("stream_end")

    assert events(frames) == ["delta", "stream_end"]
    assert frames[0]["text"] == "x" * 500


async def test_a_failed_call_takes_its_text_back(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        message = await ask(gateway, client)
        turn = gateway.port.inbox_id(message)
        gateway.delta(message, "wro", "s1")
        await client.expect("delta")
        gateway.channel.show(TextReset(message.key, turn, message.address, "s1"))
        gateway.delta(message, "right", "s2")
        gateway.end(message, "right", stream="s2")
        frames = await client.until("turn_end")

    assert events(frames) == ["stream_end", "delta", "stream_end", "turn_end"]
    assert (frames[0]["stream_id"], frames[0]["text"], frames[0]["reset"]) == ("s1", "", True)


async def test_a_stopped_turn_closes_what_it_showed(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        message = await ask(gateway, client)
        turn = gateway.port.inbox_id(message)
        gateway.delta(message, "half a sen")
        ended = TurnEnded(
            message.key, turn, message.address, "stopped", (turn,), (), "s1", 5, Usage(), {"status": "paused"}
        )
        gateway.channel.show(ended)
        frames = await client.until("goal_status")

    assert events(frames) == ["delta", "stream_end", "goal_state", "turn_end", "goal_status"]
    assert frames[1]["text"] == "half a sen"
    assert frames[3]["status"] == "stopped"
    assert frames[3]["goal_state"] == {"status": "paused"}


async def test_clients_of_other_chats_hear_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client, gateway.client() as other:
        await other.send(type="attach", chat_id="elsewhere")
        await other.expect("attached")
        message = await ask(gateway, client)
        gateway.delta(message, "secret")
        gateway.end(message, "secret", stream="s1")
        await client.expect("turn_end")
        heard = await other.nothing_more()

    assert heard == []


async def test_a_client_that_comes_back_gets_exactly_what_it_missed(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as watcher:
        await watcher.send(type="attach", chat_id="work")
        await watcher.expect("attached")
        async with gateway.client() as client:
            message = await ask(gateway, client)
            gateway.delta(message, "one ")
            seen = await client.expect("delta")
            epoch = client.frames[0]["epoch"]
        gateway.delta(message, "two")
        await watcher.expect("delta")
        await watcher.expect("delta")
        async with gateway.client() as client:
            await client.send(type="attach", chat_id="work", epoch=epoch, after=seen["seq"])
            attached = await client.expect("attached")
            gateway.end(message, "one two", stream="s1")
            frames = await client.until("turn_end")

    assert attached["snapshot"] is False
    assert attached["seq"] == seen["seq"]
    assert events(frames) == ["delta", "stream_end", "turn_end"]
    assert frames[0]["text"] == "two"
    assert all(frame["seq"] > seen["seq"] for frame in frames)


async def test_a_client_that_comes_new_into_a_running_turn_gets_its_text_so_far(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client, gateway.client() as late:
        message = await ask(gateway, client)
        turn, place = gateway.port.inbox_id(message), message.address
        gateway.port.running[message.key] = TurnState(True, turn, 1_000.0, 1)
        gateway.channel.show(ToolStarted(message.key, turn, place, "c1", "exec", {"command": "ls"}))
        gateway.channel.show(ToolEnded(message.key, turn, place, "c1", "exec", "a.txt", False, 0.5))
        gateway.delta(message, "one ")
        gateway.delta(message, "two ")
        await late.send(type="attach", chat_id="work", epoch="of another life", after=3)
        attached = await late.expect("attached")
        status, tool, so_far = [await late.read() for _ in range(3)]
        gateway.delta(message, "three")
        following = await late.expect("delta")
        gateway.end(message, "one two three", stream="s1")
        end = await late.expect("stream_end")

    assert (attached["snapshot"], attached["running"], attached["turn_id"]) == (True, True, turn)
    assert attached["queued"] == 1
    assert (status["event"], status["status"], status["started_at"]) == ("goal_status", "running", 1_000.0)
    assert (tool["phase"], tool["arguments"], tool["result"]) == ("end", {"command": "ls"}, "a.txt")
    assert (so_far["text"], so_far["replay"], so_far["stream_id"]) == ("one two ", True, "s1")
    assert following["text"] == "three"
    assert end["text"] == "one two three"
    numbers = [frame["seq"] for frame in (attached, status, tool, so_far, following, end)]
    assert numbers == sorted(set(numbers))


async def test_what_the_ring_no_longer_holds_becomes_a_snapshot(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        message = await ask(gateway, client)
        turn, place = gateway.port.inbox_id(message), message.address
        epoch, seen = client.frames[0]["epoch"], client.frames[-1]["seq"]
        for number in range(600):
            gateway.channel.show(Notice(message.key, turn, place, str(number)))
        async with gateway.client() as late:
            await late.send(type="attach", chat_id="work", epoch=epoch, after=seen)
            lost = await late.expect("attached")
            await late.send(type="attach", chat_id="work", epoch=epoch, after=lost["seq"] - 10)
            kept = await late.expect("attached")
            frames = [await late.read() for _ in range(10)]

    assert lost["snapshot"] is True
    assert kept["snapshot"] is False
    assert [frame["text"] for frame in frames if frame["event"] == "notice"][-1] == "599"


async def test_a_number_from_the_future_is_answered_with_a_snapshot(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        epoch = (await client.expect("ready"))["epoch"]
        await client.send(type="attach", chat_id="work", epoch=epoch, after=10**9)
        attached = await client.expect("attached")

    assert attached["snapshot"] is True


async def test_ten_thousand_chats_do_not_grow_the_memory_and_numbers_never_fall(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        await client.send(type="new_chat")
        attached = await client.expect("attached")
        early = Address("websocket", "early")
        hub = gateway.channel._hub
        before = hub.chat("early")
        before._recording = True
        before.show(Notice(early.key, "t", early, "x"))
        for number in range(10_000):
            place = Address("websocket", f"chat-{number}")
            gateway.channel.show(Notice(place.key, "t", place, "x"))
        await client.send(type="attach", chat_id="early", epoch=attached["epoch"], after=before.seq)
        again = await client.expect("attached")

    assert len(hub) <= 1_100
    assert again["snapshot"] is True
    assert again["seq"] > before.seq


async def test_session_news_reach_those_attached_and_the_owners_that_watch(tmp_path: Path) -> None:
    async with (
        house(tmp_path) as gateway,
        gateway.client() as attached,
        gateway.client(origin=gateway.url) as page,
        gateway.client() as idle,
    ):
        await attached.send(type="attach", chat_id="work")
        await attached.expect("attached")
        await page.expect("ready")
        await idle.expect("ready")
        gateway.channel.show(SessionUpdated("websocket:work", "", Address("websocket", "work")))
        gateway.channel.show(SessionUpdated("telegram:1", "", Address("telegram", "1"), "thread"))
        mine = await attached.nothing_more()
        seen = await page.nothing_more()
        nothing = await idle.nothing_more()

    assert [(one["session"], one["chat_id"]) for one in mine] == [("websocket:work", "work")]
    assert [one["session"] for one in seen] == ["websocket:work", "telegram:1"]
    assert nothing == []


async def test_the_end_of_a_command_that_never_started_a_turn_follows_its_answer(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        await client.send(type="message", chat_id="work", content="/help")
        await client.expect("accepted")
        message = await gateway.arrival()
        gateway.end(message, "I can …", first="end")
        frames = await client.until("turn_end")
        rest = await client.nothing_more()

    assert events(frames) == ["message", "turn_end"]
    assert rest == []


async def test_two_turns_at_once_keep_their_frames_apart(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway, gateway.client() as client:
        long = await ask(gateway, client)
        gateway.delta(long, "thinking ")
        await client.expect("delta")
        await client.send(type="message", chat_id="work", content="/status")
        await client.expect("accepted")
        quick = await gateway.arrival()
        gateway.end(quick, "all is well")
        await client.expect("turn_end")
        gateway.delta(long, "hard")
        gateway.end(long, "thinking hard", stream="s1")
        frames = await client.until("turn_end")
        async with asyncio.timeout(5):
            idle = await client.expect("goal_status")

    assert events(frames) == ["delta", "stream_end", "turn_end"]
    assert frames[1]["text"] == "thinking hard"
    assert idle["status"] == "idle"
    assert [one["status"] for one in client.frames if one["event"] == "goal_status"] == ["running", "idle"]
