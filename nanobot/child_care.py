"""Care for outside agents at work: one that died or hangs is started again, its record says so, and its parent is told."""

from typing import Protocol

import msgspec
from loguru import logger

from nanobot.channel import TurnState
from nanobot.child import Child
from nanobot.child_desk import ExecutorDesk
from nanobot.child_records import ChildRecords
from nanobot.errors import StoreError
from nanobot.executor import ProcessRecord
from nanobot.health import HealthLimits
from nanobot.messages import Inbound
from nanobot.store import Inbox


class Settings(Protocol):
    """Of the `[delegation]` table."""

    @property
    def restarts(self) -> int: ...

    @property
    def health_interval(self) -> float: ...

    @property
    def stall_timeout(self) -> float: ...


class Turns(Protocol):
    """The session actors, as far as they are needed here."""

    def state(self, session: str) -> TurnState: ...


class ChildCare:
    """Over all sub-sessions of a gateway; `desk` asks it for each turn of an outside agent."""

    def __init__(
        self, records: ChildRecords, desk: ExecutorDesk, turns: Turns, inbox: Inbox, settings: Settings
    ) -> None:
        self.limits = HealthLimits(
            interval=settings.health_interval, stall=settings.stall_timeout, restarts=settings.restarts
        )
        self._records = records
        self._desk = desk
        self._turns = turns
        self._inbox = inbox
        desk.care = lambda session: TurnCare(self, session)

    async def restarting(self, session: str, why: str, attempt: int) -> None:
        child = self._records.get(session)
        if child is None or child.ended:
            return
        logger.bind(session=session).warning("sub-session {}: {}; it is started again", child.short, why)
        child = msgspec.structs.replace(child, restarts=child.restarts + 1, unwell=why)
        await self._records.put(child)
        # Nobody is woken for it: one who waits reads of it in the result.
        if self._turns.state(child.parent).running:
            try:
                await self._inbox.accept(note(child, attempt, self.limits.restarts))
            except StoreError as error:
                logger.bind(session=session).warning("the parent was not told: {}", error)

    async def restarted(self, session: str, process: ProcessRecord | None, thread: str) -> None:
        await self._desk.started(session, process, thread)


class TurnCare:
    """Implements `executors.lasting.Care` for one turn."""

    def __init__(self, care: ChildCare, session: str) -> None:
        self.limits = care.limits
        self._care = care
        self._session = session

    async def restarting(self, why: str, attempt: int) -> None:
        await self._care.restarting(self._session, why, attempt)

    async def restarted(self, process: ProcessRecord | None, thread: str) -> None:
        await self._care.restarted(self._session, process, thread)


def note(child: Child, attempt: int, most: int) -> Inbound:
    """What a parent at work is told; known by turn and restart, so it is there once."""
    parent = child.address
    return Inbound(
        channel=parent.channel,
        message_id=f"restart:{child.id}:{child.turn}:{child.restarts}",
        chat_id=parent.chat_id,
        thread=parent.thread,
        text=f"[{child.short}] {child.executor} is started again ({attempt} of at most {most} times): {child.unwell}.",
        sender=child.key,
        kind="nudge",
        session=child.parent,
    )
