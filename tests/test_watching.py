"""Watchers over whole turns: each of them, over a person's session and over sub-sessions, with every severity."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from nanobot.config import load
from nanobot.messages import Inbound, new_id
from nanobot.model import Finished, ModelRequest, Text, ToolCall
from nanobot.models.media import last_user, text_of
from nanobot.models.scripted import Hang, Reply, ScriptedModel, obey
from nanobot.tool import Tool, ToolContext, ToolResult, tool
from nanobot.watch_settings import Budget, Delegation, Progress, Quality, Rule, Scope, Watchers
from tests.config_support import Write, bare_environment, refusal, write
from tests.gateway_in_memory import InMemory, World, life
from tests.test_children import call, results, until_results, use, world_of

__all__ = ["bare_environment", "write"]  # fixtures


DONE: list[str] = []  # commands that ran


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


class Command(msgspec.Struct):
    command: Annotated[str, Meta(min_length=1)]


class File(msgspec.Struct):
    path: str
    content: str = ""


def tools() -> list[Tool]:
    """Tools by the names that watchers know; they do nothing."""

    @tool("exec", "Run a command.")
    async def run(arguments: Command, context: ToolContext) -> ToolResult:
        DONE.append(arguments.command)
        return ToolResult(f"ran {arguments.command}\n[exit code 0]")

    @tool("write_file", "Write a file.")
    async def write(arguments: File, context: ToolContext) -> ToolResult:
        return ToolResult(f"wrote {arguments.path}")

    return [run, write]


def house(tmp_path: Path, model: ScriptedModel | None = None, *names: str, **watchers: Any) -> World:
    world = world_of(tmp_path, model, *names)
    world.tools = tools()
    world.watchers = Watchers(**watchers)
    return world


def running(*commands: str, then: str = "done") -> list[Reply]:
    """A model that runs these commands one after another."""
    calls: list[Reply] = [
        [ToolCall(new_id(), "exec", json.dumps({"command": one})), Finished("tool_calls")] for one in commands
    ]
    return [*calls, then]


async def nudges(gateway: InMemory, session: str = "fake:c") -> list[str]:
    lines = (await gateway.transcripts.open(session)).messages
    return [str(line["content"]) for line in lines if line.get("injected") == "nudge"]


async def finally_said(gateway: InMemory, text: str = "go") -> str:
    await gateway.say(text)
    return (await gateway.answers(1))[0]


# --- a person's session -----------------------------------------------------------------------------------------


async def test_a_turn_that_goes_round_in_circles_is_told_twice_and_then_ended_with_the_reason(
    tmp_path: Path,
) -> None:
    async with life(house(tmp_path, ScriptedModel(running(*["ls"] * 15)), cooldown=3)) as gateway:
        said = await finally_said(gateway)
        told = await nudges(gateway)
        assert [one.split(" times")[0].rpartition(" ")[2] for one in told] == ["3", "6"]  # the cooldown holds
        assert all(one.startswith("[WATCHER: progress]") for one in told)
        assert "[WATCHER: progress] the same call was made 9 times in a row" in said
        final = (await gateway.history())[-1]
        assert final["injected"] == "failed"
        results = [line["content"] for line in await gateway.history() if line["role"] == "tool"]
        assert len(results) == 9


async def test_a_turn_that_has_used_most_of_its_steps_is_told(tmp_path: Path) -> None:
    world = house(tmp_path, ScriptedModel(running(*map(str, range(9)))))
    world.settings["max_steps"] = 10
    async with life(world) as gateway:
        assert await finally_said(gateway) == "done"
        [told] = await nudges(gateway)
        assert told == "[WATCHER: budget] 80% of your steps is used. Come to an end: report what you have."


async def test_a_turn_out_of_scope_is_paused_with_its_children_and_goes_on_when_it_is_told_to(
    tmp_path: Path,
) -> None:
    def model(request: ModelRequest) -> Reply:
        text = text_of(request.messages[last_user(request.messages)])
        if request.session.startswith("sub:") and "again" not in text:
            return [Hang()]
        if text == "go":
            command = json.dumps({"command": "kubectl apply"})
            return [Text("Now kubectl. "), ToolCall(new_id(), "exec", command), Finished("tool_calls")]
        return obey(request)

    world = house(tmp_path, ScriptedModel(model), scope=Scope(("kubectl",), "pause"))
    async with life(world) as gateway:
        child = await use(gateway, "delegate", task="work", mode="async")
        await gateway.say("go")
        said = (await gateway.answers(2))[1]
        assert "[WATCHER: scope] This is outside your task: kubectl." in said
        assert "Say how to go on" in said
        assert (await gateway.history())[-1]["injected"] == "stopped"
        state = await use(gateway, "check_session", session_id=child["session_id"])
        assert (state["success"], state["status"], state["is_running"]) == (False, "paused", False)
        assert "its parent was paused: [WATCHER: scope]" in state["error"]
        assert results(await gateway.history()) == []  # a message would take up what was paused
        again = await use(gateway, "converse", session_id=child["session_id"], message="again")
        assert (again["success"], again["turn"], again["response"]) == (True, 2, "echo: again")


async def test_a_goal_is_paused_with_its_turn(tmp_path: Path) -> None:
    rule = Rule("forbidden", "Not that.", "pause")
    async with life(house(tmp_path, ScriptedModel(running("forbidden")), pattern=(rule,))) as gateway:
        begun = Inbound("fake", "m", "c", "/goal an objective", sender="owner")
        await gateway.goals.begin("fake:c", begun, "t", "an objective", ())
        assert "[WATCHER: pattern] Not that." in await finally_said(gateway)
        goal = await gateway.goals.load("fake:c")
        assert goal
        assert goal.status == "paused"


async def test_a_pattern_of_the_owners_ends_the_turn(tmp_path: Path) -> None:
    rules = (Rule("rm +-rf", "Nothing is deleted here.", "abort"), Rule("rm", "Careful.", "nudge"))
    async with life(house(tmp_path, ScriptedModel(running("RM -rf /tmp/x")), pattern=rules)) as gateway:
        said = await finally_said(gateway)
        assert said.startswith("[WATCHER: pattern] Nothing is deleted here.")
        [result] = [line["content"] for line in await gateway.history() if line["role"] == "tool"]
        assert result.startswith("interrupted: [WATCHER: pattern]")  # the command never ran
        assert DONE == []
        assert (await gateway.history())[-1]["injected"] == "failed"


@pytest.mark.parametrize("steering", [True, False])
async def test_a_nudge_is_heard_in_its_own_turn_whatever_becomes_of_messages(
    tmp_path: Path, *, steering: bool
) -> None:
    model = ScriptedModel(running("kubectl get", "ls"))
    world = house(tmp_path, model, scope=Scope(("kubectl",)))
    world.settings["steering"] = steering
    async with life(world) as gateway:
        assert await finally_said(gateway) == "done"
        told = "[WATCHER: scope] This is outside your task: kubectl. Go back to what was asked."
        assert await nudges(gateway) == [told]
        assert text_of(model.requests[1].messages[-1]) == told
        assert model.requests[1].messages[-1]["role"] == "user"


async def test_an_agent_that_writes_through_the_shell_is_told_to_delegate(tmp_path: Path) -> None:
    world = house(tmp_path, ScriptedModel(running("echo x > a.py", "ls")), delegation=Delegation(True))
    async with life(world) as gateway:
        assert await finally_said(gateway) == "done"
        [told] = await nudges(gateway)
        assert told == "[WATCHER: delegation] You write files yourself. Delegate this instead."


async def test_an_answer_without_tests_does_not_end_the_turn_until_they_were_run(tmp_path: Path) -> None:
    write: Reply = [ToolCall(new_id(), "write_file", '{"path": "a.py"}'), Finished("tool_calls")]
    model = ScriptedModel([write, "All done.", *running("make test", then="Tested.")])
    async with life(house(tmp_path, model, quality=Quality(True))) as gateway:
        assert await finally_said(gateway) == "Tested."
        [told] = await nudges(gateway)
        assert told == "[WATCHER: quality] Files are changed and no tests were run. Run them."
        lines = await gateway.history()
        assert [line["content"] for line in lines if line["role"] == "assistant"] == [
            "",
            "All done.",
            "",
            "Tested.",
        ]
        await gateway.say("and again")  # what was said in between is done, and answered once
        assert len(await gateway.answers(2)) == 2


async def test_nothing_is_watched_for_that_is_not_switched_on(tmp_path: Path) -> None:
    model = ScriptedModel(running("echo x > a.py", "kubectl apply", "rm -rf x"))
    async with life(house(tmp_path, model)) as gateway:
        assert await finally_said(gateway) == "done"
        assert await nudges(gateway) == []
    model = ScriptedModel(running(*["ls"] * 12))
    off = {"progress": Progress(False), "budget": Budget(False)}
    async with life(house(tmp_path / "work", model, **off)) as gateway:
        assert await finally_said(gateway) == "done"


async def test_what_is_found_when_a_turn_has_ended_is_not_left_to_the_next_one(tmp_path: Path) -> None:
    world = house(tmp_path, ScriptedModel(running("one", then="first")))
    async with life(world) as gateway:
        late = Inbound("fake", "watch:gone:1", "c", "[WATCHER: scope] late", sender="watcher", kind="nudge")
        await gateway.store.inbox.accept(late)
        gateway.dispatcher.wake("fake:c")
        async with asyncio.timeout(5):
            while await gateway.store.inbox.pending("fake:c"):
                await asyncio.sleep(0.01)  # the actor takes it and ends it
        assert await finally_said(gateway) == "first"
        assert await nudges(gateway) == []


# --- the configuration ------------------------------------------------------------------------------------------


def test_watchers_are_switched_on_by_their_table(write: Write) -> None:
    assert [rule.__qualname__.partition(".")[0] for rule in Watchers().rules()] == ["progress", "budget"]
    text = """
[watchers]
cooldown = 2
progress = { enabled = false }
scope = { avoid = ["kubectl"], action = "pause" }
delegation = { enabled = true }
quality = { enabled = true, max_files = 3 }
[[watchers.pattern]]
match = "rm +-rf"
message = "No."
action = "abort"
"""
    found = load(write(text)).watchers
    names = [rule.__qualname__.partition(".")[0] for rule in found.rules()]
    assert names == ["budget", "scope", "pattern", "delegation", "quality"]
    assert (found.cooldown, found.quality.max_files) == (2, 3)
    assert found.pattern == (Rule("rm +-rf", "No.", "abort"),)


def test_what_cannot_be_used_is_refused_at_the_start(write: Write) -> None:
    text = '[[watchers.pattern]]\nmatch = "["\nmessage = "x"\n'
    assert "watchers.pattern.0.match is no regular expression" in refusal(write(text))
    assert "action" in refusal(write('[watchers]\nscope = { avoid = ["x"], action = "shout" }\n'))
    assert "match" in refusal(write('[[watchers.pattern]]\nmessage = "x"\n'))


# --- sub-sessions -----------------------------------------------------------------------------------------------


def child_runs(*commands: str) -> ScriptedModel:
    script = iter(running(*commands))

    def model(request: ModelRequest) -> Reply:
        return next(script) if request.session.startswith("sub:") else obey(request)

    return ScriptedModel(model)


async def test_a_child_that_is_paused_is_no_success_and_can_be_continued(tmp_path: Path) -> None:
    rule = Rule("git push", "Ask before you push.", "pause")
    world = house(tmp_path, child_runs("git push"), pattern=(rule,))
    async with life(world) as gateway:
        found = await use(gateway, "delegate", task="x")
        assert (found["success"], found["status"]) == (False, "paused")
        assert found["error"] == "[WATCHER: pattern] Ask before you push."
        assert "converse" in found["hint"]
        again = await use(gateway, "converse", session_id=found["session_id"], message="you may not")
        assert (again["success"], again["response"]) == (True, "done")
        assert "watchers" not in again


async def test_a_child_that_is_aborted_is_reported_to_its_parent_with_the_reason(tmp_path: Path) -> None:
    world = house(tmp_path, child_runs("rm -rf /"), pattern=(Rule("rm -rf", "No.", "abort"),))
    async with life(world) as gateway:
        await use(gateway, "delegate", task="x", mode="async")
        [told] = await until_results(gateway, 1)
        assert "agent (killed)" in told
        assert "Error: [WATCHER: pattern] No." in told


async def test_claude_hears_a_watcher_while_it_works(tmp_path: Path) -> None:
    world = house(tmp_path, None, "claude", scope=Scope(("working",)))
    async with life(world) as gateway:
        found = await use(gateway, "delegate", task="USE 5\nLISTEN", executor="claude")
        told = "[WATCHER: scope] This is outside your task: working. Go back to what was asked."
        assert (found["success"], found["response"]) == (True, f"claude heard: {told}")
        assert found["watchers"] == [told]
        steps = await use(gateway, "get_trajectory", session_id=found["session_id"])
        assert f"[said] {told}" in steps["steps"]


async def test_what_codex_cannot_hear_its_parent_reads_beside_the_result(tmp_path: Path) -> None:
    world = house(tmp_path, None, "codex", scope=Scope(("careless",)))
    async with life(world) as gateway:
        await use(gateway, "delegate", task="careless work", executor="codex", mode="async")
        [told] = await until_results(gateway, 1)
        assert "codex (completed)" in told
        assert "[WATCHER: scope] This is outside your task: careless." in told


async def test_a_grandchilds_watcher_speaks_to_the_grandchild(tmp_path: Path) -> None:
    heard: list[Sequence[str]] = []

    def model(request: ModelRequest) -> Reply:
        text = text_of(request.messages[0])
        if text != "deep":
            return obey(request)
        told = [str(line["content"]) for line in request.messages if line.get("injected") == "nudge"]
        heard.append(told)
        if told:
            return "stopped circling"
        return [ToolCall(new_id(), "exec", '{"command": "ls"}'), Finished("tool_calls")]

    async with life(house(tmp_path, ScriptedModel(model))) as gateway:
        found = await use(gateway, "delegate", task=call("delegate", task="deep"))
        assert "stopped circling" in found["response"]
        assert len(heard[-1]) == 1
        assert await nudges(gateway) == []
