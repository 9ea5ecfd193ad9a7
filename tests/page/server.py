"""A gateway for the page's tests: the real channel and HTTP server, with scripted turns behind the port.

    python -m tests.page.server            serves a demonstration on http://127.0.0.1:8766

A script is a coroutine that plays one turn; `Stage.scripts` maps a message's first word to it.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from channels.websocket.adapter import WebSocketChannel
from nanobot import channel
from nanobot.channel import About, Command, SessionSummary, TurnState
from nanobot.clock import SystemClock
from nanobot.events import (
    Event,
    GoalChanged,
    ReasoningDelta,
    ReasoningEnded,
    SessionUpdated,
    Steered,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
)
from nanobot.http import HttpServer, build
from nanobot.messages import Inbound, Line, Outbound, OutboundKind
from nanobot.testing_port import FakePort, FakeSessions, line

Script = Callable[["Play"], Awaitable[None]]


class Sessions(FakeSessions):
    """With titles taken from the first message and times from the last."""

    def __init__(self) -> None:
        super().__init__()
        self.metadata: dict[str, dict[str, Any]] = {}
        self.running: set[str] = set()

    async def list(self) -> list[SessionSummary]:
        rows = []
        for key, lines in self.lines.items():
            first = next((str(one["content"]) for one in lines if one["role"] == "user"), "")
            updated = str(lines[-1]["timestamp"]) if lines else ""
            title = self.titles.get(key) or first[:60]
            rows.append(
                SessionSummary(
                    key, title, updated, running=key in self.running, metadata=self.metadata.get(key, {})
                )
            )
        return sorted(rows, key=lambda row: row.updated_at, reverse=True)


class Play:
    """One turn, as a script plays it."""

    def __init__(self, stage: "Stage", inbound: Inbound, turn: str) -> None:
        self.stage = stage
        self.inbound = inbound
        self.turn = turn
        self.began = time.time()
        self.text = ""
        self.streams = 0
        self.calls = 0
        self.answers = [turn]
        self.lines = stage.port.sessions.lines.setdefault(inbound.key, [])

    @property
    def words(self) -> str:
        return self.inbound.text.partition(" ")[2]

    @property
    def stream(self) -> str:
        return f"{self.turn}.{self.streams}"

    def show(self, kind: Callable[..., Event], *values: Any) -> None:
        self.stage.channel.show(kind(self.inbound.key, self.turn, self.inbound.address, *values))

    async def say(self, text: str, rate: float = 0, size: int = 4) -> None:
        """Stream a text, `rate` tokens of `size` characters a second; 0 = all at once."""
        start = time.monotonic()
        for count, at in enumerate(range(0, len(text), size), 1):
            self.text += text[at : at + size]
            self.show(TextDelta, text[at : at + size], self.stream)
            if rate and (ahead := start + count / rate - time.monotonic()) > 0.002:
                await asyncio.sleep(ahead)

    async def think(self, text: str, seconds: float = 0) -> None:
        for word in text.split(" "):
            self.show(ReasoningDelta, word + " ", self.stream)
            if seconds:
                await asyncio.sleep(seconds / text.count(" "))
        self.show(ReasoningEnded, self.stream)
        self._thought = text

    async def tool(
        self, name: str, arguments: dict[str, Any], result: str, seconds: float = 0, *, error: bool = False
    ) -> None:
        self.calls += 1
        call = f"{self.turn}-{self.calls}"
        if self.text:
            self.show(TextEnded, self.stream, self.text)
        asked = line("assistant", self.text, self.turn)
        if thought := self.__dict__.pop("_thought", ""):
            asked["reasoning"] = thought
        asked["tool_calls"] = [
            {"id": call, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        ]
        self.lines.append(asked)
        self.show(ToolStarted, call, name, arguments)
        await asyncio.sleep(seconds)
        answer = line("tool", result, self.turn)
        answer.update(tool_call_id=call, name=name)
        if error:
            answer["error"] = True
        self.lines.append(answer)
        self.show(ToolEnded, call, name, result, error, seconds)
        self.text = ""
        self.streams += 1

    def begin_anew(self) -> None:
        """As /new does, once the old messages are in the archive."""
        self.stage.channel.show(SessionUpdated(self.inbound.key, "", self.inbound.address, "thread"))

    def goal(self, objective: str, status: str = "active") -> None:
        self.show_goal({"status": status, "objective": objective, "started_at": self.began - 754})

    def show_goal(self, goal: dict[str, Any]) -> None:
        self.stage.port.sessions.metadata[self.inbound.key] = {"goal_state": goal}
        self.stage.port.sessions.abouts[self.inbound.key] = About(goal_state=goal)
        self.show(GoalChanged, goal)

    def steer(self, inbound: Inbound) -> None:
        row = self.stage.port.inbox_id(inbound)
        self.answers.append(row)
        if self.text:
            self.show(TextEnded, self.stream, self.text)
            self.lines.append(line("assistant", self.text, self.turn))
            self.text = ""
            self.streams += 1
        self.lines.append(line("user", inbound.text, row))
        self.show(Steered, (row,))

    def end(self, status: str = "completed") -> None:
        key = self.inbound.key
        latency = round((time.time() - self.began) * 1000)
        final = line("assistant", self.text, self.turn)
        final["latency_ms"] = latency
        if status != "completed":
            final["injected"] = status
        self.lines.append(final)
        kind: OutboundKind = "error" if status == "failed" else "reply"
        shown = status != "failed"
        reply = Outbound(self.turn, 0, self.inbound.address, self.text, kind=kind, streamed=shown)
        replies = (reply,) if self.text else ()
        self.stage.port.running.pop(key, None)
        self.stage.port.sessions.running.discard(key)
        stream = self.stream if self.text and shown else ""
        self.show(TurnEnded, status, tuple(self.answers), replies, stream, latency, Usage())
        for one in replies:
            self.stage.port.send(one)
        self.stage.channel.show(SessionUpdated(key, self.turn, self.inbound.address))


class Port(FakePort):
    """Stops the turn that runs, as the gateway would."""

    stage: "Stage"
    sessions: Sessions

    async def stop(self, session: str) -> bool:
        task = self.stage.turns.get(session)
        if task is None:
            return False
        task.cancel()
        return True

    def commands(self) -> list[Command]:
        return [
            Command("help", "/help", "What I can do"),
            Command("new", "/new", "Start a new conversation"),
            Command("stop", "/stop", "Stop what runs"),
            Command("status", "/status", "What runs and what it cost"),
            Command("goal", "/goal <objective>", "Work until something is done"),
            Command("sessions", "/sessions", "List the sessions"),
        ]


class Stage:
    """A channel on an HTTP server, with a history that outlives both."""

    def __init__(self, folder: Path, settings: Mapping[str, Any] | None = None, port: int = 0) -> None:
        self.port = Port(folder, settings, name="websocket")
        self.port.stage = self
        self.port.sessions = Sessions()
        self.scripts: dict[str, Script] = {}
        self.turns: dict[str, asyncio.Task[None]] = {}
        self.number = port
        self._queues: dict[str, asyncio.Queue[Inbound]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.number}/"

    async def start(self) -> None:
        self.channel = WebSocketChannel(cast("channel.Port", self.port))
        self.port.connect(self.channel)
        await self.channel.start()
        app = build(self.channel.routes(), health=_health, ready=lambda: True, metrics=lambda: b"")
        self.server = HttpServer(app, port=self.number)
        self.number = await self.server.start()
        if not self._tasks:
            self._spawn(self._arrivals())

    async def stop(self) -> None:
        """Close the server; sockets are told to come back."""
        await self.channel.stop()
        await self.server.stop()

    async def restart(self) -> None:
        """A new life on the same history: another epoch, nothing to replay."""
        await self.stop()
        await self.start()

    def drop(self) -> None:
        """Cut every socket, as a network does."""
        for connection in tuple(self.channel._hub.connections):
            connection.cut()

    async def close(self) -> None:
        for task in (*self._tasks, *self.turns.values()):
            task.cancel()
        await asyncio.gather(*self._tasks, *self.turns.values(), return_exceptions=True)
        await self.stop()

    def fill(self, key: str, *lines: Line) -> None:
        self.port.sessions.lines.setdefault(key, []).extend(lines)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)

    async def _arrivals(self) -> None:
        while True:
            inbound = await self.port.arrivals.get()
            queue = self._queues.get(inbound.key)
            if queue is None:
                queue = self._queues[inbound.key] = asyncio.Queue()
                self._spawn(self._session(inbound.key, queue))
            queue.put_nowait(inbound)

    async def _session(self, key: str, queue: "asyncio.Queue[Inbound]") -> None:
        while True:
            inbound = await queue.get()
            task = self.turns[key] = asyncio.create_task(self._turn(inbound))
            with suppress(asyncio.CancelledError):
                await asyncio.shield(task)
            if not task.done():  # we are being closed
                task.cancel()
                raise asyncio.CancelledError
            del self.turns[key]

    async def _turn(self, inbound: Inbound) -> None:
        turn = self.port.inbox_id(inbound)
        play = Play(self, inbound, turn)
        play.lines.append(line("user", inbound.text, turn))
        self.port.running[inbound.key] = TurnState(True, turn, play.began)
        self.port.sessions.running.add(inbound.key)
        play.show(TurnStarted, (turn,), play.began)
        script = self.scripts.get(inbound.text.split(" ")[0], _echo)
        try:
            await script(play)
        except asyncio.CancelledError:
            play.end("stopped")
            return
        if inbound.key in self.port.running:
            play.end()


async def _health() -> Mapping[str, Any]:
    return {"status": "ok"}


async def _echo(play: Play) -> None:
    await play.say(f"You said: {play.inbound.text}")


SAMPLE = (Path(__file__).parent / "sample.md").read_text()


async def demonstration(play: Play) -> None:
    await play.think("The tests of the limits fail since yesterday, so I look at them first.", 1)
    await play.tool("exec", {"command": "pytest -q tests/limits"}, "3 failed, 41 passed in 2.1 s", 1.5)
    await play.tool("read_file", {"path": "nanobot/limits.py"}, "class Bucket:\n    …", 0.6)
    await play.tool(
        "exec", {"command": "git log -3 --oneline"}, "fatal: not a git repository", 0.3, error=True
    )
    await play.say(SAMPLE, 120)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder), port=8766)
        stage.scripts["demo"] = demonstration
        now = SystemClock().now()
        stage.fill(
            "telegram:42",
            line("user", "Remind me of the dentist", "t1", now),
            line("assistant", "Done.", "t1"),
        )
        await stage.start()
        print(stage.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
