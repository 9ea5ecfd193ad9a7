"""Budgets of calls a minute, so that live views leave room for final answers."""

from nanobot.clock import Clock


class Budget:
    """A bucket that refills at `per_minute` and holds at most a quarter of a minute's calls.

    What is shown meanwhile takes from it where something is left; what has to be said counts, and asks nobody.
    """

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._rate = per_minute / 60.0
        self._most = max(1.0, per_minute / 4.0)
        self._left = self._most
        self._clock = clock
        self._at = clock.monotonic()

    def take(self) -> bool:
        """Whether a call may be made now; if so, it is counted."""
        self._refill()
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    def spend(self) -> None:
        """Count a call that is made in any case."""
        self._refill()
        self._left = max(-self._most, self._left - 1.0)

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
