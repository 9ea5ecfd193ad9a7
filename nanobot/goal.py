"""A goal: its states, what leads from one to the next, and how a session's metadata and live views have it.

No I/O: a goal and something that happened go in, the goal as it is then comes out. How its turns are counted is in
`goal_turns`.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from nanobot.clock import stamp
from nanobot.errors import NanobotError
from nanobot.messages import Address

KEY = "goal_state"
OLD_KEY = "thread_goal"  # of earlier files
INVALID_KEY = "goal_state_invalid"  # what could not be read, kept for a person to look at

MAX_OBJECTIVE = 12_000  # characters
MAX_SUMMARY = 120
MAX_RECAP = 8_000
MAX_NOTES = 20  # entries of `history`

Status = Literal["active", "waiting_user", "paused", "blocked", "completed", "cancelled", "exhausted"]
Move = Literal["edit", "ask", "answer", "pause", "resume", "block", "refuse", "complete", "cancel", "exhaust"]

# state → what may happen in it → the state after that. What is not here cannot happen.
TABLE: Mapping[Status, Mapping[Move, Status]] = {
    "active": {
        "edit": "active",
        "ask": "waiting_user",
        "pause": "paused",
        "block": "blocked",
        "refuse": "active",
        "complete": "completed",
        "cancel": "cancelled",
        "exhaust": "exhausted",
    },
    "waiting_user": {
        "edit": "waiting_user",
        "answer": "active",
        "resume": "active",
        "pause": "paused",
        "complete": "completed",
        "cancel": "cancelled",
    },
    "paused": {"edit": "paused", "resume": "active", "complete": "completed", "cancel": "cancelled"},
    "blocked": {
        "edit": "blocked",
        "answer": "active",
        "resume": "active",
        "complete": "completed",
        "cancel": "cancelled",
    },
    "completed": {},
    "cancelled": {},
    "exhausted": {},
}
DONE_TO: Mapping[Move, str] = {
    "edit": "changed",
    "ask": "asked about",
    "answer": "answered",
    "pause": "paused",
    "resume": "resumed",
    "block": "blocked",
    "refuse": "refused",
    "complete": "completed",
    "cancel": "cancelled",
    "exhaust": "exhausted",
}
ENDED: frozenset[Status] = frozenset(status for status, moves in TABLE.items() if not moves)

Count = Annotated[int, Meta(ge=0)]


class IllegalMove(NanobotError):
    """A goal in this state does not do that."""


class Malformed(NanobotError):
    """A session's goal cannot be read."""


class Budget(msgspec.Struct, frozen=True):
    """What a goal may use: turns, tokens in and out, minutes of work (waiting for people is not counted)."""

    turns: Annotated[int, Meta(ge=1)] = 50
    tokens: Annotated[int, Meta(ge=1)] = 2_000_000
    minutes: Annotated[int, Meta(ge=1)] = 480


class Spent(msgspec.Struct, frozen=True):
    """`dollars` are those of tokens whose price is known, `unpriced` the tokens whose price is not."""

    turns: Count = 0
    tokens: Count = 0
    minutes: Annotated[float, Meta(ge=0)] = 0.0
    dollars: Annotated[float, Meta(ge=0)] = 0.0
    unpriced: Count = 0

    def paying(self, tokens: int, dollars: float | None) -> "Spent":
        """With so many tokens more, at a price that is known or not."""
        if dollars is None:
            return msgspec.structs.replace(self, tokens=self.tokens + tokens, unpriced=self.unpriced + tokens)
        return msgspec.structs.replace(
            self, tokens=self.tokens + tokens, dollars=round(self.dollars + dollars, 6)
        )


class Goal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A goal. `id` is that of the message that began it; `run` rises with each resume.

    `turn` is the last turn that was counted, so that one which is committed again after a crash counts once; `by` is
    the turn that led to the present state, empty where a person did.
    """

    status: Status
    objective: Annotated[str, Meta(min_length=1)]
    id: str = ""
    asked: str = ""  # the objective in the user's own words
    ui_summary: str = ""
    started_at: str = ""
    ended_at: str = ""
    recap: str = ""
    evidence: str = ""
    budget: Budget = Budget()
    spent: Spent = Spent()
    checks: tuple[str, ...] = ()  # shell commands that must end with exit code 0
    declared: Count = 0  # how many of them the user gave, who alone may drop them
    history: tuple[dict[str, Any], ...] = ()
    address: Address | None = None  # the chat it was begun in
    private: bool = True
    question: str = ""
    reason: str = ""  # why it is blocked or came to its end
    refusals: tuple[str, ...] = ()  # why its completion was not accepted
    step: str = ""  # the last progress that was reported
    percent: int | None = None
    run: Count = 1
    turn: str = ""
    by: str = ""
    idle: Count = 0  # turns in a row without a tool
    repeats: Count = 0  # those of them that said the same
    failures: Count = 0  # turns in a row that failed
    fumbles: Count = 0
    wrapping: bool = False  # the last turn of the budget is under way
    resting: str = ""  # since when it waits for what it delegated
    said: str = ""
    did: str = ""

    @property
    def open(self) -> bool:
        return self.status not in ENDED

    @property
    def number(self) -> int:
        """Of the turn that comes next."""
        return self.spent.turns + 1

    @property
    def used(self) -> float:
        """The largest share of its budget that is used."""
        budget, spent = self.budget, self.spent
        return max(spent.turns / budget.turns, spent.tokens / budget.tokens, spent.minutes / budget.minutes)

    @property
    def title(self) -> str:
        return self.ui_summary or shortened(self.objective, MAX_SUMMARY)


def begin(
    id: str,
    objective: str,
    now: datetime,
    *,
    budget: Budget,
    checks: tuple[str, ...] = (),
    address: Address | None = None,
    private: bool = True,
) -> Goal:
    goal = Goal(
        "active",
        objective,
        id=id,
        asked=objective,
        started_at=stamp(now),
        budget=budget,
        checks=checks,
        declared=len(checks),
        address=address,
        private=private,
    )
    return noted(goal, "start", now)


def move(goal: Goal, what: Move, now: datetime, *, by: str = "", reason: str = "", **fields: Any) -> Goal:
    """The goal after something happened. Raises IllegalMove where the table does not have it."""
    status = TABLE[goal.status].get(what)
    if status is None:
        more = " `/goal <objective>` begins another." if goal.status in ENDED else ""
        raise IllegalMove(f"This goal is {worded(goal.status)}; it cannot be {DONE_TO[what]}.{more}")
    if what in ("answer", "resume"):
        fields |= {
            "question": "",
            "reason": "",
            "resting": "",
            "idle": 0,
            "repeats": 0,
            "failures": 0,
            "fumbles": 0,
        }
        fields["run"] = goal.run + 1
        if what == "resume":
            fields["refusals"] = ()
    if status != goal.status:
        fields |= {"status": status, "by": by, "reason": reason}
    if status in ENDED:
        fields["ended_at"] = stamp(now)
    changed: Goal = msgspec.structs.replace(goal, **fields)
    return noted(changed, what, now, reason)


def noted(goal: Goal, what: str, now: datetime, text: str = "") -> Goal:
    """The goal with an entry in its history."""
    entry: dict[str, Any] = {"at": stamp(now), "event": what, "turns": goal.spent.turns}
    if text:
        entry["text"] = shortened(text, 200)
    return msgspec.structs.replace(goal, history=(*goal.history, entry)[-MAX_NOTES:])


def read(metadata: Mapping[str, Any], budget: Budget | None = None) -> Goal | None:
    """The goal of a session's metadata. Raises Malformed.

    Other gateways' goals are read too, also as JSON text; they get this budget, where they name none. One that is
    under way is paused: nobody here asked for it.
    """
    raw = metadata.get(KEY)
    if raw is None:
        raw = metadata.get(OLD_KEY)
    if isinstance(raw, str) and raw.strip():
        try:
            raw = json.loads(raw)
        except ValueError as error:
            raise Malformed(f"the goal is no JSON: {error}") from error
    if not raw or (isinstance(raw, str) and not raw.strip()):
        return None
    if isinstance(raw, dict):
        raw = {name: value for name, value in raw.items() if value is not None}
    try:
        goal = msgspec.convert(raw, Goal)
    except msgspec.ValidationError as error:
        raise Malformed(f"the goal cannot be read: {error}") from error
    if budget is not None and "budget" not in raw:
        goal = msgspec.structs.replace(goal, budget=budget)
    if not goal.id:
        goal = msgspec.structs.replace(goal, id=f"imported-{goal.started_at}")
        if goal.status == "active":
            goal = msgspec.structs.replace(goal, status="paused")
    return goal


def stored(goal: Goal) -> dict[str, Any]:
    """The goal as metadata: plain values, and the fields that others read always there."""
    fields: dict[str, Any] = msgspec.to_builtins(goal)
    plain: dict[str, Any] = {
        "ui_summary": "",
        "started_at": goal.started_at,
        "ended_at": goal.ended_at or None,
        "recap": goal.recap,
        "checks": [],
        "history": [],
        **{name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()},
    }
    plain["budget"] = msgspec.to_builtins(goal.budget)
    plain["spent"] = msgspec.to_builtins(goal.spent)
    return plain


def shown(goal: Goal) -> dict[str, Any]:
    """The goal as live views get it."""
    fields: dict[str, Any] = {
        "id": goal.id,
        "active": goal.open,
        "status": goal.status,
        "objective": shortened(goal.objective, 600),
        "ui_summary": goal.title,
        "started_at": goal.started_at,
        "ended_at": goal.ended_at or None,
        "recap": shortened(goal.recap, 240),
        "budget": msgspec.to_builtins(goal.budget),
        "spent": msgspec.to_builtins(goal.spent),
        "used": round(goal.used, 3),
    }
    optional = {
        "step": goal.step,
        "percent": goal.percent,
        "question": goal.question,
        "reason": shortened(goal.reason, 600),
        "evidence": shortened(goal.evidence, 600),
        "checks": list(goal.checks),
        "refusals": list(goal.refusals),
    }
    return fields | {name: value for name, value in optional.items() if value not in ("", None, [])}


def worded(status: Status) -> str:
    return {"waiting_user": "waiting for you", "exhausted": "out of budget"}.get(status, status)


def shortened(text: str, limit: int) -> str:
    """One line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
