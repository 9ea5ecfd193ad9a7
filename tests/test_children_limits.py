"""What bounds a sub-session while its turn runs: tokens, the goal it works for; and what it says when nobody is known."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from nanobot.child import Caller
from nanobot.errors import StoreError
from nanobot.messages import Accepted, Inbound
from nanobot.model import Finished, ModelRequest, Text, ToolCall, Usage
from nanobot.models.scripted import Reply, ScriptedModel, obey
from nanobot.security import tree
from nanobot.store import Inbox
from tests.executors.support import SAMPLES
from tests.gateway_in_memory import InMemory, life
from tests.test_children import until_results, use, world_of

CALLS = 4  # model calls that a spending child would like to make


def spending(request: ModelRequest) -> Reply:
    """A child that uses 100 tokens with each call of the model."""
    if not request.session.startswith("sub:"):
        return obey(request)
    made = sum(1 for line in request.messages if line["role"] == "tool")
    if made == CALLS:
        return "done"
    return [ToolCall(f"c{made}", "list_sessions", "{}"), Finished("tool_calls", Usage(90, 10))]


async def spent(gateway: InMemory) -> int:
    goal = await gateway.goals.load("fake:c")
    assert goal
    return goal.spent.tokens


async def begin_goal(gateway: InMemory, *, left: int) -> None:
    """A goal that only keeps a budget."""
    begun = Inbound("fake", "m", "c", "/goal an objective")
    goal = await gateway.goals.begin("fake:c", begun, "t", "an objective", ())
    await gateway.goals.move("fake:c", "pause")
    await gateway.goals.charge("fake:c", goal.budget.tokens - left)


async def test_our_own_agent_over_its_tokens_is_ended_as_failed(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, ScriptedModel(spending), max_tokens=250)) as gateway:
        found = await use(gateway, "delegate", task="x")
        assert (found["success"], found["status"]) == (False, "failed")
        assert "it used 300 tokens, 250 are allowed in one turn" in found["error"]
        assert found["tokens"]["total"] == 300  # what it used is known although it was cut short
    async with life(world_of(tmp_path / "work", ScriptedModel(spending), max_tokens=400)) as gateway:
        assert (await use(gateway, "delegate", task="x"))["success"] is True


@pytest.mark.parametrize("tool", ["codex", "claude"])
async def test_an_outside_agent_over_its_tokens_is_ended_while_it_works(
    tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    monkeypatch.setattr("nanobot.executors.run.LEDGER_SECONDS", 0.05)
    async with life(world_of(tmp_path, None, tool, max_tokens=500)) as gateway:
        await begin_goal(gateway, left=10_000)
        before = await spent(gateway)
        found = await use(gateway, "delegate", task="USE 700\nSLEEP 60", executor=tool)
        assert (found["success"], found["status"]) == (False, "failed")
        assert "500 are allowed in one turn" in found["error"]
        used = found["tokens"]["total"]
        assert used > 700
        assert await spent(gateway) == before + used  # its parent's budget is smaller by that
        child = gateway.children.records.all()[0]
        assert child.process
        async with asyncio.timeout(15):
            while [one for one in tree.marked(child.process.marker) if one.state not in "ZX"]:
                await asyncio.sleep(0.05)  # the result comes first, then the processes are ended
        if tool == "codex":  # it counts a thread: the next turn's difference begins where this one was ended
            again = await use(gateway, "converse", session_id=child.id, message="USE 1300\nSLEEP 60")
            assert "it used 600 tokens" in again["error"]


async def test_a_child_is_ended_when_the_goal_it_works_for_is_used_up(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, ScriptedModel(spending))) as gateway:
        await begin_goal(gateway, left=250)
        found = await use(gateway, "delegate", task="x")
        assert (found["success"], found["status"]) == (False, "failed")
        assert "the goal's tokens are used up: 250 were left" in found["error"]
        assert (await use(gateway, "delegate", task="y"))["error"] == "the goal's tokens are used up"


async def test_children_that_work_side_by_side_share_what_the_goal_has_left(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> Reply:
        if not request.session.startswith("sub:"):
            return obey(request)
        if any(line["role"] == "tool" for line in request.messages):
            return [meet, Finished("stop", Usage(1))]
        return [ToolCall("c", "list_sessions", "{}"), Finished("tool_calls", Usage(150))]

    meet = asyncio.Event()  # never set: both have used 150 and wait
    async with life(world_of(tmp_path, ScriptedModel(model))) as gateway:
        await begin_goal(gateway, left=250)
        for name in ("one", "two"):
            await use(gateway, "delegate", task=name, mode="async")
        async with asyncio.timeout(10):
            while not any(one.ended for one in gateway.children.records.all()):
                await asyncio.sleep(0.01)  # until the second call is counted
        ended = [one for one in gateway.children.records.all() if one.ended]
        assert ended[0].status == "failed"
        assert "the goal's tokens are used up" in ended[0].error
        await gateway.actors.stop("fake:c")


# --- speaking to one that works ---------------------------------------------------------------------------------


async def test_converse_reaches_a_claude_that_works(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, None, "claude")) as gateway:
        found = await use(gateway, "delegate", task="USE 5\nLISTEN", executor="claude", mode="async")
        async with asyncio.timeout(10):
            while not gateway.children.records.all()[0].last:
                await asyncio.sleep(0.02)  # until it works
        said = await use(gateway, "converse", session_id=found["session_id"], message="turn left")
        assert (said["success"], said["status"], said["turn"]) == (True, "completed", 1)
        assert said["response"] == "claude heard: turn left"
        assert said["you_said"] == "turn left"
        steps = await use(gateway, "get_trajectory", session_id=found["session_id"])
        assert "[said] turn left" in steps["steps"]


async def test_a_converse_that_is_run_again_after_a_crash_is_not_said_twice(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, None, "claude")) as gateway:
        await use(gateway, "delegate", task="USE 5\nLISTEN\nSLEEP 0.5", executor="claude", mode="async")
        async with asyncio.timeout(10):
            while not gateway.children.records.all()[0].last:
                await asyncio.sleep(0.02)  # until it works
        child = gateway.children.records.all()[0]
        caller = Caller("fake:c", child.address, "turn", "call")
        for _ in range(2):
            now = gateway.children.records.by_id(child.id)
            assert now
            await gateway.children.go_on(caller, now, "turn left")
        await gateway.children.until_ended(child)
        steps = await use(gateway, "get_trajectory", session_id=child.id)
        assert steps["steps"].count("[said] turn left") == 1
        assert gateway.children.records.all()[0].turn == 1


async def test_converse_with_a_codex_that_works_is_refused(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, None, "codex")) as gateway:
        found = await use(gateway, "delegate", task="SLEEP 60", executor="codex", mode="async")
        async with asyncio.timeout(10):
            while not gateway.children.records.all()[0].thread:
                await asyncio.sleep(0.02)  # until it works
        said = await use(gateway, "converse", session_id=found["session_id"], message="turn left")
        assert (said["success"], said["error"]) == (False, "Session is still running")
        await use(gateway, "end_session", session_id=found["session_id"])


# --- nobody is logged in ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "sample", "remedy"),
    [
        ("codex", "http401", "codex login"),
        ("codex", "nokey", "codex login"),
        ("claude", "nologin", "/login"),
    ],
)
async def test_a_tool_that_nobody_is_logged_in_to_says_how_to_log_in(
    tmp_path: Path, tool: str, sample: str, remedy: str
) -> None:
    replay = f"REPLAY {SAMPLES / tool / sample}.jsonl\nEXIT 1"
    async with life(world_of(tmp_path, None, tool)) as gateway:
        found = await use(gateway, "delegate", task=replay, executor=tool)
        assert (found["success"], found["status"]) == (False, "failed")
        assert found["error"].startswith(f"{tool} failed: ")
        assert remedy in found["hint"]
        assert "Hint" not in found["error"]
        assert found["response"] == "(no response captured)"  # the error is not told twice


# --- two ends at once -------------------------------------------------------------------------------------------


class SlowInbox:
    """An inbox on a slow disk: what is accepted is there a moment later."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.telling = asyncio.Event()

    async def accept(self, message: Inbound) -> Accepted:
        self.telling.set()
        await asyncio.sleep(0.02)  # the disk
        return await self._inbox.accept(message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbox, name)


async def test_of_two_ends_at_once_the_first_stands_and_the_goal_pays_once(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    def model(request: ModelRequest) -> Reply:
        if request.session.startswith("sub:"):
            return [go_on, Text("done"), Finished("stop", Usage(90, 10))]
        return obey(request)

    async with life(world_of(tmp_path, ScriptedModel(model))) as gateway:
        await begin_goal(gateway, left=10_000)
        before = await spent(gateway)
        await use(gateway, "delegate", task="x", mode="async")
        slow = SlowInbox(gateway.store.inbox)
        gateway.store.inbox = cast("Inbox", slow)
        go_on.set()
        await slow.telling.wait()
        children = gateway.children
        [child] = children.records.all()
        await children.end(child, "somebody wants it ended", status="failed", tell=True)
        [told] = await until_results(gateway, 1)
        assert "agent (completed)" in told
        assert [one.status for one in children.records.all()] == ["completed"]
        async with asyncio.timeout(10):
            while await spent(gateway) == before:
                await asyncio.sleep(0.01)  # until it is charged
        assert await spent(gateway) == before + 100


async def test_an_end_that_could_not_be_told_is_told_when_it_is_tried_again(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        await use(gateway, "delegate", task="HANG", mode="async")
        [child] = gateway.children.records.all()
        good = gateway.store.inbox
        gateway.store.inbox = cast("Inbox", FullInbox())
        with pytest.raises(StoreError):
            await gateway.children.end(child, "too long", status="timed_out", tell=True)
        gateway.store.inbox = good
        assert not gateway.children.records.all()[0].ended
        await gateway.children.end(child, "too long", status="timed_out", tell=True)
        [told] = await until_results(gateway, 1)
        assert "agent (timed_out)" in told


class FullInbox:
    """An inbox whose disk is full."""

    async def accept(self, message: Inbound) -> Accepted:
        raise StoreError("no space left on device")
