"""Sub-sessions: sessions whose channel is their parent's mailbox. Begun, continued, ended, and reported once.

A record lives in the store's keys and is written before what it announces. A result reaches the parent either as the
result of the tool call that waits for it or as a message of its own, known by child and turn, so that it arrives once.
"""

import asyncio
import shutil
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec
from loguru import logger

from nanobot import child as rules
from nanobot.channel import TurnState
from nanobot.child import CHANNEL, Caller, Child, Purse, Settings
from nanobot.child_desk import ExecutorDesk
from nanobot.child_orphans import kill_abandoned, kill_orphans, sweep
from nanobot.child_records import ChildRecords, Histories
from nanobot.clock import Clock
from nanobot.errors import NanobotError, ToolError
from nanobot.events import Event, TurnEnded, TurnStarted, Usage
from nanobot.executor import Executor, Spent, Status
from nanobot.messages import Accepted, Address, Inbound
from nanobot.store import Store
from nanobot.workbench import Workbench

OWN = "agent"  # our own agent as an executor
ALIASES = {"nanobot": OWN, "claude-code": "claude", "claude_code": "claude", "openai-codex": "codex"}
END_SECONDS = 20.0  # what ending a sub-session may take: three signals with time to react


class Turns(Protocol):
    """The session actors, as far as sub-sessions need them."""

    below: Callable[[str, str], Awaitable[int]]  # what a stop of a session stops besides

    def queued(self, session: str) -> None: ...

    def state(self, session: str) -> TurnState: ...

    async def stop(self, session: str, seq: int | None = None) -> tuple[bool, int]: ...


class Children:
    """All sub-sessions of this gateway. `connect` before use."""

    def __init__(
        self,
        store: Store,
        histories: Histories,
        clock: Clock,
        settings: Settings,
        executors: Mapping[str, Executor],
        *,
        workspace: Path,
        state: Path,
        wake: Callable[[str], None],
    ) -> None:
        self.settings: Settings = settings
        self.executors = executors
        self.clock = clock
        self._store = store
        self.records: ChildRecords = ChildRecords(store.keys("children"), histories, state)
        self.desk = ExecutorDesk(self.records, clock, settings.timeout, self._end, self.draining)
        self._workspace = workspace
        self._state = state
        self._wake = wake
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns: Turns
        self._purse: Purse
        self._bench: Workbench

    def connect(self, turns: Turns, bench: Workbench, purse: Purse) -> None:
        self._turns = turns
        self._purse = purse
        self._bench = bench
        turns.below = self.end_all

    def listening(self, publish: Callable[[Event], None]) -> Callable[[Event], None]:
        """A publisher that tells these sub-sessions first."""

        def both(event: Event) -> None:
            self.hear(event)
            publish(event)

        return both

    # --- starting and stopping the gateway ---------------------------------------------------------------------

    async def load(self) -> None:
        """Read the records and clear up what an earlier life left: orphaned processes, turns that nobody will end."""
        await kill_abandoned()
        await self.records.load()
        for child in self.records.all():
            if child.ended:
                await kill_orphans(child)
            elif not await self._open(child):
                await self._end(child, "failed", "it was interrupted before it began, or its end was lost")
        await sweep(self.records, self.clock.now())

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _open(self, child: Child) -> bool:
        """Whether something will still bring this turn to its end by itself."""
        if await self._store.inbox.pending(child.key) or await self._store.outbox.waiting(
            Address(CHANNEL, child.id)
        ):
            return True
        # The parent's call is run again after a crash and will submit it once more.
        return child.awaited and bool(await self._store.inbox.pending(child.parent))

    # --- beginning and going on ------------------------------------------------------------------------------

    async def begin(
        self,
        caller: Caller,
        task: str,
        *,
        executor: str = OWN,
        model: str = "",
        working_dir: str | None = None,
        wait: bool = False,
    ) -> Child:
        """A new sub-session with its first turn on the way. The same call again finds the one it made."""
        child_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{caller.session}/{caller.mark}/{task}"))
        child = self.records.by_id(child_id)
        if child is None:
            child = await self._new(child_id, caller, task, executor, model, working_dir, wait=wait)
        if not child.ended and child.turn == 1:
            await self._submit(child, task)
        return child

    async def _new(
        self,
        child_id: str, caller: Caller, task: str, executor: str, model: str, working_dir: str | None, *, wait: bool
    ) -> Child:  # fmt: skip
        executor = ALIASES.get(executor.lower(), executor.lower())
        if executor != OWN and executor not in self.executors:
            raise ToolError(
                f"there is no executor {executor!r}", f"known: {', '.join([OWN, *self.executors])}"
            )
        parent = self.records.get(caller.session)
        depth = parent.depth + 1 if parent else 1
        running = self.records.running(caller.session)
        limits = self.settings
        refused = rules.may_delegate(
            running=running, limit=limits.max_children, depth=depth, deepest=limits.max_depth
        )
        if refused:
            raise ToolError(*refused)
        await self._affordable(caller.session)
        default = Path(parent.working_dir) if parent else self._workspace
        hidden = [self._state.resolve(), self._workspace.resolve() / "channels"]
        place = rules.directory(working_dir, default, limits.allowed_dirs, hidden)
        now = self.clock.now()
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
        )
        metadata: dict[str, Any] = {"title": rules.cut(rules.one_line(task), 80), "parent": caller.session}
        metadata["working_dir"] = str(place)
        if executor == OWN:
            if model:
                metadata["model"] = self._bench.model(
                    model
                ).name  # raises ConfigError, which says what is known
        else:
            self.executors[executor].command(
                self.desk.prepared(child, task)
            )  # raises where it cannot be run at all
            metadata["model"] = f"executor/{executor}"
        await self.records.put(child)
        await self.records.histories.update(child.key, metadata)
        return child

    async def go_on(self, caller: Caller, child: Child, message: str, *, wait: bool = False) -> Child:
        """Another turn of a session whose last one has ended. The same call again finds the turn it began."""
        if child.call == caller.mark:
            if not child.ended:
                await self._submit(child, message)
            return child
        if child.status == "killed":
            raise ToolError("Session was killed", "start a new one with delegate")
        if not child.ended:
            raise ToolError("Session is still running", "wait for it, or end it with end_session")
        refused = rules.may_delegate(
            running=self.records.running(child.parent),
            limit=self.settings.max_children,
            depth=child.depth,
            deepest=self.settings.max_depth,
        )
        if refused:
            raise ToolError(*refused)
        await self._affordable(child.parent)
        child = await self.records.put(
            rules.moved(
                child,
                "pending",
                self.clock.now(),
                turn=child.turn + 1,
                awaited=wait,
                call=caller.mark,
                unread=False,
                error="",
                exit_code=None,
                process=None,
            )
        )
        await self._submit(child, message)
        return child

    async def _submit(self, child: Child, text: str) -> Accepted:
        message = Inbound(
            channel=CHANNEL,
            message_id=f"{child.id}:{child.turn}",
            chat_id=child.id,
            text=text,
            sender=child.parent,
            kind="task",
        )
        accepted = await self._store.inbox.accept(message)
        if not accepted.duplicate:
            self._turns.queued(child.key)
        self._wake(child.key)
        return accepted

    async def until_ended(self, child: Child) -> Child:
        """Wait for the turn's end. Its own deadline bounds it."""
        turn = child.turn
        while True:
            now = self.records.by_id(child.id)
            if now is None:
                raise ToolError("Session was deleted")
            if now.ended or now.turn != turn:
                return now
            await self.records.changed(child.id)

    def draining(self) -> bool:
        return self._bench.draining

    # --- ending ----------------------------------------------------------------------------------------------

    async def end(
        self, child: Child, reason: str, *, status: Status = "killed", tell: bool = False, wait: bool = True
    ) -> Child:
        """End a session with all that came of it; nothing of it runs on return. `tell`: the parent learns of it."""
        now = self.records.by_id(child.id) or child
        if status == "killed" and not tell:
            now = msgspec.structs.replace(now, awaited=True)  # whoever ends it knows, so no message is due
        if not now.ended:
            child = await self._end(now, status, reason)
        for one in self.records.of(child.key):
            if not one.ended:
                await self.end(one, f"its parent was ended: {reason}", wait=wait)
        await self._turns.stop(child.key)
        if wait:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    while self._turns.state(child.key).running:
                        await self.records.changed(child.id)
        return self.records.by_id(child.id) or child

    async def end_all(self, session: str, reason: str = "its parent was stopped") -> int:
        """End what a session has running, as its /stop does; returns how many."""
        running = [child for child in self.records.of(session) if not child.ended]
        for child in running:
            await self.end(child, reason, wait=False)
        return len(running)

    async def delete(self, child: Child, reason: str) -> None:
        """End it and forget it, with its history and files."""
        await self.end(child, reason)
        for one in self.records.of(child.key):
            await self.delete(one, reason)
        await self.records.forget(child)
        await asyncio.to_thread(shutil.rmtree, self.records.folder(child), ignore_errors=True)

    async def _end(
        self, child: Child, status: Status, error: str = "", *, answer: str = "", **changes: Any
    ) -> Child:
        """Write an ending, and tell the parent unless a call of its own takes the result."""
        self._disarm(child.id)
        waited = child.awaited
        if answer:
            changes["last"] = rules.cut(answer, 400)
        now = self.clock.now()
        child = rules.moved(child, status, now, error=error, unread=not waited, awaited=False, **changes)
        if not waited:
            await self._report(child, answer)
        child = await self.records.put(child)
        if len(child.ledger) >= child.turn:  # else nothing is known of what it used
            used = child.ledger[child.turn - 1].usage
            await self._purse.charge(self.records.root(child.parent), used.input + used.output)
        return child

    async def _affordable(self, session: str) -> None:
        """What a session's goal may still spend bounds what it delegates."""
        if await self._purse.remaining(self.records.root(session)) == 0:
            raise ToolError(
                "the goal's tokens are used up", "report what there is; the user can raise the budget"
            )

    async def _report(self, child: Child, answer: str) -> None:
        accepted = await self._store.inbox.accept(rules.result(child, answer))
        if not accepted.duplicate:
            self._turns.queued(child.parent)
            self._wake(child.parent)

    # --- what is heard of them -------------------------------------------------------------------------------

    async def answered(self, child_id: str, turn: str, text: str, *, failed: bool) -> None:
        """A turn is committed and its answer is on its way: the durable end of a turn. Harmless twice."""
        child = self.records.by_id(child_id)
        if child is None or child.ended:
            return
        final = await self.records.final(child, turn)
        if final is None:
            return  # of an earlier turn
        asked = await self._store.inbox.row(turn)
        if asked is not None and asked.inbound.message_id != f"{child.id}:{child.turn}":
            return
        ledger = child.ledger
        if child.executor == OWN:
            spent = Spent(msgspec.convert(final.get("usage") or {}, Usage))
            ledger = rules.entered(ledger, child.turn, spent)
        if final.get("injected") == "stopped":
            await self._end(child, "killed", "it was stopped", answer=text, ledger=ledger)
        elif failed:
            await self._end(child, "failed", text, answer=text, ledger=ledger)
        else:
            await self._end(child, "completed", answer=text, ledger=ledger)

    def hear(self, event: Event) -> None:
        """Live events of all sessions; nothing but speed depends on them."""
        child = self.records.get(event.session)
        if isinstance(event, TurnStarted) and child is not None and not child.ended:
            self.records.note(rules.moved(child, "running", self.clock.now()))
            self._arm(child)
        if isinstance(event, TurnEnded) and event.status == "stopped":
            if child is not None and not child.ended:
                self._spawn(self.end(child, "it was stopped", tell=True, wait=False))
            if any(not one.ended for one in self.records.of(event.session)):
                self._spawn(self.end_all(event.session, "its parent was stopped"))
        if isinstance(event, TurnEnded) and child is not None:
            asyncio.get_running_loop().call_soon(self.records.tell, child.id)

    def _arm(self, child: Child) -> None:
        """A deadline for our own agent; outside ones have theirs where their process is."""
        if child.executor != OWN:
            return
        limit = self.settings.timeout
        self._disarm(child.id)
        self._timers[child.id] = asyncio.get_running_loop().call_later(
            limit, lambda: self._spawn(self._overdue(child.id, limit))
        )

    async def _overdue(self, child_id: str, limit: float) -> None:
        child = self.records.by_id(child_id)
        if child is not None and not child.ended:
            reason = f"it took longer than {limit:g} s and was ended"
            await self.end(child, reason, status="timed_out", tell=True, wait=False)

    def _disarm(self, child_id: str) -> None:
        timer = self._timers.pop(child_id, None)
        if timer:
            timer.cancel()

    def _spawn(self, work: Any) -> None:
        async def guarded() -> None:
            try:
                await work
            except (NanobotError, ValueError) as error:
                logger.error("a sub-session could not be ended: {}", error)

        task = asyncio.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
