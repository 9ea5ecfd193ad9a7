"""A process and everything that came of it: found in /proc, killed, and gone before the answer.

A process is known by its id and start time, since ids are reused. Descendants are found by parent, by session and
by a marker in their environment, which also finds a daemon whose parents have left. A daemon that in addition
cleared its environment is found only by the sandbox, whose process namespace dies as one.
"""

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

MARKER = "NANOBOT_RUN"
OWNER = "NANOBOT_OWNER"  # the gateway a process may not outlive, as "<pid>.<start time>"
_ROUNDS = 100  # of 10 ms: how long killed processes may take to disappear
_PROC = Path("/proc")
_MOST = 20_000  # processes looked at; a machine with more has other worries
# Some hundred processes take 10 ms to look at. A thread of its own: it must not wait for tools whose disk hangs.
_table_reader = ThreadPoolExecutor(1, "process-table")


class Identity(msgspec.Struct, frozen=True):
    """A process for good. `started` is in clock ticks since the machine's start (proc(5), field 22)."""

    pid: int
    started: int


class Seen(msgspec.Struct, frozen=True):
    """A line of the process table."""

    identity: Identity
    parent: int
    session: int
    state: str  # Z is a zombie: dead, its parent has not looked yet


def identify(pid: int) -> Identity | None:
    """None where there is no such process."""
    seen = _look(pid)
    return seen.identity if seen else None


def alive(identity: Identity) -> bool:
    seen = _look(identity.pid)
    return seen is not None and seen.identity == identity and seen.state not in "ZX"


def members(root: Identity, marker: str = "") -> list[Seen]:
    """The root and all that came of it; `marker` is the value of NANOBOT_RUN given to the root."""
    return forest({root: marker})


def forest(roots: Mapping[Identity, str]) -> list[Seen]:
    """Several roots, each with its marker, and all that came of them, in one look at the process table."""
    table = {seen.identity.pid: seen for seen in _table()}
    found: dict[int, Seen] = {}
    for root, marker in roots.items():
        sought = f"{MARKER}={marker}".encode() if marker else b""
        for pid, seen in table.items():
            started_later = seen.identity.started >= root.started
            if seen.identity == root or (
                started_later and (seen.session == root.pid or _marked(pid, sought))
            ):
                found[pid] = seen
    grown = True
    while grown:
        children = {p: s for p, s in table.items() if s.parent in found and p not in found}
        found.update(children)
        grown = bool(children)
    return list(found.values())


def marked(marker: str) -> list[Seen]:
    """Every process whose environment holds this value of NANOBOT_RUN, oldest first."""
    sought = f"{MARKER}={marker}".encode()
    found = [seen for seen in _table() if _marked(seen.identity.pid, sought)]
    return sorted(found, key=_age)


def marks() -> set[str]:
    """Every value of NANOBOT_RUN that a process has in its environment."""
    return {_variable(seen.identity.pid, MARKER) for seen in _table()} - {""}


def owner() -> str:
    """This process, as the value of NANOBOT_OWNER."""
    ours = identify(os.getpid())
    return f"{os.getpid()}.{ours.started if ours else 0}"


def abandoned() -> list[Identity]:
    """Processes whose gateway is gone, oldest first: it was killed before it could end them."""
    found = []
    for seen in _table():
        value = _variable(seen.identity.pid, OWNER)
        pid, _, started = value.partition(".")
        if pid.isdecimal() and started.isdecimal() and not alive(Identity(int(pid), int(started))):
            found.append(seen)
    return [seen.identity for seen in sorted(found, key=_age)]


def boot_id() -> str:
    """Names this run of the machine: ids and start times mean nothing beyond it."""
    return (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()


async def kill_tree(root: Identity, marker: str = "", known: Iterable[Identity] = ()) -> None:
    """SIGKILL to the whole tree, until nothing of it runs.

    `known` are processes seen in it earlier, which may have left it since. Orphans that became this process's own
    children are reaped; the root itself is left to whoever waits for it.
    """
    known = set(known)
    loop = asyncio.get_running_loop()
    for _ in range(_ROUNDS):
        found = await loop.run_in_executor(_table_reader, members, root, marker)
        known.update(seen.identity for seen in found)
        there = [seen for pid in known if (seen := _look(pid.pid)) and seen.identity in known]
        running = [seen for seen in there if seen.state not in "ZX"]
        ours = [s for s in there if s.state == "Z" and s.parent == os.getpid() and s.identity != root]
        for seen in sorted(running, key=_age):
            send(seen.identity, signal.SIGKILL)
        for seen in ours:
            with suppress(ChildProcessError):
                os.waitpid(seen.identity.pid, os.WNOHANG)  # noqa: ASYNC222 - does not wait
        if not running and not ours:
            return
        await asyncio.sleep(0.01)


def _age(seen: Seen) -> tuple[int, int]:
    """Parents before their children, so that none is left to react to a child's death."""
    return seen.identity.started, seen.identity.pid


def send(identity: Identity, number: signal.Signals) -> None:
    """A signal by descriptor, so that a process which took over the id meanwhile is not hit."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    try:
        if identify(identity.pid) == identity:
            signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        os.close(descriptor)


def _table() -> Iterator[Seen]:
    numbered = (entry for entry in _PROC.iterdir() if entry.name.isdigit())
    for entry in islice(numbered, _MOST):
        if seen := _look(int(entry.name)):
            yield seen


def _look(pid: int) -> Seen | None:
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # the name may hold spaces and parentheses, so fields are counted from its last closing one
    fields = line[line.rindex(b")") + 2 :].split()
    return Seen(Identity(pid, int(fields[19])), int(fields[1]), int(fields[3]), fields[0].decode())


def _variable(pid: int, name: str) -> str:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    start = f"{name}=".encode()
    return next(
        (one[len(start) :].decode("ascii", "replace") for one in environment if one.startswith(start)), ""
    )


def _marked(pid: int, sought: bytes) -> bool:
    if not sought:
        return False
    try:
        return sought in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
