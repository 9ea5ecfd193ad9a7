"""What a client that comes late must be told about a turn: its state so far, bounded."""

from typing import Any

import msgspec

from nanobot.channel import ToolEnded, ToolProgress, ToolStarted, TurnEnded, Usage

MAX_TOOLS = 64  # of one turn that a snapshot repeats
MAX_RESULT = 4_000  # characters of a tool's result or arguments that a frame shows


class Turn:
    """A turn between its start and its last frame."""

    __slots__ = (
        "ended",
        "owed",
        "reasoning",
        "reasoning_stream",
        "started",
        "started_at",
        "stream",
        "text",
        "tools",
        "turn",
    )

    def __init__(self, turn: str) -> None:
        self.turn = turn
        self.started = False  # clients were told that it runs
        self.started_at = 0.0
        self.stream = ""  # the stream whose end has not been sent
        self.text: list[str] = []
        self.reasoning_stream = ""
        self.reasoning: list[str] = []
        self.tools: dict[str, dict[str, Any]] = {}  # call id → the newest frame about it
        self.ended: TurnEnded | None = None
        self.owed: frozenset[str] = frozenset()  # ids of the replies that its end must follow

    def end(self, event: TurnEnded) -> None:
        """The turn is committed. Its replies are kept by the outbox, not here too."""
        self.owed = frozenset(reply.id for reply in event.replies if reply.address == event.address)
        self.ended = msgspec.structs.replace(event, replies=())

    def add_text(self, stream: str, text: str) -> None:
        if stream != self.stream:
            self.stream = stream
            self.text = []
        self.text.append(text)

    def add_reasoning(self, stream: str, text: str) -> None:
        if stream != self.reasoning_stream:
            self.reasoning_stream = stream
            self.reasoning = []
        self.reasoning.append(text)

    def close_text(self) -> None:
        self.stream = ""
        self.text = []

    def close_reasoning(self) -> None:
        self.reasoning_stream = ""
        self.reasoning = []

    def add_tool(self, event: ToolStarted | ToolProgress | ToolEnded) -> dict[str, Any]:
        """Take a tool's event in; returns its frame's fields."""
        fields = tool_fields(event)
        known = self.tools.pop(event.call_id, None)
        merged = {**known, **fields} if known else fields
        self.tools[event.call_id] = merged
        if len(self.tools) > MAX_TOOLS:
            del self.tools[next(iter(self.tools))]
        return fields

    def so_far(self) -> list[tuple[str, dict[str, Any]]]:
        """The frames that bring a client up to date, oldest first."""
        frames: list[tuple[str, dict[str, Any]]] = []
        base: dict[str, Any] = {"turn_id": self.turn, "replay": True}
        if self.ended is None:
            if self.started:
                frames.append(("goal_status", {**base, "status": "running", "started_at": self.started_at}))
            frames.extend(("tool_event", {**base, **fields}) for fields in self.tools.values())
        if self.reasoning_stream:
            text = "".join(self.reasoning)
            frames.append(("reasoning_delta", {**base, "stream_id": self.reasoning_stream, "text": text}))
        if self.stream:
            frames.append(("delta", {**base, "stream_id": self.stream, "text": "".join(self.text)}))
        return frames


def tool_fields(event: ToolStarted | ToolProgress | ToolEnded) -> dict[str, Any]:
    """The fields of a `tool_event` frame, without those that all events of a chat share."""
    fields: dict[str, Any] = {"call_id": event.call_id, "name": event.name}
    if isinstance(event, ToolStarted):
        return {**fields, "phase": "start", "arguments": _short(event.arguments)}
    if isinstance(event, ToolProgress):
        return {**fields, "phase": "progress", "text": event.text[:MAX_RESULT]}
    result = event.result[:MAX_RESULT]
    if event.error:
        return {**fields, "phase": "error", "error": result, "seconds": round(event.seconds, 3)}
    return {**fields, "phase": "end", "result": result, "seconds": round(event.seconds, 3)}


def end_fields(event: TurnEnded) -> dict[str, Any]:
    """The fields of a `turn_end` frame."""
    fields: dict[str, Any] = {
        "turn_id": event.turn,
        "status": event.status,
        "latency_ms": event.latency_ms,
        "usage": usage_fields(event.usage),
        "answers": event.answers,
    }
    if event.goal is not None:
        fields["goal_state"] = event.goal
    return fields


def usage_fields(usage: Usage) -> dict[str, int]:
    """Every count by name, so that clients need no defaults."""
    return {
        "input": usage.input,
        "output": usage.output,
        "cached": usage.cached,
        "reasoning": usage.reasoning,
        "total": usage.input + usage.output,
    }


def _short(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: f"{value[:MAX_RESULT]}…" if isinstance(value, str) and len(value) > MAX_RESULT else value
        for name, value in arguments.items()
    }
