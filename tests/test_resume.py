"""Turns that are interrupted: by a crash, a restart, a full disk or a fault; each is taken up and answered once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nanobot.errors import DeadlineExceeded, StoreFull
from nanobot.events import TurnStarted
from nanobot.messages import Inbound, Line
from nanobot.model import ModelRequest
from nanobot.stores.memory import MemoryStore
from nanobot.testing import FakeClock, ScriptedModel
from tests.gateway_in_memory import World, life
from tests.turn_support import Bench, call, roles


async def test_a_turn_that_a_stopping_gateway_holds_up_goes_on_in_the_next_life_uncounted(
    tmp_path: Path,
) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[call("act", "x")], "Done."])
    world = World(tmp_path, model, bench.tools)
    async with life(world) as gateway:
        await gateway.say("do x", id="m1")
        await bench.started.wait()
        asyncio.get_running_loop().call_soon(bench.go_on.set)  # the tool ends while the gateway stops
    assert (len(model.requests), world.channel.delivered) == (1, [])
    async with life(world) as gateway:
        assert await gateway.answers(1) == ["Done."]
        row = await gateway.store.inbox.find("fake", "m1")
        assert row
        assert (row.attempts, bench.runs) == (1, ["act x"])


async def test_a_turn_whose_final_line_is_written_is_only_committed(tmp_path: Path) -> None:
    model = ScriptedModel()
    world = World(tmp_path, model)
    earlier = MemoryStore(world.clock, world.state)
    accepted = await earlier.inbox.accept(Inbound("fake", "m1", "c", "hello"))
    assert await earlier.inbox.claim("fake:c")
    await world.transcripts.append(
        "fake:c",
        [
            Line(role="user", content="hello", timestamp="2026-01-01T00:00:00+00:00", turn=accepted.id),
            Line(
                role="assistant",
                content="I said it.",
                timestamp="2026-01-01T00:00:01+00:00",
                turn=accepted.id,
                latency_ms=5,
            ),
        ],
    )
    async with life(world) as gateway:
        assert await gateway.answers(1) == ["I said it."]
        assert model.requests == []
        assert len(await gateway.history()) == 2


@pytest.mark.parametrize(
    ("name", "result"), [("look", "did look x"), ("act", "interrupted: outcome unknown")]
)
async def test_after_a_crash_harmless_calls_run_again_and_others_say_that_nobody_knows(
    tmp_path: Path, name: str, result: str
) -> None:
    bench = Bench()
    model = ScriptedModel(["Went on."])
    world = World(tmp_path, model, bench.tools)
    earlier = MemoryStore(world.clock, world.state)
    accepted = await earlier.inbox.accept(Inbound("fake", "m1", "c", "do x"))
    assert await earlier.inbox.claim("fake:c")
    calls = [{"id": "c1", "type": "function", "function": {"name": name, "arguments": '{"text":"x"}'}}]
    await world.transcripts.append(
        "fake:c",
        [
            Line(role="user", content="do x", timestamp="2026-01-01T00:00:00+00:00", turn=accepted.id),
            Line(
                role="assistant",
                content="",
                timestamp="2026-01-01T00:00:01+00:00",
                turn=accepted.id,
                tool_calls=calls,
            ),
        ],
    )
    async with life(world) as gateway:
        assert await gateway.answers(1) == ["Went on."]
        assert roles(await gateway.history()) == ["user", "assistant", "tool", "assistant"]
        assert (await gateway.history())[2]["content"] == result
        assert bench.runs == (["look x"] if name == "look" else [])
        assert any(isinstance(event, TurnStarted) and event.resumed for event in gateway.channel.shown)


async def test_a_message_that_was_interrupted_too_often_is_given_up_with_a_sentence(tmp_path: Path) -> None:
    model = ScriptedModel(["Never said."])
    world = World(tmp_path, model)
    for life_number in range(3):
        store = MemoryStore(world.clock, world.state)
        if life_number == 0:
            await store.inbox.accept(Inbound("fake", "m1", "c", "poison"))
        assert await store.inbox.claim("fake:c")
    async with life(world) as gateway:
        assert "I gave up on this message" in (await gateway.answers(1))[0]
        assert model.requests == []
        assert await gateway.store.inbox.pending("fake:c") == []


class Absent:
    """An inbox that stores a message and tells its caller too late."""

    def __init__(self, inbox: Any) -> None:
        self._inbox = inbox
        self.stored = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbox, name)

    async def accept(self, message: Inbound) -> Any:
        accepted = await self._inbox.accept(message)
        if not accepted.duplicate:
            self.stored.set()
            await asyncio.Event().wait()
        return accepted


async def test_a_message_whose_sender_went_away_while_it_was_stored_is_answered_when_it_comes_again(
    tmp_path: Path,
) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        gateway.store.inbox = inbox = Absent(gateway.store.inbox)
        gone = asyncio.create_task(gateway.say("hello", id="m1"))
        await inbox.stored.wait()
        gone.cancel()
        assert (await gateway.say("hello", id="m1")).duplicate
        assert await gateway.answers(1) == ["echo: hello"]


async def test_a_disk_that_fills_between_two_results_counts_as_no_attempt(tmp_path: Path) -> None:
    bench = Bench()
    model = ScriptedModel([[call("look", "a", "c1"), call("look", "b", "c2")], "Both seen."])
    async with life(World(tmp_path, model, bench.tools)) as gateway:
        append, refused = gateway.transcripts.append, 0

        async def appending(key: str, lines: list[Line]) -> None:
            nonlocal refused
            if lines[0]["role"] == "tool" and refused < 8:  # longer than a message may be interrupted
                refused += 1
                raise StoreFull("disk full")
            await append(key, lines)

        gateway.transcripts.append = appending  # type: ignore[method-assign, assignment]
        gateway.dispatcher._clock = FakeClock(auto=True)
        await gateway.say("look at both", id="m1")
        assert await gateway.answers(1) == ["Both seen."]
        row = await gateway.store.inbox.find("fake", "m1")
        assert row
        assert (refused, row.attempts) == (8, 1)


async def test_a_cancellation_that_nobody_asked_for_is_a_failure_like_any_other(tmp_path: Path) -> None:
    def broken(_: ModelRequest) -> str:
        raise asyncio.CancelledError

    model = ScriptedModel(broken)
    async with life(World(tmp_path, model)) as gateway:
        gateway.dispatcher._clock = FakeClock(auto=True)
        await gateway.say("hello")
        [answer] = await gateway.answers(1)
        assert answer == "I gave up on this message: answering it was interrupted 3 times."
        assert len(model.requests) == 3


@pytest.mark.parametrize("fault", [StoreFull("disk full"), DeadlineExceeded("committing the turn", 30)])
async def test_a_full_disk_holds_up_a_session_no_longer_than_it_is_full(
    tmp_path: Path, fault: Exception
) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        inbox, full = gateway.store.inbox, True
        commit, release = inbox.commit, inbox.release
        refused: list[str] = []

        async def committing(*values: Any, **more: Any) -> Any:
            if full:
                refused.append("commit")
                raise fault
            return await commit(*values, **more)

        async def releasing(*values: Any, **more: Any) -> None:
            nonlocal full
            if full:
                refused.append("release")
                full = len(refused) < 8  # longer than a message may be interrupted
                raise StoreFull("disk full")
            await release(*values, **more)

        inbox.commit, inbox.release = committing, releasing  # type: ignore[method-assign]
        gateway.dispatcher._clock = FakeClock(auto=True)  # the pauses between tries cost no time
        await gateway.say("hello", id="m1")
        assert await gateway.answers(1) == ["echo: hello"]
        row = await gateway.store.inbox.find("fake", "m1")
        assert row
        assert (len(refused), row.attempts) == (8, 1)
        assert roles(await gateway.history()) == ["user", "assistant"]
