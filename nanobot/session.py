"""Session actors: exactly one at a time takes a session's turns from the mailbox, runs them and commits the answers.

A turn's life: claim; its user line in the history; the agent loop, each step in the history before the next; the
final line (the one with `latency_ms`); one commit that ends the inbox rows, queues the replies and gives the lease
back. Whatever dies in between, `claim` hands the turn out again and the history tells how far it came.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, Protocol

import msgspec
from loguru import logger

from nanobot import history, mailbox, metrics
from nanobot.agent import loop
from nanobot.channel import TurnState
from nanobot.clock import Clock, deadline, stamp
from nanobot.commands import Commands, Invocation, parse
from nanobot.conversation import STORE_SECONDS, SessionConversation, user_line
from nanobot.errors import LeaseLost, NanobotError
from nanobot.events import Event, Steered, TurnEnded, TurnStarted, Usage
from nanobot.messages import Line, Outbound
from nanobot.model import Model
from nanobot.routing import controlled
from nanobot.store import Claim, Delivery, Row, Transcript
from nanobot.workbench import Workbench

COMMAND_SECONDS = 60.0
TIDY_SECONDS = 300.0
Status = Literal["completed", "stopped", "failed"]


class Compactor(Protocol):
    """Folds old turns away when a history outgrows the model's window."""

    async def tidy(self, transcript: Transcript, model: Model, *, force: bool = False) -> None: ...


class Running:
    """A turn that runs now. `task` is its agent loop, which is what a stop cancels."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.rows = list(claim.rows)  # and what was steered in since
        self.started_at = time.time()
        self.started = time.monotonic()
        self.task: asyncio.Task[loop.Outcome] | None = None
        self.stopped = False

    @property
    def answers(self) -> tuple[str, ...]:
        return tuple(row.id for row in self.rows)


class Actors:
    """All sessions' actors. `serve` is the dispatcher's handler."""

    def __init__(
        self,
        bench: Workbench,
        commands: Commands,
        compactor: Compactor,
        clock: Clock,
        publish: Callable[[Event], None],
        submit: Callable[[Sequence[Delivery]], None],
    ) -> None:
        self._bench = bench
        self._commands = commands
        self._compactor = compactor
        self._clock = clock
        self._publish = publish
        self._submit = submit
        self._running: dict[str, Running] = {}
        self._queued: dict[str, int] = {}
        self._stops: dict[
            str, int
        ] = {}  # session → seq of the newest /stop; turns older than it must not run

    # --- what the gateway asks -------------------------------------------------------------------------------

    async def serve(self, session: str) -> None:
        """Run the session's turns until nothing waits."""
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

    def interrupt(self, session: str) -> bool:
        """Stop the turn that runs now; False where none does or its answer is being committed already."""
        running = self._running.get(session)
        if running is None or running.task is None or running.task.done():
            return False
        running.stopped = True
        running.task.cancel()
        return True

    async def stop(self, session: str, seq: int | None = None) -> tuple[bool, int]:
        """Stop what runs and what waits; returns whether a turn ran and how many messages waited.

        `seq` is that of the /stop itself: a turn older than it, which an earlier life left, will not be taken up.
        """
        stopped = self.interrupt(session)
        if seq is None:
            rows = await self._bench.inbox.pending(session)
            seq = rows[-1].seq + 1 if rows else 0
        self._stops[session] = seq
        cancelled = await self._bench.inbox.cancel(session)
        self._queued.pop(session, None)
        return stopped, len(cancelled)

    # --- one turn --------------------------------------------------------------------------------------------

    async def _turn(self, claim: Claim) -> None:
        running = Running(claim)
        session = claim.session
        self._running[session] = running
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
        except Exception:
            with suppress(NanobotError):
                await self._bench.inbox.release(claim, count=True)
            raise  # the dispatcher records it and tries the session again
        finally:
            metrics.RUNNING.dec()
            del self._running[session]

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
        final = history.interrupted(transcript.messages, claim.turn).final
        if final is not None:  # it was answered before the interruption; only the commit is missing
            await self._commit(claim, running, transcript, final, status_of(final), "")
            return
        if claim.session == key:  # a command's own lane does not count as the session working
            self._publish(
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
            await self._finish(
                claim, running, transcript, loop.Outcome("failed", text), dead="too many attempts"
            )
            return
        if claim.session == key and lead.seq < self._stops.pop(key, 0):
            await self._finish(claim, running, transcript, None)
            return
        invocation = parse(lead.inbound, lead.seq)
        if invocation is not None:
            await self._command(claim, running, transcript, invocation)
            return
        try:
            model = bench.model(transcript.metadata.get("model"))
        except NanobotError as error:
            await self._finish(claim, running, transcript, loop.Outcome("failed", str(error)))
            return
        turn = loop.Turn(
            claim.session, claim.turn, lead.inbound.address, self._publish, f"{claim.turn}.{claim.attempt}"
        )
        conversation = SessionConversation(
            claim,
            transcript,
            bench,
            model,
            self._clock,
            self._publish,
            lambda rows: self._steered(running, rows),
        )
        running.task = asyncio.create_task(self._run(turn, conversation, claim, transcript, model))
        try:
            outcome = await running.task
        except asyncio.CancelledError:
            if not running.stopped:
                running.task.cancel()
                await asyncio.wait([running.task])
                raise
            await conversation.close_calls("interrupted: stopped by the user")
            stopped = loop.Outcome("completed", turn.text)
            await self._finish(claim, running, transcript, stopped, turn=turn, model=model.name, stopped=True)
            return
        await self._finish(claim, running, transcript, outcome, turn=turn, model=model.name)
        await self._tidy(transcript, model, log)

    async def _run(
        self,
        turn: loop.Turn,
        conversation: SessionConversation,
        claim: Claim,
        transcript: Transcript,
        model: Model,
    ) -> loop.Outcome:
        heard = history.interrupted(transcript.messages, claim.turn).heard
        fresh = [user_line(row) for row in claim.rows if row.id not in heard]
        if fresh:
            await conversation.append(*fresh)
        await conversation.settle()
        return await loop.run(turn, conversation, model, self._clock, max_steps=self._bench.max_steps)

    def _steered(self, running: Running, rows: Sequence[Row]) -> None:
        session = running.claim.session
        ids = tuple(row.id for row in rows)
        running.rows.extend(rows)
        self._queued[session] = max(0, self._queued.get(session, 0) - len(ids))
        self._publish(Steered(session, running.claim.turn, rows[0].inbound.address, ids))

    async def _command(
        self, claim: Claim, running: Running, transcript: Transcript, invocation: Invocation
    ) -> None:
        try:
            async with deadline(COMMAND_SECONDS, f"/{invocation.name}"):
                outcome = loop.Outcome("completed", await self._commands.run(invocation))
        except NanobotError as error:
            outcome = loop.Outcome("failed", str(error))
        await self._finish(claim, running, transcript, outcome, injected="command")

    # --- its end ---------------------------------------------------------------------------------------------

    async def _finish(
        self,
        claim: Claim,
        running: Running,
        transcript: Transcript,
        outcome: loop.Outcome | None,
        *,
        turn: loop.Turn | None = None,
        model: str = "",
        injected: str = "",
        stopped: bool = False,
        dead: str = "",
    ) -> None:
        """Write the final line, then commit. No outcome: the turn was stopped before it began."""
        status: Status = "stopped" if stopped or outcome is None else outcome.status
        line = Line(
            role="assistant",
            content=outcome.text if outcome else "",
            timestamp=stamp(self._clock.now()),
            turn=claim.turn,
            latency_ms=round((time.monotonic() - running.started) * 1000),
        )
        if outcome and outcome.reasoning:
            line["reasoning"] = outcome.reasoning
        if outcome and outcome.extra:
            line["extra"] = outcome.extra
        if turn and turn.usage != Usage():
            line["usage"] = msgspec.to_builtins(turn.usage)
        if model:
            line["model"] = model
        if status != "completed":
            line["injected"] = status
        elif injected:
            line["injected"] = injected
        heard = history.interrupted(transcript.messages, claim.turn).heard
        asked = [user_line(row) for row in running.rows if row.id not in heard]
        if injected:
            for one in asked:
                one["injected"] = injected
        async with deadline(STORE_SECONDS, "writing the history"):
            await self._bench.transcripts.append(transcript.key, [*asked, line])
        stream = turn.stream if turn and turn.text else ""
        await self._commit(claim, running, transcript, line, status, stream, dead=dead)

    async def _commit(
        self,
        claim: Claim,
        running: Running,
        transcript: Transcript,
        final: Line,
        status: Status,
        stream: str,
        *,
        dead: str = "",
    ) -> None:
        lead = claim.rows[0].inbound
        heard = history.interrupted(transcript.messages, claim.turn).heard
        done = [row_id for row_id in running.answers if row_id in heard]
        text = str(final.get("content") or "")
        replies: list[Outbound] = []
        if text:
            replies.append(
                Outbound(
                    turn=claim.turn,
                    part=0,
                    address=lead.address,
                    text=text,
                    kind="error" if status == "failed" else "reply",
                    streamed=bool(stream),
                    meta=lead.meta,
                )
            )
        async with deadline(STORE_SECONDS, "committing the turn"):
            deliveries = await self._bench.inbox.commit(claim, done, replies, dead=dead)
        self._submit(deliveries)
        usage = msgspec.convert(final.get("usage") or {}, Usage)
        latency = int(final["latency_ms"])
        self._publish(
            TurnEnded(
                claim.session,
                claim.turn,
                lead.address,
                status,
                tuple(done),
                tuple(replies),
                stream,
                latency,
                usage,
            )
        )
        self._count(lead.channel, status, running, usage, str(final.get("model") or ""), len(done), dead)
        logger.bind(session=claim.session, turn=claim.turn).info(
            "{} in {} ms, {} messages, {} tokens", status, latency, len(done), usage.input + usage.output
        )

    def _count(
        self, channel: str, status: Status, running: Running, usage: Usage, model: str, done: int, dead: str
    ) -> None:
        metrics.TURN_SECONDS.labels(status).observe(time.monotonic() - running.started)
        if dead:
            metrics.DEAD.labels(channel, "inbox").inc(done)
            return
        metrics.ANSWERED.labels(channel).inc(done)
        if model:
            metrics.TOKENS.labels(model, "input").inc(usage.input)
            metrics.TOKENS.labels(model, "output").inc(usage.output)

    async def _tidy(self, transcript: Transcript, model: Model, log: Any) -> None:
        try:
            async with deadline(TIDY_SECONDS, "folding old turns"):
                await self._compactor.tidy(transcript, model)
        except NanobotError as error:  # the turn is answered; the next one tries again
            log.warning("history not folded: {}", error)


def status_of(final: Line) -> Status:
    """How the turn ended whose final line this is."""
    match final.get("injected"):
        case "stopped":
            return "stopped"
        case "failed":
            return "failed"
        case _:
            return "completed"
