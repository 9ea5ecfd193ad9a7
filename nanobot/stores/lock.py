"""The lock that lets one gateway run on a state directory, and tells others where it listens."""

import fcntl
import os
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Self

import msgspec

from nanobot.clock import Clock, SystemClock, stamp
from nanobot.errors import StateLocked

NAME = "gateway.lock"
TRIES, PAUSE = 5, 0.02  # whoever asks `holder` has the lock for an instant; that is no second gateway


class Holder(msgspec.Struct, frozen=True):
    """Who holds the lock. `address` is the URL it listens on, "" before it does."""

    pid: int
    started: str
    address: str = ""


class StateLock:
    """Holds the directory from `acquire` to `release`; the kernel releases it when the process dies, however it dies."""

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self.path = directory / NAME
        self._started: datetime = (clock or SystemClock()).now()
        self._fd: int | None = None

    def acquire(self) -> None:
        """Raises StateLocked, which names the other gateway's pid."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            taken = any(take(fd) for _ in range(TRIES))
            other = parse(os.pread(fd, 4096, 0))
        except OSError:
            os.close(fd)
            raise
        if not taken:
            os.close(fd)
            who = f" (pid {other.pid}, since {other.started})" if other else ""
            raise StateLocked(
                f"Another gateway{who} runs on {self.path.parent}. Stop it first, or choose another workspace with -w."
            )
        self._fd = fd
        with suppress(OSError):  # a full disk must not keep out the command that makes room
            self.set_address("")

    def set_address(self, url: str) -> None:
        """Tell others where the gateway listens. Only with the lock held."""
        assert self._fd is not None, "the lock is not held"
        content = msgspec.json.encode(Holder(os.getpid(), stamp(self._started), url)) + b"\n"
        # One write first, then the cut: a reader sees the old line, the new one, or the new one with a tail it ignores.
        os.pwrite(self._fd, content, 0)
        os.ftruncate(self._fd, len(content))

    def release(self) -> None:
        """Give the directory back. The file stays: removing it would let two gateways lock two files of one name."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.ftruncate(fd, 0)
            os.close(fd)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def take(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(PAUSE)
        return False
    return True


def holder(directory: Path) -> Holder | None:
    """The gateway that runs on this directory now; None where none does."""
    try:
        fd = os.open(directory / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return parse(os.pread(fd, 4096, 0))
    finally:
        os.close(fd)
    return None


def read(directory: Path) -> str | None:
    """The address of the gateway that runs on this directory; None where none does or it does not listen yet."""
    found = holder(directory)
    return found.address or None if found else None


def parse(content: bytes) -> Holder | None:
    try:
        return msgspec.json.decode(content.split(b"\n", 1)[0], type=Holder)
    except msgspec.MsgspecError:
        return None  # the other one is just writing its first line
