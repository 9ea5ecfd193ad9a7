"""Long polling whose offset moves only past what is durable."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from loguru import logger

from nanobot.channel import DeadlineExceeded, Port
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError

from .api import Api, seconds_of

REFUSED_SECONDS, REFUSED_LONGEST = 0.3, 5.0  # between polls while something cannot be kept
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
        self._failures = 0  # polls in a row that failed
        self._refusals = 0  # rounds in a row in which something could not be kept
        self._told = False
        self._last = port.clock.monotonic()  # of a round trip
        self._built = self._last

    async def run(self) -> None:
        while True:
            try:
                found = await self._api.updates(self._offset, self._seconds)
            except (TelegramError, DeadlineExceeded) as error:
                await self._failed(error)
                continue
            self._well()
            if await self._take_all(found):
                self._refusals = 0
            else:  # a full disk, say: asked again, ever more slowly
                self._refusals += 1
                wait = REFUSED_SECONDS * 2 ** min(self._refusals - 1, 6)
                await self._port.clock.sleep(min(REFUSED_LONGEST, wait))

    async def _take_all(self, found: Sequence[Any]) -> bool:
        """Move the offset past what is safe, up to the first that is not; False where there is such a one."""
        numbered = {number: raw for raw in found if (number := number_of(raw)) >= max(0, self._offset)}
        results = await asyncio.gather(*map(self._take, numbered.values()), return_exceptions=True)
        for number, result in sorted(zip(numbered, results, strict=True)):
            if isinstance(result, BaseException):
                logger.warning("telegram: update {} not confirmed: {}", number, result)
                return False
            self._offset = number + 1
        return True

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


def number_of(raw: Any) -> int:
    """An update's id; -1 where it is none."""
    number = raw.get("update_id") if isinstance(raw, dict) else None
    if isinstance(number, int):
        return number
    logger.warning("telegram: something that is no update came, and is left out")
    return -1
