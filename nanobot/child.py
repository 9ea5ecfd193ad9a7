"""A sub-session as a record, and the rules about it: who may have how many, how it is found, how it is shown. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from nanobot.errors import ToolError
from nanobot.events import Usage
from nanobot.executor import ENDINGS, ProcessRecord, Spent, Status
from nanobot.messages import Address, Inbound

CHANNEL = "sub"  # a sub-session's key is sub:<id>
SHORTEST = 4  # characters of an id that are enough to look for it
SHORT = 8
FRESH_SECONDS = 60.0
ICONS: Mapping[str, str] = {
    "running": "● running",
    "completed": "✓ completed",
    "failed": "✗ failed",
    "killed": "○ killed",
    "pending": "◌ pending",
    "timed_out": "✗ timed_out",
    "paused": "‖ paused",
}
# What may follow what. An ended turn stays as it ended; only a new turn makes a session pending again.
LEGAL: Mapping[str, frozenset[str]] = {
    "pending": frozenset({"running", *ENDINGS}),
    "running": frozenset(ENDINGS),
    "completed": frozenset({"pending"}),
    "failed": frozenset({"pending"}),
    "timed_out": frozenset({"pending"}),
    "paused": frozenset({"pending"}),
    "killed": frozenset(),
}
_ID = re.compile(r"[0-9a-f-]+")


class NoSuchChild(ToolError):
    """No sub-session goes by this id, or several do; the hint names them."""


class Child(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sub-session. Times are aware UTC."""

    id: str
    parent: str  # session key
    address: Address  # where the parent's replies go
    executor: str
    task: str
    working_dir: str
    created_at: datetime
    updated_at: datetime
    status: Status = "pending"
    turn: int = 1
    depth: int = 1
    model: str = ""
    awaited: bool = (
        False  # a tool call waits for this turn's end and takes the result; else it goes to the mailbox
    )
    call: str = ""  # the tool call that began this turn, by which it is known when the call is run again
    goal: str = ""  # the goal one of whose turns asked for this one; it does not outlive that
    unread: bool = False  # it ended and its parent has not looked yet
    error: str = ""
    last: str = ""  # its newest message, cut
    exit_code: int | None = None
    ledger: tuple[Spent, ...] = ()  # what each turn used
    totals: tuple[Spent, ...] = ()  # of its executor's thread, after each turn
    thread: str = ""  # its executor's name for the conversation
    process: ProcessRecord | None = None
    started_turn: int = 0  # the turn `process` belongs to
    restarts: int = 0  # of this turn's process, which died or hung
    unwell: str = ""  # why, the last time
    watched: tuple[str, ...] = ()  # what watchers found in this turn, as it was put to the agent

    @property
    def key(self) -> str:
        return f"{CHANNEL}:{self.id}"

    @property
    def short(self) -> str:
        return self.id[:SHORT]

    @property
    def ended(self) -> bool:
        return self.status in ENDINGS

    @property
    def spent(self) -> Spent:
        whole = Spent()
        for one in self.ledger:
            whole += one
        return whole


class Settings(Protocol):
    """The `[delegation]` table."""

    @property
    def max_children(self) -> int: ...

    @property
    def max_depth(self) -> int: ...

    @property
    def timeout(self) -> float: ...

    @property
    def max_tokens(self) -> int: ...

    @property
    def allowed_dirs(self) -> Sequence[str]: ...


class Purse(Protocol):
    """What limits a session's tokens: its goal."""

    async def working_for(self, key: str, turn: str) -> str: ...

    async def remaining(self, key: str) -> int | None: ...

    async def charge(self, key: str, tokens: int, goal: str, dollars: float | None) -> None: ...

    @property
    def price(self) -> Callable[[str, Usage], float | None]: ...


class Caller(msgspec.Struct, frozen=True):
    """Who delegates: a session, and the tool call it does so by."""

    session: str
    address: Address
    turn: str
    call: str

    @property
    def mark(self) -> str:
        return f"{self.turn}/{self.call}"


def moved(child: Child, status: Status, now: datetime, **changes: Any) -> Child:
    """The record with another status. ValueError for a step that is not legal: an ended turn never ends again."""
    if status != child.status and status not in LEGAL[child.status]:
        raise ValueError(f"{child.short} is {child.status} and cannot become {status}")
    return msgspec.structs.replace(child, status=status, updated_at=now, **changes)


def entered(entries: tuple[Spent, ...], turn: int, value: Spent) -> tuple[Spent, ...]:
    """A turn's entry set, whether it was there or not: a turn that is concluded twice counts once."""
    padded = [*entries, *[Spent()] * (turn - len(entries))]
    padded[turn - 1] = value
    return tuple(padded)


def find(text: str, children: Iterable[Child]) -> Child:
    """By its id or a beginning of it that only one has. Raises NoSuchChild with the candidates."""
    wanted = text.strip().lower().removeprefix(f"{CHANNEL}:")
    there = list(children)
    exact = [one for one in there if one.id == wanted]
    if exact:
        return exact[0]
    known = ", ".join(one.short for one in sorted(there, key=_newest)[:10])
    hint = f"known sub-sessions: {known}" if known else "there are no sub-sessions; use delegate to start one"
    if len(wanted) < SHORTEST or not _ID.fullmatch(wanted):
        raise NoSuchChild(
            f"{text!r} is no id of a sub-session; at least {SHORTEST} characters are needed", hint
        )
    found = [one for one in there if one.id.startswith(wanted)]
    if not found:
        raise NoSuchChild(f"no sub-session {text!r}", hint)
    if len(found) > 1:
        candidates = ", ".join(one.id for one in found)
        raise NoSuchChild(f"{text!r} fits {len(found)} sub-sessions: {candidates}", "use more of the id")
    return found[0]


def may_delegate(*, running: int, limit: int, depth: int, deepest: int) -> tuple[str, str] | None:
    """Why a session may have no further child now, and what to do; None where it may."""
    if limit == 0 or deepest == 0:
        return (
            "delegating is turned off",
            "do the work yourself; the owner can raise [delegation] max_children",
        )
    if depth > deepest:
        return (
            f"this would be level {depth} of sub-sessions and {deepest} are allowed",
            "do the work yourself",
        )
    if running >= limit:
        return (
            f"{running} sub-sessions are running and {limit} are allowed at once",
            "wait for one to end, or end one with end_session",
        )
    return None


# --- how it is shown -----------------------------------------------------------------------------------------------


def header(child: Child) -> str:
    return f"[{child.short}] {child.executor} ({child.status})"


def tokens(child: Child) -> dict[str, Any]:
    spent = child.spent
    shown: dict[str, Any] = {
        "input": spent.usage.input,
        "output": spent.usage.output,
        "cached": spent.usage.cached,
        "total": spent.usage.input + spent.usage.output,
    }
    if spent.cost_usd is not None:
        shown["cost_usd"] = round(spent.cost_usd, 6)
    return shown


def newest(children: Sequence[Child], most: int) -> list[Child]:
    """Of a list, newest first, what is worth a look: the newest, and all that is at work."""
    return [child for number, child in enumerate(children) if number < most or not child.ended]


def needs_attention(child: Child) -> bool:
    """It ended and nobody has looked at it since."""
    return child.unread and child.status in {"completed", "failed", "timed_out", "paused"}


def row(child: Child, now: datetime) -> dict[str, Any]:
    """As list_sessions shows it."""
    seconds = max(0.0, (now - child.updated_at).total_seconds())
    return {
        "id": child.short,
        "full_id": child.id,
        "executor": child.executor,
        "status": ICONS[child.status],
        "is_running": not child.ended,
        "task": cut(one_line(child.task), 50),
        "turn": child.turn,
        "updated": f"{age(seconds)} ago",
        "updated_secs": round(seconds),
        "last_message": cut(one_line(child.last), 100),
        "needs_attention": needs_attention(child),
        "tokens": tokens(child)["total"],
    }


def age(seconds: float) -> str:
    if seconds < 60:
        return f"{int(seconds)}s"
    if seconds < 3600:
        return f"{int(seconds / 60)}m"
    if seconds < 86_400:
        return f"{seconds / 3600:.1f}h"
    return f"{seconds / 86_400:.1f}d"


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def one_line(text: str) -> str:
    return " ".join(text.split())


def report(child: Child, answer: str, limit: int = 20_000) -> str:
    """What the parent is told when a turn ended, as a message of its own."""
    lines = [header(child), f"Task: {cut(one_line(child.task), 200)}"]
    if child.restarts:
        times = f"{child.restarts} times" if child.restarts > 1 else "once"
        lines.append(f"Started again {times}: {child.unwell}")
    if child.error:
        lines.append(f"Error: {child.error}")
    lines += [one for one in child.watched if one != child.error]
    if answer and answer != child.error:
        more = len(answer) - limit
        kept = answer[:limit] + (
            f"\n[… {more} more characters: check_session {child.short}]" if more > 0 else ""
        )
        lines += ["", kept]
    elif not child.error:
        lines += ["", "(no response captured)"]
    return "\n".join(lines)


def result(child: Child, answer: str) -> Inbound:
    """The same as a message, known by child and turn: accepted twice, it is there once."""
    parent = child.address
    return Inbound(
        channel=parent.channel,
        message_id=f"child:{child.id}:{child.turn}",
        chat_id=parent.chat_id,
        thread=parent.thread,
        text=report(child, answer),
        sender=child.key,
        kind="child_result",
        session=child.parent,
        meta={"goal": child.goal} if child.goal else {},
    )


def _newest(child: Child) -> float:
    return -child.created_at.timestamp()
