"""The files of outside agents' turns, `children/<id>/turn_<n>.…`: plain while one is written, sealed once it has ended.

An agent of others writes them itself and goes on without us when the gateway dies, so they cannot be sealed on their way
to the disk. Afterwards each is written anew in lines of the same form as a session file's, bound to file and position.
A sealed line holds a block of the file, not a line of it: many short ones would else grow a hundredfold.
"""

import io
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nanobot.errors import StoreError
from nanobot.security import tree
from nanobot.security.sealing import PREFIX, Sealer, Unsealable

FOLDER = "children"
BLOCK = 1 << 18  # bytes sealed together
_LONGEST = BLOCK * 2  # bytes of a sealed line; base64 makes four of three
_BARE = (
    "exit",
    "new",
    "in",
    "times",
)  # endings of files without words: how a turn ended, a pipe, when it was read


def marker_of(child: str, turn: int) -> str:
    """What the processes of a turn carry in their environment, and are found by."""
    return f"child:{child}:{turn}"


class TurnFiles:
    """The folder of all sub-sessions' turns. Every method blocks for the disk; none changes a file that is in use."""

    def __init__(self, state: Path, sealer: Sealer | None = None) -> None:
        self.state = state
        self.folder = state / FOLDER
        self._sealer = sealer

    def open(self, path: Path, *, live: bool = True) -> io.RawIOBase:
        """What was written to a file; it may still grow where it is `live`, and is plain then.

        Raises FileNotFoundError, and StoreError for one that does not open or should be sealed and is not.
        """
        file = path.open("rb", buffering=0)
        if self._sealer is None:
            return file
        if file.read(len(PREFIX)) == PREFIX:
            file.seek(0)
            return _Opened(file, self._name(path), self._sealer)
        if not live and not self._sealer.plain and file.seek(0, os.SEEK_END):
            file.close()
            raise StoreError(f"{self._name(path)}: it is not sealed; `nanobot security rekey` takes it in")
        file.seek(0)
        return file

    def tail(self, path: Path, size: int) -> bytes:
        """The last bytes of what was written; nothing where there is no file."""
        try:
            file = self.open(path)
        except FileNotFoundError:
            return b""
        with file:
            if not isinstance(file, _Opened):
                file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            end = b""
            while piece := file.read(BLOCK):
                end = (end + piece)[-size:]
            return end

    def is_plain(self, path: Path) -> bool:
        """Whether a file lies there as the agent wrote it. Raises FileNotFoundError."""
        with path.open("rb", buffering=0) as file:
            return self._sealer is None or file.read(len(PREFIX)) != PREFIX

    def is_current(self, path: Path) -> bool:
        """Whether a file is written as it would be now. It is put in place whole, so its first line tells."""
        if self._sealer is None:
            return True
        with path.open("rb") as file:
            head = file.read(len(PREFIX) + 64)
        return not head or self._sealer.line_is_current(head)

    def seal(self, path: Path) -> None:
        """Write a file anew as it is written now. Raises OSError and StoreError and leaves it as it was then."""
        if not self.is_current(path):
            with self.open(path) as source:
                self._write(path, source)

    def seal_turn(self, folder: Path, turn: int) -> None:
        """Seal what a turn left, with all its tries."""
        for path in (*folder.glob(f"turn_{turn}.*"), *_litter(folder)):
            if path.name[0] == ".":
                path.unlink(missing_ok=True)
            elif _holds_words(path):
                self.seal(path)

    def move(self, path: Path, new: Path) -> None:
        """Give a file another name, by which it is bound from then on. Raises FileNotFoundError."""
        with self.open(path) as source:
            if isinstance(source, _Opened):
                self._write(new, source)
                path.unlink()
                return
        path.rename(new)
        if _holds_words(new):
            self.seal(new)

    def all(self) -> Iterator[Path]:
        """All files that hold words, and are not being written."""
        for folder in sorted(self.folder.glob("*/")):
            for path in sorted(folder.glob("turn_*")):
                if _holds_words(path) and not self.in_use(path):
                    yield path

    def used(self) -> list[Path]:
        """The files of turns that run."""
        return [path for path in self.folder.glob("*/turn_*") if _holds_words(path) and self.in_use(path)]

    def in_use(self, path: Path) -> bool:
        """Whether an agent may still write it: its turn has not told how it ended, and its processes are there."""
        turn, _, ending = path.name.removeprefix("turn_").partition(".")
        if not turn.isdecimal() or "." in ending or path.with_name(f"turn_{turn}.exit").exists():
            return False
        return bool(tree.marked(marker_of(path.parent.name, int(turn))))

    def clear(self) -> None:
        """Remove what kills left half written."""
        for folder in self.folder.glob("*/"):
            for path in _litter(folder):
                path.unlink(missing_ok=True)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.state).as_posix()

    def _write(self, path: Path, source: io.RawIOBase) -> None:
        """Put a file in place whole and durably, sealed for its name; what does not open of the source ends it."""
        assert self._sealer is not None
        name, position = self._name(path), 0
        part = path.with_name(f".{path.name[:80]}.{os.urandom(6).hex()}.part")
        try:
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                while block := source.read(BLOCK):
                    if self._sealer.current:
                        block = self._sealer.seal_line(block, name, position) + b"\n"
                    file.write(block)
                    position += len(block)
                file.flush()
                os.fsync(fd)
            _whole(name, source)
            part.replace(path)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise
        directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


class _Opened(io.RawIOBase):
    """A sealed file as the bytes that were sealed. A damaged piece reads as a line end; `refused` says what was."""

    def __init__(self, file: io.FileIO, name: str, sealer: Sealer) -> None:
        self._file = io.BufferedReader(file, BLOCK)
        self._name = name
        self._sealer = sealer
        self._rest = memoryview(b"")
        self._offset = 0
        self.refused: Unsealable | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        room = memoryview(buffer)  # type: ignore[arg-type]
        while not self._rest:
            line = self._file.readline(_LONGEST)
            if not line:
                return 0
            self._rest = memoryview(self._block(line))
            self._offset += len(line)
        size = min(len(room), len(self._rest))
        room[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Forwards from the beginning only."""
        assert whence == io.SEEK_SET
        left = offset
        while left and (piece := self.read(min(left, BLOCK))):
            left -= len(piece)
        return offset - left

    def close(self) -> None:
        self._file.close()
        super().close()

    def _block(self, line: bytes) -> bytes:
        try:
            text, position = self._sealer.open_line(line.removesuffix(b"\n"), self._name)
        except Unsealable as error:
            self.refused = error
            return b"\n"
        if position == self._offset:
            return text
        self.refused = Unsealable("it was changed, cut or moved")
        return b"\n"


def _whole(name: str, source: io.RawIOBase) -> None:
    if isinstance(source, _Opened) and source.refused:
        raise StoreError(f"{name}: {source.refused}")


def _holds_words(path: Path) -> bool:
    return path.suffix.removeprefix(".") not in _BARE and path.is_file()


def _litter(folder: Path) -> Iterator[Path]:
    return folder.glob(".turn_*.part")
