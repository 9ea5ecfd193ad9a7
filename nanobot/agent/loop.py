"""The agent loop: ask the model, run its tools, take what was said meanwhile, until it answers.

It knows no disk, no channel and no provider. Two loops, each named where it begins: `run` goes round once per model
answer that calls tools; `_ask` repeats a call whose answer cannot be used. Everything that must survive a crash goes
through `Conversation.append` before the next step begins.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from nanobot.clock import Clock, stamp
from nanobot.errors import NanobotError
from nanobot.events import (
    Event,
    Notice,
    ReasoningDelta,
    ReasoningEnded,
    TextDelta,
    TextEnded,
    TextReset,
    Usage,
    Used,
)
from nanobot.messages import Address, Line
from nanobot.model import Failed, Finished, Model, ModelRequest, Reasoning, Restarted, Text, ToolCall

MAX_CONTINUATIONS = 3  # times an answer that hit the output limit is continued
MAX_EMPTY = 2  # times an empty answer is asked again

CONTINUE = "Your answer was cut off by the output limit. Continue exactly where it stopped; repeat nothing."
EMPTY = "Your last answer was empty. Answer the user now."
LAST_STEP = "You have used all your steps. Answer the user now with what you have; say what is left undone."


class Draining(NanobotError):
    """The gateway stops; the turn ends at this safe point and is taken up again after the start."""


class Conversation(Protocol):
    """The session as the loop sees it."""

    def request(self, extra: Sequence[Line], *, tools: bool, shrink: bool) -> ModelRequest:
        """The next model call: what fits of the history, then `extra`; smaller after a context overflow."""
        ...

    async def append(self, *lines: Line) -> None:
        """Add to the history; durable on return."""
        ...

    async def steer(self) -> bool:
        """Take what the user said meanwhile into the history; whether there was anything. Raises Draining."""
        ...

    def objection(self, answer: str) -> str:
        """What must be said before this answer may end the turn; nothing where it may."""
        ...

    async def use(self, call: ToolCall) -> Line:
        """Run a tool and return its result as a line. Must not raise but for cancellation."""
        ...


class Turn:
    """What one run is about, and what is known of it so far; a stopped turn is closed from this."""

    def __init__(
        self,
        session: str,
        turn: str,
        address: Address,
        emit: Callable[[Event], None],
        streams: str,
        began: float,
    ) -> None:
        """`began` is by the clock's monotonic time."""
        self.session = session
        self.id = turn
        self.address = address
        self.emit = emit
        self.streams = streams  # prefix of stream ids, new for each attempt
        self.stream = ""
        self.text = ""  # of the current call, as far as it was streamed
        self.asking = False  # the model is being asked; else a tool runs or a step is written
        self.began = began
        self.usage = Usage()

    def resumed(self, usage: Usage, seconds: float) -> None:
        """What it used, and how long it worked, before it was interrupted."""
        self.usage = usage
        self.began -= seconds
        if usage != Usage():
            self.tell(Used, usage)

    def tell(self, kind: Callable[..., Event], *values: Any) -> None:
        self.emit(kind(self.session, self.id, self.address, *values))


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended. `text` is the answer, or the sentence that says what went wrong."""

    status: Literal["completed", "failed"]
    text: str
    reasoning: str = ""
    extra: dict[str, Any] = {}


class _Answer(msgspec.Struct):
    """A model call's result."""

    text: str = ""
    reasoning: str = ""
    calls: list[ToolCall] = []
    end: Finished | Failed = Failed("cut", "the model's stream ended early")


async def run(
    turn: Turn, conversation: Conversation, model: Model, clock: Clock, *, max_steps: int, again: bool = False
) -> Outcome:
    """Answer what is in the conversation; tools that are called meanwhile are in the history on return.

    `again` after a model call was broken off: what it said is taken back, and what people said since is heard first.
    """
    if again:
        _void(turn, "")
    # Outer loop: goes round while the model calls tools.
    for step in range(max_steps + 1):
        if step or again:
            await conversation.steer()
        last = step == max_steps
        turn.stream = f"{turn.streams}.{step}"
        answer = await _ask(turn, conversation, model, clock, last=last)
        if isinstance(answer.end, Failed):
            return Outcome("failed", answer.end.message)
        if last and not answer.text.strip():
            return Outcome("failed", f"I used all {max_steps} steps without reaching an answer.")
        if not answer.calls and not last and (objection := conversation.objection(answer.text)):
            turn.tell(TextEnded, turn.stream, answer.text)
            await conversation.append(called(turn, answer, model.name, clock), _user(objection, clock))
            turn.text = ""
            continue
        if not answer.calls or last:
            return Outcome("completed", answer.text, answer.reasoning, answer.end.extra)
        if answer.text:
            turn.tell(TextEnded, turn.stream, answer.text)
        await conversation.append(called(turn, answer, model.name, clock))
        turn.text = ""
        await use_tools(conversation, answer.calls)
    raise AssertionError("unreachable: the last step always returns")


async def use_tools(conversation: Conversation, calls: Sequence[ToolCall]) -> None:
    """Run calls side by side; each result is durable as soon as it is there."""

    async def one(call: ToolCall) -> None:
        await conversation.append(await conversation.use(call))

    if len(calls) == 1:
        await one(calls[0])
        return
    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(one(call))
    except ExceptionGroup as failed:
        # As a call alone would raise it: whoever counts failures looks at what they are.
        raise failed.exceptions[0] from None


async def _ask(turn: Turn, conversation: Conversation, model: Model, clock: Clock, *, last: bool) -> _Answer:
    """Call the model until its answer can be used."""
    said = ""  # the pieces of an answer that was cut by the output limit
    nudge: list[Line] = [_user(LAST_STEP, clock)] if last else []
    shrunk = False
    empty = continued = 0
    # Inner loop: repeats a call that overflowed, came back empty or was cut off.
    while True:
        tools = not last and empty < MAX_EMPTY
        answer = await _call(turn, model, conversation.request(nudge, tools=tools, shrink=shrunk))
        if isinstance(answer.end, Finished):
            turn.usage += answer.end.usage
            turn.tell(Used, answer.end.usage)
        if isinstance(answer.end, Failed):
            if answer.end.kind == "context_overflow" and not shrunk:
                shrunk = True
                _void(turn, said)
                continue
            _void(turn, "")
            return answer
        if answer.calls:
            answer.text = said + answer.text
            return answer
        if answer.end.reason == "length" and answer.text and continued < MAX_CONTINUATIONS:
            continued += 1
            said += answer.text
            nudge = [*nudge, _line("assistant", answer.text, clock), _user(CONTINUE, clock)]
            continue
        if not (said + answer.text).strip():
            if empty == MAX_EMPTY:
                answer.end = Failed("invalid", f"{model.name} gave an empty answer {empty + 1} times.")
                return answer
            empty += 1
            nudge = [*nudge, _user(EMPTY, clock)]
            continue
        answer.text = said + answer.text
        return answer


async def _call(turn: Turn, model: Model, request: ModelRequest) -> _Answer:
    """One model call, shown live."""
    answer = _Answer(calls=[])
    before = turn.text
    text: list[str] = []
    reasoning: list[str] = []
    stream = model.stream(request)
    turn.asking = True
    try:
        async for event in stream:
            match event:
                case Text():
                    text.append(event.text)
                    turn.text += event.text
                    turn.tell(TextDelta, event.text, turn.stream)
                case Reasoning():
                    reasoning.append(event.text)
                    turn.tell(ReasoningDelta, event.text, turn.stream)
                case ToolCall():
                    answer.calls.append(event)
                case Restarted():
                    _void(turn, before)
                    text.clear()
                    reasoning.clear()
                    answer.calls.clear()
                    turn.tell(Notice, event.reason)
                case Finished() | Failed():
                    answer.end = event
    finally:
        turn.asking = False
        close: Callable[[], Awaitable[None]] | None = getattr(stream, "aclose", None)
        if close is not None:
            await close()
    if reasoning:
        turn.tell(ReasoningEnded, turn.stream)
    answer.text, answer.reasoning = "".join(text), "".join(reasoning)
    return answer


def _void(turn: Turn, keep: str) -> None:
    """Take back what was streamed, but for `keep`, which is shown again."""
    if turn.text == keep:
        return
    turn.tell(TextReset, turn.stream)
    turn.text = keep
    if keep:
        turn.tell(TextDelta, keep, turn.stream)


def called(turn: Turn, answer: _Answer, model: str, clock: Clock) -> Line:
    """The history line of an answer that calls tools."""
    line = _line("assistant", answer.text, clock)
    line["turn"] = turn.id
    if answer.calls:
        line["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    if answer.reasoning:
        line["reasoning"] = answer.reasoning
    if isinstance(answer.end, Finished) and answer.end.extra:
        line["extra"] = answer.end.extra
    line["model"] = model
    if turn.usage != Usage():
        # So that a turn that is interrupted knows when it goes on what it has cost.
        line["spent"] = msgspec.to_builtins(turn.usage) | {
            "ms": round((clock.monotonic() - turn.began) * 1000)
        }
    return line


def _line(role: str, content: str, clock: Clock) -> Line:
    return Line(role=role, content=content, timestamp=stamp(clock.now()))


def _user(content: str, clock: Clock) -> Line:
    line = _line("user", content, clock)
    line["injected"] = "nudge"
    return line
