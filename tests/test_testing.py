"""The doubles that ship with nanobot do what they say."""

import asyncio

import pytest

from nanobot.model import Failed, Finished, Reasoning, Text, ToolCall
from nanobot.testing import FakeClock, Hang, Pause, ScriptedModel
from tests.emulators.settings import asks, collect


async def test_given_time_passes_only_when_told() -> None:
    clock = FakeClock()
    woken: list[str] = []

    async def sleeper(name: str, *naps: float) -> None:
        for seconds in naps:
            await clock.sleep(seconds)
            woken.append(f"{name} at {clock.monotonic():g}")

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("a", 2, 2))
        group.create_task(sleeper("b", 3))
        await clock.wait_for_sleepers(2)
        await clock.advance(1)
        assert woken == []
        await clock.run_to_next()
        assert woken == ["a at 2"]
        await clock.advance(10)
    assert woken == ["a at 2", "b at 3", "a at 4"]
    assert clock.monotonic() == 12
    assert clock.now().minute == 0
    assert clock.now().second == 12


async def test_automatic_time_never_waits() -> None:
    clock = FakeClock(auto=True)
    await clock.sleep(3600)
    assert clock.monotonic() == 3600
    assert clock.slept == [3600]


async def test_a_cancelled_sleeper_is_no_sleeper() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.wait_for_sleepers()
    task.cancel()
    await asyncio.wait([task])
    assert clock.sleepers == 0


async def test_a_script_is_followed_reply_by_reply() -> None:
    gate = asyncio.Event()
    model = ScriptedModel(["one", [Text("two"), gate, Pause(0), Finished("length")], [Failed("auth", "No.")]])
    assert await collect(model.stream(asks("hi"))) == [Text("one"), Finished("stop")]
    second = asyncio.create_task(collect(model.stream(asks("hi"))))
    gate.set()
    assert await second == [Text("two"), Finished("length")]
    assert await collect(model.stream(asks("hi"))) == [Failed("auth", "No.")]
    assert "".join(
        str(event.text) for event in await collect(model.stream(asks("a b"))) if isinstance(event, Text)
    ) == ("echo: a b")
    assert len(model.requests) == 4


async def test_a_script_may_be_a_function_of_the_request() -> None:
    model = ScriptedModel(lambda request: f"{len(request.messages)} lines")
    assert (await collect(model.stream(asks("hi"))))[0] == Text("1 lines")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ('TOOL look {"at": 1}', ToolCall("call_0_0", "look", '{"at": 1}')),
        ("REASON hm\nhello", Reasoning("hm")),
        ("FAIL quota", Failed("quota", "Told to fail: quota.")),
        ("SLOW 1000\nhello", Text("echo: ")),
    ],
)
async def test_without_a_script_directives_are_obeyed(text: str, first: object) -> None:
    assert (await collect(ScriptedModel().stream(asks(text))))[0] == first


async def test_a_hanging_script_ends_only_when_cancelled() -> None:
    model = ScriptedModel([[Hang()]])
    task = asyncio.create_task(collect(model.stream(asks("hi"))))
    await model.started.wait()
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
