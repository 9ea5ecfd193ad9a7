"""The single writer: one connection, many jobs in one transaction, many transactions in one fsync.

The SQL itself takes microseconds and runs in the event loop; what waits for the disk runs in a thread. A thread for
the SQL too would have to take the interpreter's lock once per statement, and beside a busy event loop each of those
can take from milliseconds to seconds (docs/decisions.md has the figures).
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from loguru import logger

from nanobot.errors import StoreError, StoreFull
from nanobot.stores.sqlite.disk import Disk, Outcome, settle

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]
Queued = tuple[Job, asyncio.Future[Any], bool]

BATCH = 256  # jobs in one transaction at most, so that the event loop is never held for long
CHECKPOINT_JOBS = 500  # then the log is folded into the database; 20 kB for a job that comes alone
LAZY_SYNC = 0.2  # seconds after which what nobody waits for is on the disk, too
BUSY_PAUSE = 0.005  # seconds between two tries while another process writes
BUSY_TRIES = 1_000
FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}


class Writer:
    """Runs jobs in the order they were given, each all or not at all.

    A job gets the connection inside a transaction, and may be run a second time when its batch fails, so it must do
    nothing but SQL. A `durable` job resolves once a power cut cannot undo it; any other one as soon as a kill
    cannot, with the disk following within LAZY_SYNC.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], log: Path, *, sync: bool = True) -> None:
        self._connect = connect
        self._log = log
        self._sync = sync
        self._jobs: list[Queued] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._db: sqlite3.Connection | None = None
        self._disk: Disk | None = None
        self._scheduled = False
        self._folding = False  # the disk thread has the connection
        self._done_since_fold = 0
        self._busy = 0
        self._lazy: asyncio.TimerHandle | None = None
        self._closed: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Open the connection; what `connect` raises is raised here."""
        self._loop = asyncio.get_running_loop()
        db = await asyncio.to_thread(self._connect)
        try:
            self._disk = Disk(self._loop, self._log)
        except OSError:
            db.close()
            raise
        self._db = db

    def submit(self, job: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> asyncio.Future[T]:
        """Queue a job; its future resolves after the commit."""
        if self._loop is None or self._db is None or self._closed is not None:
            raise StoreError("the store is not open")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.append((job, future, durable and self._sync))
        self._schedule()
        return future

    def read(self, job: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Queue a job that only looks; it sees all that was queued before it."""
        return self.submit(job, durable=False)

    def send(self, job: Job) -> None:
        """Queue a job that nobody waits for; its failure is recorded."""
        self.submit(job, durable=False).add_done_callback(record)

    async def close(self) -> None:
        """Finish what is queued and close the connection."""
        if self._loop is None or self._db is None or self._disk is None:
            return
        if self._closed is None:
            self._closed = self._loop.create_future()
            self._schedule()
        await self._closed
        if self._lazy is not None:
            self._lazy.cancel()
        db, disk, self._db, self._disk = self._db, self._disk, None, None
        if db is not None and disk is not None:
            await asyncio.to_thread(disk.stop)
            await asyncio.to_thread(db.close)  # folds the log

    def _schedule(self) -> None:
        if not (self._scheduled or self._folding):
            assert self._loop is not None
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        """One transaction with what was queued in this round of the event loop."""
        self._scheduled = False
        assert self._loop is not None
        assert self._db is not None
        assert self._disk is not None
        batch, self._jobs = self._jobs[:BATCH], self._jobs[BATCH:]
        if batch:
            try:
                outcomes = run_batch(self._db, batch)
            except Busy:
                self._wait(batch)
                return
            self._busy = 0
            self._settle(batch, outcomes)
            self._done_since_fold += len(batch)
        if self._done_since_fold >= CHECKPOINT_JOBS:
            self._done_since_fold = 0
            self._folding = True
            self._disk.fold(self._db, self._folded)
        elif self._jobs:
            self._schedule()
        elif self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def _settle(self, batch: Sequence[Queued], outcomes: Sequence[Outcome]) -> None:
        waiting = []
        for (_, _, durable), outcome in zip(batch, outcomes, strict=True):
            if durable and outcome[2] is None:
                waiting.append(outcome)
            else:
                settle([outcome])
        assert self._disk is not None
        if waiting:
            self._disk.sync(waiting)
        elif self._sync and self._lazy is None:
            assert self._loop is not None
            self._lazy = self._loop.call_later(LAZY_SYNC, self._sync_lazily)

    def _sync_lazily(self) -> None:
        self._lazy = None
        if self._disk is not None:
            self._disk.sync([])

    def _wait(self, batch: list[Queued]) -> None:
        """Another process writes: try again soon, without holding the event loop."""
        assert self._loop is not None
        self._busy += 1
        if self._busy > BUSY_TRIES:
            self._busy = 0
            error = StoreError("database: another process has been writing for too long")
            settle([(future, None, error) for _, future, _ in batch])
            self._schedule()
            return
        self._jobs[:0] = batch
        self._scheduled = True
        self._loop.call_later(BUSY_PAUSE, self._run)

    def _folded(self) -> None:
        self._folding = False
        self._schedule()


class Busy(Exception):
    """Another process holds the database."""


def record(future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.error("a write nobody waits for failed: {}", error)


def run_batch(db: sqlite3.Connection, batch: Sequence[Queued]) -> list[Outcome]:
    """All jobs in one transaction; where that fails, each in its own, so that a bad job fails alone."""
    try:
        results = transact(db, [job for job, _, _ in batch])
    except Busy:
        raise  # nothing was done yet
    except Exception as error:  # noqa: BLE001 - handed to the job's caller
        if len(batch) == 1:
            return [(batch[0][1], None, translate(error))]
        return [run_alone(db, one) for one in batch]
    return [(future, result, None) for (_, future, _), result in zip(batch, results, strict=True)]


def run_alone(db: sqlite3.Connection, one: Queued) -> Outcome:
    job, future, _ = one
    try:
        return (future, transact(db, [job])[0], None)
    except Busy:
        return (future, None, StoreError("database: another process writes"))
    except Exception as error:  # noqa: BLE001 - handed to the job's caller
        return (future, None, translate(error))


def transact(db: sqlite3.Connection, jobs: Sequence[Job]) -> list[Any]:
    try:
        db.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise Busy from error
        raise
    try:
        results = [job(db) for job in jobs]
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk can have rolled it back already
            db.execute("ROLLBACK")
        raise
    return results


def translate(error: Exception) -> Exception:
    """SQLite's errors by our names; others as they are."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorcode", None)
    known = StoreFull(f"disk full: {error}") if code in FULL else StoreError(f"database: {error}")
    known.__cause__ = error
    return known
