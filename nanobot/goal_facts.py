"""What a history tells of a goal: what one of its turns came to, and whether a sub-session's result is the goal's."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from nanobot.events import Usage
from nanobot.goal import Goal
from nanobot.goal_turns import TurnFacts
from nanobot.messages import Inbound, Line
from nanobot.tools.goal import NAMES

RESULT: Literal["child_result"] = "child_result"
# Calls after which a turn may do nothing but wait for what it delegated.
WAITING = frozenset({"delegate", "check_session", "peek_session", "list_sessions", "sleep"})


def facts_of(lines: Sequence[Line], turn: str, final: Line) -> TurnFacts:
    """What a turn came to, read from its lines."""
    calls: list[str] = []
    names: set[str] = set()
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        if line.get("turn") != turn:
            continue
        if line.get("role") == "user":
            break
        for call in line.get("tool_calls") or ():
            function = call["function"]
            if function["name"] not in NAMES:  # those do not bring a goal forward
                calls.append(f"{function['name']} {function['arguments']}")
                names.add(function["name"])
    usage = msgspec.convert(final.get("usage") or {}, Usage)
    return TurnFacts(
        turn=turn,
        failed=final.get("injected") == "failed",
        stopped=final.get("injected") == "stopped",
        text=str(final.get("content") or ""),
        tools=len(calls),
        waited=names <= WAITING,
        did=" ".join(sorted(calls))[:2_000],
        tokens=usage.input + usage.output,
        seconds=int(final.get("latency_ms") or 0) / 1_000,
    )


def of_a_goal(result: Inbound, lines: Sequence[Line]) -> bool:
    """Whether a turn of a goal, this one or an earlier one, delegated what a sub-session's result is about."""
    return _asking(result, lines).get("injected") in ("goal", RESULT)


def belongs(result: Inbound, goal: Goal, lines: Sequence[Line]) -> bool:
    """Whether a sub-session's result is for this goal: one of its own turns delegated it, since it began.

    What a person had delegated in between is for that person.
    """
    return of_a_goal(result, lines) and not _before(_asking(result, lines), goal.started_at)


def _asking(result: Inbound, lines: Sequence[Line]) -> Line:
    """The message that began the turn which delegated it; an empty line where it is not in the history any more."""
    turn = result.meta.get("delegated_in")
    found = (line for line in reversed(lines) if line.get("role") == "user" and line.get("turn") == turn)
    return next(found, Line())


def _before(line: Line, moment: str) -> bool:
    try:
        return datetime.fromisoformat(str(line.get("timestamp"))) < datetime.fromisoformat(moment)
    except (ValueError, TypeError):  # times of other gateways may lack a zone
        return False
