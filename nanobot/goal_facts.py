"""What a history tells of a goal: what one of its turns came to."""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from nanobot.events import Usage
from nanobot.goal_turns import TurnFacts
from nanobot.messages import Line
from nanobot.tools.goal import NAMES

RESULT: Literal["child_result"] = "child_result"
# Calls after which a turn may do nothing but wait for what it delegated.
WAITING = frozenset({"delegate", "check_session", "peek_session", "list_sessions", "sleep"})


Price = Callable[[str, Usage], float | None]  # of a model's tokens, in US dollars


def facts_of(lines: Sequence[Line], turn: str, final: Line, price: Price) -> TurnFacts:
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
        dollars=price(str(final.get("model") or ""), usage) if usage != Usage() else 0.0,
        seconds=int(final.get("latency_ms") or 0) / 1_000,
    )
