"""What bounds a sub-session's turn while it runs: its time, its tokens, and what is left of the goal it works for."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from loguru import logger

from nanobot.child import Child, Purse, Settings
from nanobot.child_records import ChildRecords
from nanobot.errors import NanobotError, ToolError
from nanobot.events import Event, TurnEnded, TurnStarted, Usage, Used
from nanobot.executor import Spent, Verdict

End = Callable[..., Awaitable[Child]]


class ChildLimits:
    """Ends what is over a limit; how such a turn ended is never called a success. `connect` before use."""

    def __init__(self, records: ChildRecords, settings: Settings, end: End) -> None:
        self._records = records
        self._settings = settings
        self._end = end
        self._purse: Purse
        self._deadlines: dict[str, tuple[float, asyncio.TimerHandle]] = {}  # begun (loop time), its end
        self._live: dict[str, Verdict] = {}  # session → what is known of its turn while it runs
        self._left: dict[str, int] = {}  # a person's session → what its goal had left when last asked
        self._tasks: set[asyncio.Task[None]] = set()

    def connect(self, purse: Purse) -> None:
        self._purse = purse

    async def close(self) -> None:
        for _, timer in self._deadlines.values():
            timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- time ------------------------------------------------------------------------------------------------

    def arm(self, child: Child) -> None:
        """A deadline for our own agent; an outside one has its own where its process is."""
        self.disarm(child.id)
        loop = asyncio.get_running_loop()
        limit = self._settings.timeout
        timer = loop.call_later(limit, lambda: self.spawn(self._overdue(child.id, limit)))
        self._deadlines[child.id] = loop.time(), timer

    def disarm(self, child_id: str) -> None:
        _, timer = self._deadlines.pop(child_id, (0.0, None))
        if timer:
            timer.cancel()

    async def _overdue(self, child_id: str, limit: float) -> None:
        child = self._records.by_id(child_id)
        if child is not None and not child.ended:
            reason = f"it took longer than {limit:g} s and was ended"
            await self._end(child, reason, status="timed_out", tell=True, wait=False)

    # --- tokens ----------------------------------------------------------------------------------------------

    async def affordable(self, session: str) -> None:
        """Raises ToolError where a session's goal has nothing left for what it delegates."""
        if await self._purse.remaining(self._records.root(session)) == 0:
            raise ToolError(
                "the goal's tokens are used up", "report what there is; the user can raise the budget"
            )

    async def working_for(self, session: str, turn: str) -> str:
        """The goal for which a turn delegates; empty where it does so for a person."""
        return await self._purse.working_for(session, turn)

    def hear(self, event: Event) -> None:
        """Our own agents: each model call as it is paid for."""
        if isinstance(event, Used):
            so_far = self._live.get(event.session, Verdict())
            self._live[event.session] = Verdict(spent=so_far.spent + Spent(event.usage))
            child = self._records.get(event.session)
            if child is not None and not child.ended:
                self.spawn(self._judge(child))
        elif isinstance(event, TurnStarted | TurnEnded):
            self._live.pop(event.session, None)

    def used(self, child: Child, verdict: Verdict) -> None:
        """An outside agent's turn, as far as its events have told."""
        self._live[child.key] = verdict
        if not child.ended:
            self.spawn(self._judge(child))

    def live(self, child: Child) -> Verdict:
        """What is known of its turn so far: what it used, its thread."""
        return self._live.get(child.key, Verdict())

    def share(self, child: Child) -> tuple[float, str]:
        """How much of its limits is used, 0 to 1 and above, and of which."""
        used = tokens(self.live(child).spent.usage)
        shares = [(0.0, "time")]
        if child.id in self._deadlines:
            begun = self._deadlines[child.id][0]
            shares.append(((asyncio.get_running_loop().time() - begun) / self._settings.timeout, "time"))
        if self._settings.max_tokens:
            shares.append((used / self._settings.max_tokens, "tokens"))
        root = self._records.root(child.parent)
        if self._left.get(root):
            shares.append((self._together(root) / self._left[root], "tokens"))
        return max(shares)

    def _together(self, root: str) -> int:
        """What runs now for one person's session has used: its own turn and all that came of it."""
        return sum(
            tokens(verdict.spent.usage)
            for session, verdict in self._live.items()
            if self._records.root(session) == root
        )

    async def _judge(self, child: Child) -> None:
        root = self._records.root(child.parent)
        left = await self._purse.remaining(root)
        if left is not None:
            self._left[root] = left
        now = self._records.by_id(child.id)
        if now is None or now.ended:
            return
        used, limit = tokens(self.live(now).spent.usage), self._settings.max_tokens
        why = ""
        if limit and used > limit:
            why = f"it used {used} tokens, {limit} are allowed in one turn ([delegation] max_tokens), and was ended"
        elif left is not None and self._together(root) > left:
            why = f"the goal's tokens are used up: {left} were left, and it was ended when it had used {used}"
        if why:
            await self._end(now, why, status="failed", tell=True, wait=False)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do this beside; what cannot be done is recorded."""

        async def guarded() -> None:
            try:
                await work
            except (NanobotError, ValueError) as error:  # ValueError: it ended by itself meanwhile
                logger.error("a sub-session could not be ended: {}", error)

        task = asyncio.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def tokens(usage: Usage) -> int:
    return usage.input + usage.output
