"""Reads a growing file of JSON lines: only what is new, never all of it, and never more than a bound at once."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

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
    ) -> None:
        self.path = path
        self.offset = offset
        self.garbage = 0
        self._longest = longest
        self._opened = opened
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
                    self.offset += len(whole) + 1
                    lines = whole.split(b"\n")
                    if self._skipping:
                        self._skipping = False
                        del lines[0]
                    yield self._events(lines)
                if self._skipping or len(rest) > self._longest:
                    if not self._skipping:
                        self._skipping = True
                        self.garbage += 1
                    self.offset += len(rest)
                    rest = b""
            if final and rest and not self._skipping:
                self.offset += len(rest)
                yield self._events([rest])

    def _events(self, lines: list[bytes]) -> list[dict[str, Any]]:
        found = []
        for line in lines:
            if not line.strip():
                continue
            try:
                event = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                event = None
            if isinstance(event, dict):
                found.append(event)
            else:
                self.garbage += 1
        return found
