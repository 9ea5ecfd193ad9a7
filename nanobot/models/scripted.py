"""A model that says what it is told: for tests, and for a gateway that should run without any provider."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

import msgspec

from nanobot.model import Failed, Finished, ModelEvent, ModelRequest, Reasoning, Text, ToolCall
from nanobot.models.media import last_user, text_of


class Pause(msgspec.Struct, frozen=True):
    """Wait so many seconds of real time."""

    seconds: float


class Hang(msgspec.Struct, frozen=True):
    """Never go on; only cancelling ends it."""


Step = ModelEvent | Pause | Hang | asyncio.Event  # an Event is waited for
Reply = str | Sequence[Step]  # text alone is one Text
Script = Sequence[Reply] | Callable[[ModelRequest], Reply]

_WORDS = re.compile(r"\S+\s*|\s+")


class ScriptedModel:
    """Answers with the script's replies in turn, then by `obey`; or always by a function of the request.

    A reply that does not end with Finished or Failed ends with the natural Finished. `requests` keeps what was asked;
    `started` is set whenever a call begins.
    """

    small = False

    def __init__(
        self, script: Script = (), *, name: str = "scripted/test", context_window: int = 200_000
    ) -> None:
        self.name = name
        self.context_window = context_window
        self.requests: list[ModelRequest] = []
        self.started = asyncio.Event()
        self.closed = False
        self._function = script if callable(script) else None
        self._replies: Iterator[Reply] = iter(()) if callable(script) else iter(script)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        # A copy, since the caller's list of messages grows.
        self.requests.append(msgspec.structs.replace(request, messages=list(request.messages)))
        self.started.set()
        reply = self._function(request) if self._function else next(self._replies, None)
        if reply is None:
            reply = obey(request)
        steps: Sequence[Step] = [Text(reply)] if isinstance(reply, str) else reply
        called = False
        for step in steps:
            match step:
                case Pause():
                    await asyncio.sleep(step.seconds)
                case Hang():
                    await asyncio.Event().wait()
                case asyncio.Event():
                    await step.wait()
                case _:
                    called = called or isinstance(step, ToolCall)
                    yield step
                    if isinstance(step, Finished | Failed):
                        return
        yield Finished("tool_calls" if called else "stop")

    async def close(self) -> None:
        self.closed = True


def obey(request: ModelRequest) -> Sequence[Step]:
    """The reply to the directives in the last user message, one a line; without any, "echo: <text>" in words.

    TOOL name {json} (several lines: one call after another, then "result: <the last result>"), SLOW n (words a
    second), REASON text, HANG, FAIL kind.
    """
    index = last_user(request.messages)
    text = text_of(request.messages[index]) if index >= 0 else ""
    results = [text_of(line) for line in request.messages[index + 1 :] if line.get("role") == "tool"]
    words: list[str] = []
    calls: list[ToolCall] = []
    before: list[Step] = []
    pause = 0.0
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        match word:
            case "TOOL":
                name, _, arguments = rest.partition(" ")
                calls.append(ToolCall(f"call_{index}_{len(calls)}", name, arguments or "{}"))
            case "SLOW":
                pause = 1 / float(rest)
            case "REASON":
                before.append(Reasoning(rest))
            case "HANG":
                before.append(Hang())
            case "FAIL":
                before.append(msgspec.convert({"kind": rest, "message": f"Told to fail: {rest}."}, Failed))
            case _:
                words.append(line)
    if len(results) < len(calls):
        return [*before, calls[len(results)]]
    answer = f"result: {results[-1]}" if calls else "echo: " + "\n".join(words)
    steps = list(before)
    for piece in _WORDS.findall(answer):
        steps.append(Text(piece))
        if pause:
            steps.append(Pause(pause))
    return steps
