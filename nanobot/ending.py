"""A turn's end: its final line, then one commit that ends its rows, queues what is said and what comes next."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
from loguru import logger

from nanobot import history, metrics
from nanobot.agent import loop
from nanobot.clock import Clock, deadline, stamp
from nanobot.conversation import STORE_SECONDS, user_line
from nanobot.events import Event, TurnEnded, Usage
from nanobot.goal import shown
from nanobot.goal_plan import Plan
from nanobot.goals import Goals
from nanobot.messages import Line, Outbound, OutboundKind
from nanobot.store import Claim, Delivery, Row, Transcript
from nanobot.workbench import Workbench

Status = Literal["completed", "stopped", "failed"]


class Running:
    """A turn that runs now. `task` is its agent loop, later the folding of old turns: what a stop cancels."""

    def __init__(self, claim: Claim, started: float) -> None:
        """`started` is by the clock's monotonic time."""
        self.claim = claim
        self.rows = list(claim.rows)  # and what was steered in since
        self.started_at = time.time()
        self.started = started
        self.task: asyncio.Task[Any] | None = None
        self.over = asyncio.Event()
        self.turn: loop.Turn | None = None
        self.stopped = False
        self.stopped_by: int | None = None  # the seq of what stopped it; None: everything in it ends
        self.status: Status | Literal[""] = ""  # once it is committed
        self.reason = ""  # of a failure
        self.amended = False  # its loop was cancelled to ask the model again, since a message was changed
        self.for_goal = False  # it is one of a goal's own turns
        self.why = ""  # it was ended by something other than a person, who need not be told
        self.failed = False  # and it counts as a failure

    @property
    def answers(self) -> tuple[str, ...]:
        return tuple(row.id for row in self.rows)

    @property
    def ends(self) -> list[Row]:
        """The rows that end with it; what was said after it was stopped waits for a turn of its own."""
        last = self.stopped_by
        return [row for row in self.rows if last is None or row.seq < last]


class Ending:
    """Writes final lines and commits turns."""

    def __init__(
        self,
        bench: Workbench,
        goals: Goals,
        clock: Clock,
        publish: Callable[[Event], None],
        submit: Callable[[Sequence[Delivery]], None],
        wake: Callable[[str], None],
    ) -> None:
        self._bench = bench
        self._goals = goals
        self._clock = clock
        self._publish = publish
        self._submit = submit
        self._wake = wake

    async def finish(
        self,
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
        claim = running.claim
        status: Status = "stopped" if stopped or outcome is None else outcome.status
        line = Line(
            role="assistant",
            content=outcome.text if outcome else "",
            timestamp=stamp(self._clock.now()),
            turn=claim.turn,
            latency_ms=round((self._clock.monotonic() - running.started) * 1000),
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
        asked = [user_line(row) for row in running.ends if row.id not in heard]
        if injected:
            for one in asked:
                one["injected"] = injected
        async with deadline(STORE_SECONDS, "writing the history"):
            await self._bench.transcripts.append(transcript.key, [*asked, line])
        stream = turn.stream if turn and turn.text else ""
        await self.commit(running, transcript, line, status, stream, dead=dead)

    async def commit(
        self,
        running: Running,
        transcript: Transcript,
        final: Line,
        status: Status,
        stream: str,
        *,
        dead: str = "",
    ) -> None:
        """Commit a turn whose final line is written; what a goal of the session wants is part of it."""
        claim = running.claim
        lead = claim.rows[0].inbound
        heard = history.interrupted(transcript.messages, claim.turn).heard
        done = [row.id for row in running.ends if row.id in heard]
        taken = [row.inbound for row in running.ends]
        spoken = [one for one in taken if one.kind == "user"]
        async with deadline(STORE_SECONDS, "counting the goal's turn"):
            plan = await self._goals.after(transcript.key, claim, transcript, final, taken)
        text = said(str(final.get("content") or ""), plan)
        if text != final.get("content"):
            stream = ""
        replies: list[Outbound] = []
        if text:
            meta = spoken[0].meta if spoken else {} if plan.quiet else lead.meta
            kind: OutboundKind = "error" if status == "failed" and not plan.announcement else "reply"
            replies.append(
                Outbound(
                    claim.turn, 0, lead.address, text, (), kind, bool(stream), meta={**meta, **plan.meta}
                )
            )
        follow_ups = [plan.follow_up] if plan.follow_up else []
        async with deadline(STORE_SECONDS, "committing the turn"):
            deliveries = await self._bench.inbox.commit(claim, done, replies, dead=dead, enqueue=follow_ups)
        running.status = status
        running.reason = str(final.get("content") or "") if status == "failed" else ""
        self._submit(deliveries)
        if follow_ups and claim.session != transcript.key:
            self._wake(transcript.key)
        self._tell(running, final, status, stream, plan, done, replies, dead)

    def _tell(
        self,
        running: Running,
        final: Line,
        status: Status,
        stream: str,
        plan: Plan,
        done: Sequence[str],
        replies: Sequence[Outbound],
        dead: str,
    ) -> None:
        """Let the live views, the metrics and the log know of a turn that is committed."""
        claim, lead = running.claim, running.claim.rows[0].inbound
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
                shown(plan.goal) if plan.goal else None,
            )
        )
        self._count(lead.channel, status, running, usage, str(final.get("model") or ""), len(done), dead)
        logger.bind(session=claim.session, turn=claim.turn).info(
            "{} in {} ms, {} messages, {} tokens", status, latency, len(done), usage.input + usage.output
        )

    async def note(self, running: Running, transcript: Transcript) -> None:
        """Write a message into the history for a later turn, and end its row; nobody is answered."""
        claim = running.claim
        if claim.turn not in history.interrupted(transcript.messages, claim.turn).heard:
            async with deadline(STORE_SECONDS, "writing the history"):
                await self._bench.transcripts.append(transcript.key, [user_line(claim.rows[0])])
        await self.discard(running)

    async def discard(self, running: Running) -> None:
        """End a row that has nothing to do any more, without a trace in the history."""
        claim = running.claim
        async with deadline(STORE_SECONDS, "ending a row"):
            await self._bench.inbox.commit(claim, [claim.turn])

    def _count(
        self, channel: str, status: Status, running: Running, usage: Usage, model: str, done: int, dead: str
    ) -> None:
        metrics.TURN_SECONDS.labels(status).observe(self._clock.monotonic() - running.started)
        if dead:
            metrics.DEAD.labels(channel, "inbox").inc(done)
            return
        metrics.ANSWERED.labels(channel).inc(done)
        if model:
            metrics.TOKENS.labels(model, "input").inc(usage.input)
            metrics.TOKENS.labels(model, "output").inc(usage.output)


def said(text: str, plan: Plan) -> str:
    """What the chat is told at a turn's end."""
    if plan.quiet:
        return plan.announcement
    if plan.announcement and plan.announcement not in text:
        return f"{text}\n\n{plan.announcement}".strip()
    return text


def status_of(final: Line) -> Status:
    """How the turn ended whose final line this is."""
    match final.get("injected"):
        case "stopped":
            return "stopped"
        case "failed":
            return "failed"
        case _:
            return "completed"
