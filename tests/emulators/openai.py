"""OpenAI's chat completions on loopback: `python -m tests.emulators.openai --port 0` prints its base URL."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.emulators.model_server import (
    Asked,
    ModelServer,
    Refused,
    Reply,
    main,
    split_words,
    texts,
    without_context,
)


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    function: _Function


class _Message(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str = ""


class _Body(msgspec.Struct):
    model: str
    messages: list[_Message]
    stream: bool = False


_bodies = msgspec.json.Decoder(_Body)


class OpenAIServer(ModelServer):
    """POST /v1/chat/completions, streamed or not."""

    path = "/v1/chat/completions"
    prefix = "/v1"

    def __init__(self, *, require_key: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.require_key = require_key

    def read(self, raw: bytes, headers: Mapping[str, str]) -> Asked:
        try:
            body = _bodies.decode(raw)
        except msgspec.ValidationError as error:
            raise Refused(f"Invalid type: {error}") from error
        if not body.messages:
            raise Refused("Invalid 'messages': empty array. Expected an array with minimum length 1.")
        text, results = _last(body.messages)
        return Asked(text, results, body.stream, body.model, len(raw))

    def encode(self, reply: Reply, asked: Asked) -> tuple[bytes, list[bytes], bytes]:
        head = _chunk({"role": "assistant", "content": ""})
        words = [_chunk({"reasoning_content": word}) for word in split_words(reply.reasoning)]
        words += [_WORD[0] + msgspec.json.encode(word) + _WORD[1] for word in split_words(reply.text)]
        for index, call in enumerate(reply.calls):
            function = {"name": call.name, "arguments": ""}
            words.append(
                _chunk(
                    {
                        "tool_calls": [
                            {"index": index, "id": call.id, "type": "function", "function": function}
                        ]
                    }
                )
            )
            half = len(call.arguments) // 2
            for piece in (call.arguments[:half], call.arguments[half:]):
                words.append(_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
        if reply.error:
            problem = self.problem(500, reply.error, reply.code)
            return head, words, b"data: " + problem + b"\n\n"
        finish = reply.finish or ("tool_calls" if reply.calls else "stop")
        usage = {"id": _ID, "object": "chat.completion.chunk", "choices": [], "usage": _usage(reply, asked)}
        tail = _chunk({}, finish) + b"data: " + msgspec.json.encode(usage) + b"\n\ndata: [DONE]\n\n"
        return head, words, tail

    def whole(self, reply: Reply, asked: Asked) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text}
        if reply.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in reply.calls
            ]
        finish = reply.finish or ("tool_calls" if reply.calls else "stop")
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return msgspec.json.encode(
            {"id": _ID, "object": "chat.completion", "choices": [choice], "usage": _usage(reply, asked)}
        )

    def problem(self, status: int, text: str, code: str) -> bytes:
        kind = {400: "invalid_request_error", 401: "invalid_request_error", 429: "requests"}.get(
            status, "server_error"
        )
        return msgspec.json.encode(
            {"error": {"message": text, "type": kind, "param": None, "code": code or None}}
        )


_ID = "chatcmpl-emulated"


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return (
        b"data: "
        + msgspec.json.encode({"id": _ID, "object": "chat.completion.chunk", "choices": [choice]})
        + b"\n\n"
    )


_WORD = _chunk({"content": "@"}).split(b'"@"')


def _usage(reply: Reply, asked: Asked) -> dict[str, Any]:
    output = len(reply.text.split()) + len(reply.reasoning.split())
    return {
        "prompt_tokens": asked.input_chars // 4,
        "completion_tokens": output,
        "total_tokens": asked.input_chars // 4 + output,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": len(reply.reasoning.split())},
    }


def _last(messages: list[_Message]) -> tuple[str, tuple[str, ...]]:
    """The last user text and the tool results after it. Raises Refused where calls and results do not match."""
    open_calls: set[str] = set()
    text = ""
    results: list[str] = []
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                raise Refused(
                    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                )
            open_calls.discard(message.tool_call_id)
            results.append(texts(message.content))
            continue
        if open_calls:
            raise Refused(f"tool_call_ids did not have response messages: {', '.join(sorted(open_calls))}")
        if message.role == "user":
            text = without_context(texts(message.content))
            results.clear()
        elif message.role == "assistant":
            open_calls = {call.id for call in message.tool_calls or ()}
            if message.content is None and not open_calls:
                raise Refused("Invalid value for 'content': expected a string, got null.")
        elif message.role not in ("system", "developer"):
            raise Refused(
                f"Invalid value: '{message.role}'. Supported values are: 'system', 'assistant', 'user'."
            )
    if open_calls:
        raise Refused(f"tool_call_ids did not have response messages: {', '.join(sorted(open_calls))}")
    return text, tuple(results)


if __name__ == "__main__":
    main(OpenAIServer)
