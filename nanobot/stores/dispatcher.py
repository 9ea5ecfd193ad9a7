"""LocalDispatcher: one asyncio task per session that has something to do."""

import asyncio
from collections.abc import Awaitable, Callable

from loguru import logger

from nanobot import mailbox
from nanobot.clock import Clock, SystemClock, being_cancelled, sleep_until

Handler = Callable[[str], Awaitable[None]]

FIRST_RETRY = 0.5  # seconds after a handler's first failure
LONGEST_RETRY = 30.0


class LocalDispatcher:
    """Runs at most one handler per session at a time, and again where the session was woken meanwhile.

    A handler's exception is recorded and the session tried again after a growing pause.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._woken: set[str] = set()  # to run again, or for the first time once there is a handler
        self._handler: Handler | None = None
        self._group: asyncio.TaskGroup | None = None
        self._draining = asyncio.Event()

    def wake(self, session: str) -> None:
        """Something waits in this session. Cheap, may be called often, also before `serve`."""
        if self._draining.is_set():
            return  # what waits is on disk; the next life finds it
        self._woken.add(session)
        if self._group is not None and session not in self._tasks:
            self._start(session)

    async def serve(self, handler: Handler) -> None:
        """Call the handler for each woken session until cancelled."""
        self._handler = handler
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for session in list(self._woken):
                    self._start(session)
                await asyncio.Event().wait()
            finally:
                self._group = None

    async def drain(self, seconds: float) -> None:
        """Start nothing more and wait so long for what runs; what still runs then ends with `serve`."""
        self._draining.set()
        self._woken.clear()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=seconds)

    @property
    def running(self) -> int:
        """Sessions that have a handler now, or wait for their next try."""
        return len(self._tasks)

    def _start(self, session: str) -> None:
        assert self._group is not None
        task = self._group.create_task(self._run(session), name=f"session {session}")
        self._tasks[session] = task
        # A callback, so that it runs also for a task that was cancelled before its first step.
        task.add_done_callback(lambda _: self._ended(session))

    def _ended(self, session: str) -> None:
        del self._tasks[session]
        if session in self._woken and self._group is not None:
            self._start(session)

    async def _run(self, session: str) -> None:
        assert self._handler is not None
        failures = 0
        while session in self._woken:
            self._woken.discard(session)
            try:
                await self._handler(session)
            # A worker's edge: recorded, and the session is tried again.
            except (Exception, asyncio.CancelledError):
                if being_cancelled():
                    raise
                logger.bind(session=session).exception("session failed")
                failures += 1
            else:
                failures = 0
                continue
            if self._draining.is_set():
                return
            self._woken.add(session)
            pause = mailbox.backoff(failures, first=FIRST_RETRY, longest=LONGEST_RETRY)
            await sleep_until(self._draining, self._clock, pause)
