"""Reads a growing file of JSON lines: only what is new, never all of it, and never more than a bound at once."""

import io
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from nanobot.executors.times import Times

CHUNK = 1 << 18  # bytes read at once
LONGEST = 4 << 20  # bytes of one line; longer ones are skipped

Opened = Callable[[Path], io.RawIOBase]

_decode = msgspec.json.Decoder().decode


def plain(path: Path) -> io.RawIOBase:
    return path.open("rb", buffering=0)


class LineReader:
    """`offset` is where the first line begins that was not handed out. `garbage` counts lines that were no objects.

    A partial last line is normal: it is read again when there is more of it. `opened` is how the file is opened.
    """

    def __init__(
        self,
        path: Path,
        offset: int = 0,
        *,
        longest: int = LONGEST,
        opened: Opened = plain,
        times: Times = (),
    ) -> None:
        """`times` are given to events that have none of their own, as their `timestamp`."""
        self.path = path
        self.offset = offset
        self.garbage = 0
        self._longest = longest
        self._opened = opened
        self._times = deque(times)
        self._skipping = False  # inside a line that is too long
        self._seen = offset  # the file's size at the last look

    def read(self, *, final: bool = False) -> Iterator[list[dict[str, Any]]]:
        """The events that are new, in groups of one chunk each; `final` takes a last line without its newline too."""
        try:
            size = self.path.stat().st_size
            if size == self._seen and not final:
                return
            file = self._opened(self.path)
        except FileNotFoundError:
            return
        with file:
            self._seen = size
            file.seek(self.offset)
            rest = b""
            while chunk := file.read(CHUNK):
                data = rest + chunk
                whole, newline, rest = data.rpartition(b"\n")
                if newline:
                    start = self.offset
                    self.offset += len(whole) + 1
                    lines = whole.split(b"\n")
                    if self._skipping:
                        self._skipping = False
                        start += len(lines.pop(0)) + 1
                    yield self._events(lines, start)
                if self._skipping or len(rest) > self._longest:
                    if not self._skipping:
                        self._skipping = True
                        self.garbage += 1
                    self.offset += len(rest)
                    rest = b""
            if final and rest and not self._skipping:
                self.offset += len(rest)
                yield self._events([rest], self.offset - len(rest) - 1)

    def _events(self, lines: list[bytes], place: int) -> list[dict[str, Any]]:
        """The events of these lines, the first of which begins at `place`."""
        found = []
        for line in lines:
            place += len(line) + 1
            while self._times and self._times[0][0] < place:
                self._times.popleft()
            if not line.strip():
                continue
            try:
                event = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                event = None
            if isinstance(event, dict):
                if self._times:
                    event.setdefault("timestamp", self._times[0][1])
                found.append(event)
            else:
                self.garbage += 1
        return found
