"""Watches turns while they run, a person's session's and a sub-session's alike, and acts on what the watchers find.

A nudge is put to the agent as a marked message. A pause ends the turn so that it can be taken up again, and says so; an
abort ends it for good. Both take along what the session had delegated.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from loguru import logger

from nanobot.child import CHANNEL, Child
from nanobot.child_maker import OWN
from nanobot.children import Children
from nanobot.errors import NanobotError
from nanobot.events import Event, TextEnded, ToolStarted, TurnEnded, Used
from nanobot.executor import Status, Step
from nanobot.messages import Address, Inbound
from nanobot.store import Inbox
from nanobot.trajectory import called
from nanobot.watch import Finding, Seen, Watch
from nanobot.watch_settings import Watchers

KEPT = 50  # steps that watchers see
NOTED = 10  # findings that are kept with a sub-session's turn


class Turns(Protocol):
    """The session actors, as far as watchers need them."""

    objection: Callable[[str, str, str], str]
    unshown: Callable[[Event], None]

    def end(self, session: str, why: str, *, failed: bool = False) -> bool: ...


class Watched:
    """One turn of one session."""

    def __init__(self, turn: str, address: Address, watch: Watch) -> None:
        self.turn = turn
        self.address = address
        self.watch = watch
        self.steps: deque[Step] = deque(maxlen=KEPT)
        self.count = 0
        self.calls = 0  # of the model
        self.last = ""
        self.over = False  # paused or ended


class Watching:
    """Over all sessions of a gateway. `connect` before use."""

    def __init__(self, children: Children, inbox: Inbox, settings: Watchers, max_steps: int) -> None:
        self._children = children
        self._inbox = inbox
        self._rules = settings.rules()  # they remember nothing; a Watch does
        self._cooldown = settings.cooldown
        self._max_steps = max_steps  # model calls that one turn may make
        self._watched: dict[str, Watched] = {}
        self._acting: set[asyncio.Task[None]] = set()
        self._turns: Turns
        self._halt: Callable[[str], Awaitable[object]]
        children.desk.on_step = self.reported

    def connect(self, turns: Turns, halt: Callable[[str], Awaitable[object]]) -> None:
        """`halt` pauses a session's goal, where it has one."""
        self._turns = turns
        self._halt = halt
        turns.objection = self.objection
        turns.unshown = self.listening(self._children.listening(lambda _event: None))

    def listening(self, publish: Callable[[Event], None]) -> Callable[[Event], None]:
        """A publisher that shows these watchers what our own agents do."""

        def both(event: Event) -> None:
            self.hear(event)
            publish(event)

        return both

    # --- what is seen ----------------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """What our own agents do, as it happens."""
        if isinstance(event, TurnEnded):
            self._watched.pop(event.session, None)
        elif self._outside(event.session):
            return  # it reports its steps itself
        elif isinstance(event, Used):
            self._of(event.session, event.turn, event.address).calls += 1
        elif isinstance(event, ToolStarted):
            step = called(event.call_id, event.name, event.arguments)
            self._stepped(self._of(event.session, event.turn, event.address), event.session, step)
        elif isinstance(event, TextEnded):
            watched = self._of(event.session, event.turn, event.address)
            self._stepped(watched, event.session, Step("message", text=event.text))

    def reported(self, child: Child, step: Step) -> None:
        """What an outside agent reports."""
        watched = self._of(child.key, str(child.turn), Address(CHANNEL, child.id))
        if step.kind == "said" or (step.id and step.id == watched.last):
            return  # said to it; or the end of what was seen to start
        watched.last = step.id
        self._stepped(watched, child.key, step)

    def objection(self, session: str, turn: str, answer: str) -> str:
        """What our own agent must hear before this answer may end its turn; nothing where it may."""
        watched = self._watched.get(session)
        if watched is None or watched.turn != turn or self._outside(session):
            return ""  # nothing was seen of it; or it has ended
        finding = self._look(watched, session, Step("message", text=answer))
        if finding is None or finding.action == "nudge":
            return finding.message if finding else ""
        self._act(watched, session, finding)
        return ""

    def _outside(self, session: str) -> bool:
        child = self._children.records.get(session)
        return child is not None and child.executor != OWN

    def _of(self, session: str, turn: str, address: Address) -> Watched:
        watched = self._watched.get(session)
        if watched is None or watched.turn != turn:
            watched = self._watched[session] = Watched(
                turn, address, Watch(self._rules, cooldown=self._cooldown)
            )
        return watched

    def _stepped(self, watched: Watched, session: str, step: Step) -> None:
        finding = self._look(watched, session, step)
        if finding is not None:
            self._act(watched, session, finding)

    def _look(self, watched: Watched, session: str, step: Step) -> Finding | None:
        watched.steps.append(step)
        watched.count += 1
        if watched.over:
            return None
        child = self._children.records.get(session)
        used, of = watched.calls / self._max_steps, "steps"
        if child is not None:
            used, of = max((used, of), self._children.limits.share(child))
        finding = watched.watch.look(Seen(tuple(watched.steps), used, of), watched.count)
        if finding is not None:
            watched.over = finding.action in {"pause", "abort"}
            logger.bind(session=session).info(
                "watcher {}: {} ({})", finding.watcher, finding.action, finding.guidance
            )
        return finding

    # --- what is done ----------------------------------------------------------------------------------------

    def _act(self, watched: Watched, session: str, finding: Finding) -> None:
        """A pause and an abort stop our own agent at once, before the call that was found begins."""
        if finding.action == "nudge":
            work = self._nudge(watched, session, finding)
        else:
            self._children.holding.add(session)
            work = self._hold(session, finding)
            paused = finding.action == "pause"
            more = "I have stopped here. Say how to go on." if paused else "The turn was ended."
            self._turns.end(session, f"{finding.message}\n\n{more}", failed=not paused)
        task = asyncio.create_task(self._recorded(session, work))
        self._acting.add(task)
        task.add_done_callback(self._acting.discard)

    async def _recorded(self, session: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (NanobotError, ValueError) as error:  # ValueError: it ended by itself meanwhile
            logger.bind(session=session).warning("a watcher could not act: {}", error)

    async def _nudge(self, watched: Watched, session: str, finding: Finding) -> None:
        child = self._children.records.get(session)
        if child is not None:
            await self._children.records.noted(child.id, finding.message, NOTED)
        if child is not None and child.executor != OWN:
            # Claude hears it while it works. Codex cannot; its parent reads it beside the result.
            await self._children.desk.say(session, finding.message)
            return
        address = watched.address
        nudge = Inbound(
            channel=address.channel,
            message_id=f"watch:{watched.turn}:{watched.count}",
            chat_id=address.chat_id,
            thread=address.thread,
            text=finding.message,
            sender="watcher",
            kind="nudge",
            session=session if session != address.key else "",
        )
        await self._inbox.accept(nudge)
        self._children.wake(session)  # a turn that has ended meanwhile shall not leave it to the next one

    async def _hold(self, session: str, finding: Finding) -> None:
        """Write down that a turn was paused or ended, and do the same with what it delegated."""
        paused = finding.action == "pause"
        status: Status = "paused" if paused else "killed"
        try:
            child = self._children.records.get(session)
            if child is not None:
                await self._children.end(child, finding.message, status=status, tell=True, wait=False)
                return
            done = "paused" if paused else "ended"
            await self._children.end_all(session, f"its parent was {done}: {finding.message}", status=status)
            await self._halt(session)
        finally:
            self._children.holding.discard(session)
