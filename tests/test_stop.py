"""Stopping: what a stop ends, what it leaves, and what it must not reach."""

import asyncio
from pathlib import Path
from typing import Any

from nanobot.messages import Inbound, Line
from nanobot.model import Text
from nanobot.stores.memory import MemoryStore
from nanobot.testing import Hang, ScriptedModel
from tests.gateway_in_memory import World, life
from tests.turn_support import Bench, call, ended, roles


async def test_stop_ends_a_hanging_model_call_and_keeps_what_was_said(tmp_path: Path) -> None:
    model = ScriptedModel([[Text("Once upon a time"), Hang()], "Fresh."])
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("a story")
        await gateway.channel.until(
            lambda channel: any("Once" in getattr(e, "text", "") for e in channel.shown)
        )
        await gateway.say("never answered")
        await gateway.say("/stop")
        texts = await gateway.answers(2)
        assert sorted(texts) == ["Once upon a time", "Stopped. 1 waiting message was dropped."]
        said = [line for line in await gateway.history() if line.get("injected") != "command"]
        assert (said[-1]["content"], said[-1]["injected"]) == ("Once upon a time", "stopped")
        await gateway.say("again")
        assert (await gateway.answers(3))[-1] == "Fresh."


async def test_stop_during_a_tool_leaves_a_legal_history(tmp_path: Path) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[call("act", "x")], "After the stop."])
    async with life(World(tmp_path, model, bench.tools)) as gateway:
        await gateway.say("do x")
        await bench.started.wait()
        assert await gateway.port.stop("fake:c")
        await gateway.channel.until(lambda channel: bool(ended(channel)))
        lines = await gateway.history()
        assert roles(lines) == ["user", "assistant", "tool", "assistant"]
        assert "stopped by the user" in lines[2]["content"]
        await gateway.say("go on")
        assert await gateway.answers(1) == ["After the stop."]


async def test_stop_with_nothing_running_says_so(tmp_path: Path) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        await gateway.say("/stop")
        assert await gateway.answers(1) == ["Nothing is running."]


async def test_a_session_that_is_deleted_while_its_turn_runs_stays_deleted(tmp_path: Path) -> None:
    model = ScriptedModel([[Text("Once upon a time"), Hang()]])
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("a story")
        await model.started.wait()
        append, loop = gateway.transcripts.append, asyncio.get_running_loop()

        async def late(key: str, lines: list[Line]) -> None:
            later = loop.create_future()
            loop.call_later(0.05, later.set_result, None)  # longer than the deletion takes
            await later
            await append(key, lines)

        gateway.transcripts.append = late  # type: ignore[method-assign, assignment]
        assert await gateway.port.sessions.delete("fake:c")
        await gateway.channel.until(lambda channel: bool(ended(channel)))
        assert not gateway.transcripts.exists("fake:c")


async def test_status_answers_while_a_turn_hangs(tmp_path: Path) -> None:
    model = ScriptedModel([[Hang()]])
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("hang")
        await model.started.wait()
        await gateway.say("/status")
        assert "**working**" in (await gateway.answers(1))[0]
        await gateway.port.stop("fake:c")


async def test_a_stop_accepted_before_a_crash_reaches_the_turn_it_was_about(tmp_path: Path) -> None:
    model = ScriptedModel(["Never said."])
    world = World(tmp_path, model)
    earlier = MemoryStore(world.clock, world.state)
    await earlier.inbox.accept(Inbound("fake", "m1", "c", "work for hours"))
    assert await earlier.inbox.claim("fake:c")
    await earlier.inbox.accept(Inbound("fake", "m2", "c", "/stop", session="control:fake:c"))
    async with life(world) as gateway:
        await gateway.channel.until(lambda channel: "fake:c" in [e.session for e in ended(channel)])
        await gateway.answers(1)
        assert model.requests == []
        assert await gateway.store.inbox.pending("fake:c") == []


async def test_what_was_said_after_a_stop_is_answered(tmp_path: Path) -> None:
    world = World(tmp_path, ScriptedModel())
    earlier = MemoryStore(world.clock, world.state)
    await earlier.inbox.accept(Inbound("fake", "m1", "c", "work for hours"))
    await earlier.inbox.accept(Inbound("fake", "m2", "c", "/stop", session="control:fake:c"))
    await earlier.inbox.accept(Inbound("fake", "m3", "c", "do this instead"))
    async with life(world) as gateway:
        assert "echo: do this instead" in await gateway.answers(2)
        assert await gateway.store.inbox.pending("fake:c") == []


async def test_a_stop_does_not_reach_a_turn_that_answers_something_later(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    model = ScriptedModel([[go_on, Text("Done.")]])
    async with life(World(tmp_path, model)) as gateway:
        stop = await gateway.store.inbox.accept(Inbound("other", "m1", "c", "/stop"))
        row = await gateway.store.inbox.row(stop.id)
        assert row
        await gateway.say("do this instead")
        await model.started.wait()
        assert await gateway.actors.stop("fake:c", row.seq) == (False, 0)
        go_on.set()
        assert await gateway.answers(1) == ["Done."]


async def test_what_a_stopped_turn_took_in_after_the_stop_gets_a_turn_of_its_own(tmp_path: Path) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[call("act", "x")], [Text("Still"), Hang()], "In blue."])
    async with life(World(tmp_path, model, bench.tools)) as gateway:
        await gateway.say("paint it")
        await bench.started.wait()
        stop = await gateway.store.inbox.accept(Inbound("other", "m1", "c", "/stop"))
        row = await gateway.store.inbox.row(stop.id)
        assert row
        await gateway.say("in blue instead")
        bench.go_on.set()
        await gateway.channel.until(
            lambda channel: any("Still" in getattr(e, "text", "") for e in channel.shown)
        )
        assert await gateway.actors.stop("fake:c", row.seq) == (True, 0)
        assert await gateway.answers(2) == ["Still", "In blue."]
        assert [line["content"] for line in model.requests[-1].messages if line["role"] == "user"] == [
            "paint it",
            "in blue instead",
        ]


class SlowInbox:
    """An inbox that reads what waits only when it is told to go on."""

    def __init__(self, inbox: Any) -> None:
        self._inbox = inbox
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbox, name)

    async def pending(self, session: str) -> Any:
        await self.go_on.wait()
        return await self._inbox.pending(session)


async def test_a_turn_that_begins_while_a_stop_is_under_way_is_stopped(tmp_path: Path) -> None:
    model = ScriptedModel([[Hang()]])
    async with life(World(tmp_path, model)) as gateway:
        gateway.bench.inbox = slow = SlowInbox(gateway.store.inbox)
        stopping = asyncio.create_task(gateway.actors.stop("fake:c"))
        await gateway.say("said just before")
        await model.started.wait()
        slow.go_on.set()
        assert await stopping == (True, 0)
        await gateway.channel.until(lambda channel: bool(ended(channel)))
