"""The one message by which a chat sees how a goal stands: posted by the outbox with `/goal`, edited from here.

Edits are live output: the newest counts, at most one every few seconds, and one that is lost costs nothing. The
platform's id of the message is remembered, so that after a restart the same message is edited and no second one is
ever posted.
"""

import asyncio
from collections.abc import Mapping

from loguru import logger

from nanobot.channel import Channel, Keys
from nanobot.clock import Clock, deadline, sleep_until
from nanobot.errors import RetryLater
from nanobot.goal import Goal
from nanobot.goal_texts import progress, progress_notes
from nanobot.messages import Outbound
from nanobot.store import Outbox

EDIT_SECONDS = 5.0  # between edits; platforms allow about one a second, in groups fewer
LEAST_SECONDS = 1.0  # between edits where the goal's status changed
SEND_SECONDS = 30.0
LONGEST_WAIT = 300.0
PART = 0  # the reply to /goal is part 0 of its turn, and the goal has that turn's id


class ProgressBoard:
    """Implements `goals.Board` for the channels that ask for it (`Capabilities.progress`)."""

    def __init__(
        self,
        channels: Mapping[str, Channel],
        outbox: Outbox,
        keys: Keys,
        clock: Clock,
        *,
        interval: float = EDIT_SECONDS,
    ) -> None:
        self._channels = channels
        self._outbox = outbox
        self._keys = keys
        self._clock = clock
        self._interval = interval
        self._newest: dict[str, Goal] = {}
        self._status: dict[str, str] = {}
        self._hurry: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def wanted(self, channel: str) -> bool:
        found = self._channels.get(channel)
        return found is not None and found.capabilities.progress

    def show(self, goal: Goal) -> None:
        if goal.address is None or not self.wanted(goal.address.channel):
            return
        self._newest[goal.id] = goal
        if goal.id not in self._tasks:
            self._hurry[goal.id] = asyncio.Event()
            self._tasks[goal.id] = asyncio.create_task(self._work(goal.id))
        elif goal.status != self._status[goal.id] or not goal.open:
            self._hurry[goal.id].set()
        self._status[goal.id] = goal.status

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, id: str) -> None:
        """Edit until nothing new is there."""
        shown = ""
        try:
            while (goal := self._newest.pop(id, None)) is not None:
                wait = self._interval
                try:
                    shown = await self._edit(goal, shown)
                except RetryLater as error:
                    wait = min(max(error.seconds, wait), LONGEST_WAIT)
                    self._newest.setdefault(id, goal)
                    self._hurry[id].clear()
                except Exception as error:  # noqa: BLE001 - a worker's edge: a lost edit costs nothing; it is logged
                    logger.debug("the progress of goal {} was not shown: {}", id, error)
                await self._wait(self._hurry[id], wait)
        finally:
            del self._tasks[id], self._hurry[id], self._status[id]

    async def _wait(self, hurry: asyncio.Event, seconds: float) -> None:
        """Let some time pass, less where the status changes meanwhile."""
        least = min(seconds, LEAST_SECONDS)
        await self._clock.sleep(least)
        await sleep_until(hurry, self._clock, seconds - least)
        hurry.clear()

    async def _edit(self, goal: Goal, shown: str) -> str:
        ref = await self._ref(goal)
        text = progress(goal, self._clock.now())
        if not ref or text == shown or goal.address is None:
            return shown
        message = Outbound(
            turn=goal.id,
            part=PART,
            address=goal.address,
            text=text,
            kind="notice",
            ref=ref,
            meta=progress_notes(goal),
        )
        channel = self._channels[goal.address.channel]
        async with deadline(SEND_SECONDS, f"{channel.name}.deliver"):
            await channel.deliver(message)
        if not goal.open:
            await self._keys.delete(goal.id)
        return text

    async def _ref(self, goal: Goal) -> str:
        """The platform's id of the message; empty as long as it is not delivered."""
        known = await self._keys.get(goal.id)
        if known:
            return known
        posted = await self._outbox.find(goal.id, PART)
        if posted is None or posted.status != "delivered" or not posted.message.ref:
            return ""
        await self._keys.set(goal.id, posted.message.ref)
        return posted.message.ref
