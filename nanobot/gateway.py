"""The gateway: channels on one side, mailboxes on the other; start, drain, stop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from typing import Any

from loguru import logger

from nanobot import metrics
from nanobot.channel import Channel
from nanobot.clock import Clock, deadline
from nanobot.delivery import SWEEP_SECONDS, Deliverer
from nanobot.errors import NanobotError
from nanobot.events import Event, SessionUpdated, TurnEnded, TurnStarted
from nanobot.routing import controlled
from nanobot.session import Actors
from nanobot.store import Bus, Dispatcher, Store
from nanobot.workbench import Workbench

CONNECT_SECONDS = 60.0  # a channel's start
CLOSE_SECONDS = 5.0  # a channel's stop
DRAIN_SECONDS = 10.0  # turns reach a safe point within this time after SIGTERM
RETRY_SECONDS = (2.0, 5.0, 10.0, 30.0)  # between a channel's attempts to start; what is back is soon heard
GAUGE_SECONDS = 15.0
TIDY_SECONDS = 3_600.0
PAGE = "websocket"  # the channel whose page lists the sessions of all
OUTBOX_DAYS = 7  # delivered replies are kept this long, for `nanobot outbox list`
INBOX_DAYS = 30  # ended messages, by which duplicates are known; platforms repeat for a day at most


class Gateway:
    """Runs channels, session actors and delivery until it is told to stop."""

    def __init__(
        self,
        channels: dict[str, Channel],
        store: Store,
        bench: Workbench,
        actors: Actors,
        dispatcher: Dispatcher,
        deliverer: Deliverer,
        bus: Bus,
        clock: Clock,
        tidy: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.channels = channels
        self.problems: dict[str, str] = {}  # channel → what is wrong with it, in one sentence
        self._store = store
        self._bench = bench
        self._actors = actors
        self._dispatcher = dispatcher
        self._deliverer = deliverer
        self._bus = bus
        self._clock = clock
        self._more_to_tidy = tidy
        self._settled: dict[str, asyncio.Event] = {}
        self._up: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Take up unfinished work and start the channels; returns once each is up or has said why not."""
        for name, channel in self.channels.items():
            if channel.capabilities.live:
                self._bus.subscribe(f"channel:{name}", channel.show)
        self._spawn(self._dispatcher.serve(self._actors.serve))
        waiting = await self._store.inbox.waiting()
        # Control lanes first: a /stop accepted before the crash must reach its turn before that is taken up again.
        for session in sorted(waiting, key=lambda one: controlled(one) is None):
            self._dispatcher.wake(session)
        if waiting:
            logger.info("{} sessions have unfinished work", len(waiting))
        await self._deliverer.start()
        self._spawn(self._every(SWEEP_SECONDS, "sweeping the outbox", self._deliverer.sweep))
        self._spawn(self._every(GAUGE_SECONDS, "counting the queue", self._gauge))
        self._spawn(self._every(TIDY_SECONDS, "tidying up", self._tidy))
        for name in self.channels:
            self._spawn(self._keep(name))
        await asyncio.gather(*(event.wait() for event in self._settled.values()))

    def up(self) -> list[str]:
        return [name for name in self.channels if name in self._up and not self.problems.get(name)]

    def failed(self) -> dict[str, str]:
        return {
            name: self.problems.get(name, "not started") for name in self.channels if name not in self.up()
        }

    def report(self, name: str, problem: str) -> None:
        """A channel says what is wrong with it; "" takes it back."""
        if problem and problem != self.problems.get(name):
            logger.warning("channel {}: {}", name, problem)
        self.problems[name] = problem

    def add(self, name: str, channel: Channel) -> None:
        """Take a channel in, before `start`."""
        self.channels[name] = channel
        self._settled[name] = asyncio.Event()

    async def health(self) -> dict[str, Any]:
        """What /healthz says."""
        depth, age = await self._store.inbox.depth()
        return {
            "status": "ok" if not any(self.problems.values()) else "degraded",
            "channels": {name: self.problems.get(name) or "ok" for name in {*self.channels, *self.problems}},
            "queue": {"depth": depth, "oldest_seconds": round(age, 1)},
            "turns": len(self._actors.running()),
        }

    async def stop(self) -> None:
        """Stop intake, let turns reach a safe point, send what is ready, close."""
        self._bench.draining = True
        await asyncio.gather(*(self._close(name) for name in self._up), return_exceptions=True)
        await self._dispatcher.drain(DRAIN_SECONDS)
        await self._deliverer.drain(CLOSE_SECONDS)
        await self._deliverer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _keep(self, name: str) -> None:
        """Start one channel and, as long as it cannot, try again ever more slowly."""
        channel = self.channels[name]
        for attempt in range(1_000_000):
            try:
                async with deadline(CONNECT_SECONDS, f"starting {name}"):
                    await channel.start()
            except NanobotError as error:
                self.report(name, str(error))
            except Exception as error:  # noqa: BLE001 - an adapter's fault stops that channel alone; it is recorded
                logger.opt(exception=error).error("channel {} failed to start", name)
                self.report(name, f"{type(error).__name__}: {error}")
            else:
                self.report(name, "")
                self._up.add(name)
                self._settled[name].set()
                return
            self._settled[name].set()
            await self._clock.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])

    async def _close(self, name: str) -> None:
        async with deadline(CLOSE_SECONDS, f"stopping {name}"):
            await self.channels[name].stop()

    async def _every(self, seconds: float, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do this forever. Where it fails, because the store is full perhaps, the next time may go well."""
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - a worker's edge: recorded, and tried again
                logger.opt(exception=error).error("{} failed: {}", what, error)
            await self._clock.sleep(seconds)

    async def _tidy(self) -> None:
        """Forget what ended long ago, and wake whatever waits although nobody woke it."""
        now = self._clock.now()
        await self._store.outbox.prune(now - timedelta(days=OUTBOX_DAYS))
        await self._store.inbox.prune(now - timedelta(days=INBOX_DAYS))
        if self._more_to_tidy is not None:
            await self._more_to_tidy()
        for session in await self._store.inbox.waiting():
            self._dispatcher.wake(session)

    async def _gauge(self) -> None:
        """Keep the queue's metrics fresh."""
        depth, age = await self._store.inbox.depth()
        metrics.QUEUE_DEPTH.set(depth)
        metrics.QUEUE_AGE.set(age)


def publisher(bus: Bus) -> Callable[[Event], None]:
    """Events go to the channel whose place they name; what changes a session list also to the page that shows it."""

    def publish(event: Event) -> None:
        bus.publish(f"channel:{event.address.channel}", event)
        if isinstance(event, SessionUpdated | TurnStarted | TurnEnded) and event.address.channel != PAGE:
            bus.publish(f"channel:{PAGE}", SessionUpdated(event.session, event.turn, event.address))

    return publish
