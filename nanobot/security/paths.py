# ruff: noqa: PTH116, PTH118 - the functions of os take directory descriptors, and follow no link unasked
"""Containment of paths: what a tool names is opened inside the workspace, or not at all.

Two steps. `locate` resolves links and decides by name. Then the resolved path is walked from the workspace's root
by directory descriptors that follow no link, so a link swapped in between the two steps is met as a link and refused.
Only the standard library is imported, since the search worker runs without any other.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from nanobot.errors import Refused, ToolError

HIDDEN = (".nanobot", "config.toml", "channels")
# The gateway renders them, so writing one would be writing the gateway's own prompts.
READ_ONLY = ("templates",)

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not block the opening
_MARGIN = 2.0  # seconds: file systems stamp changes more coarsely than clocks tell time

Identity = tuple[int, int]  # device, inode


class Entry(NamedTuple):
    """One name in a directory; a link is described as itself, never as what it points to."""

    name: str
    kind: str  # file | directory | link | other
    size: int
    modified: float  # epoch seconds


class Boundary:
    """A workspace, seen from inside.

    `hidden` and the names HIDDEN at its top are absent at every level of security, by any name: also through symbolic
    and hard links, and in any spelling of upper and lower case. Methods raise Refused for what security denies and
    ToolError for the rest.
    """

    def __init__(self, root: Path, hidden: Sequence[Path] = (), *, bare: bool = False) -> None:
        """`bare`: the root is no workspace of nanobot's, so names such as config.toml mean nothing there."""
        self.given = root
        self.root = Path(os.path.realpath(root))
        own = () if bare else (self.root / name for name in HIDDEN)
        self.hidden = tuple(dict.fromkeys([*own, *(Path(os.path.realpath(place)) for place in hidden)]))
        self.read_only = () if bare else tuple(self.root / name for name in READ_ONLY)
        self._linked: tuple[float, frozenset[Identity]] = (0.0, frozenset())

    def within(self, root: Path) -> "Boundary":
        """The boundary of another working tree that keeps hiding what this one hides."""
        if root in (self.given, self.root):
            return self
        return Boundary(root, (*self.hidden, *self.read_only), bare=True)

    def locate(self, path: str, *, writing: bool = False) -> tuple[str, ...]:
        """The parts of the real path below the root; () is the root itself."""
        if not path or "\0" in path:
            raise ToolError("the path is empty or holds a NUL character")
        if path.startswith("~"):
            raise Refused(
                f"{path}: home directories are outside the workspace", "use a path relative to the workspace"
            )
        written = os.path.normpath(os.path.join(self.root, path))
        try:
            real = os.path.realpath(os.path.join(self.root, path))
        except (OSError, ValueError) as error:  # a link went away while it was read, or no possible file name
            raise ToolError(f"{path!r} cannot be resolved: {error}") from error
        if real != str(self.root) and not real.startswith(os.path.join(self.root, "")):
            raise Refused(
                f"{path} is outside the workspace {self.root}", "use a path relative to the workspace"
            )
        if any(_covers(place, name) for place in self.hidden for name in (written, real)):
            raise Refused(f"{path} belongs to nanobot itself, and tools cannot reach it")
        if writing and any(_covers(place, real) for place in self.read_only):
            raise Refused(f"{path} can be read but not changed by tools")
        return Path(real).relative_to(self.root).parts

    def absolute(self, path: str) -> Path:
        """The real path for a reader of this process's own; unlike opening by this class it is not safe from races."""
        return self.root.joinpath(*self.locate(path))

    @contextmanager
    def directory(self, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
        """A descriptor of the directory, reached step by step without following a link."""
        hidden = self._hidden_identities()
        try:
            current = os.open(self.root, _DIRECTORY)
        except OSError as error:
            raise ToolError(f"{self.root}: {error.strerror}") from error
        try:
            for depth, part in enumerate(parts):
                shown = "/".join(parts[: depth + 1])
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=current)
                try:
                    following = os.open(part, _DIRECTORY, dir_fd=current)
                except OSError as error:
                    raise _reason(error, shown, current, part) from error
                os.close(current)
                current = following
                if _identity(os.fstat(current)) in hidden:
                    raise Refused(f"{shown} belongs to nanobot itself, and tools cannot reach it")
            yield current
        finally:
            os.close(current)

    @contextmanager
    def file(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """A descriptor, for reading, of a regular file that no hidden place shares."""
        with self.file_at(self.locate(path)) as opened:
            yield opened

    @contextmanager
    def file_at(self, parts: Sequence[str]) -> Iterator[tuple[int, os.stat_result]]:
        shown = "/".join(parts) or "."
        if not parts:
            raise ToolError(f"{shown} is a directory", "use list_dir")
        with self.directory(parts[:-1]) as parent:
            try:
                opened = os.open(parts[-1], _FILE, dir_fd=parent)
            except OSError as error:
                raise _reason(error, shown, parent, parts[-1]) from error
        try:
            facts = os.fstat(opened)
            if stat.S_ISDIR(facts.st_mode):
                raise ToolError(f"{shown} is a directory", "use list_dir")
            if not stat.S_ISREG(facts.st_mode):
                raise Refused(f"{shown} is not a regular file")
            self._refuse_shared(facts, shown)
            yield opened, facts
        finally:
            os.close(opened)

    def read(self, path: str, limit: int) -> bytes:
        """The whole file; ToolError where it has more than `limit` bytes."""
        with self.file(path) as (opened, facts):
            if facts.st_size > limit:
                raise ToolError(
                    f"{path} has {facts.st_size:,} bytes, more than the {limit:,} allowed", "use grep or exec"
                )
            with os.fdopen(os.dup(opened), "rb") as stream:
                data = stream.read(limit + 1)
        if len(data) > limit:
            raise ToolError(f"{path} grew beyond the {limit:,} bytes allowed while it was read")
        return data

    def write(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        """Replace or create a file in one step, durable on return; True where it is new. Parents are created."""
        parts = self.locate(path, writing=True)
        shown = "/".join(parts) or "."
        if not parts:
            raise ToolError(f"{shown} is a directory")
        mode = self._mode(parts)
        try:
            with self.directory(parts[:-1], create=True) as parent:
                _replace(parent, parts[-1], data, 0o644 if mode is None else mode, durable=durable)
        except OSError as error:
            raise ToolError(f"{shown}: {error.strerror}") from error
        return mode is None

    def exists(self, path: str) -> bool:
        """Whether a regular file is there that tools may see."""
        return self._mode(self.locate(path)) is not None

    def remove(self, path: str) -> None:
        """Unlink a file; one that is not there is well."""
        parts = self.locate(path, writing=True)
        try:
            with self.directory(parts[:-1]) as parent:
                os.unlink(parts[-1], dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ToolError(f"{path}: {error.strerror}") from error
        except ToolError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise

    def scan(self, parts: Sequence[str]) -> list[Entry]:
        """What a directory holds, sorted by name, without what is hidden."""
        hidden = {
            place.name.casefold() for place in self.hidden if place.parent == self.root.joinpath(*parts)
        }
        found = []
        with self.directory(parts) as opened, os.scandir(opened) as entries:
            for entry in entries:
                if entry.name.casefold() in hidden:
                    continue
                with suppress(FileNotFoundError):
                    found.append(_entry(entry.name, entry.stat(follow_symlinks=False)))
        return sorted(found)

    def walk(
        self, path: str = ".", skip: Sequence[str] = ()
    ) -> Iterator[tuple[tuple[str, ...], list[Entry]]]:
        """Every directory below, in order, with what it holds; links are named but not followed."""
        first = self.locate(path)
        pending = [first]
        while pending:
            parts = pending.pop()
            try:
                entries = [entry for entry in self.scan(parts) if entry.name not in skip]
            except ToolError:
                if parts == first:
                    raise
                continue  # removed, swapped or closed to us since its parent was read
            yield parts, entries
            pending.extend((*parts, entry.name) for entry in reversed(entries) if entry.kind == "directory")

    def _mode(self, parts: Sequence[str]) -> int | None:
        try:
            with self.file_at(parts) as (_, facts):
                return stat.S_IMODE(facts.st_mode)
        except ToolError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def _hidden_identities(self) -> set[Identity]:
        found = set()
        for place in self.hidden:
            with suppress(OSError):
                found.add(_identity(os.stat(place)))
        return found

    def _refuse_shared(self, facts: os.stat_result, shown: str) -> None:
        """Refuse a hidden file under another name. A hard link changes the file's ctime, so an older look stays true.

        Unless the clock was set back since: then the look is no older than what it is compared with.
        """
        if facts.st_nlink < 2 and _identity(facts) not in self._hidden_identities():
            return
        taken, inodes = self._linked
        now = time.time()
        if facts.st_ctime > taken - _MARGIN or now < taken:
            taken, inodes = now, frozenset(_inodes(self.hidden))
            self._linked = (taken, inodes)
        if _identity(facts) in inodes:
            raise Refused(f"{shown} is a second name of a file of nanobot itself, and tools cannot reach it")


def _covers(place: Path, real: str) -> bool:
    folded, inner = str(place).casefold(), real.casefold()
    return inner == folded or inner.startswith(folded + os.sep)


def _identity(facts: os.stat_result) -> Identity:
    return facts.st_dev, facts.st_ino


def _entry(name: str, facts: os.stat_result) -> Entry:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    return Entry(name, kinds.get(stat.S_IFMT(facts.st_mode), "other"), facts.st_size, facts.st_mtime)


def _inodes(places: Sequence[Path]) -> Iterator[Identity]:
    for place in places:
        with suppress(OSError):
            yield _identity(os.stat(place))
        for folder, _, files in os.walk(place):
            for name in files:
                with suppress(OSError):
                    yield _identity(os.lstat(os.path.join(folder, name)))


def _reason(error: OSError, shown: str, parent: int, name: str) -> ToolError:
    with suppress(OSError):
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return Refused(f"{shown} became a link while it was opened")
    if error.errno == errno.ENOENT:
        return ToolError(f"{shown} does not exist", "use list_dir or find_files to see what is there")
    if error.errno == errno.ENOTDIR:
        return ToolError(f"{shown} is not a directory")
    return ToolError(f"{shown}: {error.strerror}")


def _replace(parent: int, name: str, data: bytes, mode: int, *, durable: bool) -> None:
    temporary = f".{name[:80]}.{os.urandom(6).hex()}.tmp"
    opened = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent
    )
    try:
        with os.fdopen(opened, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            if durable:
                os.fsync(stream.fileno())
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        if durable:
            os.fsync(parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=parent)
        raise
