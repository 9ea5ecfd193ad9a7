"""The writing side of one session: appends in order, one write for all that waits, compaction between them."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial

from loguru import logger

from nanobot import history
from nanobot.errors import StoreError
from nanobot.messages import Line
from nanobot.stores.sessions import archive, jsonl, repair
from nanobot.stores.sessions.folder import Folder
from nanobot.stores.sessions.session import Session

SLACK = 1.25  # a file may have so many times the cap's lines before it is compacted
METADATA_BYTES = 1 << 20  # and so many bytes of later metadata lines

Waiter = tuple[Sequence[Line], "asyncio.Future[None]"]


class SessionWriter:
    """Brings a session to its file and keeps its writes in order; one per session, which it does not hold."""

    def __init__(self, stem: str, folder: Folder, cap: int) -> None:
        self.stem = stem
        self.name = f"{stem}.jsonl"
        self.busy = False  # a write of the pool is under way
        self._folder = folder
        self._cap = cap
        self._lines = 0  # in the file, of all kinds
        self._metadata = b""  # as the file has it
        self._metadata_bytes = 0
        self._synced = True
        self._not_before = 0  # lines: compaction failed lately
        self._closed = False
        self._lock = threading.Lock()  # one writer at a time, be it the loop's thread or one of the pool
        self._waiting: list[Waiter] = []

    def loaded(self, session: Session, lines: int, *, head: bool) -> None:
        """The session has just been read from a file of so many lines, with or without a head."""
        self._lines = lines
        self._metadata = _state(session) if head else b""

    def dirty(self, session: Session) -> bool:
        """Whether the session has something that its file has not."""
        if self.busy or session.needs_rewrite() or session.unsaved:
            return True
        return bool(self._lines or session.metadata) and _state(session) != self._metadata

    async def append(self, session: Session, lines: Sequence[Line], pool: Executor) -> None:
        """Add lines and wait until they, and the metadata, are durable. On an error they are taken back."""
        loop = asyncio.get_running_loop()
        session.messages.extend(lines)
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append((lines, done))
        if not self.busy:
            self._start(session, loop, pool)
        await done

    def save(self, session: Session, *, sync: bool) -> None:
        """Write what is new, now, in this thread; compacts where the file has grown too long."""
        self.write(session, sync=sync)
        if not self.busy and (drop := self.excess(session)) is not None:
            try:
                self._forget(session, self.compact(session, drop))
            except StoreError as error:
                self._put_off(error)

    def write(self, session: Session, *, sync: bool) -> None:
        """Append what the file has not, or write it anew where the session let go of lines."""
        with self._lock:
            if self._closed:
                raise StoreError(f"session {session.key} was deleted")
            if session.needs_rewrite():
                self._rewrite(session)
                return
            count = len(session.messages)
            parts = [jsonl.encode(line) for line in session.messages[session.saved : count]]
            state = _state(session)
            if state != self._metadata:
                parts.insert(0, repair.head_of(session))
            if parts:
                self._append(session, parts, headed=state != self._metadata, sync=sync)
                session.mark_saved(count)
                self._metadata = state
                self._synced = sync and self._synced
        if sync:
            self.sync()

    def excess(self, session: Session) -> int | None:
        """How many of the oldest messages compaction should move away; None where the file is short enough."""
        if self._lines <= SLACK * self._cap and self._metadata_bytes <= METADATA_BYTES:
            return None
        if self._lines < self._not_before:
            return None
        drop = 0
        if session.saved > self._cap:
            for start, end in history.turns(session.messages)[:-1]:
                if session.saved - start <= self._cap or end > session.saved:
                    break
                drop = end
        # A single turn longer than the cap leaves nothing to do; do not try at each of its lines.
        foldable = self._lines - session.saved
        idle = not drop and foldable < (SLACK - 1) * self._cap / 2 and self._metadata_bytes <= METADATA_BYTES
        return None if idle else drop

    def compact(self, session: Session, drop: int) -> int:
        """Move the file's first messages to the archive, then write it anew with one head; returns how many went.

        A crash in between leaves the lines in both places; loading recognises them and finishes the move.
        """
        with self._lock:
            if self._closed:
                return 0
            parts = jsonl.scan(self._folder.read(self.name) or b"").parts or []
            if sum(part.is_message for part in parts) != session.saved:
                raise StoreError(f"session file {self.name}: it was changed outside")
            archived = _after(session, drop)
            text, moved = repair.compacted(repair.head_of(session, drop, archived), parts, drop)
            if moved:
                archive.write(self._folder, self.stem, archived[0], moved)
            self._folder.replace(self.name, text, keep_time=True)
            self._lines = text.count(b"\n")
            self._metadata_bytes = 0
            self._metadata = _state(session, drop)
            return drop

    async def archive_all(self, session: Session, pool: Executor) -> None:
        """Move every message to the archive, durably: what /new does to a conversation."""
        await self.append(session, (), pool)
        if self.busy:  # others wrote meanwhile; compaction must not run beside them
            return await self.archive_all(session, pool)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self.busy = True
        self._compact(session, session.saved, [((), done)], loop, pool, asked=True)
        return await done

    def sync(self) -> None:
        """Make durable what earlier saves left to the operating system."""
        with self._lock:
            if not self._synced:
                self._folder.sync(self.name)
                self._synced = True

    def close(self) -> None:
        """Nothing is written any more: the session is being deleted."""
        with self._lock:
            self._closed = True

    def _append(self, session: Session, parts: list[bytes], *, headed: bool, sync: bool) -> None:
        data = b"".join(parts)
        begin = self._folder.append(self.name, data, sync=sync)
        if not begin and self._lines:
            logger.warning("session file {} was removed outside; it begins anew", self.name)
            self._lines = 0
            if not headed:
                self._folder.append(self.name, repair.head_of(session), sync=sync)
                self._lines = 1
        self._lines += len(parts)
        if headed:
            self._metadata_bytes += len(parts[0])

    def _rewrite(self, session: Session) -> None:
        """Write the whole file: kept lines with their own bytes, where they are known, and the new ones."""
        count = len(session.messages)
        if session.stale or session.kept is None:
            body = [jsonl.encode(line) for line in session.messages[:count]]
        else:
            parts = jsonl.scan(self._folder.read(self.name) or b"").parts or []
            raws = [part.raw for part in parts if part.is_message]
            body = [raws[index] + b"\n" for index in session.kept]
            body += [jsonl.encode(line) for line in session.messages[session.saved : count]]
        segment, messages = session.archived
        leaving = [jsonl.encode(line)[:-1] for line in session.leaving]
        if leaving:
            segment, messages = segment + 1, messages + len(leaving)
            archive.write(self._folder, self.stem, segment, leaving)
        head = repair.head_of(session, archived=(segment, messages))
        self._folder.replace(self.name, b"".join([head, *body]))
        session.archived, session.leaving = (segment, messages), []
        session.mark_saved(count)
        self._metadata = _state(session)
        self._metadata_bytes = 0
        self._lines = count + 1
        self._synced = True

    def _start(self, session: Session, loop: asyncio.AbstractEventLoop, pool: Executor) -> None:
        self.busy = True
        batch, self._waiting = self._waiting, []
        job = loop.run_in_executor(pool, partial(self.write, session, sync=True))
        job.add_done_callback(partial(self._written, session, batch, loop, pool))

    def _written(
        self,
        session: Session,
        batch: list[Waiter],
        loop: asyncio.AbstractEventLoop,
        pool: Executor,
        job: "asyncio.Future[None]",
    ) -> None:
        error = job.exception()
        if error is not None:
            _take_back(session, [line for lines, _ in batch for line in lines])
            _answer(batch, error)
        elif (drop := self.excess(session)) is not None:
            # Their callers go on only afterwards: so messages change their positions only while somebody awaits us.
            self._compact(session, drop, batch, loop, pool)
            return
        else:
            _answer(batch, None)
        self._next(session, loop, pool)

    def _compact(
        self,
        session: Session,
        drop: int,
        batch: list[Waiter],
        loop: asyncio.AbstractEventLoop,
        pool: Executor,
        *,
        asked: bool = False,
    ) -> None:
        compaction = loop.run_in_executor(pool, self.compact, session, drop)
        compaction.add_done_callback(partial(self._compacted, session, batch, loop, pool, asked))

    def _compacted(
        self,
        session: Session,
        batch: list[Waiter],
        loop: asyncio.AbstractEventLoop,
        pool: Executor,
        asked: bool,
        job: "asyncio.Future[int]",
    ) -> None:
        error = job.exception()
        if error is None:
            self._forget(session, job.result())
        else:
            self._put_off(error)
        _answer(batch, error if asked else None)
        self._next(session, loop, pool)

    def _put_off(self, error: BaseException) -> None:
        """Compaction failed: the messages are safe where they are, so try again some lines later."""
        logger.warning("not compacted: {}", error)
        self._not_before = self._lines + self._cap // 10

    def _next(self, session: Session, loop: asyncio.AbstractEventLoop, pool: Executor) -> None:
        if self._waiting:
            self._start(session, loop, pool)
        else:
            self.busy = False

    def _forget(self, session: Session, count: int) -> None:
        """Drop archived lines in memory too; always in the session's own thread, where others iterate over them."""
        if count:
            session.archived = _after(session, count)
            session.drop_saved(count)


def _state(session: Session, drop: int = 0) -> bytes:
    """What a metadata line has to tell, to see whether it changed."""
    return jsonl.encode({"m": session.metadata, "c": max(0, session.last_consolidated - drop)})


def _after(session: Session, drop: int) -> tuple[int, int]:
    """The archive's last segment and its number of messages once so many have moved."""
    segment, messages = session.archived
    return (segment + 1, messages + drop) if drop else session.archived


def _answer(batch: list[Waiter], error: BaseException | None) -> None:
    for _, waiter in batch:
        if waiter.cancelled():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)


def _take_back(session: Session, lines: Sequence[Line]) -> None:
    """Remove lines that did not reach the file; other callers' unsaved lines stay."""
    gone = {id(line) for line in lines}
    saved = session.saved
    session.messages[saved:] = [line for line in session.messages[saved:] if id(line) not in gone]
