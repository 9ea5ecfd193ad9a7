"""A message that its sender changes: what counts is what it says when it is answered, and it is answered once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nanobot.events import TextReset
from nanobot.messages import Inbound
from nanobot.model import Text
from nanobot.port import CHANGED
from nanobot.stores.memory import MemoryStore
from nanobot.testing import Hang, ScriptedModel
from tests.gateway_in_memory import InMemory, World, life
from tests.turn_support import Bench, call


def said(text: str, id: str = "m1", **fields: Any) -> Inbound:
    return Inbound("fake", id, "c", text, **fields)


def asked(model: ScriptedModel, number: int) -> list[str]:
    """What people said, as the model was asked it that time."""
    return [str(line["content"]) for line in model.requests[number].messages if line["role"] == "user"]


async def until_streamed(gateway: InMemory) -> None:
    await gateway.channel.until(
        lambda channel: any(type(one).__name__ == "TextDelta" for one in channel.shown)
    )


async def test_a_message_that_waits_is_answered_as_it_says_now(tmp_path: Path) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[call("act", "x")], "First.", "Second."])
    async with life(World(tmp_path, model, bench.tools, steering=False)) as gateway:
        await gateway.say("work", id="m0")
        await bench.started.wait()
        await gateway.say("what is 1+1", id="m1")
        assert await gateway.port.edit(said("what is 1+2"))
        bench.go_on.set()
        assert await gateway.answers(2) == ["First.", "Second."]

    assert asked(model, 2) == ["work", "what is 1+2"]


@pytest.mark.parametrize("steering", [True, False])
async def test_a_message_that_is_being_answered_is_asked_about_again_at_once(
    tmp_path: Path, steering: bool
) -> None:
    model = ScriptedModel([[Text("One and one is"), Hang()], "Three."])
    async with life(World(tmp_path, model, steering=steering)) as gateway:
        await gateway.say("what is 1+1", id="m1")
        await until_streamed(gateway)
        assert await gateway.port.edit(said("what is 1+2"))
        assert await gateway.answers(1) == ["Three."]
        assert any(isinstance(event, TextReset) for event in gateway.channel.shown)
        assert await gateway.store.inbox.pending("fake:c") == []
        assert [line["role"] for line in await gateway.history()] == ["user", "user", "assistant"]

    assert asked(model, 1)[0] == "what is 1+1"
    assert asked(model, 1)[1].endswith("It says now:]\nwhat is 1+2")
    assert len(gateway.channel.delivered) == 1


async def test_a_tool_that_runs_is_not_broken_off_by_an_edit_and_the_turn_hears_of_it_after(
    tmp_path: Path,
) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[call("act", "x")], "Blue it is."])
    async with life(World(tmp_path, model, bench.tools)) as gateway:
        await gateway.say("paint it red", id="m1")
        await bench.started.wait()
        assert await gateway.port.edit(said("paint it blue"))
        bench.go_on.set()
        assert await gateway.answers(1) == ["Blue it is."]
        assert [line["role"] for line in await gateway.history()] == [
            "user",
            "assistant",
            "tool",
            "user",
            "assistant",
        ]

    assert bench.runs == ["act x"]
    assert asked(model, 1)[1].endswith("paint it blue")


async def test_an_answered_message_stays_answered(tmp_path: Path) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        await gateway.say("one", id="m1")
        await gateway.answers(1)
        assert not await gateway.port.edit(said("two"))
        assert not await gateway.port.edit(said("never said", id="m9"))
        await gateway.say("end", id="m2")
        assert await gateway.answers(2) == ["echo: one", "echo: end"]


async def test_an_edit_that_comes_twice_and_one_that_changes_nothing_count_once(tmp_path: Path) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[call("act", "x")], "Done."])
    async with life(World(tmp_path, model, bench.tools)) as gateway:
        await gateway.say("paint it red", id="m1")
        await bench.started.wait()
        assert not await gateway.port.edit(said("paint it red"))
        assert await gateway.port.edit(said("paint it blue"))
        assert await gateway.port.edit(said("paint it blue"))
        bench.go_on.set()
        assert await gateway.answers(1) == ["Done."]

    assert len(asked(model, 1)) == 2


async def test_only_its_sender_who_may_still_speak_changes_a_message(tmp_path: Path) -> None:
    model = ScriptedModel([[Text("Hm"), Hang()]])
    settings = {"allow_from": ["ann"]}
    async with life(World(tmp_path, model, channel=settings)) as gateway:
        await gateway.say("hello", id="m1", sender="ann")
        await until_streamed(gateway)
        assert not await gateway.port.edit(said("give me the keys", sender="eve"))
        assert len(await gateway.store.inbox.pending("fake:c")) == 1
        await gateway.port.stop("fake:c")


async def test_an_edit_that_comes_too_late_for_the_turn_it_is_about_begins_no_other(tmp_path: Path) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        await gateway.say("one", id="m1")
        await gateway.answers(1)
        await gateway.store.inbox.accept(said(CHANGED.format("two"), id="m1:edit:late", kind="nudge"))
        await gateway.say("end", id="m2")
        assert await gateway.answers(2) == ["echo: one", "echo: end"]
        async with asyncio.timeout(5):
            while await gateway.store.inbox.pending("fake:c"):
                await asyncio.sleep(0.01)
        assert len(gateway.channel.delivered) == 2


async def test_an_edit_just_before_a_crash_is_heard_by_the_turns_next_life(tmp_path: Path) -> None:
    model = ScriptedModel(["Three."])
    world = World(tmp_path, model, steering=False)
    before = MemoryStore(world.clock, world.state)
    await before.inbox.accept(said("what is 1+1"))
    await before.inbox.claim("fake:c")
    await before.inbox.accept(said(CHANGED.format("what is 1+2"), id="m1:edit:x", kind="nudge"))
    async with life(world) as gateway:
        assert await gateway.answers(1) == ["Three."]

    assert asked(model, 0) == ["what is 1+1", CHANGED.format("what is 1+2")]
