"""Session actors: exactly one at a time takes a session's turns from the mailbox, runs them and commits the answers.

A turn's life: claim; its user line in the history; the agent loop, each step in the history before the next; the
final line (the one with `latency_ms`); one commit that ends the inbox rows, queues the replies and gives the lease
back. Whatever dies in between, `claim` hands the turn out again and the history tells how far it came.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Protocol

from loguru import logger

from nanobot import history, mailbox, metrics
from nanobot.agent import loop
from nanobot.channel import TurnState
from nanobot.clock import Clock, deadline
from nanobot.commands import Commands, Invocation, parse
from nanobot.conversation import STORE_SECONDS, SessionConversation, user_line
from nanobot.ending import Ending, Running, status_of
from nanobot.errors import LeaseLost, NanobotError, StoreError
from nanobot.events import Event, Steered, TurnStarted
from nanobot.goals import COMPLETE, KIND, Goals
from nanobot.lives import Lives
from nanobot.model import Model, ToolCall
from nanobot.routing import controlled
from nanobot.store import Claim, Delivery, Row, Transcript
from nanobot.tool import ToolResult
from nanobot.workbench import Workbench

COMMAND_SECONDS = 60.0
TIDY_SECONDS = 300.0


class Compactor(Protocol):
    """Folds old turns away when a history outgrows the model's window."""

    async def tidy(self, transcript: Transcript, model: Model, *, force: bool = False) -> None: ...


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
        self._commands = commands
        self._compactor = compactor
        self._goals = goals
        self._clock = clock
        self._publish = publish
        self._ending = Ending(bench, goals, clock, publish, submit, wake, self._leave)
        self.lives = Lives(clock)
        # Ends what a session delegated, or what works for one goal of it: (session, reason, goal or ""); how many.
        self.below: Callable[[str, str, str], Awaitable[int]] = nothing_below
        self.objection: Callable[[str, str, str], str] = no_objection  # to (session, turn, answer); "" = none
        self.unshown: Callable[[Event], None] = nobody  # hears the events of turns that are not shown live
        self._running: dict[str, Running] = {}
        self._held: dict[str, tuple[Claim, bool]] = {}  # turns whose lease is still to be given back
        self._queued: dict[str, int] = {}
        # Session → seq of the newest /stop; turns older than it must not run.
        self._stops: dict[str, int] = {}

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
            self._queued[session] = max(0, self._queued.get(session, 0) - 1)
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
        if seq is not None and running.claim.rows[0].seq > seq:
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
        stopped = await self.below(session, "its parent was stopped", "") > 0 or stopped
        rows = await self._bench.inbox.pending(session)
        if seq is None:
            seq = rows[-1].seq + 1 if rows else 0
        self._stops[session] = seq
        cancelled = await self._bench.inbox.cancel(session, before=seq)
        self._queued.pop(session, None)
        silent = {row.id for row in rows if row.inbound.kind == KIND}
        return stopped, len([one for one in cancelled if one not in silent])

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
        running = Running(claim)
        session = claim.session
        own = controlled(session) is None  # a command's own lane does not count as the session working
        self._running[session] = running
        if own:
            self.lives.opening(session, resumed=claim.attempt > 1)
        metrics.RUNNING.inc()
        try:
            await self._answer(claim, running)
        except loop.Draining:
            await self._bench.inbox.release(claim)
        except asyncio.CancelledError:
            await asyncio.shield(self._bench.inbox.release(claim))
            raise
        except LeaseLost:
            logger.bind(session=session, turn=claim.turn).warning("lease lost; another owner has the session")
        except Exception as error:
            await self._give_back(claim, count=not isinstance(error, StoreError))
            raise  # the dispatcher records it and tries the session again
        finally:
            metrics.RUNNING.dec()
            del self._running[session]
            if own:
                self.lives.rested(session, running.status, running.reason)

    async def _give_back(self, claim: Claim, *, count: bool) -> None:
        """Release a turn that failed. A full disk is not the message's fault, so such an attempt does not count."""
        try:
            await self._bench.inbox.release(claim, count=count)
        except LeaseLost:
            pass
        except StoreError:
            self._held[claim.session] = (claim, count)

    async def _answer(self, claim: Claim, running: Running) -> None:
        bench = self._bench
        lead = claim.rows[0]
        key = controlled(claim.session) or claim.session
        async with deadline(STORE_SECONDS, "opening the history"):
            transcript = await bench.transcripts.open(key)
        log = logger.bind(session=claim.session, turn=claim.turn)
        if claim.attempt > 1:
            metrics.RESUMED.inc()
            log.info("turn resumed, attempt {}", claim.attempt)
        left = history.interrupted(transcript.messages, claim.turn)
        final = left.final
        if final is not None:  # it was answered before the interruption; only the commit is missing
            await self._ending.commit(running, transcript, final, status_of(final), "")
            return
        if lead.inbound.kind == "nudge":  # the turn it was meant for has ended
            await self._ending.discard(running)
            return
        if lead.inbound.kind == KIND and not await self._goals.due(key, claim):
            await self._ending.discard(running)
            return
        taken = await self._goals.takes(key, claim)
        if taken == "note":
            await self._ending.note(running, transcript)
            return
        running.for_goal = lead.inbound.kind == KIND or taken == "turn"
        emit = self._publish
        if running.for_goal and self._goals.silent(lead.inbound.channel):
            emit = self.unshown
        if claim.session == key:
            self.lives.working(key)
            emit(
                TurnStarted(
                    claim.session,
                    claim.turn,
                    lead.inbound.address,
                    running.answers,
                    running.started_at,
                    claim.attempt > 1,
                )
            )
        if mailbox.exhausted(claim.attempt, bench.attempts):
            text = f"I gave up on this message: answering it was interrupted {claim.attempt - 1} times."
            await self._ending.finish(
                running, transcript, loop.Outcome("failed", text), dead="too many attempts"
            )
            return
        if claim.session == key and lead.seq < self._stops.pop(key, 0):
            await self._ending.finish(running, transcript, None)
            return
        invocation = parse(lead.inbound, lead.seq, claim.turn, beside=claim.session != key)
        if invocation is not None:
            await self._command(running, transcript, invocation)
            return
        if lead.inbound.kind == "user":
            await self._goals.heard(key, claim.turn)
        try:
            model = bench.model(transcript.metadata.get("model"))
        except NanobotError as error:
            await self._ending.finish(running, transcript, loop.Outcome("failed", str(error)))
            return
        turn = loop.Turn(
            claim.session, claim.turn, lead.inbound.address, emit, f"{claim.turn}.{claim.attempt}"
        )
        conversation = SessionConversation(
            claim,
            transcript,
            bench,
            model,
            self._clock,
            emit,
            lambda rows: self._steered(running, transcript.key, rows),
            lambda: (
                running.for_goal
                and self._goals.closing(transcript, turn.usage, time.monotonic() - running.started)
            ),
            lambda call, result: self._failed(claim, transcript.key, call, result),
            await self._goals.context(transcript),
            lambda answer: self.objection(claim.session, claim.turn, answer),
        )
        running.turn = turn
        try:
            outcome = await self._looped(running, turn, conversation, transcript, model, left.heard)
        except asyncio.CancelledError:
            if not running.stopped:
                if running.task is not None:
                    running.task.cancel()
                    await asyncio.wait([running.task])
                raise
            await conversation.close_calls(f"interrupted: {running.why or 'stopped by the user'}")
            text = "\n\n".join(part for part in (turn.text, running.why) if part)
            ended = loop.Outcome("failed" if running.failed else "completed", text)
            await self._ending.finish(
                running, transcript, ended, turn=turn, model=model.name, stopped=not running.failed
            )
            return
        await self._ending.finish(running, transcript, outcome, turn=turn, model=model.name)
        await self._tidy(transcript, model, log)

    async def _looped(
        self,
        running: Running,
        turn: loop.Turn,
        conversation: SessionConversation,
        transcript: Transcript,
        model: Model,
        heard: Collection[str],
    ) -> loop.Outcome:
        """The agent loop as a task that can be stopped; begun again where a message was changed meanwhile."""
        again = False
        while True:
            work = self._run(turn, conversation, running.claim, heard, model, again=again)
            running.task = asyncio.create_task(work)
            try:
                return await running.task
            except asyncio.CancelledError:
                actor = asyncio.current_task()
                if running.stopped or not running.amended or (actor is not None and actor.cancelling()):
                    raise
            running.amended, again = False, True
            heard = history.interrupted(transcript.messages, running.claim.turn).heard

    async def _run(
        self,
        turn: loop.Turn,
        conversation: SessionConversation,
        claim: Claim,
        heard: Collection[str],
        model: Model,
        *,
        again: bool,
    ) -> loop.Outcome:
        fresh = [user_line(row) for row in claim.rows if row.id not in heard]
        if fresh:
            await conversation.append(*fresh)
        await conversation.settle()
        if claim.rows[0].inbound.kind == "child_result":
            await conversation.steer()  # results that wait together are answered together
        elif claim.attempt > 1:
            # A message that was changed just before the interruption.
            await conversation.steer(only_nudges=True)
        return await loop.run(
            turn, conversation, model, self._clock, max_steps=self._bench.max_steps, again=again
        )

    async def _steered(self, running: Running, key: str, rows: Sequence[Row]) -> None:
        session = running.claim.session
        ids = tuple(row.id for row in rows)
        running.rows.extend(rows)
        self._queued[session] = max(0, self._queued.get(session, 0) - len(ids))
        self._publish(Steered(session, running.claim.turn, rows[0].inbound.address, ids))
        if any(row.inbound.kind == "user" for row in rows):
            await self._goals.heard(key, running.claim.turn)

    async def _failed(self, claim: Claim, key: str, call: ToolCall, result: ToolResult) -> None:
        if call.name == COMPLETE and not result.data.get("refused"):
            await self._goals.fumbled(key, claim.turn, result.text)

    async def _command(self, running: Running, transcript: Transcript, invocation: Invocation) -> None:
        try:
            async with deadline(COMMAND_SECONDS, f"/{invocation.name}"):
                outcome = loop.Outcome("completed", await self._commands.run(invocation))
        except NanobotError as error:
            outcome = loop.Outcome("failed", str(error))
        await self._ending.finish(running, transcript, outcome, injected="command")

    async def _leave(self, session: str, reason: str, goal: str) -> int:
        return await self.below(session, reason, goal)

    async def _tidy(self, transcript: Transcript, model: Model, log: Any) -> None:
        try:
            async with deadline(TIDY_SECONDS, "folding old turns"):
                await self._compactor.tidy(transcript, model)
        except NanobotError as error:  # the turn is answered; the next one tries again
            log.warning("history not folded: {}", error)


async def nothing_below(_session: str, _reason: str, _goal: str) -> int:
    """A gateway without sub-sessions."""
    return 0


def no_objection(_session: str, _turn: str, _answer: str) -> str:
    """A gateway without watchers."""
    return ""


def nobody(_: Event) -> None:
    """Where the events of a turn go that is not shown live."""
