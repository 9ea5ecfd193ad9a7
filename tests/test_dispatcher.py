"""The local dispatcher and the local bus."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from loguru import logger

from nanobot.clock import deadline
from nanobot.stores.bus import LocalBus
from nanobot.stores.dispatcher import LocalDispatcher


class GivenClock:
    """Sleeps end when the test says so."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[float] = asyncio.Queue()
        self.wakes: asyncio.Semaphore = asyncio.Semaphore(0)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.asked.put_nowait(seconds)
        await self.wakes.acquire()


@asynccontextmanager
async def serving(
    dispatcher: LocalDispatcher, handler: Callable[[str], Awaitable[None]]
) -> AsyncIterator[None]:
    task = asyncio.create_task(dispatcher.serve(handler))
    try:
        async with deadline(5, "the test"):
            yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def heard() -> AsyncIterator[list[str]]:
    """What is logged meanwhile."""
    messages: list[str] = []
    sink = logger.add(messages.append, format="{level} {extra} {message} {exception}")
    try:
        yield messages
    finally:
        logger.remove(sink)


class Gate:
    """A handler that reports its beginnings and ends when let through."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.open = asyncio.Semaphore(0)
        self.inside: set[str] = set()

    async def __call__(self, session: str) -> None:
        assert session not in self.inside
        self.inside.add(session)
        self.begun.put_nowait(session)
        try:
            await self.open.acquire()
        finally:
            self.inside.discard(session)


async def test_a_woken_session_is_handled() -> None:
    dispatcher, gate = LocalDispatcher(), Gate()
    async with serving(dispatcher, gate):
        dispatcher.wake("a")
        assert await gate.begun.get() == "a"


async def test_what_was_woken_before_the_start_is_handled() -> None:
    dispatcher, gate = LocalDispatcher(), Gate()
    dispatcher.wake("a")
    async with serving(dispatcher, gate):
        assert await gate.begun.get() == "a"


async def test_a_session_woken_while_it_runs_runs_once_more() -> None:
    dispatcher, gate = LocalDispatcher(), Gate()
    async with serving(dispatcher, gate):
        dispatcher.wake("a")
        await gate.begun.get()
        for _ in range(3):
            dispatcher.wake("a")
        assert gate.begun.empty()
        gate.open.release()
        assert await gate.begun.get() == "a"
        gate.open.release()
        dispatcher.wake("b")
        assert await gate.begun.get() == "b"
        assert gate.begun.empty()


async def test_sessions_run_side_by_side_without_a_bound() -> None:
    dispatcher, gate = LocalDispatcher(), Gate()
    async with serving(dispatcher, gate):
        for number in range(200):
            dispatcher.wake(str(number))
        for _ in range(200):
            await gate.begun.get()
        assert dispatcher.running == 200


async def test_a_failed_session_is_recorded_and_tried_again_after_a_growing_pause() -> None:
    clock, failures, done = GivenClock(), iter([1, 2, 3]), asyncio.Event()

    async def handler(session: str) -> None:
        if next(failures, None):
            raise ValueError("it broke")
        done.set()

    async with heard() as messages, serving(dispatcher := LocalDispatcher(clock), handler):
        dispatcher.wake("telegram:7")
        pauses = []
        for _ in range(3):
            pauses.append(await clock.asked.get())
            clock.wakes.release()
        await done.wait()
    assert 0.25 <= pauses[0] <= 0.5 <= pauses[1] <= 1.0 <= pauses[2] <= 2.0
    assert len([one for one in messages if "it broke" in one and "telegram:7" in one]) == 3


async def test_a_session_that_went_well_in_between_is_tried_again_soon() -> None:
    clock, left = GivenClock(), [ValueError, None, ValueError]

    async def handler(session: str) -> None:
        if (fault := left.pop(0)) is not None:
            raise fault
        dispatcher.wake(session)

    async with serving(dispatcher := LocalDispatcher(clock), handler):
        dispatcher.wake("a")
        await clock.asked.get()
        clock.wakes.release()
        assert await clock.asked.get() <= 0.5


async def test_one_sessions_failure_is_no_others_concern() -> None:
    clock, gate = GivenClock(), Gate()

    async def handler(session: str) -> None:
        if session == "bad":
            raise RuntimeError(session)
        await gate(session)

    async with heard(), serving(dispatcher := LocalDispatcher(clock), handler):
        dispatcher.wake("bad")
        dispatcher.wake("good")
        assert await gate.begun.get() == "good"
        await clock.asked.get()


async def test_a_handler_that_was_cancelled_leaves_its_session_usable() -> None:
    begun: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()

    async def handler(session: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        begun.put_nowait(task)
        await asyncio.Event().wait()

    async with serving(dispatcher := LocalDispatcher(), handler):
        dispatcher.wake("a")
        (await begun.get()).cancel()
        while dispatcher.running:
            await asyncio.sleep(0)
        dispatcher.wake("a")
        await begun.get()


async def test_a_handler_that_fails_by_somebody_elses_cancellation_is_tried_again() -> None:
    begun: list[str] = []

    async def handler(session: str) -> None:
        begun.append(session)
        if len(begun) == 1:
            lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            lost.cancel()
            await lost

    clock = GivenClock()
    async with serving(dispatcher := LocalDispatcher(clock), handler), heard() as messages:
        dispatcher.wake("a")
        await clock.asked.get()
        clock.wakes.release()
        while dispatcher.running:
            await asyncio.sleep(0)
    assert begun == ["a", "a"]
    assert any("session failed" in message for message in messages)


async def test_a_drain_waits_for_what_runs_and_starts_nothing() -> None:
    dispatcher, gate = LocalDispatcher(), Gate()
    async with serving(dispatcher, gate):
        dispatcher.wake("a")
        await gate.begun.get()
        dispatcher.wake("a")
        drain = asyncio.create_task(dispatcher.drain(5))
        await asyncio.sleep(0)
        dispatcher.wake("b")
        assert not drain.done()
        gate.open.release()
        await drain
        assert dispatcher.running == 0
        assert gate.begun.empty()


async def test_a_drain_ends_in_time_whatever_runs() -> None:
    dispatcher, gate = LocalDispatcher(), Gate()
    async with serving(dispatcher, gate):
        dispatcher.wake("a")
        await gate.begun.get()
        await dispatcher.drain(0.01)
        assert gate.inside == {"a"}
    assert gate.inside == set()


async def test_a_session_woken_while_its_handler_was_cancelled_runs_again() -> None:
    begun: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()

    async def handler(session: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        begun.put_nowait(task)
        await asyncio.Event().wait()

    async with serving(dispatcher := LocalDispatcher(), handler):
        dispatcher.wake("a")
        first = await begun.get()
        first.cancel()
        dispatcher.wake("a")
        assert await begun.get() is not first


async def test_a_failure_during_a_drain_is_not_tried_again() -> None:
    begun, go = asyncio.Semaphore(0), asyncio.Event()
    runs: list[str] = []

    async def handler(session: str) -> None:
        runs.append(session)
        begun.release()
        await go.wait()
        raise ValueError(session)

    async with heard(), serving(dispatcher := LocalDispatcher(), handler):
        dispatcher.wake("a")
        await begun.acquire()
        drain = asyncio.create_task(dispatcher.drain(5))
        await asyncio.sleep(0)
        go.set()
        await drain
        assert dispatcher.running == 0
    assert runs == ["a"]


async def test_a_drain_does_not_wait_for_the_pause_after_a_failure() -> None:
    clock = GivenClock()

    async def handler(session: str) -> None:
        raise ValueError(session)

    async with heard(), serving(dispatcher := LocalDispatcher(clock), handler):
        dispatcher.wake("a")
        await clock.asked.get()
        await dispatcher.drain(5)
        assert dispatcher.running == 0


async def test_frames_reach_the_subscribers_of_their_topic_in_order() -> None:
    bus = LocalBus()
    frames: list[tuple[str, int]] = []
    bus.subscribe("a", lambda frame: frames.append(("first", frame)))
    bus.subscribe("a", lambda frame: frames.append(("second", frame)))
    bus.subscribe("b", lambda frame: frames.append(("other", frame)))
    bus.publish("a", 1)
    bus.publish("nobody", 2)
    assert frames == [("first", 1), ("second", 1)]


async def test_an_ended_subscription_hears_nothing_even_when_the_same_callback_stays() -> None:
    bus = LocalBus()
    frames: list[object] = []
    leave = bus.subscribe("a", frames.append)
    bus.subscribe("a", frames.append)
    leave()
    leave()
    bus.publish("a", 1)
    assert frames == [1]


async def test_a_subscriber_may_leave_while_it_hears() -> None:
    bus = LocalBus()
    frames: list[object] = []

    def once(frame: object) -> None:
        frames.append(frame)
        leave()

    leave = bus.subscribe("a", once)
    bus.publish("a", 1)
    bus.publish("a", 2)
    assert frames == [1]


async def test_a_failing_subscriber_is_recorded_and_harms_nobody() -> None:
    bus = LocalBus()
    frames: list[object] = []

    def broken(frame: object) -> None:
        raise ValueError("broken view")

    bus.subscribe("a", broken)
    bus.subscribe("a", frames.append)
    async with heard() as messages:
        bus.publish("a", 1)
    assert frames == [1]
    assert any("broken view" in one for one in messages)
