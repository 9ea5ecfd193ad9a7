"""The records of sub-sessions: in memory for every question, in the store's keys for the next life."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from loguru import logger

from nanobot import child as rules
from nanobot.channel import Keys
from nanobot.child import CHANNEL, Child
from nanobot.messages import Line
from nanobot.store import Transcripts
from nanobot.stores.turn_files import TurnFiles


class Histories(Transcripts, Protocol):
    async def delete(self, key: str) -> bool: ...


class ChildRecords:
    def __init__(self, keys: Keys, histories: Histories, files: TurnFiles) -> None:
        self.histories = histories
        self.files = files
        self._keys = keys
        self._children: dict[str, Child] = {}
        self._changed: dict[str, asyncio.Event] = {}

    async def load(self) -> None:
        for key, text in await self._keys.items():
            try:
                child = msgspec.json.decode(text, type=Child)
            except msgspec.DecodeError as error:
                logger.error("sub-session {}: its record cannot be read ({})", key, error)
                continue
            self._children[child.id] = child

    def all(self) -> list[Child]:
        """Newest first."""
        return sorted(self._children.values(), key=lambda one: (one.created_at, one.id), reverse=True)

    def of(self, session: str) -> list[Child]:
        """A session's own, newest first."""
        return [child for child in self.all() if child.parent == session]

    def root(self, session: str) -> str:
        """The session of a person that a session came of, however deep."""
        while (child := self.get(session)) is not None:
            session = child.parent
        return session

    def goal(self, child: Child) -> str:
        """The id of the goal that a sub-session works for, itself or through others."""
        while (above := self.get(child.parent)) is not None:
            child = above
        return child.goal

    def running(self, session: str) -> int:
        return sum(1 for one in self._children.values() if one.parent == session and not one.ended)

    def beside(self, session: str) -> int:
        """How many of its own are at work while no call of it waits for them."""
        return sum(1 for one in self.of(session) if not one.ended and not one.awaited)

    def by_id(self, child_id: str) -> Child | None:
        return self._children.get(child_id)

    def get(self, session: str) -> Child | None:
        """The record of a session, where it is a sub-session."""
        channel, _, child_id = session.partition(":")
        return self._children.get(child_id) if channel == CHANNEL else None

    def find(self, text: str, session: str | None = None) -> Child:
        """One of a session's own, or of all, by a beginning of its id. Raises NoSuchChild."""
        return rules.find(text, self.all() if session is None else self.of(session))

    def folder(self, child: Child) -> Path:
        """Where an outside agent's turns are kept."""
        return self.files.folder / child.id

    async def history(self, child: Child) -> Sequence[Line]:
        return (await self.histories.open(child.key)).messages

    async def answer(self, child: Child) -> str:
        """Its last words."""
        for line in reversed(await self.history(child)):
            if line.get("role") == "assistant" and line.get("content") and not line.get("tool_calls"):
                return str(line["content"])
        return ""

    async def final(self, child: Child, turn: str) -> Line | None:
        """The line that ended a turn."""
        for line in reversed(await self.history(child)):
            if line.get("turn") == turn and "latency_ms" in line:
                return line
        return None

    async def seen(self, child: Child) -> Child:
        """Its parent has looked at it."""
        return await self.put(msgspec.structs.replace(child, unread=False)) if child.unread else child

    async def noted(self, child_id: str, finding: str, most: int) -> None:
        """Keep what a watcher found with the turn, for its parent to read."""
        child = self.by_id(child_id)
        if child is not None and not child.ended:
            found = (*child.watched, finding)[-most:]
            await self.put(msgspec.structs.replace(child, watched=found))

    async def put(self, child: Child) -> Child:
        """Durable on return. The memory has it first, so that nobody goes by an old one meanwhile."""
        self.note(child)
        await self._keys.set(child.id, msgspec.json.encode(child).decode())
        return child

    def note(self, child: Child) -> None:
        """What may be lost in a crash."""
        self._children[child.id] = child
        self.tell(child.id)

    async def forget(self, child: Child) -> None:
        self._children.pop(child.id, None)
        await self._keys.delete(child.id)
        await self.histories.delete(child.key)
        self.tell(child.id)

    async def changed(self, child_id: str) -> None:
        """Wait until something about it is different."""
        await self._changed.setdefault(child_id, asyncio.Event()).wait()

    def tell(self, child_id: str) -> None:
        event = self._changed.pop(child_id, None)
        if event is not None:
            event.set()
