"""Every captured stream of the real tools, replayed: status, answer, usage and trajectory are what truly happened."""

import json
from typing import Any

import pytest

from nanobot.events import Usage
from nanobot.executor import Parser, Reason, Result, Spent, Step, conclude
from nanobot.executors.claude_events import ClaudeEvents
from nanobot.executors.codex_events import CodexEvents
from nanobot.executors.turns import read_turn
from nanobot.trajectory import summary
from tests.executors.support import SAMPLES

TIMEOUT = 124  # what the recorder of the samples noted where it ended the tool itself
ENDED = {
    "SIGINT_HANG": 0,
    "SIGINT_RUN": 0,
    "SIGTERM_HANG": 143,
    "SIGTERM_RUN": 143,
}  # ended by a signal of ours
CODEX_COMPLETED = {
    "badmodel", "eph", "fork", "lastmsg", "model_gpt-5.5", "model_gpt-6-astra", "oneline", "patch", "patch55", "plan",
    "reason", "resume", "resume_cd", "resume_opts", "resume_run", "run_bypass", "run_ro", "run_ws", "text",
}  # fmt: skip
CLAUDE_COMPLETED = {
    "adddir_ok", "badmodel", "bare", "drop", "fork", "maxtok", "partial", "resume", "resume_cwd", "run_allowed",
    "run_danger_sandbox", "run_default", "run_ro_default", "sid", "text", "think", "write_accept", "write_dontask",
}  # fmt: skip


def replay(tool: str, name: str, total: Spent | None = None) -> tuple[Result, list[Step]]:
    path = SAMPLES / tool / f"{name}.jsonl"
    parser: Parser = CodexEvents(total, 1) if tool == "codex" else ClaudeEvents(total, 1)
    steps = list(read_turn(parser, path).kept)
    stderr = path.with_suffix(".stderr")
    noted = path.with_suffix(".exit")
    code = int(noted.read_text().split()[0].removeprefix("rc=")) if noted.exists() else ENDED[name]
    reason: Reason = "timed_out" if code == TIMEOUT else "killed" if name in ENDED else ""
    result = conclude(
        parser.verdict(),
        exit_code=code,
        reason=reason,
        stderr=stderr.read_text() if stderr.exists() else "",
    )
    return result, steps


def names(tool: str) -> list[str]:
    return sorted(path.stem for path in (SAMPLES / tool).glob("*.jsonl"))


@pytest.mark.parametrize("name", names("codex"))
def test_a_codex_stream_ends_as_it_truly_did(name: str) -> None:
    result, steps = replay("codex", name)
    expected = (
        "completed"
        if name in CODEX_COMPLETED
        else "timed_out"
        if name in {"hang", "unreachable"}
        else "failed"
    )
    assert result.status == expected
    if expected == "completed":
        assert result.answer
        assert not result.error
        assert result.answer == [step for step in steps if step.kind == "message"][-1].text
        assert result.spent.usage.input > 0
    else:
        assert result.error
        assert not result.answer


@pytest.mark.parametrize("name", names("claude"))
def test_a_claude_stream_ends_as_it_truly_did(name: str) -> None:
    result, steps = replay("claude", name)
    expected = (
        "completed"
        if name in CLAUDE_COMPLETED
        else "timed_out"
        if name == "http401"
        else "killed"
        if name in ENDED
        else "failed"
    )
    assert result.status == expected
    if expected == "completed":
        assert result.answer
        assert result.spent.usage.input > 0
        assert result.spent.cost_usd
        assert any(step.kind == "message" for step in steps)
    else:
        assert result.error


@pytest.mark.parametrize("tool", ["codex", "claude"])
def test_every_event_of_every_sample_is_understood_or_no_step(tool: str) -> None:
    for name in names(tool):
        events = [json.loads(line) for line in (SAMPLES / tool / f"{name}.jsonl").read_text().splitlines()]
        assert all(isinstance(event, dict) for event in events)
        _, steps = replay(tool, name)
        assert summary(steps, full=True) is not None
        assert all(step.turn == 1 for step in steps)


@pytest.mark.parametrize(
    ("tool", "name", "error"),
    [
        ("codex", "badcd", "No such file or directory"),
        ("codex", "dash", "unexpected argument"),
        ("codex", "nogit", "Not inside a trusted directory"),
        ("codex", "resume_bad", "no rollout found"),
        ("codex", "nokey", "Missing environment variable"),
        ("codex", "http401", "401 Unauthorized"),
        ("codex", "fail_quota", "Quota exceeded"),
        ("codex", "fail_ctx", "ran out of room"),
        ("codex", "unreachable2", "Connection failed"),
        ("codex", "incomplete", "max_output_tokens"),
        ("claude", "http400", "API Error: 400"),
        ("claude", "http500", "API Error: 500"),
        ("claude", "budget", "Reached maximum budget"),
        ("claude", "nologin", "Not logged in"),
        ("claude", "resume_bad", "No conversation found"),
        ("claude", "sid_again", "already in use"),
        ("claude", "run_danger_root", "cannot be used with root"),
        ("claude", "adddir_swallow", "Input must be provided"),
        ("claude", "noverbose", "requires --verbose"),
    ],
)
def test_a_failure_says_why(tool: str, name: str, error: str) -> None:
    result, _ = replay(tool, name)
    assert error in result.error
    assert "<unknown>" not in result.error


def test_a_synthetic_message_of_claude_is_not_its_answer() -> None:
    result, steps = replay("claude", "http500")
    assert result.answer == ""
    assert [step.kind for step in steps] == ["notice", "notice", "error"]


def test_a_retry_notice_does_not_end_a_turn() -> None:
    parser = CodexEvents()
    parser.feed({"type": "error", "message": "Reconnecting... 1/1"})
    assert parser.verdict().said is None
    parser.feed({"type": "turn.completed", "usage": {"input_tokens": 5}})
    assert conclude(parser.verdict(), exit_code=0).status == "completed"


def test_the_last_message_of_a_turn_is_the_answer() -> None:
    result, _ = replay("codex", "run_ws")
    assert result.answer.startswith("tool said:")


def test_codex_usage_is_the_difference_to_what_the_thread_had_used() -> None:
    total = Spent()
    spent = []
    for name in ("run_bypass", "resume", "resume_run"):
        result, _ = replay("codex", name, total)
        total = result.total
        spent.append(result.spent.usage)
    first, second, third = spent
    assert first == Usage(2110, 84, 400, 14)
    assert second.input == 1110
    assert third.input == 5550 - 3220
    assert total.usage.input == 5550


def test_claude_usage_is_that_of_the_run_while_its_cost_sums_over_resumes() -> None:
    first, _ = replay("claude", "sid")
    second, _ = replay("claude", "resume", first.total)
    assert first.spent.usage == Usage(200, 42, 30, 0)
    assert second.spent.usage.input == 220
    assert second.total.cost_usd == pytest.approx(0.001616)
    assert second.spent.cost_usd == pytest.approx(0.001616 - 0.000788)


def test_a_budget_stop_still_tells_what_was_spent() -> None:
    result, _ = replay("claude", "budget")
    assert result.spent.usage == Usage(200, 42, 30, 0)
    assert result.spent.cost_usd == pytest.approx(0.000788)


def test_a_denied_tool_is_told_although_the_run_succeeds() -> None:
    result, steps = replay("claude", "run_default")
    assert result.status == "completed"
    assert list(result.denied) == ["Bash"]
    assert any(step.kind == "warning" and step.state == "declined" for step in steps)


def test_a_codex_command_is_one_step_with_its_output_and_status() -> None:
    _, steps = replay("codex", "run_bypass")
    assert summary(steps)[2] == (
        "[command] $ /bin/bash -lc 'echo hi-there; pwd; exit 3'\n  → hi-there\n/project\n (exit: 3)"
    )


def test_a_file_change_is_a_step() -> None:
    _, steps = replay("codex", "patch55")
    assert summary(steps)[0] == "[files] add /project/patched.txt"


def test_a_claude_command_is_joined_with_its_result() -> None:
    _, steps = replay("claude", "run_allowed")
    assert summary(steps) == [
        "[response] I will run it.",
        "[command] $ touch e.txt; echo done\n  → done",
        "[response] tool said: done",
    ]


def test_a_claude_step_tells_when_it_was_and_about_what_it_used() -> None:
    result, steps = replay("claude", "run_allowed")
    assert all(step.at for step in steps)
    total = result.spent.usage.input + result.spent.usage.output
    assert 0.5 * total < sum(step.tokens for step in steps) <= total


def test_a_killed_command_shows_its_status() -> None:
    _, steps = replay("claude", "SIGTERM_RUN")
    assert "(exit: 137)" in summary(steps)[-1]


def test_thoughts_are_cut_in_a_summary_and_whole_in_full() -> None:
    long = "x" * 300
    step = Step("thinking", text=long)
    assert summary([step]) == ["[thinking] " + "x" * 97 + "..."]
    assert summary([step], full=True) == [f"[thinking] {long}"]


def test_success_with_a_bad_exit_status_is_a_failure() -> None:
    parser = CodexEvents()
    parser.feed({"type": "turn.completed"})
    assert conclude(parser.verdict(), exit_code=1).status == "failed"


def test_hostile_events_break_no_parser() -> None:
    odd: list[dict[str, Any]] = [
        {}, {"type": 5}, {"type": "item.completed"}, {"type": "item.completed", "item": []},
        {"type": "item.completed", "item": {"type": "file_change", "changes": [1, None, {"path": 3}]}},
        {"type": "item.completed", "item": {"type": "todo_list", "items": "no"}},
        {"type": "turn.completed", "usage": {"input_tokens": -5, "output_tokens": "x"}},
        {"type": "turn.failed", "error": None}, {"type": "assistant", "message": "text"},
        {"type": "assistant", "message": {"content": [None, 3, {"type": "tool_use", "input": 7}]}},
        {"type": "assistant", "message": {"content": {"a": 1}}}, {"type": "assistant", "message": {"content": 7}},
        {"type": "user", "message": {"content": "hello"}}, {"type": "user", "message": None},
        {"type": "result", "permission_denials": 7, "errors": 5, "is_error": True},
        {"type": "result", "permission_denials": [3], "model_usage_since_last_result": {"m": 4}, "subtype": "success"},
        {"type": "result", "model_usage_since_last_result": {"m": {"costUSD": "x"}}, "total_cost_usd": "free"},
    ]  # fmt: skip
    for event in odd:
        for parser in (CodexEvents(), ClaudeEvents()):
            parser.feed(event)
            parser.verdict()


def test_the_samples_are_all_there() -> None:
    assert len(names("codex")) == 34
    assert len(names("claude")) == 33
