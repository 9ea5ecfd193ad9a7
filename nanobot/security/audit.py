"""The audit trail: one JSON line per event, each holding the hash of the line before it.

Editing, removing, inserting or reordering lines breaks the chain at the first line concerned. The number and hash of
the last line also stand in `audit.head` beside it, so that lines cut off at the end are missed. What nothing here can
show: both files rewritten by someone who may write them.
"""

import errno
import fcntl
import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import msgspec

from nanobot.clock import Clock, SystemClock, stamp

GENESIS = "0" * 64
_SEAL = b',"hash":"'
CUT = "audit_cut"  # the event that says that lines before it are missing
_TAIL = 1 << 20  # bytes read at the end of the file to find its last line


class Report(msgspec.Struct, frozen=True):
    """What `verify` found. `line` is the first broken one (from 1) and 0 where none is.

    `torn` tells of an incomplete last line, which a crash may leave and the next start repairs.
    """

    ok: bool
    entries: int
    line: int = 0
    reason: str = ""
    torn: bool = False


class Audit:
    """Appends events; safe for several threads and processes. Written on return, not synced to the platter."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._descriptor = -1
        self._head = -1
        self._size = -1
        self._seq = 0
        self._last = GENESIS

    def append(self, kind: str, /, **details: Any) -> None:
        """Add an event. `details` must be JSON values without secrets; seq, at, kind, prev and hash are ours."""
        with self._lock:
            if self._descriptor < 0:
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
                self._descriptor = os.open(self.path, flags, 0o600)
                self._head = os.open(head_of(self.path), flags & ~os.O_APPEND, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                if os.fstat(self._descriptor).st_size != self._size:
                    self._catch_up()
                self._write(kind, details)
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Sync and close; a later append opens the file again."""
        with self._lock:
            if self._descriptor >= 0:
                os.fsync(self._descriptor)
                os.close(self._descriptor)
                os.close(self._head)
                self._descriptor = self._head = self._size = -1

    def _write(self, kind: str, details: dict[str, Any]) -> None:
        head = {"seq": self._seq + 1, "at": stamp(self._clock.now()), "kind": kind}
        line, digest = _sealed(head | details | head | {"prev": self._last})  # ours come first and win
        if os.write(self._descriptor, line) != len(line):
            self._size = -1  # the next append repairs what this one left
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._seq += 1
        self._last = digest
        self._size = os.fstat(self._descriptor).st_size
        os.pwrite(self._head, f"{self._seq:020d} {digest}\n".encode(), 0)

    def _catch_up(self) -> None:
        """Continue after the last complete line; cut what a crash left behind it and say so in the trail."""
        size = os.fstat(self._descriptor).st_size
        tail = os.pread(self._descriptor, _TAIL, max(0, size - _TAIL))
        torn = tail[tail.rfind(b"\n") + 1 :]
        lines = tail[: len(tail) - len(torn)].splitlines()
        self._seq, self._last = _end(lines[-1]) if lines else (0, GENESIS)
        known, _ = _read_head(os.pread(self._head, 100, 0))
        if torn:
            os.ftruncate(self._descriptor, size - len(torn))
            text = torn[:500].decode("utf-8", "replace")
            self._write("audit_repaired", {"removed_bytes": len(torn), "removed": text})
        if known > self._seq:
            self._write(CUT, {"missing": known - self._seq})


def verify(path: Path) -> Report:
    """Check the whole chain; reads line by line, so the file may be of any size."""
    previous, count, line, torn = GENESIS, 0, b"", False
    found = ""  # the hash of the line whose number `audit.head` has
    try:
        known, seal = _read_head(head_of(path).read_bytes())
    except FileNotFoundError:
        known, seal = 0, ""
    try:
        with path.open("rb") as stream:
            for line in stream:
                if not line.endswith(b"\n"):
                    torn = True
                    break
                reason, previous = _check(line[:-1], count + 1, previous)
                if reason:
                    return Report(ok=False, entries=count, line=count + 1, reason=reason)
                count += 1
                found = previous if count == known else found
    except FileNotFoundError:
        if not known:
            return Report(ok=True, entries=0, reason="there is no audit trail yet")
    if known > count + torn:  # a torn line is the last one that was noted
        missing = f"{known - count} entries are missing here: the end was cut off, or a power cut took it"
        return Report(ok=False, entries=count, line=count + 1, reason=missing, torn=torn)
    if found != seal and count >= known:
        return Report(ok=False, entries=count, line=known, reason="is not the line that was written there")
    return Report(ok=True, entries=count, torn=torn, reason="the last line is incomplete" if torn else "")


def head_of(path: Path) -> Path:
    return path.with_name("audit.head" if path.name == "audit.jsonl" else f"{path.name}.head")


def _read_head(text: bytes) -> tuple[int, str]:
    """The last line's number and hash; zero where nothing was noted yet."""
    number, _, seal = text.decode("ascii", "replace").strip().partition(" ")
    return (int(number), seal) if number.isdigit() else (0, "")


def _sealed(entry: dict[str, Any]) -> tuple[bytes, str]:
    body = msgspec.json.encode(entry)
    digest = hashlib.sha256(body).hexdigest()
    return body[:-1] + _SEAL + digest.encode() + b'"}\n', digest


def _check(line: bytes, number: int, previous: str) -> tuple[str, str]:
    """The reason why a line is broken ("" = it is not), and its hash."""
    body, seal, digest = line.rpartition(_SEAL)
    if not seal or digest[-2:] != b'"}':
        return "is not an entry of the audit trail", ""
    found = hashlib.sha256(body + b"}").hexdigest()
    if found.encode() != digest[:-2]:
        return "was changed: its hash does not match", ""
    try:
        entry = msgspec.json.decode(body + b"}", type=dict[str, Any])
    except msgspec.DecodeError:
        return "is not JSON", ""
    if entry.get("prev") != previous:
        return "does not follow the line before it: lines were removed, inserted or reordered", ""
    if entry.get("kind") == CUT:
        return f"says that {entry.get('missing')} entries before it were cut off", ""
    if entry.get("seq") != number:
        return f"has the number {entry.get('seq')} instead of {number}", ""
    return "", found


def _end(line: bytes) -> tuple[int, str]:
    """Number and hash of the last line; of a damaged one its own bytes' hash, so that verify still names it first."""
    try:
        entry = msgspec.json.decode(line, type=dict[str, Any])
        return int(entry["seq"]), str(entry["hash"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return 0, hashlib.sha256(line).hexdigest()
