"""Threads the bot is in: there nobody has to name it."""

from collections import OrderedDict

from nanobot.channel import Keys

MAX_CACHED = 20_000


class Threads:
    """Durable, with a bounded memory of what was looked up."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._known: OrderedDict[str, bool] = OrderedDict()

    async def followed(self, channel: str, thread: str) -> bool:
        key = f"thread:{channel}:{thread}"
        if key not in self._known:
            self._remember(key, await self._keys.get(key) is not None)
        return self._known[key]

    async def follow(self, channel: str, thread: str) -> None:
        """The bot speaks in this thread from now on."""
        key = f"thread:{channel}:{thread}"
        if self._known.get(key) is not True:
            await self._keys.set(key, "1")
            self._remember(key, True)

    def _remember(self, key: str, value: bool) -> None:
        self._known[key] = value
        self._known.move_to_end(key)
        if len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
