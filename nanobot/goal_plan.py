"""What a turn's commit contains because of a goal, and who helps the keeper of goals with what comes of it."""

from datetime import datetime
from typing import Any, Protocol

import msgspec

from nanobot.goal import Goal
from nanobot.messages import Inbound


class Later(Protocol):
    """Who hands a message in when its time has come."""

    async def postpone(self, message: Inbound, at: datetime) -> None:
        """Durable on return; the newest time for the same message id counts."""
        ...

    async def waits(self, message: Inbound) -> bool:
        """Whether a message of this id is to be handed in later."""
        ...


class Board(Protocol):
    """Where a goal's progress is shown, live and lossy."""

    def show(self, goal: Goal) -> None: ...

    def wanted(self, channel: str) -> bool:
        """Whether a channel shows a goal by one edited message, and its turns not at all."""
        ...


class Plan(msgspec.Struct, frozen=True):
    """What a turn's commit contains because of a goal. `quiet`: the turn's text is for nobody."""

    goal: Goal | None = None
    quiet: bool = False
    announcement: str = ""
    follow_up: Inbound | None = None
    meta: dict[str, Any] = {}  # for the adapter, with the turn's reply


NOTHING = Plan()
