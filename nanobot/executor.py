"""The contract of an executor: an outside agent that is given a task, reports typed steps, and ends with a status.

What an executor says about itself is evidence, not the verdict: `conclude` weighs its last word, its exit status and
whether we ended it ourselves.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from nanobot.errors import ToolError
from nanobot.events import Usage

Status = Literal["pending", "running", "completed", "failed", "killed", "timed_out", "paused"]
Ending = Literal["completed", "failed", "killed", "timed_out"]
Reason = Literal["", "killed", "timed_out", "output_limit"]  # why we ended it; "" = it ended by itself
StepKind = Literal[
    "thinking",
    "command",
    "tool",
    "result",
    "files",
    "message",
    "said",
    "todo",
    "search",
    "notice",
    "warning",
    "error",
]
StepState = Literal["started", "completed", "failed", "declined"]

ENDINGS: frozenset[str] = frozenset({"completed", "failed", "killed", "timed_out", "paused"})
ERROR_LIMIT = 2_000  # characters of an error text that are kept


class ExecutorProblem(ToolError):
    """An outside agent cannot be started; the hint says what to do."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing an agent did. A command is reported when it starts and again, under the same id, when it has ended."""

    kind: StepKind
    id: str = ""
    text: str = ""  # what was thought, said or run
    output: str = ""  # what came of it
    state: StepState = "completed"
    exit_code: int | None = None
    name: str = ""  # a tool's
    arguments: Mapping[str, Any] = {}
    changes: Sequence[Mapping[str, str]] = ()  # files: {path, kind}
    at: str = ""  # ISO 8601, where the event has a time
    turn: int = 0
    tokens: int = 0


class Spent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens and money. `cost_usd` is the tool's own figure; None where it names none."""

    usage: Usage = Usage()
    cost_usd: float | None = None

    def since(self, earlier: "Spent") -> "Spent":
        """What was added to a running total; never below zero, since a new thread counts from nothing."""
        now, then = self.usage, earlier.usage
        usage = Usage(
            max(0, now.input - then.input),
            max(0, now.output - then.output),
            max(0, now.cached - then.cached),
            max(0, now.reasoning - then.reasoning),
        )
        if self.cost_usd is None:
            return Spent(usage)
        return Spent(usage, max(0.0, self.cost_usd - (earlier.cost_usd or 0.0)))

    def __add__(self, other: "Spent") -> "Spent":
        costs = [one for one in (self.cost_usd, other.cost_usd) if one is not None]
        return Spent(self.usage + other.usage, sum(costs) if costs else None)


class Verdict(msgspec.Struct, frozen=True):
    """What an executor said about its turn's end. None of `said`: nothing yet."""

    said: Literal["completed", "failed"] | None = None
    answer: str = ""  # the last real message of the turn
    error: str = ""
    thread: str = ""  # its own name for the conversation, for a native resume
    spent: Spent = Spent()  # of this turn
    total: Spent = Spent()  # of the thread, the base for the next turn's difference
    denied: Sequence[str] = ()  # tools it was not allowed to use


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a turn ended."""

    status: Ending
    answer: str = ""
    error: str = ""
    exit_code: int | None = None
    thread: str = ""
    spent: Spent = Spent()
    total: Spent = Spent()
    denied: Sequence[str] = ()
    garbage: int = 0  # lines of its output that were no events
    hint: str = ""  # what to do about the error

    @property
    def problem(self) -> str:
        """The error with its hint, in the form of all our errors."""
        return f"{self.error}\nHint: {self.hint}" if self.hint else self.error


class ProcessRecord(msgspec.Struct, frozen=True):
    """A process for good, also across a restart of the gateway or the machine."""

    pid: int
    started: int  # clock ticks since the machine's start
    boot: str
    marker: str  # value of NANOBOT_RUN in its environment and its descendants'


class Job(msgspec.Struct, frozen=True):
    """One turn for an executor. Its files are `turn_<n>.{jsonl,stderr,exit}` in `folder`."""

    prompt: str
    working_dir: Path
    folder: Path
    turn: int
    marker: str
    timeout: float  # seconds
    model: str = ""
    thread: str = ""  # to resume
    fresh: str = ""  # a name for a new conversation, where the executor lets us choose
    total: Spent = Spent()  # of the thread before this turn
    process: ProcessRecord | None = None  # an earlier gateway's, to be taken over where it still runs

    def file(self, suffix: str) -> Path:
        return self.folder / f"turn_{self.turn}.{suffix}"


class Parser(Protocol):
    """Reads an executor's events, one turn long. Pure."""

    def feed(self, event: Mapping[str, Any]) -> Sequence[Step]:
        """Take one event in; unknown ones are no steps."""
        ...

    def verdict(self) -> Verdict:
        """What is known so far; before the end `spent` may lag, and may be an estimate."""
        ...


class Executor(Protocol):
    """How one outside agent is called and understood."""

    name: str
    speaks: bool  # it takes messages on its standard input while it works
    sums: bool  # what it says it used is its thread's, over all its processes

    def said(self, text: str) -> bytes:
        """A message as its standard input takes it; the prompt is the first."""
        ...

    def ledger(self, thread: str) -> Path | None:
        """A file of its own in which it tells, by further events, what a turn uses while it runs; None: there is none."""
        ...

    def command(self, job: Job) -> list[str]:
        """The whole command line; the prompt is on standard input. Raises ExecutorProblem where it cannot be run."""
        ...

    def environment(self) -> dict[str, str]: ...

    def parser(self, job: Job) -> Parser: ...

    def hint(self, error: str) -> str:
        """What to do about a failure, where that is known; else nothing."""
        ...


def conclude(
    verdict: Verdict, *, exit_code: int | None, reason: Reason = "", stderr: str = "", limit: str = ""
) -> Result:
    """The one place that decides how a turn ended.

    No last word is a failure; a good last word with a bad exit status too. An exit status of None is unknown (the
    process belonged to an earlier gateway), which a good last word outweighs.
    """
    status: Ending = "failed"
    error = verdict.error
    if reason == "timed_out":
        status, error = "timed_out", limit or "it took too long and was ended"
    elif reason == "killed":
        status, error = "killed", limit or "it was ended"
    elif reason == "output_limit":
        error = limit or "it printed too much and was ended"
    elif verdict.said == "completed" and exit_code in (0, None):
        status, error = "completed", ""
    elif verdict.said == "completed":
        error = f"it reported success but ended with exit code {exit_code}. {tail(stderr)}".strip()
    elif not error:
        code = "unknown" if exit_code is None else str(exit_code)
        error = f"it ended without a result (exit code {code}). {tail(stderr)}".strip()
    return Result(
        status=status,
        answer=verdict.answer,
        error=error[:ERROR_LIMIT],
        exit_code=exit_code,
        thread=verdict.thread,
        spent=verdict.spent,
        total=verdict.total,
        denied=verdict.denied,
    )


def tail(stderr: str) -> str:
    """What a person needs of a tool's error output: no banners, no stack of unknown frames."""
    lines = [
        line.strip()
        for line in stderr.replace("\0", "").splitlines()
        if line.strip()
        and "<unknown>" not in line
        and not line.startswith(("WARNING: proceeding", "Reading additional input", "Stack backtrace"))
    ]
    return "\n".join(lines[-12:])[-ERROR_LIMIT:]
