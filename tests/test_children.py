"""Sub-sessions of our own agent and of outside ones: begun, continued, ended, reported once, resumed."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nanobot.delegation import SLEEP_MOST
from nanobot.executor import Executor
from nanobot.messages import Inbound, Line, new_id
from nanobot.model import Finished, ModelRequest, Text, ToolCall, Usage
from nanobot.models.scripted import Reply, ScriptedModel, obey
from nanobot.security import tree
from tests.executors.support import executor
from tests.gateway_in_memory import InMemory, World, life


class Delegation(msgspec.Struct):
    max_children: int = 4
    max_depth: int = 2
    timeout: float = 30.0
    max_tokens: int = 0
    allowed_dirs: Sequence[str] = ()


def world_of(tmp_path: Path, model: ScriptedModel | None = None, *names: str, **limits: Any) -> World:
    workspace = tmp_path / "work"
    workspace.mkdir(exist_ok=True)
    world = World(workspace, model or ScriptedModel(obey))
    world.delegation = Delegation(**limits)
    executors: dict[str, Executor] = {name: executor(tmp_path, name) for name in names}
    world.executors = executors
    return world


def call(tool: str, **arguments: Any) -> str:
    return f"TOOL {tool} {json.dumps(arguments)}"


async def use(gateway: InMemory, tool: str, **arguments: Any) -> dict[str, Any]:
    """Have the parent call a tool in a turn of its own, and return what it got."""
    before = len(gateway.channel.delivered)
    await gateway.say(call(tool, **arguments))
    await gateway.channel.until(lambda one: len(one.delivered) > before, 20)
    results = [line for line in await gateway.history() if line["role"] == "tool"]
    found: dict[str, Any] = json.loads(results[-1]["content"])
    return found


def results(lines: Sequence[Line]) -> list[str]:
    return [str(line["content"]) for line in lines if line.get("injected") == "child_result"]


async def until_results(gateway: InMemory, count: int) -> list[str]:
    async with asyncio.timeout(20):
        while len(found := results(await gateway.history())) < count:
            await asyncio.sleep(0.02)  # a history has no event of its own
    return found


async def test_a_sync_delegation_returns_the_answer_and_no_message_besides(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        found = await use(gateway, "delegate", task="say this")
        assert found["success"] is True
        assert found["status"] == "completed"
        assert found["response"] == "echo: say this"
        assert found["session"] == f"[{found['session_id'][:8]}] agent (completed)"
        assert found["task"] == "say this"
        await use(gateway, "list_sessions")
        assert results(await gateway.history()) == []
        child = await gateway.transcripts.open(f"sub:{found['session_id']}")
        assert [line["role"] for line in child.messages] == ["user", "assistant"]
        assert child.messages[0]["injected"] == "task"


async def test_an_async_delegation_is_answered_by_one_message(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        found = await use(gateway, "delegate", task="later", mode="async")
        assert (found["success"], found["status"]) == (True, "running")
        assert found["session"].endswith("agent (running)")
        assert "response" not in found
        [told] = await until_results(gateway, 1)
        assert told.startswith(f"[{found['session_id'][:8]}] agent (completed)")
        assert told.endswith("echo: later")
        await gateway.channel.until(lambda one: len(one.delivered) == 2)  # and the parent answers to it
        listed = await use(gateway, "list_sessions")
        assert [row["status"] for row in listed["sessions"]] == ["✓ completed"]
        assert listed["needs_attention"] == 1
        await use(gateway, "check_session", session_id=found["session_id"][:8])
        assert (await use(gateway, "list_sessions"))["needs_attention"] == 0


@pytest.mark.parametrize("tool", ["codex", "claude"])
async def test_an_outside_agent_works_and_is_spoken_to_again(tmp_path: Path, tool: str) -> None:
    async with life(world_of(tmp_path, None, "codex", "claude")) as gateway:
        found = await use(gateway, "delegate", task="hello", executor=tool)
        assert (found["success"], found["response"]) == (True, f"{tool}: hello")
        again = await use(gateway, "converse", session_id=found["session_id"], message="and more")
        assert (again["success"], again["turn"], again["response"]) == (True, 2, f"{tool}: and more")
        assert again["session_id"] == found["session_id"]
        child = gateway.children.records.all()[0]
        assert child.thread
        first, second = child.ledger
        if tool == "codex":
            assert (first.usage.input, second.usage.input) == (1000, 1500)
        else:
            assert child.thread == child.id
            assert first.cost_usd == pytest.approx(0.001)
        steps = await use(gateway, "get_trajectory", session_id=found["session_id"])
        assert steps["steps"] == [f"[response] {tool}: hello", f"[response] {tool}: and more"]
        state = await use(gateway, "check_session", session_id=found["session_id"])
        assert state["message_count"] == 4
        assert state["tokens"]["total"] > 0


async def test_a_failure_is_told_as_one(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, None, "codex")) as gateway:
        found = await use(gateway, "delegate", task="EXIT 3", executor="codex")
        assert (found["success"], found["status"]) == (False, "failed")
        assert "exit code 3" in found["error"]
        assert found["hint"]
        own = await use(gateway, "delegate", task="FAIL auth")
        assert (own["success"], own["status"]) == (False, "failed")
        assert "Told to fail" in own["error"]


async def test_exhaustion_is_no_success(tmp_path: Path) -> None:
    def forever(request: ModelRequest) -> Reply:
        if request.session.startswith("sub:"):
            return [ToolCall(new_id(), "list_sessions", "{}"), Finished("tool_calls")]
        return obey(request)

    world = world_of(tmp_path, ScriptedModel(forever))
    world.settings["max_steps"] = 3
    async with life(world) as gateway:
        found = await use(gateway, "delegate", task="go round")
        assert (found["success"], found["status"]) == (False, "failed")


async def test_a_child_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, None, "codex", timeout=0.4)) as gateway:
        for tool, task in (("agent", "HANG"), ("codex", "SLEEP 60")):
            found = await use(gateway, "delegate", task=task, executor=tool)
            assert (found["success"], found["status"]) == (False, "timed_out")
            assert "0.4 s" in found["error"]
        child = gateway.children.records.all()[0]
        assert child.process
        assert [one for one in tree.marked(child.process.marker) if one.state not in "ZX"] == []


async def test_several_results_are_answered_in_one_turn(tmp_path: Path) -> None:
    release = asyncio.Event()

    def model(request: ModelRequest) -> Reply:
        if request.session.startswith("sub:"):
            return [release, Text("done")]
        return obey(request)

    async with life(world_of(tmp_path, ScriptedModel(model))) as gateway:
        for n in range(3):
            await use(gateway, "delegate", task=f"job {n}", mode="async")
        busy = asyncio.create_task(use(gateway, "sleep", seconds=0.5))
        async with asyncio.timeout(5):
            while not gateway.actors.state("fake:c").running:
                await asyncio.sleep(0.01)  # until its turn runs
        release.set()
        await until_results(gateway, 3)
        await busy
        await gateway.channel.until(lambda one: len(one.delivered) >= 4)
        answers = [line for line in await gateway.history() if "latency_ms" in line]
        assert len(answers) == 4  # three delegations and one for all that came back, steered into it


async def test_limits_refuse_with_a_hint(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, None, max_children=1)) as gateway:
        assert (await use(gateway, "delegate", task="HANG", mode="async"))["success"]
        refused = await use(gateway, "delegate", task="x")
        assert refused["success"] is False
        assert "1 are allowed at once" in refused["error"]
        assert refused["hint"]
        await gateway.actors.stop("fake:c")
        unknown = await use(gateway, "delegate", task="x", executor="nobody")
        assert "nobody" in unknown["error"]
        assert "agent" in unknown["hint"]


async def test_depth_is_limited(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, None, max_depth=1)) as gateway:
        found = await use(gateway, "delegate", task=call("delegate", task="deeper"))
        assert found["success"] is True
        assert "level 2 of sub-sessions and 1 are allowed" in found["response"]


async def test_a_grandchild_answers_its_parent(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        found = await use(gateway, "delegate", task=call("delegate", task="deep"))
        assert "echo: deep" in found["response"]
        assert [child.depth for child in gateway.children.records.all()] == [2, 1]


async def test_directories_outside_the_allowed_ones_are_refused(tmp_path: Path) -> None:
    inside, sibling = tmp_path / "allowed", tmp_path / "allowed2"
    (inside / "sub").mkdir(parents=True)
    sibling.mkdir()
    (inside / "link").symlink_to(sibling)
    async with life(world_of(tmp_path, None, allowed_dirs=(str(inside),))) as gateway:
        for place in (
            str(sibling),
            f"{inside}/../allowed2",
            f"{inside}/link",
            f"{inside}/none",
            ".nanobot",
            "/",
        ):
            found = await use(gateway, "delegate", task="x", working_dir=place)
            assert found["success"] is False, place
            assert found["error"]
            assert str(inside) in found["hint"]
        good = await use(gateway, "delegate", task="x", working_dir=f"{inside}/sub")
        assert good["success"] is True


async def test_an_outside_agent_works_in_the_directory_it_is_given(tmp_path: Path) -> None:
    place = tmp_path / "project"
    place.mkdir()
    async with life(world_of(tmp_path, None, "codex", allowed_dirs=(str(place),))) as gateway:
        found = await use(gateway, "delegate", task="ECHO", executor="codex", working_dir=str(place))
        assert str(place) in found["response"]


async def test_unknown_and_ambiguous_ids_are_refused_with_candidates(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        nothing = await use(gateway, "check_session", session_id="abcd1234")
        assert (nothing["success"], bool(nothing["error"]), bool(nothing["hint"])) == (False, True, True)
        found = await use(gateway, "delegate", task="x")
        records = gateway.children.records
        child = records.all()[0]
        twin = msgspec.structs.replace(child, id=child.id[:-1] + ("0" if child.id[-1] != "0" else "1"))
        await records.put(twin)
        ambiguous = await use(gateway, "check_session", session_id=found["session_id"][:8])
        assert ambiguous["success"] is False
        assert child.id in ambiguous["error"]
        assert twin.id in ambiguous["error"]
        for short in ("", found["session_id"][:3], "../../etc"):
            assert (await use(gateway, "end_session", session_id=short))["success"] is False


async def test_another_chats_children_are_unknown_here(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        found = await use(gateway, "delegate", task="mine")
        await gateway.say(call("check_session", session_id=found["session_id"]), chat="other")
        await gateway.answers(2)
        other = [line for line in await gateway.history("other") if line["role"] == "tool"]
        assert json.loads(other[-1]["content"])["success"] is False


async def test_a_running_child_is_not_spoken_to_and_an_ended_one_is_gone(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        found = await use(gateway, "delegate", task="HANG", mode="async")
        session_id = found["session_id"]
        assert (await use(gateway, "converse", session_id=session_id, message="hey"))["error"] == (
            "Session is still running"
        )
        assert (await use(gateway, "peek_session", session_id=session_id))["is_running"] is True
        ended = await use(gateway, "end_session", session_id=session_id, reason="enough")
        assert (ended["success"], ended["status"]) == (True, "killed")
        assert gateway.actors.state(f"sub:{session_id}").running is False
        assert (await use(gateway, "converse", session_id=session_id, message="hey"))["error"] == (
            "Session was killed"
        )
        deleted = await use(gateway, "end_session", session_id=session_id, delete=True)
        assert deleted["status"] == "deleted"
        assert (await use(gateway, "list_sessions"))["count"] == 0
        assert results(await gateway.history()) == []  # who ended it knows


async def test_ending_an_outside_agent_leaves_no_process(tmp_path: Path) -> None:
    daemon = tmp_path / "daemon.pid"
    async with life(world_of(tmp_path, None, "codex")) as gateway:
        found = await use(
            gateway, "delegate", task=f"DAEMON {daemon}\nSLEEP 60", executor="codex", mode="async"
        )
        async with asyncio.timeout(10):
            while not daemon.exists() or not daemon.read_text():
                await asyncio.sleep(0.02)  # a file of another process
        await use(gateway, "end_session", session_id=found["session_id"])
        child = gateway.children.records.all()[0]
        assert child.process
        assert [one for one in tree.marked(child.process.marker) if one.state not in "ZX"] == []


async def test_what_a_running_outside_agent_uses_is_told(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, None, "codex")) as gateway:
        found = await use(gateway, "delegate", task="SLEEP 60", executor="codex", mode="async")
        async with asyncio.timeout(10):
            while not gateway.children.records.all()[0].thread:
                await asyncio.sleep(0.02)  # until it runs
        state = await use(gateway, "check_session", session_id=found["session_id"])
        assert state["process"]["processes"] >= 2
        assert state["process"]["memory_mb"] > 0
        await use(gateway, "end_session", session_id=found["session_id"])


async def test_a_stop_of_the_parent_stops_its_children(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with life(world) as gateway:
        await use(gateway, "delegate", task="HANG", mode="async")
        await gateway.say(call("delegate", task="HANG"))
        async with asyncio.timeout(10):
            while sum(1 for one in gateway.children.records.all() if one.status == "running") < 2:
                await asyncio.sleep(0.01)  # until both run
        await gateway.actors.stop("fake:c")
        async with asyncio.timeout(10):
            while any(not one.ended for one in gateway.children.records.all()):
                await asyncio.sleep(0.01)  # until both are ended
        assert {one.status for one in gateway.children.records.all()} == {"killed"}


async def test_a_stop_of_an_idle_parent_stops_what_it_left_working(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        await use(gateway, "delegate", task="HANG", mode="async")
        assert await gateway.actors.stop("fake:c") == (True, 0)
        assert [one.status for one in gateway.children.records.all()] == ["killed"]


async def test_what_a_child_uses_is_taken_from_the_goals_budget(tmp_path: Path) -> None:
    def counting(request: ModelRequest) -> Reply:
        if request.session.startswith("sub:"):
            return [Text("ok"), Finished("stop", Usage(70, 7))]
        return obey(request)

    async with life(world_of(tmp_path, ScriptedModel(counting))) as gateway:
        begun = Inbound("fake", "m", "c", "/goal an objective")
        await gateway.goals.begin("fake:c", begun, "t", "an objective", ())
        await gateway.goals.move("fake:c", "pause")
        first = await use(gateway, "delegate", task="x")
        assert first["success"] is True
        goal = await gateway.goals.load("fake:c")
        assert goal
        assert goal.spent.tokens == 77
        await gateway.goals.charge("fake:c", goal.budget.tokens)
        refused = await use(gateway, "delegate", task="y")
        assert (refused["success"], refused["error"]) == (False, "the goal's tokens are used up")


async def test_a_stop_reaches_what_a_child_has_delegated(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        await gateway.say(call("delegate", task=call("delegate", task="HANG")))
        async with asyncio.timeout(10):
            while not any(
                one.depth == 2 and one.status == "running" for one in gateway.children.records.all()
            ):
                await asyncio.sleep(0.01)  # until the grandchild runs
        await gateway.actors.stop("fake:c")
        async with asyncio.timeout(10):
            while [one for one in gateway.actors.running() if one.startswith("sub:")]:
                await asyncio.sleep(0.01)  # until both turns are ended
        assert {one.status for one in gateway.children.records.all()} == {"killed"}


async def test_sleep_has_a_longest_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert SLEEP_MOST == 300
    monkeypatch.setattr("nanobot.delegation.SLEEP_MOST", 0.02)
    async with life(world_of(tmp_path)) as gateway:
        found = await use(gateway, "sleep", seconds=1000)
        assert (found["slept_seconds"], found["capped"], found["max_allowed"]) == (0.02, True, 0.02)


async def test_sleep_waits_and_refuses_nothing(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        assert (await use(gateway, "sleep", seconds=0.01))["slept_seconds"] == 0.01
        assert (await use(gateway, "sleep", seconds=0))["success"] is False


async def test_a_missing_tool_is_a_result_with_a_hint(tmp_path: Path) -> None:
    world = world_of(tmp_path, None, "codex")
    (tmp_path / "bin" / "codex").unlink()
    async with life(world) as gateway:
        found = await use(gateway, "delegate", task="x", executor="codex")
        assert found["success"] is False
        assert "was not found" in found["error"]
        assert "executors.codex" in found["hint"]
        assert gateway.children.records.all() == []


# --- across a restart -----------------------------------------------------------------------------------------


async def test_a_polite_stop_leaves_an_outside_agent_running_and_the_next_life_takes_it_over(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path, None, "codex")
    async with life(world) as gateway:
        found = await use(gateway, "delegate", task="SLEEP 1.5\nlate", executor="codex", mode="async")
        async with asyncio.timeout(10):
            while (one := gateway.children.records.by_id(found["session_id"])) is None or not one.thread:
                await asyncio.sleep(0.02)  # until it has told its thread
        gateway.bench.draining = True
        gateway.dispatcher._draining.set()
    assert one.process
    async with life(world) as gateway:
        told = await until_results(gateway, 1)
        assert len(told) == 1
        assert told[0].endswith("codex: SLEEP 1.5\nlate")
        child = gateway.children.records.all()[0]
        assert child.process == one.process
        assert child.status == "completed"


async def test_a_repeated_delivery_reports_nothing_twice(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        found = await use(gateway, "delegate", task="once", mode="async")
        await until_results(gateway, 1)
        child = gateway.children.records.by_id(found["session_id"])
        assert child
        final = (await gateway.transcripts.open(child.key)).messages[-1]
        lost = msgspec.structs.replace(child, status="running")  # as if the record had not been written
        gateway.children.records.note(lost)
        await gateway.children.answered(child.id, final["turn"], "echo: once", failed=False)
        await use(gateway, "list_sessions")
        assert len(results(await gateway.history())) == 1


async def test_a_task_is_never_a_command(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        found = await use(gateway, "delegate", task="/new")
        assert found["response"] == "echo: /new"


async def test_usage_of_our_own_agent_is_in_the_ledger(tmp_path: Path) -> None:
    def counting(request: ModelRequest) -> Reply:
        if request.session.startswith("sub:"):
            return [Text("ok"), Finished("stop", Usage(70, 7))]
        return obey(request)

    async with life(world_of(tmp_path, ScriptedModel(counting))) as gateway:
        found = await use(gateway, "delegate", task="x")
        assert found["tokens"]["total"] == 77
