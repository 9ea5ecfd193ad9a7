"""When what an outside agent printed was read, for agents whose events have no time of their own.

Lines of how far its file had been read, and when: about one a second. What was printed while no gateway ran has the
time at which the next one read it.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from nanobot.clock import stamp

APART = 1.0  # seconds between two lines

Times = Sequence[tuple[int, str]]  # how far it was read, and when


class TimeLog:
    """Written beside a turn's file. What is lost of it costs a time, nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0.0
        self._waiting = ""

    def note(self, offset: int, *, last: bool = False) -> None:
        """So far it is read now. After the `last` one nothing waits to be written."""
        line = f"{offset} {stamp(datetime.now(UTC))}\n"
        now = time.monotonic()
        if now - self._written < APART and not last:
            self._waiting = line
            return
        lines, self._waiting, self._written = self._waiting + line, "", now
        with suppress(OSError):
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, lines.encode("ascii"))
            finally:
                os.close(file)


def times_of(path: Path) -> Times:
    """What a log has, oldest first; nothing where there is none."""
    try:
        lines = path.read_text("ascii", errors="replace").splitlines()
    except OSError:
        return ()
    pairs = (line.split(" ", 1) for line in lines)
    return [(int(pair[0]), pair[1]) for pair in pairs if len(pair) == 2 and pair[0].isdecimal()]
