"""What `codex exec --json` prints, as steps and a verdict. Seen with versions 0.163 and 0.169."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from nanobot.events import Usage
from nanobot.executor import Spent, Step, StepState, Verdict

_STATES: Mapping[str, StepState] = {
    "in_progress": "started",
    "completed": "completed",
    "failed": "failed",
    "declined": "declined",
}


class CodexEvents:
    """One turn. `total` is the thread's usage before it: codex counts a thread's, not a turn's, over all resumes."""

    def __init__(self, total: Spent | None = None, turn: int = 0) -> None:
        self._before = total or Spent()
        self._turn = turn
        self._said: str = ""
        self._answer = ""
        self._error = ""
        self._notice = ""
        self._thread = ""
        self._total = self._before

    def feed(self, event: Mapping[str, Any]) -> Sequence[Step]:
        at = text(event.get("timestamp"))  # of who read it: codex names none
        return [msgspec.structs.replace(step, at=at) for step in self._steps(event)]

    def _steps(self, event: Mapping[str, Any]) -> Sequence[Step]:
        match event.get("type"):
            case "thread.started":
                self._thread = text(event.get("thread_id"))
            case "item.started" | "item.updated" | "item.completed":
                item = event.get("item")
                if isinstance(item, Mapping):
                    return self._item(item, ended=event["type"] == "item.completed")
            case "error":  # a retry, or the text of the failure that follows: not an end
                self._notice = text(event.get("message"))
                return [Step("notice", text=self._notice, turn=self._turn)]
            case "turn.failed":
                error = event.get("error")
                self._said = "failed"
                self._error = text(error.get("message") if isinstance(error, Mapping) else error)
                return [Step("error", text=self._error, state="failed", turn=self._turn)]
            case "turn.completed":
                self._said = "completed"
                usage = event.get("usage")
                if isinstance(usage, Mapping):
                    self._total = Spent(_usage(usage))
            case "event_msg":  # of its own record: what the thread used so far
                told = mapping(event.get("payload"))
                usage = mapping(told.get("info")).get("total_token_usage")
                if told.get("type") == "token_count" and isinstance(usage, Mapping) and not self._said:
                    self._total = Spent(_usage(usage))
        return ()

    def verdict(self) -> Verdict:
        said = self._said
        return Verdict(
            said="completed" if said == "completed" else "failed" if said else None,
            answer=self._answer,
            error=self._error or ("" if said == "completed" else self._notice),
            thread=self._thread,
            spent=self._total.since(self._before),
            total=self._total,
        )

    def _item(self, item: Mapping[str, Any], *, ended: bool) -> Sequence[Step]:
        kind, item_id = item.get("type"), text(item.get("id"))
        state = _STATES.get(text(item.get("status")), "completed" if ended else "started")
        turn = self._turn
        match kind:
            case "agent_message":
                self._answer = text(item.get("text"))
                return [Step("message", item_id, self._answer, turn=turn)]
            case "reasoning":
                return [Step("thinking", item_id, text(item.get("text")), turn=turn)]
            case "command_execution":
                code = item.get("exit_code")
                return [
                    Step(
                        "command",
                        item_id,
                        text(item.get("command")),
                        text(item.get("aggregated_output")),
                        state,
                        code if isinstance(code, int) else None,
                        turn=turn,
                    )
                ]
            case "file_change":
                changes = [
                    {"path": text(one.get("path")), "kind": text(one.get("kind"))}
                    for one in maps(item.get("changes"))
                ]
                return [Step("files", item_id, state=state, changes=changes, turn=turn)]
            case "mcp_tool_call" | "collab_tool_call":
                name = ".".join(text(item[key]) for key in ("server", "tool") if item.get(key))
                return [
                    Step(
                        "tool",
                        item_id,
                        output=shown(item.get("result") or item.get("error")),
                        state=state,
                        name=name or str(kind),
                        arguments=mapping(item.get("arguments")),
                        turn=turn,
                    )
                ]
            case "web_search":
                return [Step("search", item_id, text(item.get("query")), state=state, turn=turn)]
            case "todo_list" | "plan":
                lines = [
                    f"[{'x' if one.get('completed') else ' '}] {text(one.get('text'))}"
                    for one in maps(item.get("items"))
                ]
                return [
                    Step("todo", item_id, "\n".join(lines) or text(item.get("text")), state=state, turn=turn)
                ]
            case "error":  # comes even before the turn starts: codex means a warning
                return [Step("warning", item_id, text(item.get("message")), turn=turn)]
        return ()


def _usage(usage: Mapping[str, Any]) -> Usage:
    """Codex's input includes what was cached."""
    return Usage(
        number(usage.get("input_tokens")),
        number(usage.get("output_tokens")),
        number(usage.get("cached_input_tokens")),
        number(usage.get("reasoning_output_tokens")),
    )


def maps(value: Any) -> Sequence[Mapping[str, Any]]:
    """The objects of a list; anything else in its place holds none."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else ()


def text(value: Any) -> str:
    """A text of an event; anything else in its place is nothing."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def money(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def shown(value: Any) -> str:
    """A result of any shape as text: the texts of its content blocks, else as it prints."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and "content" in value:
        return shown(value["content"])
    if isinstance(value, list):
        parts = [text(one.get("text")) for one in maps(value)]
        if any(parts):
            return "\n".join(part for part in parts if part)
    return "" if value is None else str(value)
