"""What a session uses: its agents, its messages and the processes that came of it, counted within bounds."""

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from nanobot.security import tree

STRESSED_CPU = 600.0  # percent of one core, of a whole session
STRESSED_MB = 3_072.0
AGENT_CPU, AGENT_MB = 80.0, 400.0  # for each active agent
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class Load(msgspec.Struct, frozen=True):
    """Of trees of processes, now. `memory_mb` is resident; `cpu_percent` is of one core, over their whole life."""

    processes: int = 0
    memory_mb: float = 0.0
    cpu_seconds: float = 0.0
    cpu_percent: float = 0.0


class SessionMetrics(msgspec.Struct, frozen=True):
    """Counts of one session. Its agents are itself and its sub-sessions."""

    agents: int = 1
    active: int = 0
    idle: int = 0
    failed: int = 0
    messages: int = 0
    errors: int = 0
    load: Load = Load()

    def __post_init__(self) -> None:
        if min(self.agents, self.active, self.idle, self.failed, self.messages, self.errors) < 0:
            raise ValueError("a count is never below 0")
        if self.active + self.idle + self.failed > self.agents:
            raise ValueError("there are more agents at work, idle or failed than there are agents")

    @property
    def error_rate(self) -> float:
        """Errors of a hundred messages."""
        return round(100 * self.errors / self.messages, 1) if self.messages else 0.0

    @property
    def stressed(self) -> bool:
        """Whether it uses more than a session should, in all or for each agent that is at work."""
        load, active = self.load, max(1, self.active)
        return (
            load.cpu_percent > STRESSED_CPU
            or load.memory_mb > STRESSED_MB
            or load.cpu_percent > AGENT_CPU * active
            or load.memory_mb > AGENT_MB * active
        )

    def told(self) -> str:
        """In one line, for people; empty where the session is alone and runs nothing."""
        parts = []
        if self.agents > 1:
            below = f"{self.agents - 1} sub-session{'s' if self.agents > 2 else ''}"
            parts.append(f"{self.active} of {self.agents} agents (this session and {below})")
        if self.load.processes:
            load = self.load
            parts.append(
                f"{load.processes} process{'es' if load.processes > 1 else ''}, {load.memory_mb:.0f} MB, "
                f"{load.cpu_percent:.0f} % of a core"
            )
        return "; ".join(parts)


def load_of(roots: Mapping[tree.Identity, str]) -> Load:
    """What processes, and all that came of them, use; each root with its marker. One look at the table. Blocks."""
    return _sum(tree.forest(roots)) if roots else Load()


def _sum(seen: Iterable[tree.Seen]) -> Load:
    up = float(Path("/proc/uptime").read_text("ascii").split()[0])
    pages = ticks = count = 0
    began = up
    for one in seen:
        if one.state in "ZX":
            continue  # dead, and nobody has looked yet
        try:
            line = Path(f"/proc/{one.identity.pid}/stat").read_bytes()
        except OSError:
            continue  # it ended
        fields = line[line.rindex(b")") + 2 :].split()
        count += 1
        ticks += int(fields[11]) + int(fields[12])
        pages += int(fields[21])
        began = min(began, one.identity.started / _TICKS)
    seconds = ticks / _TICKS
    life = max(up - began, 0.1)
    return Load(count, round(pages * _PAGE / 1e6, 1), round(seconds, 2), round(100 * seconds / life, 1))


class Pulse:
    """The share of processor time between two looks at the same thing, which a whole life's mean would hide."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}

    def percent(self, name: str, load: Load) -> float:
        """Of one core since the last look, else over its life."""
        now = time.monotonic()
        then = self._last.get(name)
        self._last[name] = (now, load.cpu_seconds)
        if then is None or now - then[0] < 0.1 or load.cpu_seconds < then[1]:
            return load.cpu_percent
        return round(100 * (load.cpu_seconds - then[1]) / (now - then[0]), 1)

    def forget(self, name: str) -> None:
        self._last.pop(name, None)
