"""Session actors: exactly one at a time takes a session's turns from the mailbox, runs them and commits the answers.

A turn's life: claim; its user line in the history; the agent loop, each step in the history before the next; the
final line (the one with `latency_ms`); one commit that ends the inbox rows, queues the replies and gives the lease
back. Whatever dies in between, `claim` hands the turn out again and the history tells how far it came.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from loguru import logger

from nanobot import metrics
from nanobot.agent import loop
from nanobot.answering import Answering, Compactor
from nanobot.channel import TurnState
from nanobot.clock import Clock, being_cancelled, deadline
from nanobot.commands import Commands, Invocation
from nanobot.conversation import STORE_SECONDS
from nanobot.ending import Ending, Running
from nanobot.errors import DeadlineExceeded, LeaseLost, NanobotError, StoreError
from nanobot.events import Event
from nanobot.goals import KIND, Goals
from nanobot.lives import Lives
from nanobot.routing import controlled
from nanobot.store import Claim, Delivery
from nanobot.workbench import Workbench


class Actors:
    """All sessions' actors. `serve` is the dispatcher's handler."""

    def __init__(
        self,
        bench: Workbench,
        commands: Commands,
        compactor: Compactor,
        goals: Goals,
        clock: Clock,
        publish: Callable[[Event], None],
        submit: Callable[[Sequence[Delivery]], None],
        wake: Callable[[str], None],
    ) -> None:
        self._bench = bench
        self._clock = clock
        self._commands = commands
        self._goals = goals
        self.lives = Lives(clock)
        self.below: Callable[[str, str], Awaitable[int]] = nothing_below  # stopped with a session; how many
        self.objection: Callable[[str, str, str], str] = no_objection  # to (session, turn, answer); "" = none
        self.unshown: Callable[[Event], None] = nobody  # hears the events of turns that are not shown live
        self._running: dict[str, Running] = {}
        self._held: dict[str, tuple[Claim, bool]] = {}  # turns whose lease is still to be given back
        self._queued: dict[str, int] = {}
        # Session → seq of the newest /stop; turns older than it must not run.
        self._stops: dict[str, int] = {}
        self._answering = Answering(
            bench,
            commands,
            compactor,
            goals,
            clock,
            publish,
            Ending(bench, goals, clock, publish, submit, wake),
            self.lives,
            self,
            self._stops,
            self._taken,
        )

    # --- what the gateway asks -------------------------------------------------------------------------------

    async def serve(self, session: str) -> None:
        """Run the session's turns until nothing waits."""
        held = self._held.get(session)
        # Its lease could not be given back when it failed; until it is, no claim succeeds.
        if held is not None:
            with suppress(LeaseLost):
                await self._bench.inbox.release(held[0], count=held[1])
            del self._held[session]
        while not self._bench.draining:
            async with deadline(STORE_SECONDS, "claiming a turn"):
                claim = await self._bench.inbox.claim(session)
            if claim is None:
                self._queued.pop(session, None)
                return
            self._taken(session, 1)
            await self._turn(claim)

    def queued(self, session: str) -> None:
        """A message was accepted for this session."""
        self._queued[session] = self._queued.get(session, 0) + 1

    def state(self, session: str) -> TurnState:
        running = self._running.get(session)
        queued = self._queued.get(session, 0)
        if running is None:
            return TurnState(running=False, queued=queued)
        return TurnState(True, running.claim.turn, running.started_at, queued)

    def running(self) -> list[str]:
        return [session for session in self._running if controlled(session) is None]

    def interrupt(self, session: str, seq: int | None = None) -> bool:
        """Stop the turn that runs now; False where none does, or it is being committed, or answers what came after `seq`."""
        running = self._running.get(session)
        if running is None or running.task is None or running.task.done():
            return False
        if seq is not None and running.claim.rows[0].seq >= seq:
            return False
        running.stopped, running.stopped_by = True, seq
        running.task.cancel()
        return True

    def amend(self, session: str, turn: str) -> None:
        """A message of a turn was changed: if the model is being asked about it now, it is asked again.

        While a tool runs nothing is broken off; the turn hears of the change after it.
        """
        running = self._running.get(session)
        if running is None or running.claim.turn != turn:
            return
        task = running.task
        if running.turn is not None and running.turn.asking and task is not None and not task.done():
            running.amended = True
            task.cancel()

    def end(self, session: str, why: str, *, failed: bool = False) -> bool:
        """Stop the turn that runs now and tell the chat why; False where none does."""
        running = self._running.get(session)
        if running is None:
            return False
        running.why, running.failed = why, failed
        return self.interrupt(session)

    def interrupt_goal(self, session: str) -> bool:
        """Stop the turn that runs now if it is a goal's own."""
        running = self._running.get(session)
        return running is not None and running.for_goal and self.interrupt(session)

    async def stop(self, session: str, seq: int | None = None) -> tuple[bool, int]:
        """Stop what runs and what waits; returns whether a turn ran and how many messages waited.

        `seq` is that of the /stop itself: what was said after it is answered, and a turn older than it, which an
        earlier life left, will not be taken up.
        """
        stopped = self.interrupt(session, seq)
        try:  # before anything is waited for: the turn's end must not ask for the goal's next turn
            await self._goals.halt(session)
        except NanobotError as error:  # a goal that cannot be written must not keep a turn from stopping
            logger.bind(session=session).error("the goal could not be paused: {}", error)
        stopped = await self.below(session, "its parent was stopped") > 0 or stopped
        rows = await self._bench.inbox.pending(session)
        if seq is None:
            seq = rows[-1].seq + 1 if rows else 0
        self._stops[session] = seq
        cancelled = await self._bench.inbox.cancel(session, before=seq)
        stopped = self.interrupt(session, seq) or stopped  # it may have begun meanwhile
        self._queued.pop(session, None)
        silent = {row.id for row in rows if row.inbound.kind == KIND}
        return stopped, len([one for one in cancelled if one not in silent])

    async def ended(self, session: str) -> None:
        """Wait for the end of the turn that runs now; a stopped one has last words to write."""
        running = self._running.get(session)
        if running is not None:
            await running.over.wait()

    def beside(self, invocation: Invocation, session: str) -> bool:
        """Whether a command runs beside the session's turn: it asks first before it ends a goal that is worked on."""
        entry = self._commands.find(invocation.name)
        if (
            entry is not None
            and entry.interrupts
            and not invocation.argument
            and self._goals.working(session)
        ):
            return True
        return self._commands.immediate(invocation)

    # --- one turn --------------------------------------------------------------------------------------------

    async def _turn(self, claim: Claim) -> None:
        running = Running(claim, self._clock.monotonic())
        session = claim.session
        own = controlled(session) is None  # a command's own lane does not count as the session working
        self._running[session] = running
        if own:
            self.lives.opening(session, resumed=claim.attempt > 1)
        metrics.RUNNING.inc()
        try:
            await self._answering.answer(running)
        except loop.Draining:
            await self._give_back(claim, count=False)
        except asyncio.CancelledError:
            await asyncio.shield(self._give_back(claim, count=not being_cancelled()))
            raise
        except LeaseLost:
            logger.bind(session=session, turn=claim.turn).warning("lease lost; another owner has the session")
        except Exception as error:
            await self._give_back(claim, count=not isinstance(error, StoreError | DeadlineExceeded))
            raise  # the dispatcher records it and tries the session again
        finally:
            metrics.RUNNING.dec()
            del self._running[session]
            running.over.set()
            if own:
                self._stops.pop(session, None)
                self.lives.rested(session, running.status, running.reason)

    async def _give_back(self, claim: Claim, *, count: bool) -> None:
        """Release a turn that did not end. A full or slow disk is not the message's fault and is not counted."""
        try:
            await self._bench.inbox.release(claim, count=count)
        except LeaseLost:
            pass
        except StoreError:
            self._held[claim.session] = (claim, count)

    def _taken(self, session: str, count: int) -> None:
        self._queued[session] = max(0, self._queued.get(session, 0) - count)


async def nothing_below(_session: str, _reason: str) -> int:
    """A gateway without sub-sessions."""
    return 0


def no_objection(_session: str, _turn: str, _answer: str) -> str:
    """A gateway without watchers."""
    return ""


def nobody(_: Event) -> None:
    """Where the events of a turn go that is not shown live."""
