"""A turn of an outside agent that outlasts its process: one that dies or hangs is started again, a few times.

It is the same turn, so it has one result whatever dies: what ran before is ended with all it started before the next
try begins, and only the last one's ending is told.
"""

import asyncio
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from loguru import logger

from nanobot.clock import to_its_end
from nanobot.errors import NanobotError, StoreError
from nanobot.executor import Executor, Job, ProcessRecord, Reason, Result, Spent, Step, Verdict
from nanobot.executors.run import ExecutorRun
from nanobot.health import Health, HealthLimits, Vital, death
from nanobot.security import tree
from nanobot.session_metrics import STRESSED_CPU, STRESSED_MB, Pulse, load_of
from nanobot.stores.turn_files import TurnFiles

SUFFIXES = ("jsonl", "stderr", "exit", "times")
AGAIN = (
    "You worked on the task below, and your process ended before you were done ({why}). Look at what is done "
    "already, do not do it again, and finish.\n\n{prompt}"
)


class Care(Protocol):
    """Who keeps the record of a turn and tells its parent."""

    @property
    def limits(self) -> HealthLimits: ...

    async def restarting(self, why: str, attempt: int) -> None:
        """It is about to be started again."""
        ...

    async def restarted(self, process: ProcessRecord | None, thread: str) -> None:
        """Store by what it is found again."""
        ...


class LastingRun:
    """Has the shape of an ExecutorRun, and makes as many of them as it takes."""

    def __init__(
        self,
        executor: Executor,
        job: Job,
        on_step: Callable[[Step], None],
        care: Care,
        *,
        files: TurnFiles | None = None,
        on_spent: Callable[[Verdict], None] = lambda _verdict: None,
        **options: Any,
    ) -> None:
        """`options` are those of ExecutorRun, as is `on_spent`, which is told of all tries together."""
        self._executor = executor
        self._files = files or TurnFiles(job.folder)
        self._options = options
        self._on_step = on_step
        self._care = care
        self._job = job
        self._on_spent = on_spent
        self._before = Spent()  # what earlier tries used, where the present one does not count it
        self._run = self._make(job)
        self._stop = asyncio.Event()
        self._unwell = ""

    def _make(self, job: Job) -> ExecutorRun:
        options = {"files": self._files, **self._options}
        return ExecutorRun(self._executor, job, self._on_step, on_spent=self._used, **options)

    def _used(self, verdict: Verdict) -> None:
        self._on_spent(msgspec.structs.replace(verdict, spent=self._before + verdict.spent))

    @property
    def process(self) -> ProcessRecord | None:
        return self._run.process

    @property
    def thread(self) -> str:
        return self._run.thread

    async def start(self) -> None:
        await self._run.start()

    async def say(self, text: str) -> bool:
        """Say something to the process that runs now; False where it cannot hear it."""
        return await self._run.say(text)

    def stop(self, reason: Reason = "killed", why: str = "") -> None:
        """End it for good."""
        self._stop.set()
        self._run.stop(reason, why)

    async def wait(self) -> Result:
        """Until it has ended by itself, was stopped, or was started again in vain; then its files are sealed."""
        try:
            return await self._tries()
        finally:
            if not self._run.left:
                await to_its_end(self._seal())

    async def _seal(self) -> None:
        try:
            await asyncio.to_thread(self._files.seal_turn, self._job.folder, self._job.turn)
        except (OSError, StoreError) as error:
            logger.warning("the files of a turn stay plain until the next start: {}", error)

    async def _tries(self) -> Result:
        began = time.monotonic()
        limits = self._care.limits
        attempt, reasons = 0, []
        while True:
            result = await self._watched()
            result = msgspec.structs.replace(result, spent=self._before + result.spent)
            why = self._unwell or death(said=self._run.said, exit_code=result.exit_code)
            ended_by_us = self._run.stopped and not self._unwell
            if not why or ended_by_us or result.status not in {"failed", "killed"}:
                return result
            reasons.append(why)
            left = self._job.timeout - (time.monotonic() - began)
            if attempt >= limits.restarts or left <= limits.delay(attempt + 1):
                return _given_up(result, reasons)
            attempt += 1
            if not (self._run.thread and self._executor.sums):
                self._before = result.spent  # the next try counts from nothing
            try:
                if await self._again(attempt, why, left):
                    continue
            except NanobotError as error:
                return msgspec.structs.replace(result, status="failed", error=f"{why}; then: {error}")
            return msgspec.structs.replace(result, status="killed", error="it was ended")

    async def _watched(self) -> Result:
        self._unwell = ""
        watching = asyncio.create_task(self._watch(self._run))
        try:
            return await self._run.wait()
        finally:
            watching.cancel()
            await asyncio.wait([watching])

    async def _watch(self, run: ExecutorRun) -> None:
        limits = self._care.limits
        health, pulse = Health(limits, time.monotonic()), Pulse()
        while True:
            await asyncio.sleep(limits.interval)
            if run.process is None:
                continue
            root = tree.Identity(run.process.pid, run.process.started)
            load = await asyncio.to_thread(load_of, {root: run.process.marker})
            stressed = load.memory_mb > STRESSED_MB or pulse.percent("", load) > STRESSED_CPU
            vital = Vital(time.monotonic(), _written(run.job), load.cpu_seconds, stressed)
            why = health.look(vital)
            if why and not run.said:
                self._unwell = why
                run.stop("killed", why)
                return

    async def _again(self, attempt: int, why: str, left: float) -> bool:
        """Wait, clear up and start once more; False where it was stopped meanwhile."""
        delay = self._care.limits.delay(attempt)
        self._on_step(Step("notice", text=f"started again in {delay:g} s (try {attempt + 1}): {why}"))
        await self._care.restarting(why, attempt)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), delay)
        if self._stop.is_set():
            return False
        thread = self._run.thread
        await asyncio.to_thread(self._set_aside)
        job = msgspec.structs.replace(
            self._job,
            prompt=AGAIN.format(why=why, prompt=self._job.prompt),
            thread=thread or self._job.thread,
            fresh=str(uuid.uuid4()),
            timeout=left - delay,
            process=None,
        )
        self._run = self._make(job)
        await self._run.start()
        await self._care.restarted(self._run.process, job.thread)
        return True

    def _set_aside(self) -> None:
        """Keep what a try left, as `turn_<n>.try<m>.…`: the next one writes files of its own."""
        job, number = self._job, 1
        while any((job.folder / f"turn_{job.turn}.try{number}.{suffix}").exists() for suffix in SUFFIXES):
            number += 1
        for suffix in SUFFIXES:
            with suppress(FileNotFoundError):
                self._files.move(job.file(suffix), job.folder / f"turn_{job.turn}.try{number}.{suffix}")


def _given_up(result: Result, reasons: list[str]) -> Result:
    """A failure, whatever we did to end it; with how often it was tried."""
    tries = f" It was started again {len(reasons) - 1} times." if len(reasons) > 1 else ""
    error = result.error if result.status == "failed" else f"{reasons[-1]}, and was ended."
    return msgspec.structs.replace(result, status="failed", error=f"{error}{tries}")


def _written(job: Job) -> int:
    size = 0
    for suffix in ("jsonl", "stderr"):
        with suppress(OSError):
            size += job.file(suffix).stat().st_size
    return size
