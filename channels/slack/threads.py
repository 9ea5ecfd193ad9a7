"""Threads the bot is in: there nobody has to name it. A thread where nothing was said for a month is forgotten."""

from collections import OrderedDict
from datetime import date, timedelta

from nanobot.channel import Clock, Keys

MAX_CACHED = 20_000
KEPT = timedelta(days=30)  # since the last message that the bot heard there
PREFIX = "thread:"


class Threads:
    """Durable, with a bounded memory of what was looked up. A mark's value is the day of the last message."""

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        # Key → the day its mark has, None without one.
        self._known: OrderedDict[str, str | None] = OrderedDict()
        self._pruned: date | None = None

    async def followed(self, channel: str, thread: str) -> bool:
        key = mark(channel, thread)
        if key not in self._known:
            self._remember(key, await self._keys.get(key))
        return self._known[key] is not None

    async def follow(self, channel: str, thread: str) -> bool:
        """The bot hears this thread from now on; whether that is new. Written at most once a day."""
        key, today = mark(channel, thread), self._clock.now().date()
        followed = await self.followed(channel, thread)
        if self._known[key] != today.isoformat():
            await self._keys.set(key, today.isoformat())
            self._remember(key, today.isoformat())
        return not followed

    async def leave(self, channel: str, thread: str) -> None:
        key = mark(channel, thread)
        await self._keys.delete(key)
        self._remember(key, None)

    def prunable(self) -> bool:
        """Whether today's pruning is still to be done."""
        return self._pruned != self._clock.now().date()

    async def prune(self) -> None:
        """Forget the threads that nothing was said in for long; marks without a day get today's."""
        today = self._pruned = self._clock.now().date()
        for key, value in await self._keys.items(PREFIX):
            try:
                old = today - date.fromisoformat(value) > KEPT
            except ValueError:
                await self._keys.set(key, today.isoformat())
                continue
            if old:
                await self._keys.delete(key)
                self._known.pop(key, None)

    def _remember(self, key: str, value: str | None) -> None:
        self._known[key] = value
        self._known.move_to_end(key)
        if len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)


def mark(channel: str, thread: str) -> str:
    return f"{PREFIX}{channel}:{thread}"
