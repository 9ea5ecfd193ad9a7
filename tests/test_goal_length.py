"""A goal of two hundred turns: what a turn costs, and what it leaves in memory."""

import gc
import time
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec

from nanobot.events import TurnEnded
from nanobot.goal import Budget
from nanobot.model import ModelRequest, ToolCall
from nanobot.testing import FakeChannel, ScriptedModel
from nanobot.tool import ToolContext, ToolResult, tool
from tests.gateway_in_memory import InMemory, World, life

TURNS = 200
MEASURED = 50  # turns at either end


class Note(msgspec.Struct):
    number: int


@tool("make", "Make something.")
async def make(arguments: Note, context: ToolContext) -> ToolResult:
    return ToolResult(f"made {arguments.number}")


class Worker:
    """One tool call and one sentence a turn, in a goal as in a chat."""

    def __init__(self) -> None:
        self.turns = 0
        self.requests: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> Any:
        if "VERDICT" in request.system:
            return "VERDICT: PASS"
        if request.messages[-1]["role"] == "tool":
            return f"Number {self.turns} is made, number {self.turns + 1} follows."
        self.turns += 1
        return [ToolCall(f"c{self.turns}", "make", f'{{"number": {self.turns}}}')]


class Forgetful(ScriptedModel):
    """Keeps no requests, which would be the largest part of the memory."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self.requests = _Nothing()


class _Nothing(list[ModelRequest]):
    def append(self, _: ModelRequest) -> None:
        pass


class Meter(FakeChannel):
    """Notes the processor time at each turn's end, and keeps no events."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[float] = []
        self.memory: list[int] = []

    async def turns(self, count: int) -> None:
        """Return once so many have ended."""
        await self.until(lambda _: len(self.marks) >= count, 60)

    def show(self, event: Any) -> None:
        if isinstance(event, TurnEnded) and not event.session.startswith("control:"):
            self.marks.append(time.process_time())
            if tracemalloc.is_tracing() and len(self.marks) in (MEASURED, TURNS):
                gc.collect()
                self.memory.append(tracemalloc.get_traced_memory()[0])
        self._changed.set()


def metered(folder: Path) -> tuple[World, Meter]:
    world = World(folder, Forgetful(Worker()), [make], budget=Budget(turns=TURNS))
    meter = Meter()
    world.channel = meter
    return world, meter


async def goal(gateway: InMemory, meter: Meter) -> None:
    await gateway.say("/goal Make many")
    await meter.turns(TURNS)


def cost(marks: list[float]) -> float:
    """Seconds of processor time a turn, at the end of the run."""
    return (marks[TURNS - 1] - marks[TURNS - 1 - MEASURED]) / MEASURED


async def test_a_turn_of_a_long_goal_costs_at_most_twice_a_normal_one(tmp_path: Path) -> None:
    world, meter = metered(tmp_path / "goal")
    async with life(world) as gateway:
        await goal(gateway, meter)
    ours = cost(meter.marks)
    world, meter = metered(tmp_path / "chat")
    async with life(world) as gateway:
        for number in range(1, TURNS + 1):
            await gateway.say(f"Go on with the goal, turn {number}.")
            await meter.turns(number)
    normal = cost(meter.marks)
    print(f"processor time a turn: goal {ours * 1e3:.2f} ms, chat {normal * 1e3:.2f} ms")
    assert ours <= 2 * normal + 0.001  # a millisecond for the clock's grain


async def test_a_long_goal_leaves_little_but_its_history_in_memory(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        world, meter = metered(tmp_path)
        async with life(world) as gateway:
            await goal(gateway, meter)
            lines = len(await gateway.history())
    finally:
        tracemalloc.stop()
    early, late = meter.memory
    a_line = (late - early) / (lines * (TURNS - MEASURED) / TURNS)
    print(
        f"{(late - early) / 1024:.0f} kB for {TURNS - MEASURED} turns, {a_line:.0f} bytes a line of the history"
    )
    assert a_line < 3_000
