"""The gateway as one process after another: started, killed, frozen, watched through /proc."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

LAUNCH = "tests.crash.chaos.launch"
ROOT = Path(__file__).parents[3]
START_SECONDS = 30.0
STOP_SECONDS = 30.0


class Gateway:
    """One workspace, one life at a time. All figures are since the beginning of the run."""

    def __init__(self, workspace: Path, side: Path, config: str) -> None:
        """`side` takes what is not the gateway's own, so that a full disk does not concern it."""
        self.workspace = workspace
        self.url = ""
        self.lives = 0
        self.refused_starts = 0  # it ended before it was ready, as on a full disk
        self.start_seconds: list[float] = []
        self.stop_seconds: list[float] = []
        self.bad_exits: list[str] = []
        self.peak_rss = 0.0  # MB
        self.first_descriptors = 0  # of this life, when it was ready
        self.pooled_ports: set[int] = set()  # connections to these are kept on purpose, and are not counted
        self.log_path = side / "gateway.log"
        self._clock = side / "clock"
        self._off = 0.0
        self._process: asyncio.subprocess.Process | None = None
        workspace.mkdir(parents=True)
        (workspace / "config.toml").write_text(config)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None and self._process.returncode is None else 0

    async def spawn(self) -> None:
        """Start it and wait for nothing."""
        self.lives += 1
        with self.log_path.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                LAUNCH,
                str(self.workspace),
                str(self._clock),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "PYTHONSAFEPATH": "1",
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
            )

    async def start(self) -> None:
        """Start it, again and again where it cannot start, until it is ready."""
        give_up = time.monotonic() + START_SECONDS
        while True:
            began = time.monotonic()
            await self.spawn()
            assert self._process is not None
            assert self._process.stdout is not None
            async with asyncio.timeout(START_SECONDS):
                line = (await self._process.stdout.readline()).decode()
            if line.startswith("ready "):
                self.start_seconds.append(time.monotonic() - began)
                self.first_descriptors = self.descriptors().total()
                self.url = line.split()[1]
                return
            await self._gone()
            self.refused_starts += 1
            if time.monotonic() > give_up:
                raise AssertionError(f"the gateway does not start any more:\n{self.log()[-3000:]}")
            await asyncio.sleep(0.3)

    async def kill(self) -> None:
        self.url = ""
        if self.pid:
            self._process.kill()  # type: ignore[union-attr]
        await self._gone()

    async def terminate(self, then_kill: float | None = None) -> None:
        """SIGTERM; where `then_kill` is given, SIGKILL so many seconds later if it is still there."""
        if not self.pid:
            return
        self.url = ""
        process, began = self._process, time.monotonic()
        assert process is not None
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS if then_kill is None else then_kill):
                status = await process.wait()
        except TimeoutError:
            if then_kill is None:
                self.bad_exits.append(f"it was still there {STOP_SECONDS:.0f} s after SIGTERM")
            await self.kill()
            return
        self.stop_seconds.append(time.monotonic() - began)
        if status != 0:
            self.bad_exits.append(f"exit status {status} after SIGTERM")

    async def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT a little later."""
        if self._signal(signal.SIGSTOP):
            await asyncio.sleep(seconds)
            self._signal(signal.SIGCONT)

    def jump(self, seconds: float) -> None:
        """Move its wall clock; 0 sets it right again."""
        self._off = self._off + seconds if seconds else 0.0
        self._clock.write_text(str(self._off))
        if self.url:
            self._signal(signal.SIGUSR2)

    def sample(self) -> float:
        """Resident memory in MB, of this moment; 0 where it is not there."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0.0
        rss = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        self.peak_rss = max(self.peak_rss, rss)
        return rss

    def descriptors(self) -> Counter[str]:
        """What its descriptors are: files by name, sockets by the port at their other end."""
        ports: dict[str, int] = {}
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            ports[f"socket:[{fields[9]}]"] = int(fields[2].partition(":")[2], 16)
        found: Counter[str] = Counter()
        for descriptor in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(descriptor)
                port = ports.get(target)
                if port not in self.pooled_ports:
                    found[target if port is None else f"socket to port {port}"] += 1
        return found

    def orphans(self) -> list[str]:
        """Processes that work in or on the workspace and are not the gateway."""
        found = []
        place = str(self.workspace)
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) in (os.getpid(), self.pid):
                continue
            with contextlib.suppress(OSError):
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                if place in line or os.readlink(folder / "cwd").startswith(place):
                    found.append(f"{folder.name}: {line[:160]}")
        return found

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def _signal(self, number: int) -> bool:
        if not self.pid:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    async def _gone(self) -> None:
        if self._process is not None:
            self._signal(signal.SIGCONT)
            async with asyncio.timeout(STOP_SECONDS):
                await self._process.wait()
