"""How a session stands: stage, working tree, what it uses, what it may do. Put together when asked, for people and the page."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from nanobot.child import Child
from nanobot.child_records import ChildRecords
from nanobot.clock import Clock
from nanobot.errors import NanobotError
from nanobot.lifecycle import Stage
from nanobot.lives import Life, Lives
from nanobot.project import Project
from nanobot.security import process, tree
from nanobot.security.context import SecurityContext
from nanobot.session_metrics import Load, Pulse, SessionMetrics, load_of
from nanobot.store import Transcript, Transcripts
from nanobot.surroundings import Surroundings

LOOK_SECONDS = 3.0  # a repository that takes longer is shown the next time


class SessionState(msgspec.Struct, frozen=True):
    """One session, now. `project` is None where its working tree may not be looked at, or did not answer in time."""

    key: str
    place: Path
    life: Life
    project: Project | None
    metrics: SessionMetrics
    security: SecurityContext | None
    sandbox: bool

    def lines(self, now: datetime) -> list[str]:
        """For people: what is worth a line, and nothing else."""
        found = []
        if self.security is None:
            found.append(f"Workspace: {_home(self.place)}, where tools may not work")
        else:
            found.append(f"Workspace: {_home(self.security.boundary.root)}, security {self.security.level}")
        if self.security is not None and self.project is None:
            found.append("Git: still being looked at; ask again")
        if self.project is not None:
            git, tasks = self.project.git, self.project.tasks.told()
            last = f", last commit {ago(git.last_commit_at, now)}" if git.last_commit_at else ""
            found.append(f"Git: {git.told() or 'no repository'}{last}")
            if tasks:
                found.append(f"Tasks: {tasks}")
        if used := self.metrics.told():
            found.append(f"At work: {used}{' (more than a session should)' if self.metrics.stressed else ''}")
        return found

    def shown(self) -> dict[str, Any]:
        """As JSON has it."""
        metrics, life = self.metrics, self.life
        more = {"error_rate": metrics.error_rate, "stressed": metrics.stressed, "text": metrics.told()}
        return {
            "key": self.key,
            "stage": life.stage,
            "since": life.since.isoformat(timespec="seconds") if life.since else None,
            "reason": life.reason,
            "project": self.project.shown() if self.project else None,
            "metrics": msgspec.to_builtins(metrics) | more,
            "security": self._security(),
        }

    def _security(self) -> dict[str, Any] | None:
        if self.security is None:
            return None
        one = self.security
        return {
            "level": one.level,
            "root": str(one.boundary.root),
            "hidden": [str(place) for place in one.boundary.hidden],
            "read_only": [str(place) for place in one.boundary.read_only],
            "allowed_dirs": list(one.allowed_dirs),
            "sandbox": self.sandbox,
            "plain_exec": one.plain_exec,
            "network": one.network,
            "max_file_mb": one.max_file_bytes >> 20,
            "max_files": one.rules.files or None,
        }


class SessionStates:
    """Asks all who know."""

    def __init__(
        self,
        lives: Lives,
        surroundings: Surroundings,
        transcripts: Transcripts,
        children: ChildRecords,
        clock: Clock,
    ) -> None:
        self._lives = lives
        self._surroundings = surroundings
        self._transcripts = transcripts
        self._children = children
        self._clock = clock
        self._pulse = Pulse()

    async def of(self, key: str) -> SessionState:
        transcript = await self._transcripts.open(key)
        security, place = self._surroundings.security, self._surroundings.security.home
        where = transcript.metadata.get("working_dir")
        if isinstance(where, str) and where:
            place = Path(where)
        try:
            allowed: SecurityContext | None = await asyncio.to_thread(security.within, place)
        except NanobotError:
            allowed = None
        life = _ended(self._children.get(key)) or self._lives.of(key, transcript.messages)
        return SessionState(
            key,
            place,
            life,
            await self._project(place) if allowed else None,
            await self._metrics(key, transcript, life),
            allowed,
            not await asyncio.to_thread(security.sandbox_problem),
        )

    async def _project(self, place: Path) -> Project | None:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                return await self._surroundings.project(place)
        except TimeoutError:
            return None

    async def _metrics(self, key: str, transcript: Transcript, life: Life) -> SessionMetrics:
        children = self._children.of(key)
        roots = process.of_session(key)
        for child in children:
            roots |= process.of_session(child.key)
            if child.process is not None and not child.ended:
                roots[tree.Identity(child.process.pid, child.process.started)] = child.process.marker
        load = await asyncio.to_thread(load_of, roots) if roots else Load()
        if load.processes:
            load = msgspec.structs.replace(load, cpu_percent=self._pulse.percent(key, load))
        else:
            self._pulse.forget(key)
        active = (life.stage == "active") + sum(1 for one in children if not one.ended)
        failed = (life.stage == "error") + sum(1 for one in children if one.status in {"failed", "timed_out"})
        agents = 1 + len(children)
        return SessionMetrics(
            agents=agents,
            active=active,
            idle=agents - active - failed,
            failed=failed,
            messages=len(transcript.messages),
            errors=sum(
                1 for line in transcript.messages if line.get("error") or line.get("injected") == "failed"
            ),
            load=load,
        )


def _ended(child: Child | None) -> Life | None:
    """The life of a sub-session that was ended for good; others may be continued, and live on like any session."""
    if child is None or child.status != "killed":
        return None
    return Life(Stage.TERMINATED, child.updated_at, child.error)


def ago(text: str, now: datetime) -> str:
    """An ISO time as people say it."""
    try:
        seconds = max(0.0, (now - datetime.fromisoformat(text)).total_seconds())
    except (ValueError, TypeError):
        return text
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def _home(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)
