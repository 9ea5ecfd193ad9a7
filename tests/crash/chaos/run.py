"""The driver: says what the plan says, breaks what it breaks, then lets everything come to rest and judges."""

import asyncio
import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path

import msgspec

from nanobot import SessionManager
from nanobot.messages import Line
from tests.crash.chaos import checks
from tests.crash.chaos.disk import SmallDisk
from tests.crash.chaos.gateway import Gateway
from tests.crash.chaos.model import Weather
from tests.crash.chaos.plan import GATEWAY, Fault, Plan
from tests.crash.chaos.users import Platform

SHOWN = 30  # failures that are printed
SLOW_SECONDS = 20.0  # after which what still waits is told, though it need not be wrong
SETTLE_SECONDS = 90.0  # for everything to come to rest after the last message
MAX_RSS = 160.0  # MB, of one life of the gateway
MORE_DESCRIPTORS = 12  # than right after its start, once every client has gone
CONFIG = """\
[agent]
model = "test/echo"
queue = "{queue}"
[models.test]
kind = "openai"
api_key = "none"
base_url = "{model}"
timeout = 20
idle_timeout = 3
[http]
port = 0
[security]
allow_unsandboxed = true
[delegation]
timeout = 5
"""


class Report(msgspec.Struct):
    """Everything the table shows. The run is good when `failures` is empty."""

    plan: Plan
    queue: str
    verdicts: dict[str, checks.Verdict] = {}
    accepted: dict[str, int] = {}
    faults: Counter[str] = Counter()
    left_out: list[str] = []
    seconds: float = 0.0
    settle_seconds: float = 0.0
    effects: int = 0
    lives: int = 0
    refused_starts: int = 0
    start_seconds: list[float] = []
    stop_seconds: list[float] = []
    peak_rss: float = 0.0
    last_rss: float = 0.0
    descriptors: tuple[int, int] = (0, 0)  # of the last life: after its start, after all clients left
    slow: list[str] = []
    failures: list[str] = []


class Run:
    """One run in a folder of its own."""

    def __init__(
        self, plan: Plan, platforms: Sequence[Platform], folder: Path, *, queue: str, keep: bool = False
    ) -> None:
        self.plan = plan
        self.platforms = {one.name: one for one in platforms}
        self.folder = folder
        self.keep = keep
        self.report = Report(
            plan, queue, {}, {}, Counter(), [], start_seconds=[], stop_seconds=[], failures=[]
        )
        self.model = Weather()
        self.disk = SmallDisk(folder / "disk")
        self._ends: set[asyncio.Task[None]] = set()

    async def __call__(self) -> Report:
        # Clients that vanish are the point here.
        logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
        began = time.monotonic()
        async with self.disk:
            await self.model.up()
            for platform in self.platforms.values():
                await platform.prepare()
            config = CONFIG.format(queue=self.report.queue, model=self.model.url)
            config += "".join(one.config() for one in self.platforms.values())
            self.gateway = Gateway(self.disk.path / "workspace", self.folder, config)
            self.gateway.pooled_ports.add(self.model.port)
            try:
                await self._all()
            finally:
                await self.gateway.kill()
                await self.model.stop()
                for platform in self.platforms.values():
                    await platform.close()
                if self.keep:
                    shutil.copytree(self.gateway.workspace, self.folder / "workspace", dirs_exist_ok=True)
            self.report.seconds = time.monotonic() - began
            (self.folder / "failures.txt").write_text(
                "\n".join([*self.report.slow, "", *self.report.failures])
            )
            self._figures()
        return self.report

    async def _all(self) -> None:
        if not self.disk.available:
            self.report.left_out.append("disk full (mounting a file system is not permitted here)")
        await self.gateway.start()
        for platform in self.platforms.values():
            await platform.start(lambda: self.gateway.url)
        watching = asyncio.create_task(self._watch())
        talking = asyncio.create_task(self._talk())
        self._began = time.monotonic()
        try:
            await self._break()
            await self._heal()
            await talking
            await self._settle()
        finally:
            for task in (watching, talking, *self._ends):
                task.cancel()
            for platform in self.platforms.values():
                await platform.stop()
        await self._quiet()

    async def _talk(self) -> None:
        for one in self.plan.says:
            await self._until(one.at)
            await self.platforms[one.platform].say(one)

    async def _break(self) -> None:
        for fault in self.plan.faults:
            await self._until(fault.at)
            if self._now() > self.plan.calm_from:
                return  # faults of the gateway take their time, so that the last ones may come too late
            self.report.faults[fault.name] += 1
            if fault.name in GATEWAY:
                await self._strike(fault)
            elif fault.platform:
                name = fault.name.partition(": ")[2]
                self._end_later(self.platforms[fault.platform].hit(fault, name), fault.seconds)
            else:
                await self._worsen(fault)

    async def _strike(self, fault: Fault) -> None:
        gateway = self.gateway
        match fault.name:
            case "kill":
                await gateway.kill()
            case "kill while starting":
                await gateway.kill()
                await gateway.spawn()
                await asyncio.sleep(fault.seconds)
                await gateway.kill()
            case "SIGTERM":
                await gateway.terminate()
            case "SIGTERM, then kill":
                await gateway.terminate(fault.seconds)
            case "freeze":
                await gateway.freeze(fault.seconds)
                return
        await gateway.start()

    async def _worsen(self, fault: Fault) -> None:
        match fault.name:
            case "disk full":
                if self.disk.available:
                    await asyncio.to_thread(self.disk.fill)
                    self._end_later(self.disk.free, fault.seconds)
            case "clock jumps":
                self.gateway.jump(fault.seconds)
            case "model is down":
                await self.model.down()
                self._end_later(lambda: self._spawn(self.model.up()), fault.seconds)
            case name:
                self.model.faults.append(name)
                self._end_later(lambda: self.model.faults.remove(name), fault.seconds)

    async def _heal(self) -> None:
        """Everything works again. What a full disk or a jump left stuck must come loose without a restart."""
        while self._ends:
            await asyncio.wait(self._ends)
        self.gateway.jump(0)
        for platform in self.platforms.values():
            await platform.calm()

    async def _settle(self) -> None:
        """Wait until nothing is missing, or until it is clear that it will stay so."""
        began = time.monotonic()
        while True:
            self._judge()
            if not any(one.failures for one in self.report.verdicts.values()):
                break
            if time.monotonic() - began > SETTLE_SECONDS:
                break
            if time.monotonic() - began > SLOW_SECONDS and not self.report.slow:
                self.report.slow = [one for v in self.report.verdicts.values() for one in v.failures]
            await asyncio.sleep(1.0)
        self.report.settle_seconds = time.monotonic() - began
        self.report.last_rss = self.gateway.sample()

    def _judge(self) -> Mapping[str, Sequence[Line]]:
        histories = self._histories()
        steering = self.report.queue == "steer"
        for name, platform in self.platforms.items():
            self.report.verdicts[name] = checks.judge(platform, histories, steering=steering)
            self.report.accepted[name] = platform.accepted()
        return histories

    def _histories(self) -> dict[str, Sequence[Line]]:
        """As an outsider reads them, changing nothing."""
        manager = SessionManager(self.gateway.workspace)
        found: dict[str, Sequence[Line]] = {}
        for platform in self.platforms.values():
            for chat in platform.chats():
                file = manager.read_session_file(chat.key)
                found[chat.key] = file["messages"] if file else ()
        return found

    async def _quiet(self) -> None:
        """All clients are gone: what the gateway still holds, then what it leaves when it stops."""
        failures = self.report.failures
        before = self.gateway.first_descriptors
        give_up = time.monotonic() + 30
        while (
            after := self.gateway.descriptors().total()
        ) > before + MORE_DESCRIPTORS and time.monotonic() < give_up:
            await asyncio.sleep(0.5)
        self.report.descriptors = (before, after)
        if after > before + MORE_DESCRIPTORS:
            failures.append(
                f"{after} descriptors are open with no client left; {before} were before: "
                f"{self.gateway.descriptors().most_common(6)}"
            )
        await self.gateway.terminate()
        failures += [f"left behind: {one}" for one in self.gateway.orphans()]
        histories = self._judge()
        for verdict in self.report.verdicts.values():
            failures += verdict.failures
        for platform in self.platforms.values():
            failures += platform.problems
        self.report.effects, wrong = checks.effects(self.gateway.workspace / "effects.txt", histories)
        failures += wrong
        failures += checks.others(SessionManager(self.gateway.workspace), histories)
        failures += checks.state(self.gateway.workspace / ".nanobot")
        failures += self.gateway.bad_exits
        failures += checks.log(self.gateway.log_path)
        if self.gateway.peak_rss > MAX_RSS:
            failures.append(f"the gateway took {self.gateway.peak_rss:.0f} MB")

    def _figures(self) -> None:
        report, gateway = self.report, self.gateway
        report.lives = gateway.lives
        report.refused_starts = gateway.refused_starts
        report.start_seconds = gateway.start_seconds
        report.stop_seconds = gateway.stop_seconds
        report.peak_rss = gateway.peak_rss

    async def _watch(self) -> None:
        while True:
            self.gateway.sample()
            await asyncio.sleep(0.25)

    def _end_later(self, end: Callable[[], object] | None, seconds: float) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            if end is not None:
                end()

        if end is not None:
            self._keep(asyncio.create_task(wait()))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._keep(asyncio.create_task(work))

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    def _now(self) -> float:
        return time.monotonic() - self._began

    async def _until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self._now()))
