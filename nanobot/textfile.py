"""A text file that is read again only when it changed: what prompts and skills are made of."""

import os
import stat
from pathlib import Path

from nanobot.security.paths import HIDDEN

MAX_BYTES = 256 * 1024  # nothing a model is told at every turn may be larger

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)  # a FIFO must not hold the event loop


class TextFile:
    """A file's text and the signature it was read under.

    With `within`, the file must really lie in that directory and outside its private part: the
    agent can write links into its workspace, and what they point to must not reach a model. A file that is absent,
    refused or not text counts as empty; `problem` then says why, and is empty for one that is simply absent.
    """

    def __init__(self, path: Path, *, within: Path | None = None) -> None:
        self.path = path
        self.text = ""
        self.problem = ""
        self._name = str(path)
        self._within = within
        self._signature: tuple[int, ...] | None = ()  # of no file, so that the first look always reads

    def changed(self) -> bool:
        """Look at the file, one stat; read it if it is not the one read before. Whether it was read or vanished."""
        try:
            found = self.path.stat()
            signature = (found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns)
        except (OSError, ValueError):
            signature = None
        if signature == self._signature:
            return False
        self._signature = signature
        self.text, self.problem = ("", "") if signature is None else self._read()
        return True

    @property
    def exists(self) -> bool:
        """Whether there was a file at the last look, readable or not."""
        return bool(self._signature)

    def _read(self) -> tuple[str, str]:
        try:
            handle = os.open(self._name, _FLAGS)
        except OSError as error:
            return "", f"cannot be read: {error.strerror}"
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return "", "is not a regular file"
            if self._within is not None and not _inside(handle, self._name, self._within):
                return "", "leads out of the workspace or into its private part"
            try:
                raw = file.read(MAX_BYTES + 1)
            except OSError as error:
                return "", f"cannot be read: {error.strerror}"
        if len(raw) > MAX_BYTES:
            return "", f"is larger than {MAX_BYTES // 1024} kB"
        try:
            return raw.decode("utf-8-sig").replace("\r\n", "\n"), ""
        except UnicodeDecodeError:
            return "", "is not UTF-8 text"


def _inside(handle: int, name: str, root: Path) -> bool:
    """Whether the opened file lies in the public part of `root`; asks the kernel for its name where it can."""
    try:
        real = Path(f"/proc/self/fd/{handle}").readlink()
    except OSError:
        real = Path(os.path.realpath(name))
    base = Path(os.path.realpath(root))
    if not real.is_relative_to(base):
        return False
    parts = real.relative_to(base).parts
    return bool(parts) and parts[0] not in HIDDEN
