"""Anthropic's messages API: history lines to a request's bytes, a stream's data to model events; no I/O.

Source: the provider's API reference (messages, streaming, extended thinking, prompt caching), version 2023-06-01.
Prompt caching allows four marks; three are used: the system prompt (with the tools before it) and the last two user
messages, so that each call finds what the one before it wrote.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from nanobot.events import Usage
from nanobot.messages import Line
from nanobot.model import Failed, Finished, ModelEvent, ModelRequest, Reasoning, Text, ToolCall, ToolSpec
from nanobot.models.failures import Target, classify, complaint
from nanobot.models.media import (
    KEPT,
    Images,
    Tools,
    calls_of,
    encoder,
    items_of,
    last_user,
    separated,
    text_of,
)

_CACHE = {"type": "ephemeral"}
_MARK = b',"cache_control":{"type":"ephemeral"}}'
_MARKED_MESSAGES = 2
_REASONS: dict[str, Literal["stop", "length", "tool_calls", "refusal"]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}


class _Wire(msgspec.Struct):
    """A message in the making: its blocks, and those that follow the cache mark since they change."""

    role: str
    blocks: list[bytes] = []
    after: list[bytes] = []


# --- request -------------------------------------------------------------------------------------


def request_body(
    request: ModelRequest,
    target: Target,
    *,
    uncached: frozenset[int] = frozenset(),
    images: Images | None = None,
) -> list[bytes]:
    """The body in pieces. `uncached` are the lines whose bytes change from call to call because they show images."""
    body: dict[str, Any] = {"model": target.model, "max_tokens": request.max_output, "stream": True}
    if request.tools:
        body["tools"] = msgspec.Raw(_tools(request.tools))
    if request.system:
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHE}]
    body.update(target.extra)
    body = {
        key: value for key, value in body.items() if value is not None
    }  # extra = { x = null } drops a field
    head = encoder.encode(body)
    messages = _messages(request, f"anthropic:{target.provider}", target.provider, uncached, images)
    return [head[:-1], b',"messages":[', *separated(messages), b"]}"]


def tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


_tools = Tools(tool)


def _messages(
    request: ModelRequest, dialect: str, provider: str, uncached: frozenset[int], images: Images | None
) -> list[bytes]:
    wires: list[_Wire] = []
    keep = len(request.messages) >= KEPT
    changing = last_user(request.messages) if request.context else -1
    for index, line in enumerate(request.messages):
        if index in uncached:
            content = blocks(line, provider, images)
        else:
            try:
                known, content = line.wire
            except AttributeError:
                known = ""
            if known != dialect:
                content = blocks(line, provider)
                if keep:
                    line.wire = (dialect, content)
        role = "assistant" if line.get("role") == "assistant" else "user"
        if content:
            _add(wires, role, content)
        if index == changing:
            _add(wires, role, _text(request.context), after=True)
    if request.context and changing < 0:
        _add(wires, "user", _text(request.context), after=True)
    if wires and wires[0].role != "user":
        wires.insert(0, _Wire("user", [_text("(Earlier messages are left out.)")]))
    if wires and wires[-1].role != "user":
        _add(wires, "user", _text("Continue."))
    return _joined(wires)


def _add(wires: list[_Wire], role: str, content: bytes, *, after: bool = False) -> None:
    """Append to the last message where the role is the same: roles must alternate."""
    if not wires or wires[-1].role != role:
        wires.append(_Wire(role, [], []))
    wire = wires[-1]
    (wire.after if after or wire.after else wire.blocks).append(content)


def _joined(wires: Sequence[_Wire]) -> list[bytes]:
    marks = [index for index, wire in enumerate(wires) if wire.role == "user" and wire.blocks][
        -_MARKED_MESSAGES:
    ]
    parts = []
    for index, wire in enumerate(wires):
        joined = b",".join(wire.blocks)
        if index in marks:
            joined = joined[:-1] + _MARK  # every block is an object, so its last byte closes it
        if wire.after:
            joined = b",".join([joined, *wire.after] if joined else wire.after)
        parts.append(b'{"role":"%b","content":[%b]}' % (wire.role.encode(), joined))
    return parts


def blocks(line: Line, provider: str = "", images: Images | None = None) -> bytes:
    """One line's content blocks, joined by commas; empty where it has none."""
    role = line.get("role")
    text = text_of(line, images)
    content: list[dict[str, Any]] = []
    if role == "tool":
        result: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": _id(line.get("tool_call_id", "")),
            "content": text or "(no output)",
        }
        if line.get("error") is True:
            result["is_error"] = True
        content = [result]
    elif role == "user":
        for item in items_of(line) if images else ():
            image = (images or {}).get(item["path"])
            if image is not None:
                source = {"type": "base64", "media_type": image.mime, "data": image.base64}
                content.append({"type": "image", "source": source})
        if text.strip():
            content.append({"type": "text", "text": text})
    elif role == "assistant":
        content += _thinking(line, provider)
        if text.strip():
            content.append({"type": "text", "text": text})
        content += [
            {"type": "tool_use", "id": _id(ident), "name": name, "input": _input(arguments)}
            for ident, name, arguments in calls_of(line)
        ]
    return encoder.encode(content)[1:-1]


def _thinking(line: Line, provider: str) -> list[dict[str, Any]]:
    """The signed blocks that this provider sent with the message and wants back unchanged."""
    extra = line.get("extra")
    kept = extra.get("thinking") if isinstance(extra, dict) else None
    if not isinstance(kept, dict) or kept.get("provider") != provider:
        return []
    return list(kept.get("blocks") or ())


def _text(text: str) -> bytes:
    return encoder.encode({"type": "text", "text": text})


def _id(ident: str) -> str:
    """Ids of other providers may hold characters that this one refuses."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", ident) or "call"


def _input(arguments: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        value = None
    return value if isinstance(value, dict) else {"malformed": arguments}


# --- response ------------------------------------------------------------------------------------


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Message(msgspec.Struct):
    usage: _Usage | None = None


class _Block(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: Any = None


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None
    error: Any = None


_events = msgspec.json.Decoder(_Event)


class AnthropicDecoder:
    """Puts a response together. Thinking is shown as it comes and kept, signed, for the next call."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.finishing = False
        self._reason = ""
        self._usage = _Usage()
        self._blocks: dict[int, _Block] = {}
        self._pieces: dict[int, list[str]] = {}  # of tool arguments, by block

    def feed(self, data: bytes) -> Sequence[ModelEvent]:
        try:
            event = _events.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # ValidationError too
            return [Failed("cut", f"{self.target.name} sent what is no message event: {error}.")]
        match event.type:
            case "content_block_delta" if event.delta is not None:
                return self._delta(event.index, event.delta)
            case "content_block_start" if event.content_block is not None:
                return self._start(event.index, event.content_block)
            case "message_start" if event.message is not None:
                self._count(event.message.usage)
            case "message_delta":
                self._count(event.usage)
                if event.delta is not None and event.delta.stop_reason:
                    self._reason = event.delta.stop_reason
                    self.finishing = True
            case "message_stop":
                return self.end()
            case "error":
                return [classify(self.target, 0, complaint({"error": event.error}))]
        return ()  # ping, content_block_stop, and what is yet to be invented

    def end(self) -> Sequence[ModelEvent]:
        if not self.finishing:
            return [Failed("cut", f"{self.target.name}: the stream ended before its end.")]
        calls = self._calls()
        reason = _REASONS.get(self._reason, "stop")
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if calls else "stop"
        return [*calls, Finished(reason, self._total(), self._extra())]

    def _start(self, index: int, block: _Block) -> list[ModelEvent]:
        self._blocks[index] = block
        if block.type == "text" and block.text:
            return [Text(block.text)]
        if block.type == "thinking" and block.thinking:
            return [Reasoning(block.thinking)]
        return []

    def _delta(self, index: int, delta: _Delta) -> list[ModelEvent]:
        block = self._blocks.setdefault(index, _Block())
        if delta.text:
            return [Text(delta.text)]
        if delta.thinking:
            block.thinking += delta.thinking
            return [Reasoning(delta.thinking)]
        block.signature += delta.signature
        if delta.partial_json:
            self._pieces.setdefault(index, []).append(delta.partial_json)
        return []

    def _calls(self) -> list[ToolCall]:
        """The calls; one that the output limit cut off is left out."""
        calls = []
        for index, block in sorted(self._blocks.items()):
            if block.type != "tool_use":
                continue
            pieces = self._pieces.get(index)
            arguments = "".join(pieces) if pieces else encoder.encode(block.input or {}).decode()
            if _REASONS.get(self._reason) == "length" and "malformed" in _input(arguments):
                continue
            calls.append(ToolCall(block.id, block.name, arguments))
        return calls

    def _extra(self) -> dict[str, Any]:
        kept: list[dict[str, str]] = []
        for _, block in sorted(self._blocks.items()):
            if block.type == "thinking" and block.signature:
                kept.append({"type": "thinking", "thinking": block.thinking, "signature": block.signature})
            elif block.type == "redacted_thinking":
                kept.append({"type": "redacted_thinking", "data": block.data})
        return {"thinking": {"provider": self.target.provider, "blocks": kept}} if kept else {}

    def _count(self, usage: _Usage | None) -> None:
        """Later counts replace earlier ones: the stream's are cumulative."""
        for name in _Usage.__struct_fields__:
            value = getattr(usage, name, None)
            if value is not None:
                setattr(self._usage, name, value)

    def _total(self) -> Usage:
        read, created = self._usage.cache_read_input_tokens or 0, self._usage.cache_creation_input_tokens or 0
        return Usage(
            input=(self._usage.input_tokens or 0) + read + created,
            output=self._usage.output_tokens or 0,
            cached=read,
        )


def credentials(key: str) -> Mapping[str, str]:
    return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}
