"""OpenAI's chat completions: history lines to a request's bytes, a stream's data to model events; no I/O.

Source: the provider's API reference, and what compatible servers (llama.cpp, vLLM, Ollama, OpenRouter, DeepSeek)
are known to do differently.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

import msgspec

from nanobot.events import Usage
from nanobot.messages import Line, new_id
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

Dialect = Literal["openai", "plain"]  # plain: a template that knows neither tools nor images

_REASONS: dict[str, Literal["stop", "length", "tool_calls", "refusal"]] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
    "refusal": "refusal",
}


# --- request -------------------------------------------------------------------------------------


def request_body(
    request: ModelRequest,
    target: Target,
    *,
    dialect: Dialect = "openai",
    limit: str = "max_tokens",
    uncached: frozenset[int] = frozenset(),
    images: Images | None = None,
) -> list[bytes]:
    """The body in pieces. `uncached` are the lines whose bytes change from call to call because they show images."""
    body: dict[str, Any] = {
        "model": target.model,
        "stream": True,
        "stream_options": {"include_usage": True},
        limit: request.max_output,
    }
    if request.tools and dialect == "openai":
        body["tools"] = msgspec.Raw(_tools(request.tools))
    if request.session and limit == "max_completion_tokens":  # other servers may refuse what they do not know
        body["prompt_cache_key"] = sha256(request.session.encode()).hexdigest()[:32]
    body.update(target.extra)
    body = {
        key: value for key, value in body.items() if value is not None
    }  # extra = { x = null } drops a field
    head = encoder.encode(body)
    return [head[:-1], b',"messages":[', *separated(_messages(request, dialect, uncached, images)), b"]}"]


def tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


_tools = Tools(tool)


def _messages(
    request: ModelRequest, dialect: Dialect, uncached: frozenset[int], images: Images | None
) -> list[bytes]:
    lines = request.messages
    parts: list[bytes] = []
    keep = len(lines) >= KEPT
    if request.system:
        parts.append(encoder.encode({"role": "system", "content": request.system}))
    changing = last_user(lines) if request.context else -1
    for index, line in enumerate(lines):
        if index == changing or index in uncached:
            context = request.context if index == changing else ""
            parts.append(message(line, dialect, images if index in uncached else None, context))
            continue
        try:
            known, wire = line.wire
        except AttributeError:
            known = ""
        if known != dialect:
            wire = message(line, dialect)
            if keep:
                line.wire = (dialect, wire)
        if wire:
            parts.append(wire)
    if request.context and changing < 0:
        parts.append(message(Line(role="user", content=""), dialect, None, request.context))
    return [part for part in parts if part]


def message(line: Line, dialect: Dialect, images: Images | None = None, context: str = "") -> bytes:
    """One line as the API has it; empty where it has no place in this dialect."""
    role = line.get("role")
    text = text_of(line, images)
    if role == "user":
        if context:
            text = f"{text}\n\n{context}" if text else context
        shown = [images[item["path"]] for item in items_of(line) if item["path"] in images] if images else []
        if not shown or dialect == "plain":
            return encoder.encode({"role": "user", "content": text})
        pictures = [
            {"type": "image_url", "image_url": {"url": f"data:{image.mime};base64,{image.base64}"}}
            for image in shown
        ]
        return encoder.encode({"role": "user", "content": [{"type": "text", "text": text}, *pictures]})
    if role == "assistant":
        calls = [
            {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}
            for ident, name, arguments in calls_of(line)
        ]
        if calls and dialect == "openai":
            return encoder.encode({"role": "assistant", "content": text or None, "tool_calls": calls})
        return encoder.encode({"role": "assistant", "content": text}) if text else b""
    if role == "tool" and dialect == "openai":
        return encoder.encode({"role": "tool", "tool_call_id": line.get("tool_call_id", ""), "content": text})
    return b""


# --- response ------------------------------------------------------------------------------------


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None  # a server that did not stream
    finish_reason: str | None = None
    error: Any = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None  # DeepSeek's word for it


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_chunks = msgspec.json.Decoder(_Chunk)


class _Building(msgspec.Struct):
    """A tool call whose pieces are still coming."""

    id: str = ""
    name: str = ""
    arguments: str = ""


class OpenAIDecoder:
    """Puts a response together. Tool calls are yielded whole, at the end: some servers send them in one piece, some
    give id and name once, some leave ids out, and some use index 0 for every call.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.finishing = False
        self._reason = ""
        self._usage = Usage()
        self._calls: list[_Building] = []
        self._by_index: dict[int, _Building] = {}

    def feed(self, data: bytes) -> Sequence[ModelEvent]:
        if data == b"[DONE]":
            return self.end()
        try:
            chunk = _chunks.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # ValidationError too
            return [Failed("cut", f"{self.target.name} sent what is no chat completion chunk: {error}.")]
        if chunk.error:
            return [self._failed(chunk.error)]
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        if not chunk.choices:
            return ()
        choice = chunk.choices[0]
        if choice.error:
            return [self._failed(choice.error)]
        events = self._delta(choice.delta or choice.message)
        if choice.finish_reason:
            self._reason = choice.finish_reason
            self.finishing = True
            if self._reason == "error":
                return [*events, self._failed("the provider broke off")]
        return events

    def end(self) -> Sequence[ModelEvent]:
        if not self.finishing:
            return [Failed("cut", f"{self.target.name}: the stream ended before its end.")]
        calls = self._finished_calls()
        reason = _REASONS.get(self._reason, "stop")
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if calls else "stop"
        return [*calls, Finished(reason, self._usage)]

    def _delta(self, delta: _Delta | None) -> list[ModelEvent]:
        if delta is None:
            return []
        events: list[ModelEvent] = []
        if thought := delta.reasoning_content or delta.reasoning:
            events.append(Reasoning(thought))
        if delta.content:
            if isinstance(delta.content, str):
                events.append(Text(delta.content))
            else:
                events += [Text(part["text"]) for part in delta.content if part.get("text")]
        if delta.refusal:
            events.append(Text(delta.refusal))
        for call in delta.tool_calls or ():
            self._piece(call)
        return events

    def _piece(self, piece: _Call) -> None:
        function = piece.function or _Function()
        call = self._by_index.get(piece.index) if piece.index is not None else None
        if piece.index is None and self._calls and not piece.id and not function.name:
            call = self._calls[-1]
        if call is None or (piece.id and call.id and piece.id != call.id):
            call = _Building()
            self._calls.append(call)
            if piece.index is not None:
                self._by_index[piece.index] = call
        call.id = call.id or piece.id or ""
        call.name = call.name or function.name or ""
        if isinstance(function.arguments, str):
            call.arguments += function.arguments
        elif function.arguments is not None:
            call.arguments = encoder.encode(function.arguments).decode()

    def _finished_calls(self) -> list[ToolCall]:
        """The calls; one that the output limit cut off is left out."""
        calls = [
            ToolCall(call.id or f"call_{new_id()}", call.name, call.arguments or "{}")
            for call in self._calls
            if call.name
        ]
        if self._reason in ("length", "max_tokens"):
            calls = [call for call in calls if _is_json(call.arguments)]
        return calls

    def _failed(self, error: Any) -> Failed:
        return classify(self.target, 0, complaint(error))


def _usage(usage: _Usage) -> Usage:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        input=usage.prompt_tokens or 0,
        output=usage.completion_tokens or 0,
        cached=(prompt.cached_tokens if prompt else None) or usage.prompt_cache_hit_tokens or 0,
        reasoning=(completion.reasoning_tokens if completion else None) or 0,
    )


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def limit_name(base_url: str, extra: Mapping[str, Any]) -> str:
    """openai.com and Azure take `max_completion_tokens`, other servers mostly know `max_tokens`; `extra` decides."""
    for name in ("max_tokens", "max_completion_tokens"):
        if name in extra:
            return name
    modern = ("api.openai.com", ".openai.azure.com")
    return "max_completion_tokens" if any(host in base_url for host in modern) else "max_tokens"
