"""How a goal fares turn by turn: what a turn spends, whether it moved anything, and when it may not go on.

No I/O: a goal and the facts of a turn go in, the goal as it is then comes out.
"""

import math
import re
from datetime import datetime
from itertools import pairwise
from typing import Any

import msgspec

from nanobot.goal import MAX_RECAP, Goal, move, noted, shortened

MAX_SAID = 600  # characters of a turn's text that are compared with the next one's
MAX_REFUSALS = 3
MAX_FUMBLES = 5  # calls of complete_goal in a row that cannot be used
WARN_AT = 0.8  # share of a budget
WRAP_AT = 0.95
IDLE = "It makes no progress: turn after turn without a step forward."


class TurnFacts(msgspec.Struct, frozen=True):
    """What a turn of a goal came to. `tools` counts calls other than those about the goal itself."""

    turn: str
    failed: bool = False
    stopped: bool = False
    text: str = ""
    tools: int = 0
    waited: bool = False  # it called nothing that works on the goal itself
    waits: bool = False  # for work that was delegated, so standing still is right
    did: str = ""  # the calls as one text, to be compared
    tokens: int = 0
    dollars: float | None = None  # where the price is known
    seconds: float = 0.0


class Rest(msgspec.Struct, frozen=True):
    """What a turn that runs may still do. `ends`: no further tool; `seconds` until those that run are ended."""

    ends: bool = False
    seconds: float = math.inf


class Limits(msgspec.Struct, frozen=True):
    idle_turns: int = 2
    failures: int = 6


def after_turn(goal: Goal, facts: TurnFacts, limits: Limits, now: datetime) -> Goal:
    """Count one of the goal's turns, and decide whether it goes on. Counting it again changes nothing."""
    if goal.turn == facts.turn:
        return goal
    minutes = round(goal.spent.minutes + facts.seconds / 60, 3)
    spent = goal.spent.paying(facts.tokens, facts.dollars)
    spent = msgspec.structs.replace(spent, turns=goal.spent.turns + 1, minutes=minutes)
    said = normal(facts.text)[:MAX_SAID]
    changes: dict[str, Any] = {"turn": facts.turn, "spent": spent, "did": facts.did, "said": said}
    if facts.failed:
        changes["failures"] = goal.failures + 1
        if goal.status == "active":  # else the reason says why it is not
            changes["reason"] = facts.text
    elif not facts.stopped:
        changes["failures"] = 0
        if goal.status == "active":
            changes["reason"] = ""
        changes |= _movement(goal, facts, said)
    before = goal.used
    counted: Goal = msgspec.structs.replace(goal, **changes)
    if before < WARN_AT <= counted.used:
        counted = noted(counted, "budget", now, f"{counted.used:.0%} used")
    if counted.status != "active":
        return counted
    if facts.failed and counted.failures >= limits.failures:
        reason = f"{counted.failures} turns in a row failed. The last one: {facts.text}"
        return move(counted, "block", now, by=facts.turn, reason=reason)
    if counted.repeats >= limits.idle_turns or counted.idle >= 3 * limits.idle_turns:
        return move(counted, "block", now, by=facts.turn, reason=IDLE)
    if counted.wrapping or spent.turns >= counted.budget.turns:
        recap = goal.recap or (facts.text[:MAX_RECAP] if not facts.failed else "")
        return move(counted, "exhaust", now, by=facts.turn, reason=limit_reached(counted), recap=recap)
    if last_turn(counted):
        return msgspec.structs.replace(counted, wrapping=True)
    return counted


def _movement(goal: Goal, facts: TurnFacts, said: str) -> dict[str, Any]:
    """How still the goal stands. Doing and saying the very same again counts; waiting for delegated work does not."""
    if facts.waits:
        return {}
    same = alike(goal.said, said)
    if facts.tools and not (same and facts.did == goal.did):
        return {"idle": 0, "repeats": 0}
    if facts.tools:
        return {"idle": goal.idle + 1, "repeats": 0}
    return {"idle": goal.idle + 1, "repeats": goal.repeats + 1 if same and goal.repeats else 1}


def last_turn(goal: Goal) -> bool:
    """Whether the turn that comes next should wrap up, being the last one that the budget has."""
    budget, spent = goal.budget, goal.spent
    return (
        spent.turns >= budget.turns - 1
        or spent.tokens >= budget.tokens * WRAP_AT
        or spent.minutes >= budget.minutes * WRAP_AT
    )


def rest(goal: Goal, tokens: int, seconds: float) -> Rest:
    """What a turn may still do that has used so many tokens and seconds of what is left of its goal's budget."""
    left = (goal.budget.minutes - goal.spent.minutes) * 60 - seconds
    return Rest(ends=left <= 0 or goal.spent.tokens + tokens >= goal.budget.tokens, seconds=max(0.0, left))


def limit_reached(goal: Goal) -> str:
    budget, spent = goal.budget, goal.spent
    if spent.turns >= budget.turns:
        return f"all {budget.turns} turns are used"
    if spent.tokens >= budget.tokens * WRAP_AT:
        return f"{spent.tokens:,} of {budget.tokens:,} tokens are used"
    return f"{spent.minutes:.0f} of {budget.minutes} minutes are used"


def refused(goal: Goal, reason: str, now: datetime, *, turn: str) -> Goal:
    """A completion was not accepted; after the third time the user decides."""
    refusals = (*goal.refusals, shortened(reason, 1_000))
    goal = move(goal, "refuse", now, reason=reason, refusals=refusals, fumbles=0)
    if len(refusals) < MAX_REFUSALS:
        return goal
    why = f"Its completion was refused {len(refusals)} times: " + "; ".join(refusals)
    return move(goal, "block", now, by=turn, reason=why)


def fumbled(goal: Goal, problem: str, now: datetime, *, turn: str) -> Goal:
    """A call of complete_goal could not be used; it may not go on like that for ever."""
    goal = msgspec.structs.replace(goal, fumbles=goal.fumbles + 1)
    if goal.fumbles < MAX_FUMBLES or goal.status != "active":
        return goal
    reason = f"It tried {goal.fumbles} times to report its completion and did it wrong: {problem}"
    return move(goal, "block", now, by=turn, reason=shortened(reason, 600))


def alike(one: str, other: str) -> bool:
    """Whether two normalised texts say the same, or nearly."""
    if one == other:
        return True
    first, second = _pairs(one), _pairs(other)
    if min(len(first), len(second)) < 7:
        return False
    return len(first & second) >= 0.8 * len(first | second)


def normal(text: str) -> str:
    """A text for comparing: words in lower case."""
    return " ".join(re.findall(r"\w+", text.lower()))


def _pairs(text: str) -> set[tuple[str, str]]:
    words = text.split()
    return set(pairwise(words))
