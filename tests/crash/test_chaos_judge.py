"""The judge of a chaos run: it sees what a broken gateway would leave."""

from collections.abc import Sequence
from typing import Any

import pytest

from nanobot.messages import Line
from tests.crash.chaos.checks import Verdict, judge
from tests.crash.chaos.plan import Say, text
from tests.crash.chaos.users import Chat, Seen
from tests.crash.chaos.websocket import WebSocketUsers

DELEGATED = '{"success": true, "status": "running", "task": "nested m000001"}'


class OneChat(WebSocketUsers):
    """A platform with one chat that somebody else filled."""

    def __init__(self, chat: Chat) -> None:
        super().__init__(1)
        self._chats = [chat]


def said(*marks: str, kind: str = "plain") -> list[Say]:
    return [Say(0.0, "websocket", 0, mark, text("plain", mark, None), kind) for mark in marks]  # type: ignore[arg-type]


def user(mark: str, **fields: Any) -> Line:
    return Line(role="user", content=mark, turn=mark, **fields)


def final(turn: str, content: str) -> Line:
    return Line(role="assistant", content=content, turn=turn, latency_ms=1)


def judged(says: list[Say], lines: Sequence[Line], seen: Sequence[tuple[str, str]]) -> Verdict:
    chat = Chat("websocket:c", said=says, seen=[Seen(f"{turn}.0", content) for turn, content in seen])
    return judge(OneChat(chat), {"websocket:c": lines}, steering=True)


TWO = [user("m000001"), final("m000001", "echo: m000001"), user("m000002"), final("m000002", "echo: m000002")]
SEEN = [("m000001", "echo: m000001"), ("m000002", "echo: m000002")]


def test_a_sound_run_has_no_failures() -> None:
    verdict = judged(said("m000001", "m000002"), TWO, SEEN)
    assert (verdict.failures, verdict.answered) == ([], 2)


@pytest.mark.parametrize(
    ("lines", "seen", "kind"),
    [
        (TWO[:2], SEEN[:1], "lost"),
        (TWO[:3], SEEN[:1], "lost"),
        (TWO, SEEN[:1], "lost"),
        ([*TWO, final("m000002", "echo: m000002")], SEEN, "twice"),
        ([*TWO[:1], *TWO], SEEN, "twice"),
        (TWO, [*SEEN, SEEN[1]], "twice"),
        ([*TWO[2:], *TWO[:2]], SEEN[::-1], "disordered"),
        (TWO, SEEN[::-1], "disordered"),
        ([*TWO[:3], final("m000002", "echo: m000009")], [SEEN[0], ("m000002", "echo: m000009")], "wrong"),
        ([*TWO, Line(role="tool", tool_call_id="x", content="of no call")], SEEN, "illegal"),
    ],
)
def test_what_is_broken_is_named(lines: Sequence[Line], seen: Sequence[tuple[str, str]], kind: str) -> None:
    verdict = judged(said("m000001", "m000002"), lines, seen)
    assert getattr(verdict, kind) > 0
    assert verdict.failures


@pytest.mark.parametrize(("reports", "broken"), [(0, "lost"), (1, ""), (2, "twice")])
def test_a_sub_sessions_report_is_wanted_once(reports: int, broken: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "delegate", "arguments": "{}"}}
    lines = [
        user("m000001"),
        Line(role="assistant", content="", turn="m000001", tool_calls=[call]),
        Line(role="tool", content=DELEGATED, turn="m000001", tool_call_id="c", name="delegate"),
        final("m000001", "result: m000001"),
    ]
    seen = [("m000001", "result: m000001")]
    for number in range(reports):
        report = Line(role="user", content="nested m000001", turn=f"r{number}", injected="child_result")
        lines += [report, final(f"r{number}", "echo: nested m000001")]
        seen.append((f"r{number}", "echo: nested m000001"))
    verdict = judged(said("m000001", kind="child"), lines, seen)
    assert verdict.reports == reports
    assert bool(verdict.failures) == bool(broken)
    assert not broken or getattr(verdict, broken) == 1
