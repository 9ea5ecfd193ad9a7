"""Doubles for tests of nanobot and of what is built on it: given time, a scripted model, a channel in memory."""

import asyncio
import heapq
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from nanobot.channel import Capabilities, Event, Outbound, Receipt, Unreachable
from nanobot.models.scripted import Hang, Pause, ScriptedModel

__all__ = ["FakeChannel", "FakeClock", "Hang", "Pause", "ScriptedModel"]


class FakeClock:
    """Time that passes only when a test says so; implements nanobot.clock.Clock.

    `sleep` waits until `advance` or `run_to_next` moves the time past its end. With `auto=True` each sleep returns
    at once and moves the time by its length, which `slept` records.
    """

    def __init__(self, start: datetime | None = None, *, auto: bool = False) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._elapsed = 0.0
        self._auto = auto
        self._order = 0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._arrived = asyncio.Event()
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self._auto:
            self._elapsed += max(seconds, 0.0)
            await asyncio.sleep(0)
            return
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._order += 1
        heapq.heappush(self._sleepers, (self._elapsed + seconds, self._order, future))
        self._arrived.set()
        await future

    @property
    def sleepers(self) -> int:
        """How many wait now."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def wait_for_sleepers(self, count: int = 1) -> None:
        """Return once so many wait: the tasks under test have come to rest."""
        while self.sleepers < count:
            self._arrived.clear()
            await self._arrived.wait()

    async def advance(self, seconds: float) -> None:
        """Let so much time pass, waking sleepers in order; what they start is given the loop in between."""
        end = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            self._elapsed, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)
            await settle()
        self._elapsed = end
        await settle()

    async def run_to_next(self) -> None:
        """Let time pass until the next sleeper wakes."""
        await self.wait_for_sleepers()
        pending = [moment for moment, _, future in self._sleepers if not future.done()]
        await self.advance(min(pending) - self._elapsed)


async def settle(until: Callable[[], bool] | None = None, rounds: int = 20) -> None:
    """Give other tasks the loop: some rounds, or until something is true."""
    for _ in range(rounds if until is None else 10_000):
        if until is not None and until():
            return
        await asyncio.sleep(0)


class FakeChannel:
    """A channel in memory: what is delivered is in `delivered`, live events in `shown`; implements nanobot.channel.

    Put an error into `failures` to have the next deliveries fail with it, oldest first. `reachable = False` raises
    Unreachable until it is set back (then tell the deliverer).
    """

    def __init__(self, name: str = "fake", capabilities: Capabilities | None = None) -> None:
        self.name = name
        self.capabilities = capabilities or Capabilities(live=True, repeatable=True)
        self.delivered: list[Outbound] = []
        self.shown: list[Event] = []
        self.failures: list[Exception] = []
        self.found: dict[str, Receipt] = {}  # outbox message id → what `find` answers
        self.reachable = True
        self.started = False
        self._changed = asyncio.Event()

    async def start(self) -> None:
        self.started = True

    async def stop(self) -> None:
        self.started = False

    async def deliver(self, message: Outbound) -> Receipt:
        if not self.reachable:
            raise Unreachable("nobody is there")
        if self.failures:
            raise self.failures.pop(0)
        self.delivered.append(message)
        self._changed.set()
        return Receipt(message.ref or f"ref-{len(self.delivered)}")

    async def find(self, message: Outbound) -> Receipt | None:
        return self.found.get(message.id)

    def show(self, event: Event) -> None:
        self.shown.append(event)
        self._changed.set()

    def routes(self) -> Sequence[Any]:
        return ()

    async def until(self, true: Callable[["FakeChannel"], bool], seconds: float = 10.0) -> None:
        """Return once something is true of this channel; TimeoutError if it never becomes so."""
        async with asyncio.timeout(seconds):
            while not true(self):
                self._changed.clear()
                await self._changed.wait()
