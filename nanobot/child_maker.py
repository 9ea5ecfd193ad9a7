"""Makes a new sub-session: what is asked for is checked against every limit before anything is written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nanobot import child as rules
from nanobot.child import Caller, Child, Settings
from nanobot.child_desk import ExecutorDesk
from nanobot.child_limits import ChildLimits
from nanobot.child_records import ChildRecords
from nanobot.clock import Clock
from nanobot.errors import ToolError
from nanobot.executor import Executor
from nanobot.security.context import SecurityContext
from nanobot.workbench import Workbench

OWN = "agent"  # our own agent as an executor
ALIASES = {"nanobot": OWN, "claude-code": "claude", "claude_code": "claude", "openai-codex": "codex"}


class ChildMaker:
    def __init__(
        self,
        records: ChildRecords,
        limits: ChildLimits,
        desk: ExecutorDesk,
        bench: Workbench,
        clock: Clock,
        settings: Settings,
        executors: Mapping[str, Executor],
        security: SecurityContext,
    ) -> None:
        self._records = records
        self._limits = limits
        self._desk = desk
        self._bench = bench
        self._clock = clock
        self._settings = settings
        self._executors = executors
        self._security = security

    async def make(
        self,
        child_id: str,
        caller: Caller,
        task: str,
        executor: str,
        model: str,
        working_dir: str | None,
        *,
        wait: bool,
    ) -> Child:
        """The record, durable on return. Raises ToolError or ConfigError, which say what is allowed or known."""
        executor = ALIASES.get(executor.lower(), executor.lower())
        if executor != OWN and executor not in self._executors:
            raise ToolError(
                f"there is no executor {executor!r}", f"known: {', '.join([OWN, *self._executors])}"
            )
        records, limits = self._records, self._settings
        parent = records.get(caller.session)
        depth = parent.depth + 1 if parent else 1
        refused = rules.may_delegate(
            running=records.running(caller.session),
            limit=limits.max_children,
            depth=depth,
            deepest=limits.max_depth,
        )
        if refused:
            raise ToolError(*refused)
        await self._limits.affordable(caller.session)
        default = Path(parent.working_dir) if parent else self._security.home
        place = self._security.working_dir(working_dir, default)
        now = self._clock.now()
        child = Child(
            id=child_id,
            parent=caller.session,
            address=caller.address,
            executor=executor,
            task=task,
            working_dir=str(place),
            created_at=now,
            updated_at=now,
            depth=depth,
            model=model,
            awaited=wait,
            call=caller.mark,
            goal=await self._limits.working_for(caller.session, caller.turn),
        )
        metadata: dict[str, Any] = {
            "title": rules.cut(rules.one_line(task), 80),
            "parent": caller.session,
            "working_dir": str(place),
        }
        if executor == OWN:
            if model:
                metadata["model"] = self._bench.model(model).name
        else:
            self._executors[executor].command(self._desk.prepared(child, task))  # it can be run at all
            metadata["model"] = f"executor/{executor}"
        await records.put(child)
        await records.histories.update(child.key, metadata)
        return child
