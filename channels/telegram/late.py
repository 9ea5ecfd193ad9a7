"""Updates that take time, such as albums and large files: kept, confirmed, and accepted once they are complete.

Telegram sends nothing more of a chat by webhook, and a hundred updates at most by polling, before it knows that what
it sent has arrived.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from loguru import logger

from nanobot.channel import DeadlineExceeded, Port, StoreError

from .wire import Update, read_update

KEPT = "late:"
SECONDS = 0.25  # in which nearly all are accepted
RETRY = 5.0


class Late:
    """`process` accepts an update; it raises StoreError where it must be tried again."""

    def __init__(self, port: Port, process: Callable[[Update], Coroutine[Any, Any, None]]) -> None:
        self._port = port
        self._process = process
        self._kept: set[int] = set()  # by update id
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, update: Update, raw: Any) -> None:
        """Return once it is accepted or kept; raises StoreError where Telegram must send it again."""
        number = update.update_id
        if number in self._kept:
            return
        work = self._spawn(self._process(update))
        try:
            album = update.message is not None and update.message.media_group_id
            await asyncio.wait((work,), timeout=0.0 if album else SECONDS)
            if work.done():
                work.result()
                return
            await self._port.keys.set(key_of(number), msgspec.json.encode(raw).decode())
        except asyncio.CancelledError:
            work.cancel()
            raise
        self._kept.add(number)
        self._spawn(self._finish(update, work))

    async def resume(self) -> None:
        """Take up what an earlier life confirmed and did not accept, in its order."""
        for key, value in await self._port.keys.items(KEPT):
            try:
                update = read_update(msgspec.json.decode(value))
            except msgspec.DecodeError:
                await self._port.keys.delete(key)
                continue
            self._kept.add(update.update_id)
            self._spawn(self._finish(update, self._spawn(self._process(update))))

    async def close(self) -> None:
        """Stop; what is kept is taken up by the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._kept.clear()

    async def _finish(self, update: Update, work: Coroutine[Any, Any, None] | asyncio.Task[None]) -> None:
        number = update.update_id
        while True:
            try:
                await work
                await self._port.keys.delete(key_of(number))
            except (StoreError, DeadlineExceeded) as error:
                logger.warning("telegram: update {} is late: {}", number, error)
                await self._port.clock.sleep(RETRY)
                work = self._process(update)
            else:
                self._kept.discard(number)
                return

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # who waits for it is told


def key_of(number: int) -> str:
    """Keys sort as the updates came."""
    return f"{KEPT}{number:020d}"
