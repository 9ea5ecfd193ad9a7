"""Real processes: command lines, output of any kind, faults, and nothing left running."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from nanobot.errors import Refused
from nanobot.executor import ExecutorProblem, Spent, Step
from nanobot.executors import discovery
from nanobot.executors.claude import Claude
from nanobot.executors.codex import Codex, flat, overrides, toml
from nanobot.executors.reader import LineReader
from nanobot.executors.run import ExecutorRun
from nanobot.security import tree
from tests.executors.support import ClaudeSettings, CodexSettings, executor, job, program, run, security

TOOLS = ["codex", "claude"]


def left(marker: str) -> list[int]:
    return [seen.identity.pid for seen in tree.marked(marker) if seen.state not in "ZX"]


def runs(pid: int) -> bool:
    identity = tree.identify(pid)
    return identity is not None and tree.alive(identity)  # a zombie waits for init alone


async def until_exists(path: Path) -> None:
    async with asyncio.timeout(10):
        while not path.exists() or not path.read_text():
            await asyncio.sleep(0.01)  # a file of another process


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_turn_answers_and_leaves_its_files(tmp_path: Path, tool: str) -> None:
    work = job(tmp_path, "hello")
    result, steps = await run(executor(tmp_path, tool), work)
    assert (result.status, result.answer, result.exit_code) == ("completed", f"{tool}: hello", 0)
    assert [step.kind for step in steps] == ["message"]
    assert {path.name for path in work.folder.iterdir()} == {
        "turn_1.jsonl",
        "turn_1.stderr",
        "turn_1.exit",
        "turn_1.times",
    }
    assert (work.folder / "turn_1.jsonl").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_prompt_of_200_kb_arrives_whole(tmp_path: Path, tool: str) -> None:
    result, _ = await run(executor(tmp_path, tool), job(tmp_path, "ECHO\n" + "y" * 200_000))
    assert result.answer == f"200005 characters from {tmp_path / 'work'}"


async def test_a_resumed_thread_counts_only_what_is_new(tmp_path: Path) -> None:
    codex = executor(tmp_path, "codex")
    first, _ = await run(codex, job(tmp_path, "one"))
    second, _ = await run(codex, job(tmp_path, "two", turn=2, thread=first.thread, total=first.total))
    assert second.thread == first.thread
    assert first.spent.usage.input == 1000
    assert second.spent.usage.input == 1500


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_tool_that_ends_without_a_word_has_failed(tmp_path: Path, tool: str) -> None:
    result, _ = await run(executor(tmp_path, tool), job(tmp_path, "EXIT 2"))
    assert result.status == "failed"
    assert "exit code 2" in result.error


@pytest.mark.parametrize("tool", TOOLS)
async def test_silence_with_exit_status_0_is_no_success(tmp_path: Path, tool: str) -> None:
    result, _ = await run(executor(tmp_path, tool), job(tmp_path, "EXIT 0"))
    assert result.status == "failed"


async def test_binary_garbage_is_counted_and_passed_over(tmp_path: Path) -> None:
    result, _ = await run(executor(tmp_path, "codex"), job(tmp_path, "GARBAGE"))
    assert result.status == "completed"
    assert result.garbage > 3


async def test_a_flood_is_ended_and_its_file_bounded(tmp_path: Path) -> None:
    work = job(tmp_path, "FLOOD 1024")
    result, _ = await run(executor(tmp_path, "codex"), work, output_limit=8 << 20)
    assert result.status == "failed"
    assert "printed more than 8 MB" in result.error
    assert work.file("jsonl").stat().st_size <= 8 << 20
    assert left(work.marker) == []


@pytest.mark.parametrize("tool", TOOLS)
async def test_one_that_ignores_signals_is_killed_at_its_deadline(
    tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanobot.executors.run.INTERRUPT_SECONDS", 0.2)
    monkeypatch.setattr("nanobot.executors.run.TERMINATE_SECONDS", 0.3)
    work = job(tmp_path, "STUBBORN\nSLEEP 60", timeout=0.5)
    began = time.monotonic()
    result, _ = await run(executor(tmp_path, tool), work)
    assert result.status == "timed_out"
    assert time.monotonic() - began < 5
    assert left(work.marker) == []


@pytest.mark.parametrize("tool", TOOLS)
async def test_it_is_interrupted_first_then_asked_to_end_then_killed(
    tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanobot.executors.run.INTERRUPT_SECONDS", 0.4)
    monkeypatch.setattr("nanobot.executors.run.TERMINATE_SECONDS", 0.4)
    seen = tmp_path / "signals"
    work = job(tmp_path, f"SIGNALS {seen}\n" + "SLEEP 20\n" * 3)
    turn = ExecutorRun(executor(tmp_path, tool), work, lambda _: None)
    await turn.start()
    waiting = asyncio.create_task(turn.wait())
    await until_exists(work.file("jsonl"))
    async with asyncio.timeout(10):
        while '"ready"' not in work.file("jsonl").read_text():
            await asyncio.sleep(0.01)  # a file of another process
    turn.stop()
    assert (await waiting).status == "killed"
    assert seen.read_text().split() == ["SIGINT", "SIGTERM"]
    assert left(work.marker) == []


async def test_a_daemon_that_a_tool_left_is_ended_with_it(tmp_path: Path) -> None:
    place = tmp_path / "daemon.pid"
    work = job(tmp_path, f"DAEMON {place}")
    result, _ = await run(executor(tmp_path, "codex"), work)
    assert result.status == "completed"
    assert not runs(int(place.read_text()))
    assert left(work.marker) == []


async def test_a_stop_ends_the_tool_and_its_daemon_within_the_interrupts_time(tmp_path: Path) -> None:
    place = tmp_path / "daemon.pid"
    work = job(tmp_path, f"DAEMON {place}\nSLEEP 60")
    turn = ExecutorRun(executor(tmp_path, "codex"), work, lambda _: None)
    await turn.start()
    waiting = asyncio.create_task(turn.wait())
    await until_exists(place)
    turn.stop("killed", "ended by a test")
    result = await waiting
    assert (result.status, result.error) == ("killed", "ended by a test")
    assert not runs(int(place.read_text()))
    assert left(work.marker) == []


async def test_a_cancelled_turn_leaves_no_process(tmp_path: Path) -> None:
    work = job(tmp_path, "SLEEP 60")
    turn = ExecutorRun(executor(tmp_path, "claude"), work, lambda _: None)
    await turn.start()
    waiting = asyncio.create_task(turn.wait())
    await asyncio.sleep(0)  # let it begin
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert left(work.marker) == []


async def test_a_process_of_an_earlier_gateway_is_taken_over(tmp_path: Path) -> None:
    codex = executor(tmp_path, "codex")
    work = job(tmp_path, "SLEEP 0.6\nlate")
    earlier = ExecutorRun(codex, work, lambda _: None, keep=lambda: True)
    await earlier.start()
    record = earlier.process
    waiting = asyncio.create_task(earlier.wait())
    await until_exists(work.file("jsonl"))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert left(work.marker)
    for process in (record, None):  # found by its record; by its mark where the record was never written
        later = ExecutorRun(codex, job(tmp_path, "", marker=work.marker, process=process), lambda _: None)
        await later.start()
        assert later.process == record
        if process is None:
            result = await later.wait()
            assert (result.status, result.answer) == ("completed", "codex: SLEEP 0.6\nlate")
    assert left(work.marker) == []


async def test_a_turn_that_ended_while_nobody_watched_is_only_read(tmp_path: Path) -> None:
    codex = executor(tmp_path, "codex")
    work = job(tmp_path, "hello")
    await run(codex, work)
    Path(discovery.find("codex", str(tmp_path / "bin" / "codex"))).unlink()  # so it cannot run again
    result, steps = await run(codex, work)
    assert (result.status, result.answer, len(steps)) == ("completed", "codex: hello", 1)


async def test_another_process_under_the_recorded_id_is_left_alone(tmp_path: Path) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "30")
    identity = tree.identify(other.pid)
    assert identity
    codex = executor(tmp_path, "codex")
    probe = ExecutorRun(codex, job(tmp_path, "x"), lambda _: None)
    await probe.start()
    assert probe.process
    await probe.wait()
    record = type(probe.process)(other.pid, identity.started - 1, probe.process.boot, "gone")
    result, _ = await run(codex, job(tmp_path, "x", turn=9, process=record))
    assert result.status == "failed"
    assert other.returncode is None
    other.kill()
    await other.wait()


async def test_a_working_directory_that_is_gone_is_a_problem_with_a_name(tmp_path: Path) -> None:
    work = job(tmp_path, "x")
    work.working_dir.rmdir()
    with pytest.raises(ExecutorProblem, match="could not be started"):
        await run(executor(tmp_path, "codex"), work)


async def test_what_is_said_to_claude_while_it_works_is_heard_in_the_same_turn(tmp_path: Path) -> None:
    work = job(tmp_path, "LISTEN")
    steps: list[Step] = []
    turn = ExecutorRun(executor(tmp_path, "claude"), work, steps.append)
    await turn.start()
    waiting = asyncio.create_task(turn.wait())
    assert await turn.say("take the other road") is True
    result = await waiting
    assert (result.status, result.answer) == ("completed", "claude heard: take the other road")
    assert ("said", "take the other road") in [(step.kind, step.text) for step in steps]
    assert await turn.say("too late") is False
    assert not list(work.folder.glob("*.in"))
    assert left(work.marker) == []


async def test_codex_cannot_be_spoken_to_while_it_works(tmp_path: Path) -> None:
    turn = ExecutorRun(executor(tmp_path, "codex"), job(tmp_path, "SLEEP 0.2"), lambda _: None)
    await turn.start()
    waiting = asyncio.create_task(turn.wait())
    assert await turn.say("hello") is False
    assert (await waiting).status == "completed"


async def test_a_claude_whose_gateway_is_gone_finishes_its_turn(tmp_path: Path) -> None:
    claude = executor(tmp_path, "claude")
    work = job(tmp_path, "SLEEP 0.6\nlate")
    earlier = ExecutorRun(claude, work, lambda _: None, keep=lambda: True)
    await earlier.start()
    record = earlier.process
    waiting = asyncio.create_task(earlier.wait())
    await until_exists(work.file("jsonl"))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    later = ExecutorRun(claude, job(tmp_path, "", marker=work.marker, process=record), lambda _: None)
    await later.start()
    assert await later.say("hello?") is False  # its input ended with the gateway that had it
    result = await later.wait()
    assert (result.status, result.answer) == ("completed", "claude: SLEEP 0.6\nlate")
    assert left(work.marker) == []


@pytest.mark.parametrize("tool", TOOLS)
async def test_what_a_turn_uses_is_known_while_it_runs(
    tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    monkeypatch.setattr("nanobot.executors.run.LEDGER_SECONDS", 0.05)
    told: asyncio.Queue[int] = asyncio.Queue()
    work = job(tmp_path, "USE 700\nSLEEP 60")
    turn = ExecutorRun(
        executor(tmp_path, tool),
        work,
        lambda _: None,
        on_spent=lambda verdict: told.put_nowait(verdict.spent.usage.input),
    )
    await turn.start()
    waiting = asyncio.create_task(turn.wait())
    async with asyncio.timeout(10):
        assert await told.get() == 700
    turn.stop()
    result = await waiting
    assert (result.status, result.spent.usage.input, result.total.usage.input) == ("killed", 700, 700)


# --- command lines --------------------------------------------------------------------------------------------


def test_codex_gets_its_options_before_resume_and_the_prompt_on_stdin(tmp_path: Path) -> None:
    settings = CodexSettings(
        command=program(tmp_path, "codex"),
        model="m1",
        config={"model_providers": {"fake": {"name": 'a "b"', "retries": 1}}, "flags": [True, "x"]},
    )
    line = Codex(settings, security(tmp_path)).command(job(tmp_path, "x", thread="t-1"))
    assert line[1:4] == ["exec", "-C", str(tmp_path / "work")]
    assert line[line.index("-s") + 1] == "workspace-write"
    assert line[-3:] == ["resume", "t-1", "-"]
    assert 'model_providers.fake.name="a \\"b\\""' in line
    assert "model_providers.fake.retries=1" in line
    assert 'flags=[true, "x"]' in line
    assert "features.unbounded_connection_retries=false" in line
    assert "x" not in line


def test_claude_chooses_its_session_id_and_resumes_by_it(tmp_path: Path) -> None:
    settings = ClaudeSettings(
        command=program(tmp_path, "claude"), max_budget_usd=0.0000001, allowed_tools=("Bash(git *)", "Read")
    )
    claude = Claude(settings, security(tmp_path))
    line = claude.command(job(tmp_path, "x", fresh="f-1"))
    assert line[1:5] == ["-p", "--allowedTools", "Bash(git *)", "Read"]
    assert line[5].startswith("--")  # the variadic option swallows nothing
    assert line[line.index("--session-id") + 1] == "f-1"
    assert float(line[line.index("--max-budget-usd") + 1]) == 0.0000001
    again = claude.command(job(tmp_path, "x", thread="f-1", fresh="f-2"))
    assert again[again.index("--resume") + 1] == "f-1"
    assert "--session-id" not in again
    environment = claude.environment()
    assert environment["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == "1"


@pytest.mark.parametrize("level", ["high", "maximum"])
def test_full_danger_needs_a_low_level(tmp_path: Path, level: str) -> None:
    codex = CodexSettings(command=program(tmp_path, "codex"), sandbox="danger-full-access")
    claude = ClaudeSettings(command=program(tmp_path, "claude"), permission_mode="bypassPermissions")
    with pytest.raises(Refused):
        Codex(codex, security(tmp_path, level)).command(job(tmp_path, "x"))
    with pytest.raises(Refused):
        Claude(claude, security(tmp_path, level)).command(job(tmp_path, "x"))
    assert "--dangerously-bypass-approvals-and-sandbox" in Codex(codex, security(tmp_path, "medium")).command(
        job(tmp_path, "x")
    )
    assert "--dangerously-skip-permissions" in Claude(claude, security(tmp_path, "low")).command(
        job(tmp_path, "x")
    )


def test_a_program_that_a_package_brought_is_found_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "codex_of_a_test"
    brought = program(package / "bin", "codex")
    (package / "__init__.py").write_text("raise AssertionError('it is only looked for')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setitem(discovery.WHEELS, "codex", ("codex_of_a_test", "bin/codex", "any"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert discovery.find("codex") == os.path.realpath(brought)
    on_path = program(tmp_path / "bin", "codex")
    assert discovery.find("codex") == os.path.realpath(on_path)
    configured = program(tmp_path / "mine", "codex")
    assert discovery.find("codex", configured) == os.path.realpath(configured)


def test_only_a_tools_own_keys_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "ours")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "theirs")
    monkeypatch.setenv("TELEGRAM_TOKEN", "secret")
    codex = Codex(CodexSettings(env={"FAKE_KEY": "x"}), security(tmp_path)).environment()
    assert codex["OPENAI_API_KEY"] == "ours"
    assert codex["FAKE_KEY"] == "x"
    assert not {"ANTHROPIC_API_KEY", "TELEGRAM_TOKEN"} & codex.keys()


def test_values_are_quoted_as_toml_has_them() -> None:
    import tomllib

    values = {"a": 'q"\\\n\x7f', "b": [1, 2.5, True], "c": {"odd key": {"x": "é"}}, "d": False}
    for key, text in overrides(values):
        assert tomllib.loads(f"{key} = {text}")[key] == values[key]
    assert flat({"a": {"b": {"c": 1}}, "d": {"e f": 2}}) == {"a.b.c": 1, "d": {"e f": 2}}
    with pytest.raises(ValueError, match="TOML"):
        toml(object())


def test_a_missing_program_is_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(discovery.WHEELS, "codex", ("no_such_package", "bin/codex", "openai-codex-cli-bin"))
    with pytest.raises(ExecutorProblem, match="pip install openai-codex-cli-bin"):
        discovery.find("codex")
    with pytest.raises(ExecutorProblem, match=r"executors\.claude"):
        discovery.find("claude", str(tmp_path / "nothing"))
    program(tmp_path, "codex")
    assert discovery.find("codex") == os.path.realpath(tmp_path / "codex")


# --- the reader -----------------------------------------------------------------------------------------------


def test_a_partial_last_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b'{"a":1}\n{"b"')
    reader = LineReader(path)
    assert list(reader.read()) == [[{"a": 1}]]
    assert list(reader.read()) == []
    with path.open("ab") as file:
        file.write(b":2}\n")
    assert list(reader.read()) == [[{"b": 2}]]
    assert reader.offset == path.stat().st_size
    assert reader.garbage == 0


def test_a_line_that_is_too_long_is_skipped_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b'{"a":"' + b"x" * 3_000_000 + b'"}\n{"b":2}\n')
    reader = LineReader(path, longest=1_000_000)
    assert [one for group in reader.read() for one in group] == [{"b": 2}]
    assert reader.garbage == 1


def test_reading_goes_on_where_an_earlier_reader_stopped(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b'{"a":1}\n{"b":2}\n')
    first = LineReader(path)
    next(first.read())
    assert list(LineReader(path, first.offset).read()) == []
    with path.open("ab") as file:
        file.write(b'{"c":3}')
    assert list(LineReader(path, first.offset).read(final=True)) == [[{"c": 3}]]


def test_a_missing_file_has_no_events(tmp_path: Path) -> None:
    assert list(LineReader(tmp_path / "none").read()) == []


def test_money_and_tokens_add_up() -> None:
    assert (Spent(cost_usd=0.5) + Spent()).cost_usd == 0.5
    assert (Spent() + Spent()).cost_usd is None
    assert Spent(cost_usd=1.0).since(Spent(cost_usd=3.0)).cost_usd == 0.0
