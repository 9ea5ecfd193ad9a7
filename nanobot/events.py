"""What a running turn tells the world, live. Lossy by design: nothing here is needed for correctness."""

from typing import Any, Literal

import msgspec

from nanobot.messages import Address, Outbound


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens as the provider counted them; `input` includes the cached ones."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
        )


class Event(msgspec.Struct, frozen=True):
    """Every event names the turn and the place it belongs to."""

    session: str
    turn: str
    address: Address


class TurnStarted(Event, frozen=True):
    """A turn began; `answers` are the inbox ids it took, `started_at` is in epoch seconds."""

    answers: tuple[str, ...]
    started_at: float
    resumed: bool = False


class Steered(Event, frozen=True):
    """Messages that arrived while the turn ran were taken into it."""

    answers: tuple[str, ...]


class TextDelta(Event, frozen=True):
    text: str
    stream: str  # changes with each model call of a turn


class TextEnded(Event, frozen=True):
    """A model call's text is complete but is not the turn's answer: tools follow."""

    stream: str
    text: str


class TextReset(Event, frozen=True):
    """What was streamed under this id does not count: the call failed and is made again."""

    stream: str


class ReasoningDelta(Event, frozen=True):
    text: str
    stream: str


class ReasoningEnded(Event, frozen=True):
    stream: str


class ToolStarted(Event, frozen=True):
    call_id: str
    name: str
    arguments: dict[str, Any]


class ToolProgress(Event, frozen=True):
    call_id: str
    name: str
    text: str


class ToolEnded(Event, frozen=True):
    call_id: str
    name: str
    result: str  # a preview
    error: bool
    seconds: float


class Notice(Event, frozen=True):
    """Something the user should see while waiting, for example a retry after a provider's error."""

    text: str


class Used(Event, frozen=True):
    """One model call of the turn was answered. For limits and watchers; channels are not told."""

    usage: Usage


class GoalChanged(Event, frozen=True):
    goal: dict[str, Any]


class TurnEnded(Event, frozen=True):
    """The turn is committed. `replies` are on their way by the outbox; `stream` names the text already shown."""

    status: Literal["completed", "stopped", "failed"]
    answers: tuple[str, ...]
    replies: tuple[Outbound, ...]
    stream: str
    latency_ms: int
    usage: Usage
    goal: dict[str, Any] | None = None


class SessionUpdated(Event, frozen=True):
    """A session's title, metadata or existence changed."""

    scope: Literal["metadata", "thread", "deleted"] = "metadata"
