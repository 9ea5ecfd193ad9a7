"""What sessions work on, kept ready: a turn is told what is known, and looking happens beside it, once a minute at most."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from loguru import logger

from nanobot.clock import Clock
from nanobot.errors import NanobotError
from nanobot.project import Project, look
from nanobot.security.context import SecurityContext

FRESH_SECONDS = 60.0  # a look holds this long where nothing is known to have changed
SOON_SECONDS = 5.0  # after a tool has run it is looked at again; what people ask for may be as old as this
PLACES = 64  # working trees that are remembered


class Surroundings:
    """One memory for all sessions. `facts` never waits; `project` does."""

    def __init__(self, security: SecurityContext, clock: Clock) -> None:
        self.security = security
        self._clock = clock
        self._known: OrderedDict[Path, tuple[float, Project, Sequence[str]]] = OrderedDict()
        self._looking: dict[Path, asyncio.Task[None]] = {}
        self._soon: dict[Path, asyncio.TimerHandle] = {}

    def facts(self, place: Path) -> Sequence[str]:
        """What is known, for a turn that begins; what is older than a minute is looked at again, beside it."""
        known = self._known.get(place)
        if known is None or self._clock.monotonic() - known[0] > FRESH_SECONDS:
            self._begin(place)
        return () if known is None else known[2]

    def touched(self, place: Path) -> None:
        """A tool has run there: look again soon, so that the next turn is told."""
        if place not in self._soon:
            loop = asyncio.get_running_loop()
            self._soon[place] = loop.call_later(SOON_SECONDS, self._overdue, place)

    def _overdue(self, place: Path) -> None:
        del self._soon[place]
        self._begin(place)

    async def project(self, place: Path, *, age: float = SOON_SECONDS) -> Project | None:
        """What is there, not older than `age` seconds; None where it is not to be looked at."""
        known = self._known.get(place)
        if known is None or self._clock.monotonic() - known[0] > age or await self._ticked(known[1]):
            await asyncio.shield(self._begin(place))
            known = self._known.get(place)
        return known[1] if known else None

    async def _ticked(self, project: Project) -> bool:
        """Whether its TODO.md is another than when it was seen."""
        try:
            boundary = self.security.within(Path(project.path)).boundary
        except NanobotError:
            return True
        return await asyncio.to_thread(project.tasks.is_todo_modified, boundary)

    async def close(self) -> None:
        for handle in self._soon.values():
            handle.cancel()
        for task in list(self._looking.values()):
            task.cancel()
        await asyncio.gather(*self._looking.values(), return_exceptions=True)

    def _begin(self, place: Path) -> asyncio.Task[None]:
        task = self._looking.get(place)
        if task is None:
            task = self._looking[place] = asyncio.create_task(self._look(place))
            task.add_done_callback(lambda _: self._looking.pop(place, None))
        return task

    async def _look(self, place: Path) -> None:
        known = self._known.get(place)
        try:
            security = await asyncio.to_thread(self.security.within, place)
            found = await look(security, self._clock.now(), known[1] if known else None)
        except (NanobotError, OSError) as error:
            logger.debug("{} is not looked at: {}", place, error)
            return
        self._known[place] = (self._clock.monotonic(), found, found.facts())
        self._known.move_to_end(place)
        while len(self._known) > PLACES:
            self._known.popitem(last=False)
