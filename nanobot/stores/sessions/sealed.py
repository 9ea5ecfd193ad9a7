"""A folder of sealed session files: every line by itself, archive segments and the list as a whole.

A line is bound to its file and its position, so it opens nowhere else, and lines that were exchanged, repeated or put
back are refused like damaged ones: they are kept aside by the same repair.
"""

from base64 import b64encode
from pathlib import Path

from loguru import logger

from nanobot.errors import StoreError
from nanobot.security import state_key
from nanobot.security.sealing import PREFIX, ForeignKey, Sealer, Unsealable
from nanobot.stores.sessions.folder import DiskFolder, Folder, MemoryFolder

REFUSED = b"refused:"  # before the base64 of bytes that must not count; nothing in it reads as a line


class SealedFolder(DiskFolder):
    """A DiskFolder whose files hold sealed lines; those above it see plain ones."""

    sealed = True

    def __init__(self, path: Path, sealer: Sealer) -> None:
        super().__init__(path)
        self.sealer = sealer

    def read(self, name: str, start: int = 0) -> bytes | None:
        data = super().read(name)
        if data is None:
            return None
        return (self._opened_lines(name, data) if of_lines(name) else self._opened(name, data))[start:]

    def replace(self, name: str, data: bytes, *, keep_time: bool = False) -> None:
        coded = self._coded(name, 0, data) if of_lines(name) else self.sealer.seal(data, "sessions", name)
        super().replace(name, coded, keep_time=keep_time)

    def move(self, name: str, new: str) -> None:
        data = self.read(name)
        if data is None:
            raise StoreError(f"session file {name}: it is not there")
        self.replace(new, data)
        self.delete(name)

    def is_current(self, name: str) -> bool:
        """Whether a file is sealed through and through as it would be now."""
        data = super().read(name) or b""
        if not of_lines(name):
            return self.sealer.is_current(data)
        return not data or (
            data.endswith(b"\n") and all(map(self.sealer.line_is_current, data[:-1].split(b"\n")))
        )

    def _coded(self, name: str, position: int, data: bytes) -> bytes:
        sealed: list[bytes] = []
        lines = data.split(b"\n")
        rest = lines.pop()
        for line in [*lines, rest] if rest else lines:
            one = self.sealer.seal_line(line, name, position) + b"\n"
            position += len(one)
            sealed.append(one)
        return b"".join(sealed)

    def _opened(self, name: str, data: bytes) -> bytes:
        try:
            return self.sealer.open(data, "sessions", name)
        except ForeignKey as error:
            raise StoreError(f"session file {name}: {error}") from error
        except Unsealable as error:
            logger.warning("session file {} cannot be opened: {}", name, error)
            return b""

    def _opened_lines(self, name: str, data: bytes) -> bytes:
        """The lines in plain; what does not open is marked so that it counts for damage.

        A file of which nothing opens is no damaged one: it is another state's, or was never sealed. Then the error is
        raised, and nobody mends it.
        """
        reading = _Reading(name, self.sealer)
        pieces = data.split(b"\n")
        tail = pieces.pop()
        offset = 0
        lines: list[bytes] = []
        for raw in pieces:
            lines += reading.line(raw, offset)
            offset += len(raw) + 1
        if tail:
            lines += [refused(tail)] if PREFIX.startswith(tail) else reading.line(tail, offset)
        reading.judge()
        return b"\n".join(lines) + (b"\n" if lines and not tail else b"")


class _Reading:
    """One pass over a file's lines, in which what was sealed later stands later."""

    def __init__(self, name: str, sealer: Sealer) -> None:
        self._name = name
        self._sealer = sealer
        self._opened = 0
        self._reached = -1  # the position of the last line that counted
        self._moved = False
        self._refusal: Unsealable | None = None

    def line(self, raw: bytes, offset: int) -> list[bytes]:
        at = raw.find(PREFIX)
        if at < 0:
            return [self._plain(raw)]
        if at == 0 and raw.find(PREFIX, 1) < 0:
            return [self._sealed(raw, offset)]
        # A lost newline, or a hole before the line.
        lines = [self._plain(raw[:at])] if raw[:at].strip(b"\0 \t\r") else []
        while at >= 0:
            following = raw.find(PREFIX, at + 1)
            lines.append(self._sealed(raw[at:] if following < 0 else raw[at:following], offset + at))
            at = following
        return lines

    def judge(self) -> None:
        if self._refusal is not None and not self._opened:
            remedy = (
                ""
                if isinstance(self._refusal, ForeignKey)
                else "; `nanobot security rekey` takes in plain files"
            )
            raise StoreError(f"session file {self._name}: {self._refusal}{remedy}")
        if self._moved:
            logger.warning("session file {}: bytes were removed or added outside", self._name)

    def _sealed(self, raw: bytes, offset: int) -> bytes:
        try:
            text, position = self._sealer.open_line(raw, self._name)
        except Unsealable as error:
            if isinstance(error, ForeignKey):
                self._refusal = error
            return refused(raw)
        if position <= self._reached:  # exchanged, or put in twice
            return refused(raw)
        self._opened += 1
        self._reached = position
        self._moved = self._moved or position != offset
        return text

    def _plain(self, raw: bytes) -> bytes:
        if self._sealer.plain or not raw.strip(b"\0 \t\r"):
            self._opened += 1
            return raw
        self._refusal = self._refusal or Unsealable("it is not sealed")
        return refused(raw)


def folder_at(directory: Path | None, sealer: Sealer | None = None) -> Folder:
    """Where the session files of a directory are read and written; without a directory, in memory.

    Raises StateSealed where the state around the directory is encrypted and its key is not here.
    """
    if directory is None:
        return MemoryFolder()
    sealer = sealer or state_key.found(directory.parent)
    return DiskFolder(directory) if sealer is None else SealedFolder(directory, sealer)


def refused(raw: bytes) -> bytes:
    return REFUSED + b64encode(raw)


def of_lines(name: str) -> bool:
    return name.endswith(".jsonl") or ".jsonl.corrupt-" in name
