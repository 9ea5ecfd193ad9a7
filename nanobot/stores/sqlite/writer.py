"""The single writer: one thread, one connection, many jobs in one commit.

A commit costs an fsync, whatever is in it. Jobs that arrive while one is on its way to the disk share the next.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from loguru import logger

from nanobot.errors import StoreError, StoreFull

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]
Outcome = tuple[asyncio.Future[Any], Any, BaseException | None]

BATCH = 512  # jobs in one commit at most, so that the first of them does not wait for long
FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}


class Writer:
    """Runs jobs in the order they were given, each all or not at all.

    A job gets the connection inside a transaction. It may be run a second time when its batch fails, so it must do
    nothing but SQL.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._queue: SimpleQueue[tuple[Job, asyncio.Future[Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Open the connection in the writer's thread; what `connect` raises is raised here."""
        self._loop = asyncio.get_running_loop()
        opened: asyncio.Future[Any] = self._loop.create_future()
        # A daemon: whoever dies without close() loses nothing, since every answered job is committed.
        self._thread = threading.Thread(target=self._work, args=(opened,), name="store-writer", daemon=True)
        self._thread.start()
        try:
            await opened
        except BaseException:
            self._thread = None
            raise

    def submit(self, job: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Queue a job; its future resolves after the commit."""
        if self._thread is None or self._loop is None:
            raise StoreError("the store is not open")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put((job, future))
        return future

    def send(self, job: Job) -> None:
        """Queue a job that nobody waits for; its failure is recorded."""
        if self._thread is not None:
            self.submit(job).add_done_callback(record)

    async def close(self) -> None:
        """Finish what is queued and close the connection."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(thread.join)

    # --- in the thread ---------------------------------------------------------------------------------------

    def _work(self, opened: asyncio.Future[Any]) -> None:
        try:
            connection = self._connect()
        except Exception as error:  # noqa: BLE001 - handed to whoever opens the store
            self._resolve([(opened, None, error)])
            return
        self._resolve([(opened, None, None)])
        running = True
        while running:
            batch, running = self._take()
            if batch:
                self._resolve(run_batch(connection, batch))
        connection.close()

    def _take(self) -> tuple[list[tuple[Job, asyncio.Future[Any]]], bool]:
        batch: list[tuple[Job, asyncio.Future[Any]]] = []
        item = self._queue.get()
        try:
            while item is not None:
                batch.append(item)
                if len(batch) == BATCH:
                    return batch, True
                item = self._queue.get_nowait()
        except Empty:
            return batch, True
        return batch, False

    def _resolve(self, outcomes: Sequence[Outcome]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(settle, outcomes)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more, and what was done is committed


def settle(outcomes: Sequence[Outcome]) -> None:
    """Give every waiting caller its result, in the event loop."""
    for future, result, error in outcomes:
        if future.done():
            continue  # its caller was cancelled
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def record(future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.error("a write nobody waits for failed: {}", error)


def run_batch(
    connection: sqlite3.Connection, batch: Sequence[tuple[Job, asyncio.Future[Any]]]
) -> list[Outcome]:
    """All jobs in one transaction; where that fails, each in its own, so that a bad job fails alone."""
    try:
        results = transact(connection, [job for job, _ in batch])
    except Exception as error:  # noqa: BLE001 - handed to the job's caller
        if len(batch) == 1:
            return [(batch[0][1], None, translate(error))]
        return [outcome for one in batch for outcome in run_batch(connection, [one])]
    return [(future, result, None) for (_, future), result in zip(batch, results, strict=True)]


def transact(connection: sqlite3.Connection, jobs: Sequence[Job]) -> list[Any]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        results = [job(connection) for job in jobs]
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk can have rolled it back already
            connection.execute("ROLLBACK")
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
