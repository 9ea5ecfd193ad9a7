"""The desk of executors: what an outside agent's turn starts from, and where its verdict is written down."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nanobot import child as rules
from nanobot.child import Child
from nanobot.child_limits import ChildLimits
from nanobot.child_records import ChildRecords
from nanobot.clock import Clock
from nanobot.errors import StoreError
from nanobot.executor import Job, ProcessRecord, Result, Spent, Step, Verdict
from nanobot.executors.lasting import Care
from nanobot.stores.turn_files import marker_of

End = Callable[..., Awaitable[Child]]
Say = Callable[[str], Awaitable[bool]]


class ExecutorDesk:
    """Implements `executors.model.Desk`. `end` writes the ending of a turn that was cut short."""

    def __init__(
        self,
        records: ChildRecords,
        clock: Clock,
        timeout: float,
        end: End,
        draining: Callable[[], bool],
        limits: ChildLimits,
    ) -> None:
        self._records = records
        self.files = records.files
        self._clock = clock
        self._timeout = timeout
        self._end = end
        self._limits = limits
        self._voices: dict[str, Say] = {}  # session → how its turn that runs is spoken to
        self.on_step: Callable[[Child, Step], None] = lambda _child, _step: None
        self.care: Callable[[str], Care]  # of a session's turn; set by `child_care`
        self.keep = draining  # a turn goes on without us when it is the gateway that stops

    async def job(self, session: str, said: Sequence[str]) -> Job:
        child = self._records.get(session)
        if child is None:
            raise StoreError(f"{session} is no sub-session: an executor is used by delegating to it")
        if child.ended:
            raise StoreError(f"{child.short} is {child.status}: {child.error}")
        # A thread that is resumed has heard what came before, also in a turn that was cut short.
        return self.prepared(child, said[-1] if child.thread and said else "\n\n".join(said))

    def prepared(self, child: Child, prompt: str) -> Job:
        before = child.totals[child.turn - 2] if 1 < child.turn <= len(child.totals) + 1 else Spent()
        return Job(
            prompt=prompt,
            working_dir=Path(child.working_dir),
            folder=self._records.folder(child),
            turn=child.turn,
            marker=marker_of(child.id, child.turn),
            timeout=self._timeout,
            model=child.model,
            thread=child.thread,
            fresh=child.id if child.turn == 1 else str(uuid.uuid4()),
            total=before,
            process=child.process if child.started_turn == child.turn else None,
        )

    async def started(self, session: str, process: ProcessRecord | None, thread: str) -> None:
        child = self._records.get(session)
        if child is None or child.ended:
            return
        changed = msgspec.structs.replace(
            child, process=process or child.process, thread=thread or child.thread, started_turn=child.turn
        )
        await self._records.put(changed)

    async def finished(self, session: str, result: Result) -> None:
        """An executor's verdict, before the turn is committed; the commit's delivery ends the record."""
        child = self._records.get(session)
        if child is None or child.ended:
            return
        changes: dict[str, Any] = {
            "ledger": rules.entered(child.ledger, child.turn, result.spent),
            "totals": rules.entered(child.totals, child.turn, result.total),
            "thread": result.thread or child.thread,
            "exit_code": result.exit_code,
            "last": rules.cut(result.answer, 400),
        }
        if result.status in {"timed_out", "killed"}:
            await self._end(child, result.status, result.problem, answer=result.answer, **changes)
        else:
            await self._records.put(msgspec.structs.replace(child, **changes))

    def used(self, session: str, verdict: Verdict) -> None:
        child = self._records.get(session)
        if child is not None:
            self._limits.used(child, verdict)

    def speaks(self, session: str, say: Say | None) -> None:
        if say is None:
            self._voices.pop(session, None)
        else:
            self._voices[session] = say

    async def say(self, session: str, text: str) -> bool:
        """Say something to an agent while it works; False where it cannot hear it."""
        voice = self._voices.get(session)
        return voice is not None and await voice(text)

    def stepped(self, session: str, step: Step) -> None:
        child = self._records.get(session)
        if child is not None:
            self.on_step(child, step)
        if child is not None and step.kind == "message":
            last = rules.cut(step.text, 400)
            self._records.note(msgspec.structs.replace(child, last=last, updated_at=self._clock.now()))
