"""Anthropic's messages API on loopback: `python -m tests.emulators.anthropic --port 0` prints its base URL."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.emulators.model_server import Asked, ModelServer, Refused, Reply, main, split_words, texts

CONTEXT_BLOCK = "<runtime_context>"  # how nanobot's runtime context block begins
SIGNATURE = "c2lnbmVk"


class _Message(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]]


class _Body(msgspec.Struct):
    model: str
    max_tokens: int
    messages: list[_Message]
    stream: bool = False
    system: str | list[dict[str, Any]] = ""


_bodies = msgspec.json.Decoder(_Body)


class AnthropicServer(ModelServer):
    """POST /v1/messages, streamed or not. A reply's reasoning becomes a signed thinking block."""

    path = "/v1/messages"

    def read(self, raw: bytes, headers: Mapping[str, str]) -> Asked:
        if "anthropic-version" not in headers:
            raise Refused("anthropic-version: header is required")
        try:
            body = _bodies.decode(raw)
        except msgspec.ValidationError as error:
            raise Refused(f"Input should be valid: {error}") from error
        if raw.count(b'"cache_control"') > 4:
            raise Refused("A maximum of 4 blocks with cache_control may be provided.")
        text, results = _last(body.messages)
        return Asked(text, results, body.stream, body.model, len(raw))

    def encode(self, reply: Reply, asked: Asked) -> tuple[bytes, list[bytes], bytes]:
        usage = {
            "input_tokens": asked.input_chars // 4,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "output_tokens": 1,
        }
        message = {"id": _ID, "type": "message", "role": "assistant", "model": asked.model, "content": []}
        head = _event("message_start", message={**message, "usage": usage}) + _event("ping")
        words: list[bytes] = []
        index = 0
        if reply.reasoning:
            words.append(_start(index, {"type": "thinking", "thinking": "", "signature": ""}))
            words += [
                _delta(index, {"type": "thinking_delta", "thinking": word})
                for word in split_words(reply.reasoning)
            ]
            words.append(_delta(index, {"type": "signature_delta", "signature": SIGNATURE}) + _stop(index))
            index += 1
        if reply.text:
            words.append(_start(index, {"type": "text", "text": ""}))
            words += [_delta(index, {"type": "text_delta", "text": word}) for word in split_words(reply.text)]
            words.append(_stop(index))
            index += 1
        for call in reply.calls:
            words.append(_start(index, {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}))
            half = len(call.arguments) // 2
            words += [
                _delta(index, {"type": "input_json_delta", "partial_json": piece})
                for piece in (call.arguments[:half], call.arguments[half:])
            ]
            words.append(_stop(index))
            index += 1
        if reply.error:
            return head, words, _frame("error", self.problem(529, reply.error, reply.code))
        tail = _event(
            "message_delta", delta={"stop_reason": _reason(reply)}, usage={"output_tokens": _output(reply)}
        )
        return head, words, tail + _event("message_stop")

    def whole(self, reply: Reply, asked: Asked) -> bytes:
        content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
        content += [
            {
                "type": "tool_use",
                "id": call.id,
                "name": call.name,
                "input": msgspec.json.decode(call.arguments),
            }
            for call in reply.calls
        ]
        usage = {"input_tokens": asked.input_chars // 4, "output_tokens": _output(reply)}
        return msgspec.json.encode(
            {
                "id": _ID,
                "type": "message",
                "role": "assistant",
                "model": asked.model,
                "content": content,
                "stop_reason": _reason(reply),
                "usage": usage,
            }
        )

    def problem(self, status: int, text: str, code: str) -> bytes:
        kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
        kinds |= {403: "permission_error", 404: "not_found_error", 529: "overloaded_error"}
        kind = code or kinds.get(status, "api_error")
        return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": text}})


_ID = "msg_emulated"


def _frame(name: str, data: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


def _event(name: str, **fields: Any) -> bytes:
    return _frame(name, msgspec.json.encode({"type": name, **fields}))


def _start(index: int, block: dict[str, Any]) -> bytes:
    return _event("content_block_start", index=index, content_block=block)


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return _event("content_block_delta", index=index, delta=delta)


def _stop(index: int) -> bytes:
    return _event("content_block_stop", index=index)


def _reason(reply: Reply) -> str:
    return reply.finish or ("tool_use" if reply.calls else "end_turn")


def _output(reply: Reply) -> int:
    return len(reply.text.split()) + len(reply.reasoning.split())


def _last(messages: list[_Message]) -> tuple[str, tuple[str, ...]]:
    """The last user text and the tool results after it. Raises Refused as the platform does."""
    if not messages:
        raise Refused("messages: at least one message is required")
    if messages[0].role != "user":
        raise Refused('messages: first message must use the "user" role')
    calls: set[str] = set()
    text = ""
    results: list[str] = []
    role = ""
    for number, message in enumerate(messages):
        if message.role == role:
            raise Refused(f'messages.{number}: roles must alternate between "user" and "assistant"')
        role = message.role
        blocks = _blocks(message.content)
        if not blocks:
            raise Refused(f"messages.{number}: all messages must have non-empty content")
        kinds = [block["type"] for block in blocks]
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            raise Refused(f"messages.{number}: text content blocks must be non-empty")
        if role == "assistant":
            calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
            if "thinking" in kinds[1:] and kinds[0] != "thinking":
                raise Refused(f"messages.{number}: thinking blocks must come first")
            if any(block["type"] == "thinking" and block["signature"] != SIGNATURE for block in blocks):
                raise Refused(f"messages.{number}: Invalid `signature` in `thinking` block")
            continue
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if set(answered) != calls or len(answered) != len(calls):
            raise Refused(f"messages.{number}: `tool_use` ids and `tool_result` blocks do not match: {calls}")
        if "tool_result" in kinds[len(answered) :]:
            raise Refused(f"messages.{number}: tool_result blocks must come first")
        calls = set()
        for block in blocks:
            if block["type"] == "tool_result":
                results.append(texts(block["content"]))
            elif block["type"] == "text" and not block["text"].startswith(CONTEXT_BLOCK):
                text = block["text"]
                results.clear()
    if role != "user":
        raise Refused("This model does not support assistant message prefill.")
    return text, tuple(results)


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


if __name__ == "__main__":
    main(AnthropicServer)
