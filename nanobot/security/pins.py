"""Skills the owner has looked at, each pinned by the hash of its whole folder: `skills.json` of the state directory."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

NAME = "skills.json"
MOST_FILES, MOST_BYTES = 2_000, 64 << 20  # of one skill; larger ones cannot be pinned


class Pins:
    """`required`: a skill of the workspace that nobody pinned is not used either."""

    def __init__(self, state: Path, *, required: bool = False) -> None:
        self._file = state / NAME
        self._required = required
        self._stamp: tuple[int, int] | None = None
        self._pins: dict[str, str] = {}

    def refuses(self, name: str, folder: Path) -> str:
        """Why a skill of the workspace must not be used; "" where it may. One without a pin costs one stat."""
        pinned = self.all().get(name)
        if pinned is None:
            return f"it is not pinned; look at it, then: nanobot skills pin {name}" if self._required else ""
        if digest(folder) != pinned:
            return f"it was changed since it was pinned; look at it, then: nanobot skills pin {name}"
        return ""

    def all(self) -> dict[str, str]:
        """The hashes by name. Raises OSError or ValueError for a file that cannot be read."""
        try:
            found = self._file.stat()
        except FileNotFoundError:
            self._pins, self._stamp = {}, None
            return self._pins
        stamp = (found.st_mtime_ns, found.st_size)
        if stamp != self._stamp:
            self._pins = msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
            self._stamp = stamp
        return self._pins

    def pin(self, name: str, folder: Path) -> str:
        """Remember a skill as it is now; returns its hash. Raises OSError for a folder that cannot be read whole."""
        found = digest(folder)
        if not found:
            raise OSError(errno.EFBIG, "too large to be pinned", str(folder))
        self._write({**self.all(), name: found})
        return found

    def unpin(self, name: str) -> bool:
        pins = dict(self.all())
        if pins.pop(name, None) is None:
            return False
        self._write(pins)
        return True

    def _write(self, pins: dict[str, str]) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self._file.with_name(f".{NAME}.{os.urandom(6).hex()}.tmp")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(pins, order="sorted")))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._file)
        finally:
            temporary.unlink(missing_ok=True)  # what a full disk left of it


def digest(folder: Path) -> str:
    """The hash of every file below, with its name and whether it can be run; "" for more than anybody looks at."""
    whole, size = hashlib.sha256(), 0
    for count, path in enumerate(sorted(_files(folder))):
        if count >= MOST_FILES:
            return ""
        name = path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape")
        if path.is_symlink():
            kind, content = b"link", os.fsencode(path.readlink())
        else:
            kind, content = _read(path, MOST_BYTES - size)
            size += len(content)
            if size > MOST_BYTES:
                return ""
        whole.update(b"%d %s %d %s\n" % (len(name), name, len(content), kind))
        whole.update(content)
    return whole.hexdigest()


def _read(path: Path, most: int) -> tuple[bytes, bytes]:
    """What kind of file it is, and what is in it, hardly more than asked for; a pipe must not hold whoever looks."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return b"program" if mode & 0o111 else b"file", file.read(most + 1)


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        yield from (Path(place, name) for name in names)
        yield from (Path(place, name) for name in folders if Path(place, name).is_symlink())
