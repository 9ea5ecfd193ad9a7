"""An outside agent in the place of a model: one call is one whole turn of it, tools and all.

So a sub-session of codex or claude is a session like any other: the same mailbox, history, stop, commit and
resumption after a crash.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

from nanobot.agent.loop import Draining
from nanobot.errors import NanobotError
from nanobot.executor import Executor, Job, ProcessRecord, Result, Step, Verdict
from nanobot.executors.lasting import Care, LastingRun
from nanobot.model import Failed, Finished, ModelEvent, ModelRequest, Reasoning, Text
from nanobot.models.media import text_of
from nanobot.stores.turn_files import TurnFiles
from nanobot.trajectory import told

PREFIX = "executor/"
SHOWN = 300  # steps of a turn that are shown live and kept in the history; the trajectory has all
DRAIN_POLL = 0.5  # seconds until it is noticed that the gateway stops
Say = Callable[[str], Awaitable[bool]]
NO_ANSWER = "(no response captured)"


class Desk(Protocol):
    """Who keeps the records of sub-sessions."""

    @property
    def files(self) -> TurnFiles: ...

    async def job(self, session: str, said: Sequence[str]) -> Job:
        """This turn as a job; `said` is what was said since the last answer, this turn's last.

        Raises NanobotError where the session is no sub-session.
        """
        ...

    async def started(self, session: str, process: ProcessRecord | None, thread: str) -> None:
        """Store by what its process, and its conversation, are found again."""
        ...

    async def finished(self, session: str, result: Result) -> None: ...

    def stepped(self, session: str, step: Step) -> None: ...

    @property
    def care(self) -> Callable[[str], Care]:
        """Of a session's turn, should its process die or hang."""
        ...

    def used(self, session: str, verdict: Verdict) -> None:
        """What a turn used so far; told whenever more of it is known."""
        ...

    def speaks(self, session: str, say: Say | None) -> None:
        """How a turn that runs is spoken to; None when it has ended."""
        ...

    def keep(self) -> bool:
        """Whether a turn that is cancelled now goes on without us: the gateway stops, not the work."""
        ...


class ExecutorModel:
    """Implements `model.Model` for sub-sessions."""

    small = True  # it brings its own tools and its own system prompt
    context_window = 100_000_000  # tokens: its history is its own, ours is never folded for it

    def __init__(self, executor: Executor, desk: Desk) -> None:
        self.name = PREFIX + executor.name
        self._executor = executor
        self._desk = desk

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        steps: deque[Step] = deque(maxlen=SHOWN)
        fresh = asyncio.Event()

        def stepped(step: Step) -> None:
            self._desk.stepped(request.session, step)
            steps.append(step)
            fresh.set()

        try:
            job = await self._desk.job(request.session, asked(request))
            care = self._desk.care(request.session)
            run = LastingRun(
                self._executor,
                job,
                stepped,
                care,
                files=self._desk.files,
                keep=self._desk.keep,
                on_spent=lambda verdict: self._desk.used(request.session, verdict),
            )
            await run.start()
        except NanobotError as error:
            await self._desk.finished(request.session, Result("failed", error=str(error)))
            yield Failed("invalid", str(error))
            return
        waiting = asyncio.create_task(run.wait())
        waiting.add_done_callback(lambda _: fresh.set())
        try:
            if self._executor.speaks:
                self._desk.speaks(request.session, run.say)
            await self._desk.started(request.session, run.process, job.thread)
            thread, shown = job.thread, 0
            while not waiting.done() or steps:
                with suppress(TimeoutError):
                    await asyncio.wait_for(fresh.wait(), DRAIN_POLL)
                if self._desk.keep():
                    raise Draining  # the work goes on without us and is taken over after the start
                fresh.clear()
                if run.thread and run.thread != thread:
                    thread = run.thread
                    await self._desk.started(request.session, run.process, thread)
                while steps:
                    step = steps.popleft()
                    shown += 1
                    if shown <= SHOWN and step.state != "started":
                        yield Reasoning(told(step) + "\n")
            result = waiting.result()
        finally:
            self._desk.speaks(request.session, None)
            if not waiting.done():
                waiting.cancel()
                await asyncio.wait([waiting])
        await self._desk.finished(request.session, result)
        if result.status == "completed":
            yield Text(result.answer or NO_ANSWER)
            yield Finished("stop", result.spent.usage)
        else:
            yield Failed("invalid", f"{self._executor.name} {result.status}: {result.problem}")

    async def close(self) -> None: ...


def asked(request: ModelRequest) -> list[str]:
    """What was said since the last answer, oldest first."""
    said: list[str] = []
    for line in reversed(request.messages):
        if line.get("role") == "assistant":
            break
        if line.get("role") == "user":
            said.append(text_of(line))
    return said[::-1]
