"""Watches sub-sessions while they run: tells our own agent what it should hear, ends one that goes round in circles."""

import asyncio
from collections import deque
from collections.abc import Callable

from loguru import logger

from nanobot.child import CHANNEL, Child
from nanobot.children import OWN, Children
from nanobot.errors import NanobotError
from nanobot.events import Event, ToolStarted, TurnEnded
from nanobot.executor import Step
from nanobot.messages import Inbound
from nanobot.store import Inbox
from nanobot.watch import Finding, Seen, Watch, Watcher, budget, progress

KEPT = 50  # steps that watchers see


class Watched:
    """One turn of one sub-session."""

    def __init__(self, child: Child, watch: Watch, since: float) -> None:
        self.turn = child.turn
        self.watch = watch
        self.since = since
        self.steps: deque[Step] = deque(maxlen=KEPT)
        self.count = 0
        self.last = (0, "")


class ChildWatch:
    """Over all sub-sessions of a gateway. `connect` before use."""

    def __init__(
        self,
        children: Children,
        inbox: Inbox,
        watchers: Callable[[], list[Watcher]] = lambda: [progress(), budget()],
    ) -> None:
        self._children = children
        self._inbox = inbox
        self._watchers = watchers
        self._watched: dict[str, Watched] = {}
        self._acting: set[asyncio.Task[None]] = set()
        children.desk.on_step = self.stepped

    def listening(self, publish: Callable[[Event], None]) -> Callable[[Event], None]:
        """A publisher that shows these watchers what our own agents do."""

        def both(event: Event) -> None:
            self.hear(event)
            publish(event)

        return both

    def hear(self, event: Event) -> None:
        child = self._children.records.get(event.session)
        if child is None:
            return
        if isinstance(event, TurnEnded):
            self._watched.pop(child.id, None)
        elif isinstance(event, ToolStarted) and child.executor == OWN:
            name, arguments = event.name, event.arguments
            step = Step("tool", event.call_id, name=name, arguments=arguments, state="started")
            if name == "exec":
                step = Step("command", event.call_id, str(arguments.get("command", "")), state="started")
            self.stepped(child, step)

    def stepped(self, child: Child, step: Step) -> None:
        """One more step of a sub-session."""
        now = self._children.clock.monotonic()
        watched = self._watched.get(child.id)
        if watched is None or watched.turn != child.turn:
            watched = self._watched[child.id] = Watched(child, Watch(self._watchers()), now)
        if (child.turn, step.id) == watched.last and step.id:
            return  # the end of what was seen to start
        watched.last = (child.turn, step.id)
        watched.steps.append(step)
        watched.count += 1
        used = (now - watched.since) / self._children.settings.timeout
        finding = watched.watch.look(Seen(tuple(watched.steps), used), watched.count)
        if finding is not None:
            task = asyncio.create_task(self._act(child, finding, watched.count))
            self._acting.add(task)
            task.add_done_callback(self._acting.discard)

    async def _act(self, child: Child, finding: Finding, count: int) -> None:
        """Only our own agent can be told something while it works; an outside one can only be ended."""
        log = logger.bind(session=child.key)
        log.info("watcher {}: {} ({})", finding.watcher, finding.action, finding.guidance)
        try:
            if finding.action in {"pause", "abort"}:
                await self._children.end(child, finding.message, tell=True, wait=False)
            elif child.executor == OWN:
                nudge = Inbound(
                    channel=CHANNEL,
                    message_id=f"{child.id}:{child.turn}:watch:{count}",
                    chat_id=child.id,
                    text=finding.message,
                    sender="watcher",
                    kind="nudge",
                )
                await self._inbox.accept(nudge)
        except (NanobotError, ValueError) as error:  # ValueError: it ended by itself meanwhile
            log.warning("a watcher could not act: {}", error)
