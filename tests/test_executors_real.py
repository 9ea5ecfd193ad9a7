"""The real codex and claude, against providers emulated on loopback; skipped where they are not installed.

NANOBOT_CODEX and NANOBOT_CLAUDE name the programs; else they are found as the gateway would find them.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from nanobot.errors import NanobotError
from nanobot.executor import Executor, Spent, Step
from nanobot.executors import discovery
from nanobot.executors.claude import Claude
from nanobot.executors.codex import Codex
from nanobot.executors.run import ExecutorRun
from nanobot.security import tree
from nanobot.trajectory import summary
from tests.emulators.coding import ClaudeServer, ResponsesServer
from tests.executors.support import ClaudeSettings, CodexSettings, job, run, security


def installed(name: str) -> str:
    try:
        return discovery.find(name, os.environ.get(f"NANOBOT_{name.upper()}", ""))
    except NanobotError:
        return ""


pytestmark = pytest.mark.executors
needs_codex = pytest.mark.skipif(not installed("codex"), reason="codex is not installed")
needs_claude = pytest.mark.skipif(not installed("claude"), reason="claude is not installed")
TOOLS = [pytest.param("codex", marks=needs_codex), pytest.param("claude", marks=needs_claude)]


def executor(folder: Path, name: str, url: str, *, key: str = "sk-ant-dummy", **changes: Any) -> Executor:
    home = folder / "home"
    (home / ".codex").mkdir(parents=True, exist_ok=True)
    if name == "codex":
        provider = {
            "name": "fake",
            "base_url": url,
            "wire_api": "responses",
            "env_key": "FAKE_KEY",
            "request_max_retries": 1,
            "stream_max_retries": 1,
        }
        config = {"model_provider": "fake", "model_providers": {"fake": provider}}
        env = {"HOME": str(home), "CODEX_HOME": str(home / ".codex"), "FAKE_KEY": key}
        codex = CodexSettings(
            command=installed(name), model="gpt-5.5", config=config, env=env, sandbox="danger-full-access"
        )
        return Codex(codex, security(home, "low"))
    env = {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": key,
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }
    settings = ClaudeSettings(
        command=installed(name), model="sonnet", env=env, allowed_tools=("Bash",), **changes
    )
    return Claude(settings, security(home))


def tool_call(name: str, command: str) -> str:
    if name == "codex":
        return f"TOOL exec_command {json.dumps({'cmd': command})}"
    return f"TOOL Bash {json.dumps({'command': command, 'description': 'run'})}"


@pytest.fixture
async def url(request: pytest.FixtureRequest) -> Any:
    server = ResponsesServer() if request.node.callspec.params["tool"] == "codex" else ClaudeServer()
    async with server:
        yield server.url


def left(marker: str) -> list[int]:
    return [seen.identity.pid for seen in tree.marked(marker) if seen.state not in "ZX"]


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_tool_call_goes_round_and_the_next_turn_resumes(tmp_path: Path, url: str, tool: str) -> None:
    one = executor(tmp_path, tool, url)
    first_job = job(tmp_path, tool_call(tool, "echo made > made.txt; echo seen"), fresh=FRESH)
    first, steps = await run(one, first_job)
    assert first.status == "completed", first.error
    assert "seen" in first.answer
    assert (first_job.working_dir / "made.txt").read_text() == "made\n"
    assert any("echo made > made.txt" in text and "→ " in text for text in summary(steps))
    second_job = job(tmp_path, "and again", turn=2, thread=first.thread, total=first.total)
    second, _ = await run(one, second_job)
    assert (second.status, second.answer) == ("completed", "echo: and again")
    assert second.thread == first.thread
    assert 0 < second.spent.usage.input < first.spent.usage.input + second.spent.usage.input
    if tool == "codex":
        assert (first.spent.usage.input, second.spent.usage.input) == (2000, 1000)
    assert left(first_job.marker) == left(second_job.marker) == []


@pytest.mark.parametrize("tool", TOOLS)
async def test_an_error_of_the_provider_is_a_failure(tmp_path: Path, url: str, tool: str) -> None:
    result, _ = await run(executor(tmp_path, tool, url), job(tmp_path, "STATUS 400", fresh=FRESH))
    assert result.status == "failed"
    assert "400" in result.error
    assert result.answer == ""


@pytest.mark.parametrize("tool", TOOLS)
async def test_one_that_hangs_is_ended_with_nothing_left(tmp_path: Path, url: str, tool: str) -> None:
    hanging = job(tmp_path, "HANG", fresh=FRESH, timeout=3.0)
    result, _ = await run(executor(tmp_path, tool, url), hanging)
    assert result.status == "timed_out"
    assert left(hanging.marker) == []


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_stop_ends_what_its_command_runs(tmp_path: Path, url: str, tool: str) -> None:
    place = tmp_path / "work" / "pid"
    command = f"setsid sleep 7533 & echo $! > {place}; wait"
    work = job(tmp_path, tool_call(tool, command), fresh=FRESH)
    turn = ExecutorRun(executor(tmp_path, tool, url), work, lambda _: None)
    await turn.start()
    waiting = asyncio.create_task(turn.wait())
    async with asyncio.timeout(30):
        while not place.exists() or not place.read_text():
            await asyncio.sleep(0.05)  # a file of another process
    turn.stop()
    result = await waiting
    assert result.status == "killed"
    identity = tree.identify(int(place.read_text()))
    assert identity is None or not tree.alive(identity)
    assert left(work.marker) == []


@needs_claude
@pytest.mark.parametrize("tool", ["claude"])
async def test_a_budget_stop_is_a_failure(tmp_path: Path, url: str, tool: str) -> None:
    one = executor(tmp_path, tool, url, max_budget_usd=0.0000001)
    result, _ = await run(one, job(tmp_path, tool_call(tool, "echo x"), fresh=FRESH))
    assert result.status == "failed"
    assert "budget" in result.error
    assert result.spent.usage.input > 0


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_prompt_of_200_kb_is_taken(tmp_path: Path, url: str, tool: str) -> None:
    result, _ = await run(
        executor(tmp_path, tool, url), job(tmp_path, "LONG 3\n" + "y" * 200_000, fresh=FRESH)
    )
    assert (result.status, result.answer) == ("completed", "word0 word1 word2")


@needs_claude
@pytest.mark.parametrize("tool", ["claude"])
async def test_what_is_said_to_a_claude_that_works_is_heard_in_the_same_turn(
    tmp_path: Path, url: str, tool: str
) -> None:
    go_on = tmp_path / "work" / "go-on"
    command = f"touch started; while [ ! -e {go_on} ]; do sleep 0.05; done; echo seen"
    work = job(tmp_path, tool_call(tool, command), fresh=FRESH)
    steps: list[Step] = []
    turn = ExecutorRun(executor(tmp_path, tool, url), work, steps.append)
    await turn.start()
    waiting = asyncio.create_task(turn.wait())
    async with asyncio.timeout(30):
        while not (work.working_dir / "started").exists():
            await asyncio.sleep(0.05)  # a file of another process
    assert await turn.say("and mention the river") is True
    go_on.touch()
    result = await waiting
    assert result.status == "completed", result.error
    said = [step.text for step in steps if step.kind == "said"]
    assert said == ["and mention the river"]
    assert [step.kind for step in steps].index("said") < len(steps) - 1  # and it answered after it
    assert await turn.say("too late") is False
    assert left(work.marker) == []


@pytest.mark.parametrize("tool", TOOLS)
async def test_what_a_turn_uses_is_known_before_it_ends(tmp_path: Path, url: str, tool: str) -> None:
    told: asyncio.Queue[Spent] = asyncio.Queue()
    # Codex writes down what a call of the model used when the tool that it called is done.
    work = job(tmp_path, f"{tool_call(tool, 'echo one')}\n{tool_call(tool, 'sleep 60')}", fresh=FRESH)
    turn = ExecutorRun(
        executor(tmp_path, tool, url),
        work,
        lambda _: None,
        on_spent=lambda verdict: told.put_nowait(verdict.spent),
    )
    await turn.start()
    waiting = asyncio.create_task(turn.wait())
    async with asyncio.timeout(30):
        spent = await told.get()
    assert spent.usage.input > 0
    turn.stop()
    result = await waiting
    assert result.status == "killed"
    assert result.spent.usage.input >= spent.usage.input
    assert left(work.marker) == []


@pytest.mark.parametrize("tool", TOOLS)
async def test_nobody_logged_in_is_a_failure_that_says_how_to_log_in(
    tmp_path: Path, url: str, tool: str
) -> None:
    result, _ = await run(executor(tmp_path, tool, url, key=""), job(tmp_path, "hello", fresh=FRESH))
    assert (result.status, result.answer) == ("failed", "")
    assert result.error
    assert ("/login" if tool == "claude" else "codex login") in result.hint


@needs_codex
@pytest.mark.parametrize("tool", ["codex"])
async def test_a_key_that_is_refused_says_how_to_log_in(tmp_path: Path, url: str, tool: str) -> None:
    result, _ = await run(executor(tmp_path, tool, url), job(tmp_path, "STATUS 401", fresh=FRESH))
    assert result.status == "failed"
    assert "401" in result.error
    assert "codex login" in result.hint


FRESH = "11111111-2222-4333-8444-555555555555"
