"""The contract of a model: messages and tools in, events out; errors travel in the stream."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from nanobot.events import Usage
from nanobot.messages import Line

__all__ = [
    "Failed",
    "FailureKind",
    "Finished",
    "Model",
    "ModelEvent",
    "ModelRequest",
    "Reasoning",
    "Restarted",
    "Text",
    "ToolCall",
    "ToolSpec",
    "Usage",
]


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model is told about it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class ModelRequest(msgspec.Struct, frozen=True):
    """One model call.

    `messages` is a legal sequence of history lines in the session file's format; `context` is this moment's runtime
    context (time, channel, goal), which the driver appends as it is to the last user message so that everything
    before it stays the same bytes and can be cached by the provider.
    """

    system: str
    messages: Sequence[Line]
    tools: Sequence[ToolSpec] = ()
    context: str = ""
    max_output: int = 32_000  # tokens
    session: str = ""  # for the provider's prompt cache


class Text(msgspec.Struct, frozen=True):
    text: str


class Reasoning(msgspec.Struct, frozen=True):
    text: str


class ToolCall(msgspec.Struct, frozen=True):
    """A complete call. `arguments` is the model's JSON text as it came, perhaps malformed."""

    id: str
    name: str
    arguments: str


class Finished(msgspec.Struct, frozen=True):
    """The last event of a good call. `extra` is what the provider wants back with the message (signed thinking)."""

    reason: Literal["stop", "length", "tool_calls", "refusal"]
    usage: Usage = Usage()
    extra: dict[str, Any] = {}


FailureKind = Literal[
    "unreachable",  # no connection
    "timeout",  # the whole call or a gap in the stream took too long
    "overloaded",  # 5xx, 529
    "rate_limited",  # 429
    "auth",  # 401, 403
    "context_overflow",  # the messages do not fit the model's window
    "quota",  # out of credit
    "invalid",  # the request was refused as wrong: our fault, not worth a retry
    "cut",  # the stream ended before its end
]

RETRYABLE: frozenset[str] = frozenset({"unreachable", "timeout", "overloaded", "rate_limited", "cut"})


class Failed(msgspec.Struct, frozen=True):
    """The last event of a failed call; `message` is one sentence a person can act on, without secrets."""

    kind: FailureKind
    message: str
    retry_after: float | None = None  # seconds, as the provider asked

    @property
    def retryable(self) -> bool:
        return self.kind in RETRYABLE


class Restarted(msgspec.Struct, frozen=True):
    """What this call yielded so far does not count: it starts again. `reason` is one sentence for the user."""

    reason: str


ModelEvent = Text | Reasoning | ToolCall | Restarted | Finished | Failed


class Model(Protocol):
    """A model of a provider.

    `stream` yields Text, Reasoning and ToolCall events as they come and ends with exactly one Finished or Failed;
    a Restarted voids what came before it, so a ToolCall may be acted on only after Finished.
    It must not raise, except CancelledError; it must bound every wait; closing the iterator ends the request.
    """

    name: str  # provider/model, as the configuration has it
    context_window: int  # tokens
    small: bool = False  # no tools, and only a short system prompt makes sense

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]: ...

    async def close(self) -> None: ...
