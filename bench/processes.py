"""Processes that the benchmark starts, measures and, whatever happens, ends: by their own ids."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import psutil

READY_SECONDS = 60.0
STOP_SECONDS = 15.0
ROOT = Path(__file__).resolve().parent.parent


class NotReady(RuntimeError):
    """A process ended or said nothing in time; the message holds the last lines of its log."""


class Server:
    """A server process that has said `ready <url>`."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, seconds: float) -> None:
        self.process = process
        self.url = url
        self.seconds = seconds  # from exec to ready
        self._stats = psutil.Process(process.pid)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def socket(self) -> str:
        return self.url.replace("http://", "ws://", 1)

    def cpu(self) -> float:
        """Seconds of user and system time of this process alone, so far; ticks of 10 ms."""
        times = self._stats.cpu_times()
        return times.user + times.system

    def rss(self) -> float:
        """Resident memory in MB (10^6 bytes)."""
        return self._stats.memory_info().rss / 1e6

    async def kill(self) -> None:
        """kill -9, as a crash would."""
        await _end(self.process, signal.SIGKILL)

    async def terminate(self) -> None:
        """SIGTERM, as a deploy would."""
        await _end(self.process, signal.SIGTERM)


async def start(
    command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None, ready: str = "ready "
) -> Server:
    """Start a program and wait for the line that begins with `ready`; its second word is the address."""
    began = time.perf_counter()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(READY_SECONDS):
            while line := (await process.stdout.readline()).decode(errors="replace"):
                if line.startswith(ready):
                    seconds = time.perf_counter() - began
                    return Server(process, line.split()[1].rstrip("/"), seconds)
            await process.wait()
    except TimeoutError:
        pass
    except BaseException:
        await _end(process, signal.SIGKILL)
        raise
    code = process.returncode
    await _end(process, signal.SIGKILL)
    what = f"was not ready within {READY_SECONDS:g} s" if code is None else f"ended with {code}"
    tail = log.read_text(errors="replace")[-2_000:]
    raise NotReady(f"{' '.join(command)} {what}\n{tail}")


@contextlib.asynccontextmanager
async def running(server: Server) -> AsyncIterator[Server]:
    """End the process when the block ends."""
    try:
        yield server
    finally:
        await server.terminate()


@contextlib.asynccontextmanager
async def fake_llm(folder: Path) -> AsyncIterator[str]:
    """The base URL of a fake model, in its own process."""
    server = await start([sys.executable, "-m", "bench.fake_llm"], folder / "fake_llm.log")
    async with running(server):
        yield server.url


async def wall(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> float:
    """Seconds a program takes from exec to exit 0."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(READY_SECONDS):
            code = await process.wait()
    finally:
        await _end(process, signal.SIGKILL)
    if code != 0:
        raise NotReady(f"{' '.join(command)} ended with {code}")
    return time.perf_counter() - began


async def _end(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Signal one process and see it gone; SIGKILL where it does not go by itself."""
    for one, seconds in ((number, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(one)
        try:
            async with asyncio.timeout(seconds):
                if process.stdout is not None:
                    await process.stdout.read()  # a full pipe must not keep it from ending
                await process.wait()
        except TimeoutError:
            continue
