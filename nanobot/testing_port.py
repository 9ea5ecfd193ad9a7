"""FakePort: an in-memory gateway side of a channel's port, to drive an adapter's public door in tests."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from nanobot.channel import (
    About,
    Applicant,
    Channel,
    Command,
    DeadLetter,
    Files,
    Keys,
    Page,
    Receipt,
    Sessions,
    SessionSummary,
    TurnState,
    Waiting,
)
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
        self.abouts: dict[str, About] = {}

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

    async def rename(self, key: str, title: str) -> bool:
        if key not in self.lines:
            return False
        self.titles[key] = title
        return True

    async def delete(self, key: str) -> bool:
        return self.lines.pop(key, None) is not None

    async def search(self, query: str, limit: int = 50) -> Sequence[Mapping[str, Any]]:
        hits = [
            {
                "key": key,
                "title": self.titles.get(key, ""),
                "index": index,
                "role": line["role"],
                "excerpt": line["content"],
                "timestamp": line.get("timestamp", ""),
            }
            for key, lines in self.lines.items()
            for index, line in enumerate(lines)
            if query.lower() in str(line.get("content", "")).lower()
        ]
        return hits[:limit]

    async def state(self, key: str) -> TurnState:
        del key
        return TurnState(running=False)

    async def workspace(self, key: str) -> Mapping[str, Any]:
        return {"key": key, "stage": "idle"}

    async def about(self, key: str) -> About:
        return self.abouts.get(key, About())

    async def export(self, key: str) -> bytes | None:
        lines = self.lines.get(key)
        return None if lines is None else b"".join(msgspec.json.encode(line) + b"\n" for line in lines)

    async def fork(self, key: str, to: str, *, before: str = "", through: str = "") -> bool:
        lines = self.lines.get(key, [])
        turns = [line.get("turn") for line in lines]
        if not lines or (wanted := before or through) not in {"", *turns}:
            return False
        end = turns.index(before) if before else len(lines)
        if through:
            end = len(turns) - turns[::-1].index(wanted)
        self.lines[to] = list(lines[:end])
        return True


class FakeTasks:
    """What a session delegated, as rows by session; `ended` keeps what was asked to end."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.ended: list[str] = []

    async def list(self, session: str) -> Sequence[Mapping[str, Any]]:
        return list(self.rows.get(session, ()))

    async def trajectory(self, session: str, id: str, *, full: bool = False) -> Mapping[str, Any] | None:
        found = [row for row in self.rows.get(session, ()) if row["id"] == id]
        return {**found[0], "mode": "full" if full else "summary"} if found else None

    async def end(self, session: str, id: str) -> bool:
        there = any(row["id"] == id for row in self.rows.get(session, ()))
        if there:
            self.ended.append(id)
        return there


class FakeOffice:
    """An owner's desk in two lists."""

    def __init__(self) -> None:
        self.people: list[Applicant] = []
        self.letters: list[DeadLetter] = []
        self.resent: list[int] = []

    async def applicants(self) -> Sequence[Applicant]:
        return list(self.people)

    async def decide(self, channel: str, sender: str, *, admit: bool) -> bool:
        for at, one in enumerate(self.people):
            if (one.channel, one.sender, one.status) == (channel, sender, "pending"):
                approved = msgspec.structs.replace(one, status="approved", code="")
                self.people[at : at + 1] = [approved] if admit else []
                return True
        return False

    async def revoke(self, channel: str, sender: str) -> bool:
        before = len(self.people)
        self.people = [one for one in self.people if (one.channel, one.sender) != (channel, sender)]
        return len(self.people) < before

    async def dead_letters(self) -> Sequence[DeadLetter]:
        return list(self.letters)

    async def resend(self, id: int) -> bool:
        self.resent.append(id)
        return await self.drop(id)

    async def drop(self, id: int) -> bool:
        before = len(self.letters)
        self.letters = [one for one in self.letters if one.id != id]
        return len(self.letters) < before


class FakeFiles:
    """Implements `channel.Files`: the disk as it is."""

    sealed = False

    def write(self, path: Path, data: bytes, *, keep: bool = False) -> None:
        del keep  # nothing is ever removed here
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o600)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()


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
        self.files: Files = FakeFiles()
        self.clock: Clock = clock or SystemClock()
        self.keys: Keys = FakeKeys()
        self.histories = FakeSessions()
        self.sessions: Sessions = self.histories
        self.office = FakeOffice()
        self.tasks = FakeTasks()
        self.queued: dict[str, list[Waiting]] = {}
        self.accepted: list[Inbound] = []
        self.edited: list[Inbound] = []
        self.previews: dict[tuple[str, int], str] = {}  # what `posted` was told
        self.answered: set[str] = set()  # message ids that are too late to be changed
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

    async def edit(self, message: Inbound) -> bool:
        if message.message_id not in self._ids or message.message_id in self.answered:
            return False
        self.edited.append(message)
        return True

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

    async def waiting(self, session: str) -> Sequence[Waiting]:
        return self.queued.get(session, [])

    def state(self, session: str) -> TurnState:
        return self.running.get(session, TurnState(running=False))

    def commands(self) -> Sequence[Command]:
        return [Command("help", "/help", "What I can do.")]

    async def posted(self, turn: str, part: int, address: Address, ref: str) -> None:
        del address
        self.previews[turn, part] = ref

    async def preview(self, turn: str, part: int) -> str:
        return self.previews.get((turn, part), "")

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
