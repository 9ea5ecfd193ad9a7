"""What waits for the disk, in a thread of its own."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from loguru import logger

from nanobot.errors import StoreError

Outcome = tuple[asyncio.Future[Any], Any, BaseException | None]
Item = list[Outcome] | Callable[[], None] | None


class Disk:
    """Syncs the log for many commits at once, and folds it into the database.

    After a failed sync the kernel may have dropped what it could not write, so no later one is believed: every
    durable job fails until the gateway is started again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Path) -> None:
        self._loop = loop
        self._log = os.open(log, os.O_RDWR | os.O_CLOEXEC)
        sync_directory(log.parent)  # the log is a new file after every clean end
        self._failure: StoreError | None = None
        self._queue: SimpleQueue[Item] = SimpleQueue()
        # A daemon: whoever dies without stop() loses nothing that was answered.
        self._thread = threading.Thread(target=self._work, name="store-disk", daemon=True)
        self._thread.start()

    def sync(self, outcomes: list[Outcome]) -> None:
        """Settle these once the log is on the disk."""
        self._queue.put(outcomes)

    def fold(self, db: sqlite3.Connection, then: Callable[[], None]) -> None:
        """Copy the log into the database. Nobody else may use the connection until `then` is called in the loop."""

        def folding() -> None:
            try:
                db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            except sqlite3.Error as error:
                logger.error("the log could not be folded into the database: {}", error)
            self._call(then)

        self._queue.put(folding)

    def stop(self) -> None:
        """Do what is queued and end. Blocks."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        running = True
        while running:
            outcomes, then, running = self._take()
            if outcomes is not None:
                self._sync(outcomes)
            if then is not None:
                then()
        os.close(self._log)

    def _take(self) -> tuple[list[Outcome] | None, Callable[[], None] | None, bool]:
        """All syncs that wait by now, as one; and what came after them."""
        outcomes: list[Outcome] | None = None
        item = self._queue.get()
        try:
            while isinstance(item, list):
                outcomes = [*outcomes, *item] if outcomes else item
                item = self._queue.get_nowait()
        except Empty:
            return outcomes, None, True
        return outcomes, item, item is not None

    def _sync(self, outcomes: list[Outcome]) -> None:
        if self._failure is None:
            try:
                os.fdatasync(self._log)
            except OSError as error:
                logger.critical("the disk did not take the store's log: {}", error)
                self._failure = StoreError(f"the disk did not take the log: {error}; start the gateway again")
        if self._failure is not None:
            outcomes = [(future, None, self._failure) for future, _, _ in outcomes]
        if outcomes:
            self._call(settle, outcomes)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
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


def sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
