"""What the codex and claude command-line tools talk to, on loopback: OpenAI's Responses, and Messages as claude uses it.

They know the directives of `model_server`. The tools send much besides the prompt: only the last words of the user
that are no reminder of the tool's own count.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.emulators.anthropic import AnthropicServer
from tests.emulators.model_server import Asked, ModelServer, Reply

USAGE = {
    "input_tokens": 1000,
    "input_tokens_details": {"cached_tokens": 200},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 7},
    "total_tokens": 1040,
}


class ResponsesServer(ModelServer):
    """POST /v1/responses, streamed."""

    path = "/v1/responses"
    prefix = "/v1"

    def read(self, raw: bytes, headers: Mapping[str, str]) -> Asked:
        text, results = "", []
        for item in msgspec.json.decode(raw).get("input", ()):
            if item.get("type") == "function_call_output":
                results.append(_said(item.get("output")))
            elif item.get("role") == "user" and not _said(item.get("content")).startswith("<"):
                text, results = _said(item.get("content")), []
        return Asked(text, tuple(results), True, "", len(raw))

    def encode(self, reply: Reply, asked: Asked) -> tuple[bytes, list[bytes], bytes]:
        number = len(asked.results)
        head = _event("response.created", response={"id": f"resp_{number}"})
        frames = []
        for index, call in enumerate(reply.calls):
            item = {
                "type": "function_call",
                "id": f"fc_{number}_{index}",
                "call_id": f"{call.id}_{number}",
                "name": call.name,
                "arguments": call.arguments,
            }
            frames.append(_event("response.output_item.done", output_index=index, item=item))
        if reply.text:
            message = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
            whole = {**message, "content": [{"type": "output_text", "text": reply.text, "annotations": []}]}
            frames += [
                _event("response.output_item.added", output_index=0, item={**message, "content": []}),
                _event("response.output_text.delta", item_id=f"msg_{number}", delta=reply.text),
                _event("response.output_item.done", output_index=0, item=whole),
            ]
        return head, frames, _event("response.completed", response={"id": f"resp_{number}", "usage": USAGE})

    def problem(self, status: int, text: str, code: str) -> bytes:
        return msgspec.json.encode(
            {"error": {"message": text, "type": code or "error", "code": code or None}}
        )


class ClaudeServer(AnthropicServer):
    """POST /v1/messages as claude calls it: with system messages in between, reminders, and calls for titles."""

    def read(self, raw: bytes, headers: Mapping[str, str]) -> Asked:
        body = msgspec.json.decode(raw)
        text, results = "", []
        for message in body["messages"]:
            if message["role"] != "user":
                continue
            content = message["content"]
            blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
            for block in blocks:
                if block.get("type") == "tool_result":
                    results.append(_said(block.get("content")))
                elif block.get("type") == "text" and not block["text"].lstrip().startswith("<"):
                    text, results = block["text"], []
        return Asked(text, tuple(results), bool(body.get("stream")), body["model"], len(raw))


def _said(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return content if isinstance(content, str) else ""


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode({"type": kind, **fields}) + b"\n\n"
