"""Whether a process that works for us is well, and what follows when it is not. Pure: looks in, reasons out."""

import msgspec

CPU_SHARE = 0.01  # of a core between two looks: less is no progress


class HealthLimits(msgspec.Struct, frozen=True):
    """Times in seconds. `restarts` is of one turn; 0 = never."""

    interval: float = 30.0  # between two looks
    stall: float = 900.0  # without a word or any work before it counts as stuck
    stressed_looks: int = 10  # in a row that it may use more than a session should and say nothing
    restarts: int = 2
    backoff: float = 5.0  # before the first restart; each further one waits four times as long
    longest_backoff: float = 300.0

    def delay(self, attempt: int) -> float:
        """Before restart number `attempt`, from 1."""
        return float(min(self.backoff * 4 ** (attempt - 1), self.longest_backoff))


class Vital(msgspec.Struct, frozen=True):
    """What was seen of a process and all that came of it. `at` is in monotonic seconds."""

    at: float
    output: int  # bytes it has written
    cpu_seconds: float
    stressed: bool = False


class Health:
    """Of one process, over its looks."""

    def __init__(self, limits: HealthLimits, at: float) -> None:
        self._limits = limits
        self._last: Vital | None = None
        self._progress_at = at
        self._stressed = 0

    def look(self, now: Vital) -> str:
        """Why it is not well; empty where it is."""
        last, self._last = self._last, now
        worked = 0.0 if last is None else now.cpu_seconds - last.cpu_seconds
        span = now.at - (self._progress_at if last is None else last.at)
        if last is None or now.output != last.output or worked > CPU_SHARE * span:
            self._progress_at = now.at
        # A build may take all there is; but one that also says nothing for minutes has run away.
        silent = last is not None and now.output == last.output
        self._stressed = self._stressed + 1 if now.stressed and silent else 0
        if now.at - self._progress_at >= self._limits.stall:
            return f"it said and did nothing for {now.at - self._progress_at:.0f} s"
        if self._stressed >= self._limits.stressed_looks:
            return "it used more memory or processor time than a session should, and said nothing"
        return ""


def death(*, said: bool, exit_code: int | None) -> str:
    """Why an ending was no ending of its own: it died without a last word. Empty where it ended by itself.

    A tool that exits with an error of its own, such as a wrong option or a missing login, would only do so again.
    """
    if said or (exit_code is not None and 0 <= exit_code < 128):
        return ""
    if exit_code is None:
        return "its process died, and nobody saw how"
    number = exit_code - 128 if exit_code > 0 else -exit_code
    return f"its process was killed by signal {number}"
