"""The desk of executors: what an outside agent's turn starts from, and where its verdict is written down."""

import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from nanobot import child as rules
from nanobot.child import Child
from nanobot.child_records import ChildRecords
from nanobot.clock import Clock
from nanobot.errors import StoreError
from nanobot.executor import Job, ProcessRecord, Result, Spent, Step

End = Callable[..., Awaitable[Child]]


class ExecutorDesk:
    """Implements `executors.model.Desk`. `end` writes the ending of a turn that was cut short."""

    def __init__(
        self, records: ChildRecords, clock: Clock, timeout: float, end: End, draining: Callable[[], bool]
    ) -> None:
        self._records = records
        self._clock = clock
        self._timeout = timeout
        self._end = end
        self.on_step: Callable[[Child, Step], None] = lambda _child, _step: None
        self.keep = draining  # a turn goes on without us when it is the gateway that stops

    async def job(self, session: str, prompt: str) -> Job:
        child = self._records.get(session)
        if child is None:
            raise StoreError(f"{session} is no sub-session: an executor is used by delegating to it")
        if child.ended:
            raise StoreError(f"{child.short} is {child.status}: {child.error}")
        return self.prepared(child, prompt)

    def prepared(self, child: Child, prompt: str) -> Job:
        before = child.totals[child.turn - 2] if 1 < child.turn <= len(child.totals) + 1 else Spent()
        return Job(
            prompt=prompt,
            working_dir=Path(child.working_dir),
            folder=self._records.folder(child),
            turn=child.turn,
            marker=f"child:{child.id}:{child.turn}",
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
            await self._end(child, result.status, result.error, answer=result.answer, **changes)
        else:
            await self._records.put(msgspec.structs.replace(child, **changes))

    def stepped(self, session: str, step: Step) -> None:
        child = self._records.get(session)
        if child is not None:
            self.on_step(child, step)
        if child is not None and step.kind == "message":
            last = rules.cut(step.text, 400)
            self._records.note(msgspec.structs.replace(child, last=last, updated_at=self._clock.now()))
