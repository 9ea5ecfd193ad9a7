"""The gateway as it is, but for a clock that SIGUSR2 sets: `python -m tests.crash.chaos.launch WORKSPACE CLOCK_FILE`.

The file holds the seconds by which the wall clock is off. The monotonic clock never jumps, as with a real clock.
"""

import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nanobot.app import run
from nanobot.clock import SystemClock

_real_time, _real_time_ns = time.time, time.time_ns
_off = 0.0


def shifted(self: SystemClock) -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


def read(path: Path) -> None:
    global _off  # noqa: PLW0603 - a process has one clock
    _off = float(path.read_text()) if path.exists() else 0.0


if __name__ == "__main__":
    clock_file = Path(sys.argv[2])
    read(clock_file)
    replaced: Any = time
    replaced.time = lambda: _real_time() + _off
    replaced.time_ns = lambda: _real_time_ns() + int(_off * 1e9)
    SystemClock.now = shifted  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR2, lambda *_: read(clock_file))
    sys.exit(run(Path(sys.argv[1])))
