"""FakePort: an in-memory gateway side of a channel's port, to drive an adapter's public door in tests."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from nanobot.channel import Channel, Command, Keys, Page, Receipt, Sessions, SessionSummary, TurnState
from nanobot.clock import Clock, SystemClock
from nanobot.errors import Unreachable
from nanobot.messages import Accepted, Address, Inbound, Line, Outbound, new_id


class FakeKeys:
    """Keys in a dict."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    async def get(self, key: str) -> str | None:
        return self.values.get(key)

    async def set(self, key: str, value: str) -> None:
        self.values[key] = value

    async def delete(self, key: str) -> None:
        self.values.pop(key, None)

    async def items(self, prefix: str = "") -> list[tuple[str, str]]:
        return sorted(pair for pair in self.values.items() if pair[0].startswith(prefix))


class FakeSessions:
    """Histories in a dict; `lines[key]` is what a session holds."""

    def __init__(self) -> None:
        self.lines: dict[str, list[Line]] = {}
        self.titles: dict[str, str] = {}

    async def list(self) -> Sequence[SessionSummary]:
        return [
            SessionSummary(key, self.titles.get(key, ""), updated_at="", messages=len(lines))
            for key, lines in self.lines.items()
        ]

    async def messages(self, key: str, before: int | None = None, limit: int = 24) -> Page:
        lines = self.lines.get(key, [])
        end = len(lines) if before is None else min(before, len(lines))
        start = max(0, end - limit)
        return Page(lines[start:end], start or None, len(lines))

    async def rename(self, key: str, title: str) -> None:
        self.titles[key] = title

    async def delete(self, key: str) -> bool:
        return self.lines.pop(key, None) is not None

    async def search(self, query: str, limit: int = 50) -> Sequence[Mapping[str, Any]]:
        hits = [
            {"key": key, "title": self.titles.get(key, ""), "index": index, "excerpt": line["content"]}
            for key, lines in self.lines.items()
            for index, line in enumerate(lines)
            if query.lower() in str(line.get("content", "")).lower()
        ]
        return hits[:limit]

    async def state(self, key: str) -> TurnState:
        del key
        return TurnState(running=False)


class FakePort:
    """Implements `channel.Port`: it accepts everything once, remembers it, and delivers as the gateway would.

    `fails` is raised by the next `accept`. `send` queues a reply; it is delivered now or when the channel reports the
    address reachable.
    """

    def __init__(
        self,
        workspace: Path,
        settings: Mapping[str, Any] | None = None,
        *,
        name: str = "fake",
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.settings: Mapping[str, Any] = settings or {}
        self.workspace = workspace
        self.media = workspace / ".nanobot" / "media" / name
        self.media.mkdir(parents=True, exist_ok=True)
        self.clock: Clock = clock or SystemClock()
        self.keys: Keys = FakeKeys()
        self.histories = FakeSessions()
        self.sessions: Sessions = self.histories
        self.accepted: list[Inbound] = []
        self.arrivals: asyncio.Queue[Inbound] = asyncio.Queue()
        self.stopped: list[str] = []
        self.problem = ""
        self.fails: Exception | None = None
        self.refuses = False
        self.running: dict[str, TurnState] = {}
        self.outbox: list[Outbound] = []
        self.receipts: dict[str, Receipt] = {}
        self._ids: dict[str, str] = {}
        self._channel: Channel | None = None
        self._deliveries: set[asyncio.Task[None]] = set()
        self._lanes: dict[Address, asyncio.Lock] = {}

    def connect(self, channel: Channel) -> None:
        """The channel that `send` delivers to."""
        self._channel = channel

    async def accept(self, message: Inbound) -> Accepted | None:
        if self.fails is not None:
            error, self.fails = self.fails, None
            raise error
        if self.refuses:
            return None
        known = self._ids.get(message.message_id)
        if known is not None:
            return Accepted(known, duplicate=True)
        given = self._ids[message.message_id] = new_id()
        self.accepted.append(message)
        self.arrivals.put_nowait(message)
        return Accepted(given)

    def inbox_id(self, message: Inbound) -> str:
        return self._ids[message.message_id]

    async def stop(self, session: str) -> bool:
        self.stopped.append(session)
        return self.running.pop(session, None) is not None

    def send(self, message: Outbound) -> None:
        """A turn's reply is committed."""
        self.outbox.append(message)
        self.reachable(message.address)

    def reachable(self, address: Address) -> None:
        task = asyncio.create_task(self._deliver(address))
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)

    async def settle(self) -> None:
        """Wait for the deliveries under way."""
        while self._deliveries:
            await asyncio.gather(*self._deliveries)

    async def undelivered(self, address: Address) -> Sequence[Outbound]:
        return [message for message in self.outbox if message.address == address]

    def state(self, session: str) -> TurnState:
        return self.running.get(session, TurnState(running=False))

    def commands(self) -> Sequence[Command]:
        return [Command("help", "/help", "What I can do.")]

    async def posted(self, turn: str, part: int, address: Address, ref: str) -> None:
        del turn, part, address, ref

    def report(self, problem: str) -> None:
        self.problem = problem

    async def _deliver(self, address: Address) -> None:
        if self._channel is None:
            return
        async with self._lanes.setdefault(address, asyncio.Lock()):
            for message in await self.undelivered(address):
                try:
                    receipt = await self._channel.deliver(message)
                except Unreachable:
                    return
                self.outbox.remove(message)
                self.receipts[message.id] = receipt


def line(role: str, content: str, turn: str = "", at: datetime | None = None) -> Line:
    """A history line."""
    made = Line(role=role, content=content, timestamp=(at or SystemClock().now()).isoformat())
    if turn:
        made["turn"] = turn
    return made
