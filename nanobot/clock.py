"""Time as one object, so that it is given, not taken; and the helpers that bound an await, see it
through, and tell who cancelled it.
"""

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol

from nanobot.errors import DeadlineExceeded


class Clock(Protocol):
    """What time it is, and how to wait."""

    def now(self) -> datetime:
        """Aware UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def being_cancelled() -> bool:
    """Whether somebody cancels the task that runs. If nobody does, a CancelledError says that what it awaited was."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def stamp(moment: datetime) -> str:
    """The timestamp of session files and rows: ISO 8601, UTC, milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


async def sleep_until(event: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Sleep until the event is set, but not longer than this."""
    waits = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(event.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await work to the end even while we are cancelled, then let the cancellation go on. It bounds itself."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled
    task.result()


class deadline:  # noqa: N801 - read as a word: `async with deadline(5, "the model")`
    """Bound every await on something outside; raises DeadlineExceeded, which names `what`.

    A class and not a generator: it stands around every step of a turn, and this halves its cost.
    """

    __slots__ = ("_scope", "seconds", "what")

    def __init__(self, seconds: float, what: str) -> None:
        self.seconds = seconds
        self.what = what

    async def __aenter__(self) -> None:
        self._scope = asyncio.timeout(self.seconds)
        await self._scope.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError as late:
            raise DeadlineExceeded(self.what, self.seconds) from late
