"""What tests of turns share: tools that they can hold, and short ways to look at histories and events."""

import asyncio

import msgspec

from nanobot.events import TurnEnded
from nanobot.messages import Line
from nanobot.model import ToolCall
from nanobot.testing import FakeChannel
from nanobot.tool import ToolContext, ToolResult, tool


class Note(msgspec.Struct):
    text: str = ""


class Bench:
    """Two tools that tests can hold: `look` is read-only, `act` is not. Each run is noted."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.tools = [
            tool("look", "Look at something.", read_only=True)(self.look),
            tool("act", "Change something.")(self.act),
            tool("hang", "Never returns.", timeout=0.05)(self.hang),
        ]

    async def look(self, arguments: Note, context: ToolContext) -> ToolResult:
        return await self._run(f"look {arguments.text}")

    async def act(self, arguments: Note, context: ToolContext) -> ToolResult:
        return await self._run(f"act {arguments.text}")

    async def hang(self, arguments: Note, context: ToolContext) -> ToolResult:
        await asyncio.Event().wait()
        raise AssertionError

    async def _run(self, what: str) -> ToolResult:
        self.runs.append(what)
        self.started.set()
        await self.go_on.wait()
        return ToolResult(f"did {what}")


def call(name: str, text: str = "", id: str = "c1") -> ToolCall:
    return ToolCall(id, name, msgspec.json.encode({"text": text}).decode())


def roles(lines: list[Line]) -> list[str]:
    return [str(line["role"]) for line in lines]


def ended(channel: FakeChannel) -> list[TurnEnded]:
    return [event for event in channel.shown if isinstance(event, TurnEnded)]
