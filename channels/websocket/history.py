"""Histories as clients may see them: the session's lines, without paths of this machine."""

from typing import Any

from nanobot.channel import Line, Page

from .media import MediaStore

_SHOWN = (
    "role",
    "content",
    "timestamp",
    "turn",
    "tool_calls",
    "tool_call_id",
    "name",
    "reasoning",
    "sender",
    "latency_ms",
    "usage",
    "model",
    "injected",
    "interrupted",
    "error",
)


def history_fields(page: Page, media: MediaStore) -> dict[str, Any]:
    """A page of history as frames and REST answers carry it."""
    return {
        "messages": [_message(line, media) for line in page.messages],
        "before": page.before,
        "total": page.total,
    }


def _message(line: Line, media: MediaStore) -> dict[str, Any]:
    """One line. `message_id` is what the live frames of the same message carry."""
    shown = {name: line[name] for name in _SHOWN if name in line}
    # Files of other gateways have these by other names.
    if line.get("reasoning_content"):
        shown.setdefault("reasoning", line["reasoning_content"])
    if line.get("_command"):
        shown["injected"] = "command"
    turn = line.get("turn")
    if turn and line.get("role") == "user":
        shown["message_id"] = turn
    elif turn and line.get("role") == "assistant" and not line.get("tool_calls"):
        shown["message_id"] = f"{turn}.0"
    if line.get("media"):
        shown["media"] = [media.describe(one) for one in line["media"]]
    return shown
