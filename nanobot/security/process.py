"""Running one command: own session, limits, bounded output, a deadline, and nothing left behind."""

import asyncio
import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from nanobot.clock import to_its_end
from nanobot.messages import new_id
from nanobot.security import tree

OUTPUT_LIMIT = 1_000_000  # bytes kept of a command's output, half of them from its end
_DRAIN_SECONDS = 2.0  # what a pipe may take to end once every writer is dead
# The limits are set by a shell that becomes the command: a function run between fork and exec could deadlock.
_LIMITED = (
    '{ ulimit -c 0; ulimit -n 4096; [ "$1" -gt 0 ] && ulimit -f "$1"; [ "$2" -gt 0 ] && ulimit -d "$2"; } 2>/dev/null; '
    'shift 2; exec "$@"'
)


class Limits(msgspec.Struct, frozen=True):
    """Of each process of a command; 0 = none."""

    file_mb: int = 0
    memory_mb: int = 0  # writable memory (RLIMIT_DATA), since address space says little


class Finished(msgspec.Struct, frozen=True):
    """How a command ended. `code` is negative for a signal. `output` has stdout and stderr as they came."""

    code: int
    output: str
    seconds: float
    timed_out: bool = False
    left_out: int = 0  # bytes of the output's middle that were not kept


_running: dict[tree.Identity, tuple[str, str]] = {}


def of_session(session: str) -> dict[tree.Identity, str]:
    """The commands that a session runs now, each with its marker."""
    return {root: marker for root, (owner, marker) in list(_running.items()) if owner == session}


class HeadAndTail:
    """The first and the last bytes of a stream of any length."""

    def __init__(self, limit: int) -> None:
        self._room = limit // 2
        self._keep = limit - self._room
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._total = 0

    @property
    def left_out(self) -> int:
        return max(0, self._total - self._room - self._keep)

    def add(self, chunk: bytes) -> None:
        self._total += len(chunk)
        taken = min(len(chunk), self._room - len(self._head))
        self._head += chunk[:taken]
        if taken == len(chunk):
            return
        self._tail.append(chunk[taken:])
        self._tail_size += len(chunk) - taken
        while self._tail_size - len(self._tail[0]) >= self._keep:
            self._tail_size -= len(self._tail.popleft())

    def text(self) -> str:
        tail = b"".join(self._tail)
        note = f"\n[… {self.left_out:,} bytes left out …]\n".encode() if self.left_out else b""
        return (bytes(self._head) + note + tail[max(0, len(tail) - self._keep) :]).decode("utf-8", "replace")


async def run(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout: float,  # noqa: ASYNC109 - it is a result of this call, not an error to its caller
    stdin: bytes = b"",
    limits: Limits | None = None,
    output_limit: int = OUTPUT_LIMIT,
    session: str = "",
) -> Finished:
    """Run to the end or for `timeout` seconds. When it returns or is cancelled, no process of the command is left.

    While it runs, `of_session` knows it by the session it is run for.

    OSError where the command cannot be started.
    """
    clock = asyncio.get_running_loop()
    started = clock.time()
    marker = new_id()
    kept = HeadAndTail(output_limit)
    variables = {**environment, tree.MARKER: marker, tree.OWNER: tree.owner()}
    process, output = await _started(
        bounded(command, limits or Limits()), cwd, variables, kept, talks=bool(stdin)
    )
    root = tree.identify(process.pid)
    timed_out = False
    if root and session:
        _running[root] = (session, marker)
    try:
        async with asyncio.timeout(timeout):
            await _feed(process, stdin)
            await process.wait()
    except TimeoutError:
        timed_out = True
    finally:
        await to_its_end(_end(process, root, marker, output))
        if root:
            _running.pop(root, None)
        output.close()
    return Finished(
        code=process.returncode if process.returncode is not None else -9,
        output=kept.text(),
        seconds=clock.time() - started,
        timed_out=timed_out,
        left_out=kept.left_out,
    )


def bounded(command: Sequence[str], limits: Limits) -> list[str]:
    """The command behind a shell that sets its limits."""
    sizes = (str(limits.file_mb * 2048), str(limits.memory_mb * 1024))
    return ["/bin/sh", "-c", _LIMITED, "sh", *sizes, *command]


async def _started(
    line: Sequence[str], cwd: Path, environment: Mapping[str, str], kept: HeadAndTail, *, talks: bool
) -> "tuple[asyncio.subprocess.Process, _Output]":
    readable, writable = os.pipe()
    output = _Output(readable, kept)
    try:
        process = await asyncio.create_subprocess_exec(
            *line,
            cwd=cwd,
            env=environment,
            stdin=asyncio.subprocess.PIPE if talks else asyncio.subprocess.DEVNULL,
            stdout=writable,
            stderr=writable,
            start_new_session=True,
        )
    except BaseException:
        output.close()
        raise
    finally:
        os.close(writable)
    return process, output


class _Output:
    """Reads our own pipe until its last writer is gone, and closes it exactly once.

    Not the subprocess module's pipe: its wait() may not return while a stray child holds that. And no transport:
    uvloop's closes the descriptor of a pipe twice, and by the second time another thread may have been given its
    number, so that a session's line could end up in another session's file.
    """

    def __init__(self, readable: int, kept: HeadAndTail) -> None:
        os.set_blocking(readable, False)
        self._readable = readable
        self._kept = kept
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._loop.add_reader(readable, self._read)

    async def ended(self) -> None:
        """Wait for the last writer's end."""
        await self._ended.wait()

    def close(self) -> None:
        if self._readable >= 0:
            self._loop.remove_reader(self._readable)
            os.close(self._readable)
            self._readable = -1
            self._ended.set()

    def _read(self) -> None:
        try:
            chunk = os.read(self._readable, 65_536)
        except BlockingIOError:
            return
        if chunk:
            self._kept.add(chunk)
        else:
            self.close()


async def _feed(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    if process.stdin is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _end(
    process: asyncio.subprocess.Process, root: tree.Identity | None, marker: str, output: _Output
) -> None:
    await tree.kill_tree(root or tree.Identity(process.pid, 0), marker)
    await process.wait()
    with suppress(TimeoutError):
        await asyncio.wait_for(output.ended(), _DRAIN_SECONDS)
