"""Hands in what was scheduled when its time has come: each time once, and what was missed is told once."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
from loguru import logger

from nanobot import schedule
from nanobot.clock import Clock, sleep_until
from nanobot.errors import NanobotError
from nanobot.messages import Inbound
from nanobot.schedule import When
from nanobot.store import Inbox, Schedule, Schedules

GOAL = "goal"  # `payload` is the Inbound that begins a goal, `spec` its When
MESSAGE = "message"  # `payload` is an Inbound that is handed in once, under its own id
LONGEST_SLEEP = 60.0  # seconds; a clock that is set is noticed by then


class Scheduler:
    """Implements `goals.Later` too."""

    def __init__(self, schedules: Schedules, inbox: Inbox, clock: Clock, wake: Callable[[str], None]) -> None:
        self._schedules = schedules
        self._inbox = inbox
        self._clock = clock
        self._wake = wake
        self._changed = asyncio.Event()

    async def add(self, id: str, message: Inbound, when: When) -> datetime | None:
        """Schedule a goal; returns when it is due first. Doing it again under the same id changes nothing."""
        next_at = schedule.following(when, self._clock.now())
        spec = msgspec.json.encode(when).decode()
        payload = msgspec.json.encode(message).decode()
        await self._schedules.put(
            Schedule(id, message.key, message.address, GOAL, spec, when.zone, payload, next_at)
        )
        self._changed.set()
        return next_at

    async def postpone(self, message: Inbound, at: datetime) -> None:
        payload = msgspec.json.encode(message).decode()
        await self._schedules.put(
            Schedule(message.message_id, message.key, message.address, MESSAGE, "", "UTC", payload, at)
        )
        self._changed.set()

    async def waits(self, message: Inbound) -> bool:
        return any(one.id == message.message_id for one in await self._schedules.list(message.key))

    async def goals(self, session: str) -> list[Schedule]:
        """The scheduled goals of a session, the next one first."""
        return [one for one in await self._schedules.list(session) if one.kind == GOAL]

    async def remove(self, id: str) -> bool:
        return await self._schedules.delete(id)

    async def forget(self, session: str) -> None:
        """Take off all that is to happen in a session, which is deleted."""
        for one in await self._schedules.list(session):
            await self._schedules.delete(one.id)

    async def run(self) -> None:
        """Forever."""
        while True:
            self._changed.clear()
            try:
                wait = await self.tick()
            except Exception as error:  # noqa: BLE001 - a worker's edge: what is due stays due
                logger.opt(exception=error).error("schedules: {}", error)
                wait = LONGEST_SLEEP
            await sleep_until(self._changed, self._clock, wait)

    async def tick(self) -> float:
        """Hand in what is due; returns the seconds until there may be more. One that fails keeps no other back."""
        now = self._clock.now()
        failed = False
        for one in await self._schedules.due(now):
            try:
                await self._fire(one, now)
            except (NanobotError, msgspec.MsgspecError) as error:
                failed = True
                logger.bind(session=one.session).error("schedule {} is not handed in: {}", one.id, error)
        if failed:  # still due: without a pause it would be tried over and over
            return LONGEST_SLEEP
        next_at = await self._schedules.next_at()
        if next_at is None:
            return LONGEST_SLEEP
        return min(max((next_at - self._clock.now()).total_seconds(), 0.0), LONGEST_SLEEP)

    async def _fire(self, one: Schedule, now: datetime) -> None:
        """The message comes first and is known by its moment; so a crash before the claim hands it in only once."""
        message = msgspec.json.decode(one.payload, type=Inbound)
        next_at: datetime | None = None
        if one.kind == GOAL and one.next_at is not None:
            when = msgspec.json.decode(one.spec, type=When)
            count, next_at = schedule.missed(when, one.next_at, now)
            late = now - one.next_at > timedelta(seconds=schedule.GRACE)
            message = msgspec.structs.replace(
                message,
                message_id=f"schedule:{one.id}:{int(one.next_at.timestamp())}",
                kind="schedule",
                meta={
                    "schedule": one.id,
                    "missed": count if late else 0,
                    "due": schedule.written(When(when.zone), one.next_at),
                    "next": schedule.written(when, next_at),
                },
            )
        await self._inbox.accept(message)
        await self._schedules.claim(one, now, next_at)
        self._wake(message.key)
