"""The sessions of a workspace: opened, kept, saved, listed, moved and removed."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from loguru import logger

from nanobot.channel import Page, SessionSummary
from nanobot.clock import Clock, SystemClock
from nanobot.errors import StoreError, UsageError
from nanobot.messages import Line
from nanobot.security.sealing import Sealer
from nanobot.stores.sessions import archive, jsonl, names, reading, repair, search
from nanobot.stores.sessions.folder import DiskFolder
from nanobot.stores.sessions.index import Index
from nanobot.stores.sessions.repair import Report
from nanobot.stores.sessions.sealed import folder_at
from nanobot.stores.sessions.search import Search
from nanobot.stores.sessions.session import DERIVED, Session, merge
from nanobot.stores.sessions.writer import SessionWriter

T = TypeVar("T")
PLACE = ".nanobot/sessions"  # in a workspace
THREADS = 4  # so that one slow file does not delay the others


class SessionManager:
    """The session files of a workspace, or of a `directory` of its own; in memory where neither is given.

    The plain methods do their work at once and suit scripts; the async ones, which implement the `Transcripts` port,
    leave the disk to a few threads. One thread (or loop) uses a manager; one process a folder. An encrypted state is
    read with the key that is here (docs/security.md); StateSealed where there is none.
    """

    def __init__(
        self,
        workspace: Path | str | None = None,
        *,
        directory: Path | str | None = None,
        clock: Clock | None = None,
        max_messages: int = 2000,
        cache_size: int = 128,
        sealer: Sealer | None = None,
    ) -> None:
        if workspace is not None and directory is None:
            directory = Path(workspace).expanduser() / PLACE
        self.directory = None if directory is None else Path(directory).absolute()
        self._folder = folder_at(self.directory, sealer)
        self._clock = clock or SystemClock()
        self._max_messages = max_messages
        self._cache_size = cache_size
        self._cache: OrderedDict[str, Session] = OrderedDict()
        # A session that a running turn holds stays the same object after it left the cache.
        self._alive: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self._writers: WeakKeyDictionary[Session, SessionWriter] = WeakKeyDictionary()
        self._loading: dict[str, asyncio.Future[tuple[Session, SessionWriter]]] = {}
        self._index = Index(self._folder)
        self._search = Search(self._folder, search.place(self.directory, self._folder))
        self._threads: ThreadPoolExecutor | None = None

    # The port `Transcripts`

    async def open(self, key: str) -> Session:
        """The session, a new one where there is none; the same object while anyone holds it."""
        found = self._cached(key)
        if found is not None:
            return found
        job = self._loading.get(key)
        if job is None:
            job = asyncio.get_running_loop().run_in_executor(self._pool, self._load, key)
            self._loading[key] = job
            job.add_done_callback(lambda _: self._loading.pop(key, None))
        loaded = await asyncio.shield(job)
        return self._cached(key) or self._keep(*loaded)

    async def append(self, key: str, lines: Sequence[Line]) -> None:
        """Add lines in one write; durable on return. Raises StoreFull or StoreError with nothing added."""
        session = await self.open(key)
        session.updated_at = self._clock.now()
        await self._writers[session].append(session, lines, self._pool)

    async def update(self, key: str, metadata: dict[str, Any]) -> None:
        """Merge into the metadata (a None value removes its key); durable on return, unchanged on an error."""
        session = await self.open(key)
        before = {name: session.metadata[name] for name in metadata if name in session.metadata}
        merge(session.metadata, metadata)
        session.updated_at = self._clock.now()
        try:
            await self._writers[session].append(session, (), self._pool)
        except StoreError:
            merge(session.metadata, {name: before.get(name) for name in metadata})
            raise

    async def clear(self, key: str) -> None:
        """Begin anew (/new): every message moves to the archive; title, goal and settings stay."""
        session = await self.open(key)
        begins = session.metadata.get(reading.BEGINS)
        # Pages of the new conversation end here; what is older is in the archive and in exports.
        session.metadata[reading.BEGINS] = session.archived[1] + len(session.messages)
        merge(session.metadata, dict.fromkeys(DERIVED))
        session.updated_at = self._clock.now()
        try:
            await self._writers[session].archive_all(session, self._pool)
        except StoreError:
            merge(session.metadata, {reading.BEGINS: begins})
            raise

    async def summaries(self) -> list[SessionSummary]:
        """The list of sessions, newest first, without holding up the loop."""
        rows = await self._run(self.list_sessions)
        return [
            SessionSummary(
                row["key"],
                row["title"] or row["preview"],
                row["updated_at"],
                row["created_at"],
                row["preview"],
                row["messages"],
                metadata=row["metadata"],
            )
            for row in rows
        ]

    async def page(
        self, key: str, before: int | None = None, limit: int = 24, *, with_archive: bool = True
    ) -> Page:
        """The last `limit` messages before a position, also those in the archive, but none from before a /new."""
        session = await self.peek(key)
        if session is None:
            return Page((), None, 0)
        moved = session.archived[1]
        floor = reading.begins(session.metadata, moved + len(session.messages)) if with_archive else moved
        stem, lines = self.safe_key(key), session.messages
        return await self._run(partial(reading.page, self._folder, stem, lines, moved, before, limit, floor))

    async def search(self, query: str, limit: int = 50) -> Sequence[Mapping[str, Any]]:
        """Messages that contain the words, as {key, title, index, role, excerpt, timestamp}, newest session first."""
        return await asyncio.wrap_future(self._search.submit(self._index.entries, query, limit))

    async def peek(self, key: str) -> Session | None:
        """The session where there is one; asking for another makes none."""
        found = self._cached(key)
        if found is None and await self._run(lambda: self.exists(key)):
            found = await self.open(key)
        return found

    async def exported(self, key: str) -> bytes | None:
        """What `export` gives, without holding up the loop; None where there is no such session."""
        if (session := await self.peek(key)) is None:
            return None
        head = repair.head_of(session, -session.archived[1], (0, 0))
        return head + await self._run(lambda: reading.every_byte(self._folder, self.safe_key(key)))

    async def delete(self, key: str) -> bool:
        """Remove a session for good; False where there was none."""
        held = self._let_go(key)
        found = await self._run(lambda: self._remove(key))
        return self._let_go(key) or found or held  # again: somebody may have looked at it meanwhile

    async def close(self) -> None:
        """Write what is unsaved and end the threads."""
        await self._run(self.flush_all)
        await self._run(self._search.close)
        if self._threads is not None:
            self._threads.shutdown(wait=True)
            self._threads = None

    def restarted(self) -> "SessionManager":
        """The same files as the next life of the process finds them: nothing of this one's memory."""
        limits: dict[str, Any] = {"max_messages": self._max_messages, "cache_size": self._cache_size}
        again = SessionManager(directory=self.directory, clock=self._clock, **limits)
        # Without a directory, the folder is what stands for the disk.
        again._folder = self._folder
        again._index = Index(self._folder)
        again._search = Search(self._folder, search.place(self.directory, self._folder))
        return again

    # For scripts and the command line

    @staticmethod
    def safe_key(key: str) -> str:
        """The stem of the file for a key."""
        return names.safe_key(key)

    def get_or_create(self, key: str) -> Session:
        """The session of this key, read from its file or new; not on the disk before it is saved."""
        return self._cached(key) or self._keep(*self._load(key))

    def exists(self, key: str) -> bool:
        """Whether there is a file of this key, under its present or a former name."""
        return self._has(self.safe_key(key)) or bool(self._former(key))

    def save(self, session: Session, fsync: bool = True) -> None:
        """Write what is new in a session. One that this manager did not open takes the place of the file's."""
        if session not in self._writers:
            session.rewrite()
            self._keep(session, self._new_writer(session.key))
        self._writers[session].save(session, sync=fsync)

    def flush_all(self) -> int:
        """Save every session in memory, durably; returns how many. A failing one does not keep the others back."""
        count = 0
        for session in list(self._alive.values()):
            writer = self._writers.get(session)
            try:
                if writer is not None and writer.dirty(session):
                    writer.save(session, sync=True)
                elif writer is not None:
                    writer.sync()
                count += 1
            except StoreError as error:
                logger.error("session {} was not saved: {}", session.key, error)
        self._index.entries()
        self._index.save()
        return count

    def invalidate(self, key: str) -> None:
        """Forget the session in memory; what was not saved is gone."""
        self._cache.pop(key, None)
        self._alive.pop(key, None)

    def delete_session(self, key: str) -> bool:
        """Remove a session's file, archive, kept-aside bytes and list entry; False where there was none."""
        held = self._let_go(key)
        return self._remove(key) or held

    def _let_go(self, key: str) -> bool:
        """Have nothing written to a session any more, and forget it; whether it held anything."""
        session = self._cached(key)
        if session is None:
            return False
        self._writers[session].close()
        self.invalidate(key)
        return bool(session.messages)

    def _remove(self, key: str) -> bool:
        found = False
        for stem in (self.safe_key(key), *self._former(key)):
            found = self._folder.delete(f"{stem}.jsonl") or found
            archive.delete(self._folder, stem)
            for name in [
                name for name, _ in self._folder.list() if name.startswith(f"{stem}.jsonl.corrupt-")
            ]:
                self._folder.delete(name)
            self._index.forget(f"{stem}.jsonl")
        return found

    def read_session_file(self, key: str | Path) -> dict[str, Any] | None:
        """What a session's file says, by key or path, changing nothing; None where there is none."""
        if isinstance(key, Path) or key.endswith(".jsonl"):
            path = Path(key)
            own = path.parent.absolute() == self.directory
            data = (self._folder if own else DiskFolder(path.parent)).read(path.name)
            known = ""
        else:
            stem = next(iter([s for s in (self.safe_key(key), *self._former(key)) if self._has(s)]), "")
            data = self._folder.read(f"{stem}.jsonl") if stem else None
            known = key
        if data is None:
            return None
        parsed = jsonl.parse(data)
        return repair.plain(parsed, known or str(parsed.metadata.get("key") or names.stem_of(Path(key))))

    def list_sessions(self) -> list[dict[str, Any]]:
        """One dict a session, newest first: key, title, preview, created_at, updated_at, messages, metadata, path."""
        newest: dict[str, dict[str, Any]] = {}
        root = f"{self.directory}/" if self.directory else ""
        for name, entry in self._index.entries().items():
            row = {
                "key": entry.key,
                "title": entry.title,
                "preview": entry.preview,
                "created_at": entry.created_at,
                "updated_at": entry.updated_at,
                "messages": entry.messages,
                "metadata": entry.metadata,
                "path": root + name,
            }
            other = newest.get(entry.key)
            if other is None or other["updated_at"] < entry.updated_at:
                newest[entry.key] = row
        return sorted(newest.values(), key=lambda row: str(row["updated_at"]), reverse=True)

    def export(self, key: str, *, with_archive: bool = True) -> bytes:
        """A session as one JSONL text: its head, then every message. Raises UsageError where there is none."""
        session = self.get_or_create(key)
        stem = self.safe_key(key)
        if self._writers[session].dirty(session):
            self.save(session)
        if not self._has(stem):
            raise UsageError(f"there is no session {key!r}; `nanobot sessions list` shows them")
        offset = session.archived[1] if with_archive else 0
        head = repair.head_of(session, -offset, (0, 0))
        lines = reading.every_line(self._folder, stem, with_archive=with_archive)
        return head + b"".join(line + b"\n" for line in lines)

    def import_session(self, data: bytes, key: str | None = None, overwrite: bool = False) -> Session:
        """Put an exported session in place, under its own key or another. Raises UsageError where that is taken."""
        parsed = jsonl.scan(data)
        key = key or parsed.metadata.get("key")
        if not isinstance(key, str) or not key:
            raise UsageError("the file names no session key; give one")
        if not parsed.messages and not parsed.metadata:
            raise UsageError("the file holds no session")
        if self.exists(key):
            if not overwrite:
                raise UsageError(f"there is a session {key!r} already; delete it or overwrite it")
            self.delete_session(key)
        imported = repair.session(parsed, key, self._clock.now(), self._clock)
        imported.archived = (0, 0)
        text, _ = repair.compacted(repair.head_of(imported), parsed.parts or [], 0)
        self.invalidate(key)
        self._folder.replace(f"{self.safe_key(key)}.jsonl", text)
        return self.get_or_create(key)

    def repair(self, key: str) -> Report | None:
        """Mend a session's file; None where there is none."""
        stem = self._adopt(key)
        data = self._folder.read(f"{stem}.jsonl")
        if data is None:
            return None
        self.invalidate(key)
        return repair.mend(self._folder, stem, data, self._clock)[1]

    # Inside

    @property
    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, "sessions")
        return self._threads

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _cached(self, key: str) -> Session | None:
        session = self._cache.get(key)
        if session is not None:
            self._cache.move_to_end(key)
            return session
        session = self._alive.get(key)
        if session is not None:
            self._cache[key] = session
            self._shrink()
        return session

    def _keep(self, session: Session, writer: SessionWriter) -> Session:
        self._writers[session] = writer
        self._alive[session.key] = session
        self._cache[session.key] = session
        self._shrink()
        return session

    def _shrink(self) -> None:
        """Let go of what was used longest ago, but of nothing that is not saved."""
        over = len(self._cache) - self._cache_size
        if over <= 0:
            return
        for key in list(self._cache)[:over]:
            session = self._cache[key]
            if not self._writers[session].dirty(session):
                del self._cache[key]

    def _new_writer(self, key: str) -> SessionWriter:
        return SessionWriter(self.safe_key(key), self._folder, self._max_messages)

    def _load(self, key: str) -> tuple[Session, SessionWriter]:
        loaded = repair.load(self._folder, self._adopt(key), key, self._clock)
        writer = self._new_writer(key)
        if loaded is None:
            return Session(key, clock=self._clock), writer
        session, parsed = loaded
        writer.loaded(session, parsed.lines, head=bool(parsed.metadata))
        return session, writer

    def _has(self, stem: str) -> bool:
        return self._folder.stat(f"{stem}.jsonl") is not None

    def _former(self, key: str) -> list[str]:
        """Former names of this key's file that are there and are really this key's."""
        found = []
        for stem in names.former_stems(key):
            data = self._folder.read(f"{stem}.jsonl") if self._has(stem) else None
            if data is not None and jsonl.parse(data).metadata.get("key") in {key, None}:
                found.append(stem)
        return found

    def _adopt(self, key: str) -> str:
        """The stem of a key's file, after a file of a former name was given the present one."""
        stem = self.safe_key(key)
        if not self._has(stem):
            for former in self._former(key)[:1]:
                self._folder.move(f"{former}.jsonl", f"{stem}.jsonl")
        return stem
