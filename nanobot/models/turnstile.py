"""Requests that leave one after another: a burst of turns must not hold all their bodies in memory at once."""

import asyncio

AT_ONCE = 8  # requests that are encoded or written at the same time
HOLD_SECONDS = 0.2  # a slow connection gives its place up after this, so that it delays nobody for long


class Turnstile:
    """Lets so many requests out at once. Nobody waits for an answer here, only for others' bodies to be written."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._places = asyncio.Semaphore(at_once)

    async def enter(self) -> "Place":
        """Wait for a place. The one who has it leaves it as soon as the body is written."""
        await self._places.acquire()
        return Place(self._places)


class Place:
    """A place at the turnstile; leaving it twice is leaving it once."""

    __slots__ = ("_places", "_timer")

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places: asyncio.Semaphore | None = places
        self._timer = asyncio.get_running_loop().call_later(HOLD_SECONDS, self.leave)

    def leave(self) -> None:
        places, self._places = self._places, None
        if places is not None:
            self._timer.cancel()
            places.release()
