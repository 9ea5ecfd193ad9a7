"""Small signs that cost nothing to lose: reactions on people's messages."""

import asyncio
from collections import OrderedDict

from nanobot.channel import Accepted, ChannelError, DeadlineExceeded, RetryLater

from .api import Api, Refusal

RECEIVED, DONE, FAILED = "eyes", "white_check_mark", "x"
MAX_KNOWN = 5_000
MAX_QUEUED = 200


class Marks:
    """Reactions for received, done and failed, set in the background; dropped where the platform limits them."""

    def __init__(self, api: Api, *, enabled: bool) -> None:
        self._api = api
        self._enabled = enabled
        self._messages: OrderedDict[str, tuple[str, str]] = OrderedDict()  # inbox id → channel, ts
        self._queue: asyncio.Queue[tuple[str, str, str, str]] = asyncio.Queue(MAX_QUEUED)
        self._task: asyncio.Task[None] | None = None

    def received(self, accepted: Accepted, channel: str, ts: str) -> None:
        """A message was accepted; its sign follows it until its turn ends."""
        self._messages[accepted.id] = (channel, ts)
        if len(self._messages) > MAX_KNOWN:
            self._messages.popitem(last=False)
        self._put("reactions.add", channel, ts, RECEIVED)

    def unanswered(self, channel: str, ts: str) -> bool:
        """Whether this message was accepted in this life and its turn has not ended."""
        return (channel, ts) in self._messages.values()

    def ended(self, answers: tuple[str, ...], *, failed: bool, silent: bool) -> None:
        """A turn ended with these inbox ids; `silent` where nothing was answered."""
        for one in answers:
            known = self._messages.pop(one, None)
            if known is None:
                continue
            self._put("reactions.remove", *known, RECEIVED)
            if failed or not silent:
                self._put("reactions.add", *known, FAILED if failed else DONE)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _put(self, method: str, channel: str, ts: str, name: str) -> None:
        if not self._enabled or self._queue.full():
            return
        self._queue.put_nowait((method, channel, ts, name))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while not self._queue.empty():
            method, channel, ts, name = self._queue.get_nowait()
            try:
                await self._api.call(method, channel=channel, timestamp=ts, name=name)
            except Refusal as refusal:
                self._enabled = self._enabled and refusal.error not in ("missing_scope", "unknown_method")
            except (RetryLater, ChannelError, DeadlineExceeded):
                continue  # a sign that comes late says nothing any more
