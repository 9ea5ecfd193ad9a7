"""Long polling whose offset moves only past what is durable.

An update that is still on its way in (an album being gathered, a file being fetched) holds the offset back, but no
other chat: the next polls return at once and bring the unconfirmed ones again, which are known and left alone.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from loguru import logger

from nanobot.channel import DeadlineExceeded, Port
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError

from .api import Api, seconds_of

HELD_SECONDS = 0.3  # between polls while something holds the offset back
CONFLICT_SECONDS = (5.0, 15.0, 30.0, 60.0)
REVOKED_SECONDS = 60.0
OUTAGE_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
SILENT_SECONDS = 30.0  # without a round trip, after which the channel says so
REBUILD_SECONDS = 60.0  # … and after which the connection is made anew

REVOKED = (
    "Telegram refuses the bot's token; it was revoked or is wrong. Get a new one from @BotFather (/token), set "
    "[channels.telegram] token and restart"
)
CONFLICT = "another program asks for this bot's updates with the same token; stop it, or give this bot a token of its own"


class Polling:
    """Runs until it is cancelled."""

    def __init__(
        self,
        api: Api,
        port: Port,
        take: Callable[[Any], Coroutine[Any, Any, None]],
        *,
        seconds: int,
    ) -> None:
        self._api = api
        self._port = port
        self._take = take
        self._seconds = seconds
        self._offset = 0
        # By update id; done ones wait for those before them.
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self._failures = 0  # polls in a row that failed
        self._refusals = 0  # rounds in a row in which something could not be kept
        self._told = False
        self._last = port.clock.monotonic()  # of a round trip
        self._built = self._last

    async def run(self) -> None:
        while True:
            try:
                found = await self._api.updates(self._offset, 0 if self._under_way else self._seconds)
            except (TelegramError, DeadlineExceeded) as error:
                await self._failed(error)
                continue
            self._well()
            for raw in found:
                self._begin(raw)
            if self._under_way:
                await asyncio.wait(self._under_way.values(), timeout=HELD_SECONDS)
                if self._settle():
                    self._refusals = 0
                else:  # a full disk, say: asked again, ever more slowly
                    self._refusals += 1
                    await self._port.clock.sleep(min(5.0, HELD_SECONDS * 2 ** min(self._refusals - 1, 6)))

    async def close(self) -> None:
        """Let what is under way come to its end, for a moment."""
        if self._under_way:
            _, late = await asyncio.wait(self._under_way.values(), timeout=3.0)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            self._settle()

    def _begin(self, raw: Any) -> None:
        number = raw.get("update_id") if isinstance(raw, dict) else None
        if not isinstance(number, int):
            logger.warning("telegram: something that is no update came, and is left out")
            return
        if number >= self._offset and number not in self._under_way:
            self._under_way[number] = asyncio.create_task(self._take(raw))

    def _settle(self) -> bool:
        """Move the offset past what is done, up to the first that is not; False where one could not be kept."""
        for number in sorted(self._under_way):
            task = self._under_way[number]
            if not task.done():
                return True
            if task.cancelled() or task.exception() is not None:
                self._drop_from(number)
                return False
            del self._under_way[number]
            self._offset = number + 1
        return True

    def _drop_from(self, number: int) -> None:
        """Nothing is confirmed from here on; what failed comes again."""
        for one, task in list(self._under_way.items()):
            if task.done() and (task.cancelled() or task.exception() is not None):
                del self._under_way[one]
                if one == number and not task.cancelled():
                    logger.warning("telegram: update {} not confirmed: {}", number, task.exception())

    def _well(self) -> None:
        self._last = self._built = self._port.clock.monotonic()
        self._failures = 0
        if self._told:
            self._told = False
            self._port.report("")

    def _tell(self, problem: str) -> None:
        self._told = True
        self._port.report(problem)

    async def _failed(self, error: Exception) -> None:
        number, self._failures = self._failures, self._failures + 1
        clock = self._port.clock
        match error:
            case InvalidToken():
                self._tell(REVOKED)
                await clock.sleep(REVOKED_SECONDS)
            case Conflict():
                self._last = clock.monotonic()  # Telegram did answer
                self._tell(CONFLICT)
                await clock.sleep(CONFLICT_SECONDS[min(number, len(CONFLICT_SECONDS) - 1)])
            case RetryAfter():
                await clock.sleep(seconds_of(error))
            case _:
                logger.debug("telegram: polling failed: {}", error)
                now = clock.monotonic()
                if now - self._last >= SILENT_SECONDS:
                    self._tell(f"no connection to Telegram for {now - self._last:.0f} s: {error}")
                if now - self._built >= REBUILD_SECONDS:
                    self._built = now
                    logger.warning(
                        "telegram: no update request succeeded for {:.0f} s; connecting anew",
                        now - self._last,
                    )
                    await self._api.rebuild_polling()
                await clock.sleep(OUTAGE_SECONDS[min(number, len(OUTAGE_SECONDS) - 1)])
