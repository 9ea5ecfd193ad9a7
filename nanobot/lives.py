"""Which stage each session's life is in: the one place that knows, fed by the turns themselves."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from nanobot.clock import Clock
from nanobot.lifecycle import TABLE, Stage, advance
from nanobot.messages import Line

KEPT = 5_000  # lives that are remembered; what an older one was is told by its history

# The way to a turn from each stage that a session may wait in.
_TO_WORK = {
    Stage.CREATED: (Stage.INITIALIZING, Stage.ACTIVE),
    Stage.INITIALIZING: (Stage.ACTIVE,),
    Stage.IDLE: (Stage.ACTIVE,),
    Stage.ERROR: (Stage.RECOVERING, Stage.ACTIVE),
    Stage.RECOVERING: (Stage.ACTIVE,),
    Stage.ACTIVE: (),
}


class Life(msgspec.Struct, frozen=True):
    """A stage, since when, and why it went wrong."""

    stage: Stage = Stage.CREATED
    since: datetime | None = None
    reason: str = ""


class Lives:
    """The stages of all sessions that did something since the start. Every step is one of lifecycle's table."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[str, Life] = OrderedDict()

    def of(self, session: str, lines: Sequence[Line] = ()) -> Life:
        """A session's life; of one that did nothing since the start, what its history tells."""
        return self._known.get(session) or told_by(lines)

    def opening(self, session: str, *, resumed: bool = False) -> None:
        """A turn was claimed. `resumed`: an earlier try of it was interrupted, from which the session recovers."""
        known = self._known.get(session)
        if known is None and not resumed:
            self._set(session, Life(advance(Stage.CREATED, Stage.INITIALIZING), self._clock.now()))
            return
        life = known or Life()
        if TABLE[life.stage] <= {Stage.TERMINATED}:  # its key is used anew
            life = Life()
        if resumed and life.stage is not Stage.ERROR:
            life = self._moved(life, Stage.ERROR, "a turn was interrupted")
        if life.stage is Stage.ERROR:
            life = self._moved(life, Stage.RECOVERING, life.reason)
        self._set(session, life)

    def working(self, session: str) -> None:
        """Its agent begins, or a command."""
        life = self._known.get(session) or Life()
        for stage in _TO_WORK.get(life.stage, ()):
            life = self._moved(life, stage)
        self._set(session, life)

    def rested(
        self, session: str, status: Literal["", "completed", "stopped", "failed"], reason: str = ""
    ) -> None:
        """Its turn is over. An empty status: nothing came of it, and it will be tried again."""
        life = self._known.get(session) or Life()
        if TABLE[life.stage] <= {Stage.TERMINATED}:
            return  # it is being ended
        if status == "failed":
            if life.stage is not Stage.ERROR:
                life = self._moved(life, Stage.ERROR, reason)
        elif status or life.stage is Stage.ACTIVE:
            for stage in (*_TO_WORK.get(life.stage, ()), Stage.IDLE):
                life = self._moved(life, stage) if stage is not life.stage else life
        self._set(session, life)

    def terminating(self, session: str, reason: str = "") -> None:
        """It is being ended for good. Harmless twice."""
        life = self._known.get(session) or Life()
        if Stage.TERMINATING in TABLE[life.stage]:
            self._set(session, self._moved(life, Stage.TERMINATING, reason))

    def terminated(self, session: str, reason: str = "") -> None:
        """It has ended. Harmless twice."""
        self.terminating(session, reason)
        life = self._known[session]
        if life.stage is not Stage.TERMINATED:
            self._set(session, self._moved(life, Stage.TERMINATED, life.reason))

    def _moved(self, life: Life, stage: Stage, reason: str = "") -> Life:
        return Life(advance(life.stage, stage), self._clock.now(), reason[:200])

    def _set(self, session: str, life: Life) -> None:
        self._known[session] = life
        self._known.move_to_end(session)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)


def told_by(lines: Sequence[Line]) -> Life:
    """What a history tells of a session that rests: nothing said yet, or how its last turn ended."""
    if not lines:
        return Life()
    if lines[-1].get("injected") == "failed":
        return Life(Stage.ERROR, None, str(lines[-1].get("content") or "")[:200])
    return Life(Stage.IDLE)
