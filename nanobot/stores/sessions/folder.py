"""Where session files lie: a folder of the disk, or of memory. Names are relative: `stem.jsonl`, `archive/stem/0001.jsonl.gz`."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from nanobot.errors import StoreError, StoreFull

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Stat(msgspec.Struct, frozen=True):
    """What tells whether a file has changed."""

    inode: int
    size: int
    mtime: int  # nanoseconds


class Folder(Protocol):
    """Files of bytes. Every method may be called from any thread; errors are StoreError and StoreFull."""

    sealed: (
        bool  # sizes and times are those of encrypted files, which are only ever read from their beginning
    )

    def read(self, name: str, start: int = 0) -> bytes | None:
        """The bytes from `start` on; None where there is no such file."""
        ...

    def append(self, name: str, data: bytes, *, sync: bool = True) -> int:
        """Add lines in one write, creating the file; returns where they begin. A failure leaves the file as it was."""
        ...

    def sync(self, name: str) -> None: ...

    def replace(self, name: str, data: bytes, *, keep_time: bool = False) -> None:
        """Put a file in place whole and durably: nobody ever sees half of it. Its old time may be kept."""
        ...

    def move(self, name: str, new: str) -> None: ...

    def delete(self, name: str) -> bool: ...

    def stat(self, name: str) -> Stat | None: ...

    def list(self, folder: str = "") -> Iterator[tuple[str, Stat]]:
        """The files directly in a folder; nothing where there is none."""
        ...


class DiskFolder:
    """Directories 0700, files 0600."""

    sealed = False

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._root = str(self.path)

    def read(self, name: str, start: int = 0) -> bytes | None:
        with _named(name):
            try:
                fd = os.open(f"{self._root}/{name}", os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            with os.fdopen(fd, "rb", buffering=0) as file:
                if start:
                    file.seek(start)
                return file.read()

    def append(self, name: str, data: bytes, *, sync: bool = True) -> int:
        path = f"{self._root}/{name}"
        with _named(name):
            try:
                fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
                created = False
            except FileNotFoundError:
                self._make(os.path.dirname(path))  # noqa: PTH120 - strings on the path of every turn
                fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
                created = True
            try:
                before = os.fstat(fd).st_size
                # A last line without its newline must not run into ours.
                torn = b"\n" if before and os.pread(fd, 1, before - 1) != b"\n" else b""
                try:
                    _write(fd, torn + self._coded(name, before + len(torn), data))
                    if sync:
                        os.fdatasync(fd)
                except OSError:
                    with suppress(OSError):
                        os.ftruncate(fd, before)
                    raise
            finally:
                os.close(fd)
            if created and sync:
                _sync_directory(os.path.dirname(path))  # noqa: PTH120
            return before

    def sync(self, name: str) -> None:
        with _named(name), suppress(FileNotFoundError):
            fd = os.open(f"{self._root}/{name}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            _sync_directory(self._root)

    def replace(self, name: str, data: bytes, *, keep_time: bool = False) -> None:
        target = self.path / name
        with _named(name):
            self._make(str(target.parent))
            temporary = target.parent / f".{target.name[:80]}.{os.urandom(8).hex()}.tmp"
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                    file.flush()
                    if keep_time:
                        with suppress(FileNotFoundError):
                            old = target.stat()
                            os.utime(fd, ns=(old.st_atime_ns, old.st_mtime_ns))
                    os.fsync(fd)
                temporary.replace(target)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
            _sync_directory(str(target.parent))

    def move(self, name: str, new: str) -> None:
        with _named(name):
            (self.path / name).replace(self.path / new)
            _sync_directory(self._root)

    def delete(self, name: str) -> bool:
        """Remove a file, or a folder with the files in it."""
        target = self.path / name
        with _named(name):
            try:
                if target.is_dir():
                    for file in target.iterdir():
                        file.unlink(missing_ok=True)
                    target.rmdir()
                else:
                    target.unlink()
            except FileNotFoundError:
                return False
            _sync_directory(str(target.parent))
            return True

    def stat(self, name: str) -> Stat | None:
        with _named(name):
            try:
                found = os.stat(f"{self._root}/{name}")  # noqa: PTH116
            except FileNotFoundError:
                return None
            return Stat(found.st_ino, found.st_size, found.st_mtime_ns)

    def list(self, folder: str = "") -> Iterator[tuple[str, Stat]]:
        with (
            _named(folder),
            suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(f"{self._root}/{folder}") as entries,
        ):
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # deleted while we looked
                    continue
                if found.st_mode & 0o170000 == 0o100000:
                    yield entry.name, Stat(found.st_ino, found.st_size, found.st_mtime_ns)

    def _coded(self, name: str, position: int, data: bytes) -> bytes:  # noqa: ARG002 - for folders that seal
        """Lines as they are written at this position of a file."""
        return data

    def _make(self, path: str) -> None:
        """Create a directory and what is missing above it, each with mode 0700."""
        if not os.path.isdir(path):  # noqa: PTH112
            parent = os.path.dirname(path)  # noqa: PTH120
            self._make(parent)
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)  # noqa: PTH102
            _sync_directory(parent)


class MemoryFolder:
    """The same without a disk."""

    sealed = False

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}
        self._changes = 0
        self._stats: dict[str, Stat] = {}

    def read(self, name: str, start: int = 0) -> bytes | None:
        data = self._files.get(name)
        return None if data is None else bytes(data[start:])

    def append(self, name: str, data: bytes, *, sync: bool = True) -> int:  # noqa: ARG002 - there is no disk
        file = self._files.setdefault(name, bytearray())
        before = len(file)
        file += data
        self._changed(name)
        return before

    def sync(self, name: str) -> None: ...

    def replace(self, name: str, data: bytes, *, keep_time: bool = False) -> None:  # noqa: ARG002 - no times either
        self._files[name] = bytearray(data)
        self._changed(name)

    def move(self, name: str, new: str) -> None:
        self._files[new] = self._files.pop(name)
        self._changed(new)

    def delete(self, name: str) -> bool:
        names = [one for one in self._files if one == name or one.startswith(f"{name}/")]
        for one in names:
            del self._files[one]
        return bool(names)

    def stat(self, name: str) -> Stat | None:
        return self._stats[name] if name in self._files else None

    def list(self, folder: str = "") -> Iterator[tuple[str, Stat]]:
        for name in list(self._files):
            parent, _, base = name.rpartition("/")
            if parent == folder:
                yield base, self._stats[name]

    def _changed(self, name: str) -> None:
        self._changes += 1
        self._stats[name] = Stat(self._changes, len(self._files[name]), self._changes)


def _write(fd: int, data: bytes) -> None:
    if os.write(fd, data) != len(data):
        raise OSError(errno.ENOSPC, "only part of the line was written")


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Say which file an error of the operating system is about, in our own words."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise StoreFull(f"session file {name}: the disk is full") from error
        raise StoreError(f"session file {name}: {error.strerror or error}") from error


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:  # some network file systems cannot
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(fd)
