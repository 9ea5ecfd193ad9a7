"""Sub-sessions: sessions whose channel is their parent's mailbox. Begun, continued, ended, and reported once.

A record lives in the store's keys and is written before what it announces. A result reaches the parent either as the
result of the tool call that waits for it or as a message of its own, known by child and turn, so that it arrives once.
"""

import asyncio
import shutil
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from nanobot import child as rules
from nanobot.channel import TurnState
from nanobot.child import CHANNEL, Caller, Child, Purse, Settings
from nanobot.child_desk import ExecutorDesk
from nanobot.child_limits import ChildLimits
from nanobot.child_maker import OWN, ChildMaker
from nanobot.child_orphans import kill_abandoned, kill_orphans, seal_leftovers, sweep
from nanobot.child_records import ChildRecords, Histories
from nanobot.clock import Clock, deadline
from nanobot.errors import ToolError
from nanobot.events import Event, TurnEnded, TurnStarted, Usage, Used
from nanobot.executor import Executor, Spent, Status
from nanobot.messages import Accepted, Address, Inbound
from nanobot.security.context import SecurityContext
from nanobot.store import Store
from nanobot.stores.turn_files import TurnFiles
from nanobot.workbench import Workbench

SETTLE_SECONDS = 0.05  # between looks at a turn that is being ended
END_SECONDS = 20.0  # what ending a sub-session may take: three signals with time to react


class Turns(Protocol):
    """The session actors, as far as sub-sessions need them."""

    below: Callable[[str, str], Awaitable[int]]

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
        security: SecurityContext,
        *,
        files: TurnFiles,
        wake: Callable[[str], None],
    ) -> None:
        self.settings: Settings = settings
        self.executors = executors
        self._security = security
        self.clock = clock
        self._store = store
        self.records: ChildRecords = ChildRecords(store.keys("children"), histories, files)
        self.limits = ChildLimits(self.records, settings, self.end)
        self.desk = ExecutorDesk(self.records, clock, settings.timeout, self._end, self.draining, self.limits)
        self.wake = wake
        self._ending: Counter[str] = Counter()  # ids of those that are being ended; they are not gone on with
        self.holding: set[str] = set()  # sessions whose end a watcher is writing down
        self._turns: Turns
        self._purse: Purse
        self._bench: Workbench
        self._maker: ChildMaker

    def connect(self, turns: Turns, bench: Workbench, purse: Purse) -> None:
        self._turns = turns
        self._purse = purse
        self._bench = bench
        self.limits.connect(purse)
        self._maker = ChildMaker(
            self.records,
            self.limits,
            self.desk,
            bench,
            self.clock,
            self.settings,
            self.executors,
            self._security,
        )
        turns.below = self.end_all

    def listening(self, publish: Callable[[Event], None]) -> Callable[[Event], None]:
        """A publisher that tells these sub-sessions first."""

        def both(event: Event) -> None:
            self.hear(event)
            if not isinstance(event, Used):
                publish(event)

        return both

    # --- starting and stopping the gateway ---------------------------------------------------------------------

    async def load(self) -> None:
        """Read the records and clear up what an earlier life left: orphaned processes, turns that nobody will end."""
        await kill_abandoned()
        await self.records.load()
        await kill_orphans(self.records.all())
        for child in self.records.all():
            if not child.ended and not await self._open(child):
                await self._end(child, "failed", "it was interrupted before it began, or its end was lost")
        await seal_leftovers(self.records)
        await sweep(self.records, self.clock.now())

    async def close(self) -> None:
        await self.limits.close()

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
            child = await self._maker.make(child_id, caller, task, executor, model, working_dir, wait=wait)
        if not child.ended and child.turn == 1:
            await self._submit(child, task)
        return child

    async def go_on(self, caller: Caller, child: Child, message: str, *, wait: bool = False) -> Child:
        """Another turn of a session whose last one has ended. The same call again finds the turn it began."""
        if child.call == caller.mark:
            if not child.ended:
                await self._submit(child, message)
            return child
        if child.ended:
            child = await self._settled(child)
        if child.status == "killed":
            raise ToolError("Session was killed", "start a new one with delegate")
        if not child.ended:
            return await self._interject(caller, child, message, wait=wait)
        refused = rules.may_delegate(
            running=self.records.running(child.parent),
            limit=self.settings.max_children,
            depth=child.depth,
            deepest=self.settings.max_depth,
        )
        if refused:
            raise ToolError(*refused)
        await self.limits.affordable(child.parent)
        child = await self.records.put(
            rules.moved(
                child,
                "pending",
                self.clock.now(),
                turn=child.turn + 1,
                awaited=wait,
                call=caller.mark,
                goal=await self.limits.working_for(caller.session, caller.turn),
                unread=False,
                error="",
                exit_code=None,
                process=None,
                restarts=0,
                watched=(),
            )
        )
        await self._submit(child, message)
        return child

    async def _settled(self, child: Child) -> Child:
        """Wait until nothing of its last turn is left: what ends that one must not end the next."""
        async with deadline(END_SECONDS, "ending its last turn"):
            while self._ending[child.id] or self._turns.state(child.key).running:
                with suppress(TimeoutError):
                    async with asyncio.timeout(SETTLE_SECONDS):
                        await self.records.changed(child.id)
        return self.records.by_id(child.id) or child

    async def _interject(self, caller: Caller, child: Child, message: str, *, wait: bool) -> Child:
        """Say something to a turn that runs, where its tool hears it. Written down first: it is not said twice."""
        before = child
        child = await self.records.put(
            msgspec.structs.replace(child, call=caller.mark, awaited=wait or child.awaited)
        )
        if await self.desk.say(child.key, message):
            return child
        now = self.records.by_id(child.id)
        if now is not None and not now.ended:
            await self.records.put(msgspec.structs.replace(now, call=before.call, awaited=before.awaited))
        raise ToolError("Session is still running", "wait for it, or end it with end_session")

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
        self.wake(child.key)
        return accepted

    async def until_ended(self, child: Child) -> Child:
        """Wait for the turn's end; its own deadline bounds it."""
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
        self._ending[child.id] += 1
        try:
            return await self._stop(child, reason, status, tell=tell, wait=wait)
        finally:
            self._ending[child.id] -= 1
            self.records.tell(child.id)

    async def _stop(self, child: Child, reason: str, status: Status, *, tell: bool, wait: bool) -> Child:
        now = self.records.by_id(child.id) or child
        if not tell:
            now = msgspec.structs.replace(now, awaited=True)  # whoever ends it knows, so no message is due
        if not now.ended:
            child = await self._end(now, status, reason)
        below: Status = "paused" if status == "paused" else "killed"
        await self.end_all(child.key, f"its parent was ended: {reason}", status=below, wait=wait)
        await self._turns.stop(child.key)
        if wait:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    while self._turns.state(child.key).running:
                        await self.records.changed(child.id)
        return self.records.by_id(child.id) or child

    async def end_all(
        self, session: str, reason: str, goal: str = "", *, status: Status = "killed", wait: bool = False
    ) -> int:
        """End what a session has running, or what works for this goal of it; returns how many."""
        running = [
            child for child in self.records.of(session) if not child.ended and goal in ("", child.goal)
        ]
        ends = [self.end(child, reason, status=status, wait=wait) for child in running]
        # Side by side: a stop is to be quick, and one that fails keeps no other from its end.
        for failed in await asyncio.gather(*ends, return_exceptions=True):
            if isinstance(failed, BaseException):
                raise failed
        return len(running)

    async def delete(self, child: Child, reason: str) -> None:
        """End it and forget it, with its history and files."""
        await self.end(child, reason)
        for one in self.records.of(child.key):
            await self.delete(one, reason)
        await self.records.forget(child)
        await asyncio.to_thread(shutil.rmtree, self.records.folder(child), ignore_errors=True)

    async def forget(self, session: str) -> None:
        """Forget what a session delegated, which is deleted; of a sub-session its own record too."""
        own = self.records.get(session)
        there = [own] if own else self.records.of(session)
        await asyncio.gather(*(self.delete(one, "its session was deleted") for one in there))

    async def _end(
        self, child: Child, status: Status, error: str = "", *, answer: str = "", **changes: Any
    ) -> Child:
        """Write an ending, and tell the parent unless a call of its own takes the result. The first ending stands."""
        before = self.records.by_id(child.id)
        if before is None or before.ended or before.turn != child.turn:
            return before or child  # it has ended meanwhile, or is forgotten
        self.limits.disarm(child.id)
        waited = child.awaited
        if answer:
            changes["last"] = rules.cut(answer.partition("\nHint: ")[0], 400)
        if len(child.ledger) < child.turn and "ledger" not in changes:
            live = self.limits.live(child)  # it was cut short: what is known so far counts
            if live.spent != Spent():
                changes["ledger"] = rules.entered(child.ledger, child.turn, live.spent)
            if live.total != Spent():
                changes["totals"] = rules.entered(child.totals, child.turn, live.total)
            changes.setdefault("thread", live.thread or child.thread)
        now = self.clock.now()
        child = rules.moved(child, status, now, error=error, unread=not waited, awaited=False, **changes)
        self.records.note(child)
        if not waited:
            try:
                await self._report(child, answer)
            except BaseException:
                self.records.note(before)  # nobody knows of it: it is ended once more by whoever tries again
                raise
        now_there = self.records.by_id(child.id)
        if (
            now_there is not None and now_there.turn == child.turn
        ):  # else its next turn is written down already
            await self.records.put(now_there)
        if len(child.ledger) >= child.turn:  # else nothing is known of what it used
            used = child.ledger[child.turn - 1]
            dollars = used.cost_usd
            if dollars is None and child.executor == OWN:
                dollars = self._purse.price(self._bench.model(child.model or None).name, used.usage)
            root, tokens = self.records.root(child.parent), used.usage.input + used.usage.output
            await self._purse.charge(root, tokens, self.records.goal(child), dollars)
        return child

    async def _report(self, child: Child, answer: str) -> None:
        accepted = await self._store.inbox.accept(rules.result(child, answer))
        if not accepted.duplicate:
            self._turns.queued(child.parent)
            self.wake(child.parent)

    # --- what is heard of them -------------------------------------------------------------------------------

    async def answered(self, child_id: str, turn: str, text: str, *, failed: bool) -> None:
        """A turn is committed and its answer is on its way: the durable end of a turn. Harmless twice."""
        child = self.records.by_id(child_id)
        if child is None or child.ended or child.key in self.holding:
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
        self.limits.hear(event)
        child = self.records.get(event.session)
        if isinstance(event, TurnStarted) and child is not None and not child.ended:
            self.records.note(rules.moved(child, "running", self.clock.now()))
            if child.executor == OWN:
                self.limits.arm(child)
        if isinstance(event, TurnEnded) and event.status == "stopped" and event.session not in self.holding:
            if child is not None and not child.ended:
                self.limits.spawn(self.end(child, "it was stopped", tell=True, wait=False))
            if any(not one.ended for one in self.records.of(event.session)):
                self.limits.spawn(self.end_all(event.session, "its parent was stopped"))
        if isinstance(event, TurnEnded) and child is not None:
            asyncio.get_running_loop().call_soon(self.records.tell, child.id)
