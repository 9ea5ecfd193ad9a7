"""Small signs that cost nothing to lose: reactions on people's messages."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable

import msgspec

from nanobot.channel import Accepted, ChannelError, Clock, DeadlineExceeded, Inbound, RetryLater

from .api import Api, Refusal

RECEIVED, DONE, FAILED = "eyes", "white_check_mark", "x"
ADD, REMOVE = "reactions.add", "reactions.remove"
MAX_KNOWN = 5_000
MAX_QUEUED = 200


class Mark(msgspec.Struct, frozen=True):
    session: str
    channel: str
    ts: str
    command: bool


class Sign(msgspec.Struct, frozen=True):
    """A reaction to set or to take away; `id` is the inbox id of a message that was received."""

    method: str
    channel: str
    ts: str
    name: str
    id: str = ""


class Marks:
    """Reactions for received, done and failed, set in the background.

    That a message was received is not said where the platform limits it. That it is done waits, since a message that
    stays marked as received looks unanswered.
    """

    def __init__(self, api: Api, clock: Clock, *, enabled: bool) -> None:
        self._api = api
        self._clock = clock
        self._enabled = enabled
        self._messages: OrderedDict[str, Mark] = OrderedDict()  # by inbox id
        self._standing: set[tuple[str, str]] = set()  # messages that are marked as received
        self._queue: deque[Sign] = deque()
        self._task: asyncio.Task[None] | None = None

    def received(self, accepted: Accepted, message: Inbound) -> None:
        """A message was accepted; its sign follows it until its turn ends."""
        channel, ts = message.chat_id, str(message.meta["ts"])
        command = message.text.startswith(("/", "!"))
        self._messages[accepted.id] = Mark(message.key, channel, ts, command)
        if len(self._messages) > MAX_KNOWN:
            self._messages.popitem(last=False)
        if len(self._queue) < MAX_QUEUED:
            self._put(Sign(ADD, channel, ts, RECEIVED, accepted.id))

    def knows(self, id: str) -> bool:
        """Whether this life accepted the message and has not answered it yet."""
        return id in self._messages

    def ended(self, answers: tuple[str, ...], *, failed: bool, silent: bool) -> None:
        """A turn ended with these inbox ids; `silent` where nothing was answered."""
        for one in answers:
            known = self._messages.pop(one, None)
            if known is None:
                continue
            self._end(known.channel, known.ts, None if silent and not failed else FAILED if failed else DONE)

    def answered(self, channel: str, ts: str, *, failed: bool) -> None:
        """A message that an earlier life marked as received has its answer."""
        self._standing.add((channel, ts))
        self._end(channel, ts, FAILED if failed else DONE)

    def of(self, session: str) -> list[str]:
        """The inbox ids of a session's messages that are marked as received; commands take care of themselves."""
        return [one for one, mark in self._messages.items() if mark.session == session and not mark.command]

    def dropped(self, ids: Iterable[str]) -> None:
        """Messages that nobody will answer."""
        self.ended(tuple(ids), failed=False, silent=True)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _end(self, channel: str, ts: str, sign: str | None) -> None:
        self._put(Sign(REMOVE, channel, ts, RECEIVED))
        if sign is not None:
            self._put(Sign(ADD, channel, ts, sign))

    def _put(self, sign: Sign) -> None:
        if not self._enabled:
            return
        self._queue.append(sign)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        while self._queue:
            sign = self._queue.popleft()
            place = (sign.channel, sign.ts)
            if (sign.id and sign.id not in self._messages) or (
                sign.method == REMOVE and place not in self._standing
            ):
                continue  # it has its answer already; it was never marked
            try:
                await self._api.call(sign.method, channel=sign.channel, timestamp=sign.ts, name=sign.name)
            except RetryLater as error:
                if not sign.id:
                    self._queue.appendleft(sign)
                    await self._clock.sleep(error.seconds)
                continue
            except Refusal as refusal:
                self._enabled = self._enabled and refusal.error not in ("missing_scope", "unknown_method")
            except (ChannelError, DeadlineExceeded):
                continue
            if sign.name == RECEIVED:
                (self._standing.add if sign.method == ADD else self._standing.discard)(place)
