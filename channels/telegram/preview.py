"""What a running turn shows, without I/O: the text so far, the tools that work, how long it takes."""

import json
from typing import Any

from nanobot.channel import (
    Address,
    Event,
    Notice,
    TextDelta,
    TextEnded,
    TextReset,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)

DETAIL = 60  # characters of a tool's arguments


class Tool:
    def __init__(self, name: str, detail: str, now: float) -> None:
        self.name = name
        self.detail = detail
        self.started = now


class Picture:
    """Takes a turn's events and tells what its chat should show now, as Markdown."""

    def __init__(self, address: Address, turn: str, now: float) -> None:
        self.address = address
        self.turn = turn
        self.started = now
        self.text = ""
        self.stream = ""
        self.tools: dict[str, Tool] = {}
        self.steps = 0  # tools that were used
        self.notice = ""

    def take(self, event: Event, now: float) -> None:
        match event:
            case TextDelta():
                if event.stream != self.stream:
                    self.stream, self.text = event.stream, ""
                self.text += event.text
                self.notice = ""
            case TextEnded():
                self.stream, self.text = event.stream, event.text
            case TextReset():
                if event.stream == self.stream:
                    self.text = ""
            case ToolStarted():
                self.tools[event.call_id] = Tool(event.name, detail(event.arguments), now)
                self.steps += 1
                self.notice = ""
            case ToolProgress():
                if event.call_id in self.tools:
                    self.tools[event.call_id].detail = one_line(event.text)
            case ToolEnded():
                self.tools.pop(event.call_id, None)
            case Notice():
                self.notice = one_line(event.text)

    def markdown(self, now: float) -> str:
        """Empty while there is nothing to tell."""
        lines = [self.text.rstrip()] if self.text.strip() else []
        work = [
            f"⚙️ {tool.name}{f' `{tool.detail}`' if tool.detail else ''} · {elapsed(now - tool.started)}"
            for tool in self.tools.values()
        ]
        if work:
            lines.append("\n\n".join(work))
        elif self.steps and not self.writing:
            lines.append(
                f"⚙️ {self.steps} {'step' if self.steps == 1 else 'steps'} · {elapsed(now - self.started)}"
            )
        if self.notice:
            lines.append(f"⏳ {self.notice}")
        return "\n\n".join(lines)

    @property
    def writing(self) -> bool:
        """Whether the text of the answer is what happens now."""
        return bool(self.text.strip()) and not self.tools


def detail(arguments: dict[str, Any]) -> str:
    """The one argument that says most."""
    for key in ("command", "path", "query", "url", "pattern", "task", "goal"):
        if isinstance(arguments.get(key), str):
            return one_line(arguments[key])
    return one_line(json.dumps(arguments, ensure_ascii=False)) if arguments else ""


def one_line(text: str) -> str:
    line = " ".join(text.split()).replace("`", "'")
    return line[:DETAIL] + "…" if len(line) > DETAIL else line


def elapsed(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
