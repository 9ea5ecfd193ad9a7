"""Answering: what becomes of a claimed turn, from its first line to its commit."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from loguru import logger

from nanobot import history, mailbox, metrics
from nanobot.agent import loop
from nanobot.clock import Clock, being_cancelled, deadline
from nanobot.commands import Commands, Invocation, parse
from nanobot.conversation import STORE_SECONDS, SessionConversation, user_line
from nanobot.ending import Ending, Running, status_of
from nanobot.errors import NanobotError
from nanobot.events import Event, Steered, TurnStarted
from nanobot.goal_turns import Rest
from nanobot.goals import COMPLETE, KIND, Goals
from nanobot.lives import Lives
from nanobot.model import Model, ToolCall
from nanobot.routing import controlled
from nanobot.store import Row, Transcript
from nanobot.tool import ToolResult
from nanobot.workbench import Workbench

COMMAND_SECONDS = 60.0
TIDY_SECONDS = 300.0


class Compactor(Protocol):
    """Folds old turns away when a history outgrows the model's window."""

    def tidy(
        self, transcript: Transcript, model: Model, *, force: bool = False
    ) -> Coroutine[Any, Any, None]: ...


class Watched(Protocol):
    """Who looks at turns while they run."""

    objection: Callable[[str, str, str], str]  # to (session, turn, answer); "" = none
    unshown: Callable[[Event], None]  # hears the events of turns that are not shown live


class Answering:
    """Takes turns to their commit. `stops` has the seq of each session's newest /stop: nothing older may begin."""

    def __init__(
        self,
        bench: Workbench,
        commands: Commands,
        compactor: Compactor,
        goals: Goals,
        clock: Clock,
        publish: Callable[[Event], None],
        ending: Ending,
        lives: Lives,
        watched: Watched,
        stops: Mapping[str, int],
        joined: Callable[[str, int], None],
    ) -> None:
        self._bench = bench
        self._commands = commands
        self._compactor = compactor
        self._goals = goals
        self._clock = clock
        self._publish = publish
        self._ending = ending
        self._lives = lives
        self._watched = watched
        self._stops = stops
        self._joined = joined  # so many waiting messages of a session were taken into its turn

    async def answer(self, running: Running) -> None:
        """Find out what is to be done, and do it; most turns are the agent's."""
        claim, bench = running.claim, self._bench
        lead = claim.rows[0]
        key = controlled(claim.session) or claim.session
        async with deadline(STORE_SECONDS, "opening the history"):
            transcript = await bench.transcripts.open(key)
        if claim.attempt > 1:
            metrics.RESUMED.inc()
            logger.bind(session=claim.session, turn=claim.turn).info(
                "turn resumed, attempt {}", claim.attempt
            )
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
        emit = self._begin(running, key)
        if mailbox.exhausted(claim.attempt, bench.attempts):
            text = f"I gave up on this message: answering it was interrupted {claim.attempt - 1} times."
            await self._ending.finish(
                running, transcript, loop.Outcome("failed", text), dead="too many attempts"
            )
            return
        if self._is_stopped(running):
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
        await self._converse(running, transcript, model, left.heard, emit)

    def _begin(self, running: Running, key: str) -> Callable[[Event], None]:
        """Say that the turn begins, unless it is a command's beside it; returns who hears of it."""
        claim, lead = running.claim, running.claim.rows[0]
        emit = self._publish
        if running.for_goal and self._goals.silent(lead.inbound.channel):
            emit = self._watched.unshown
        if claim.session == key:
            self._lives.working(key)
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
        return emit

    def _is_stopped(self, running: Running) -> bool:
        """Whether it was stopped before its agent is at work, which is what an interruption cancels."""
        stop = self._stops.get(running.claim.session)
        if stop is None or running.claim.rows[0].seq >= stop:
            return False
        running.stopped_by = stop
        return True

    async def _converse(
        self,
        running: Running,
        transcript: Transcript,
        model: Model,
        heard: Collection[str],
        emit: Callable[[Event], None],
    ) -> None:
        """Let the agent answer, and end the turn as it ended: answered, failed or stopped."""
        claim = running.claim
        streams = f"{claim.turn}.{claim.attempt}"
        address = claim.rows[0].inbound.address
        turn = loop.Turn(claim.session, claim.turn, address, emit, streams, running.started)
        if claim.turn in heard:
            turn.resumed(*history.spent(transcript.messages, claim.turn))
            running.started = turn.began
        conversation = SessionConversation(
            claim,
            transcript,
            self._bench,
            model,
            self._clock,
            emit,
            lambda rows: self._steered(running, transcript.key, rows),
            lambda: (
                self._goals.rest(transcript, turn.usage, self._clock.monotonic() - running.started)
                if running.for_goal
                else Rest()
            ),
            lambda call, result: self._failed(running, transcript.key, call, result),
            await self._goals.context(transcript),
            lambda answer: self._watched.objection(claim.session, claim.turn, answer),
        )
        if self._is_stopped(running):
            await self._ending.finish(running, transcript, None)
            return
        running.turn = turn
        try:
            outcome = await self._looped(running, turn, conversation, transcript, model, heard)
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
        await self._tidy(running, transcript, model)

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
            work = self._run(running, turn, conversation, heard, model, again=again)
            running.task = task = asyncio.create_task(work)
            try:
                return await task
            except asyncio.CancelledError:
                if running.stopped or not running.amended or being_cancelled():
                    raise
            running.amended, again = False, True
            heard = history.interrupted(transcript.messages, running.claim.turn).heard

    async def _run(
        self,
        running: Running,
        turn: loop.Turn,
        conversation: SessionConversation,
        heard: Collection[str],
        model: Model,
        *,
        again: bool,
    ) -> loop.Outcome:
        claim = running.claim
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
        self._joined(session, len(ids))
        self._publish(Steered(session, running.claim.turn, rows[0].inbound.address, ids))
        if any(row.inbound.kind == "user" for row in rows):
            await self._goals.heard(key, running.claim.turn)

    async def _failed(self, running: Running, key: str, call: ToolCall, result: ToolResult) -> None:
        if call.name == COMPLETE and not result.data.get("refused"):
            await self._goals.fumbled(key, running.claim.turn, result.text)

    async def _command(self, running: Running, transcript: Transcript, invocation: Invocation) -> None:
        try:
            async with deadline(COMMAND_SECONDS, f"/{invocation.name}"):
                outcome = loop.Outcome("completed", await self._commands.run(invocation))
        except NanobotError as error:
            outcome = loop.Outcome("failed", str(error))
        await self._ending.finish(running, transcript, outcome, injected="command")

    async def _tidy(self, running: Running, transcript: Transcript, model: Model) -> None:
        """Fold old turns before the next one begins; a stop ends that too."""
        running.task = asyncio.create_task(self._compactor.tidy(transcript, model))
        try:
            async with deadline(TIDY_SECONDS, "folding old turns"):
                await running.task
        except asyncio.CancelledError:
            if being_cancelled():
                raise
        except NanobotError as error:  # the turn is answered; the next one tries again
            log = logger.bind(session=running.claim.session, turn=running.claim.turn)
            log.warning("history not folded: {}", error)
