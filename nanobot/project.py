"""What a session works on: the state of its git repository, its TODO and tasks files, what its processes use.

Looked at when asked, within bounds. git runs in the sandbox where there is one: a repository's configuration may name
programs that git runs, and an agent may have written it.
"""

import asyncio
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from nanobot.errors import NanobotError
from nanobot.security import environment, process, sandbox, tree
from nanobot.security.paths import HIDDEN, Boundary

GIT_SECONDS = 10.0
MAX_FILES = 10_000  # looked at for the size of a tree
MAX_TASKS = 200
_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")  # SHA-1, or SHA-256
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat")


class GitState(msgspec.Struct, frozen=True):
    """A repository, or `is_repository` False. An unborn branch has no commit, a detached head no branch."""

    path: str
    is_repository: bool = False
    branch: str = ""
    commit: str = ""
    dirty: bool | None = None  # None: not looked at, since there is no sandbox to look in
    remote: str = ""
    commits: int = 0
    last_commit_at: str = ""

    @property
    def detached(self) -> bool:
        return self.is_repository and not self.branch


class TaskFiles(msgspec.Struct, frozen=True):
    """TODO.md and the files of tasks/, with their times of change."""

    todo: str = ""
    todo_changed_at: str = ""
    open_items: int = 0
    done_items: int = 0
    tasks: Sequence[str] = ()


class Metrics(msgspec.Struct, frozen=True):
    """Of a tree of processes, now. `memory_mb` is resident."""

    processes: int = 0
    memory_mb: float = 0.0
    cpu_seconds: float = 0.0


async def git_state(place: Path, boundary: Boundary) -> GitState:
    """Read by git itself; a directory that is no repository, or a git that is not there, is no error."""
    place = await asyncio.to_thread(place.resolve)
    safe = await asyncio.to_thread(sandbox.usable)
    head = await _git(place, boundary, ["rev-parse", "--is-inside-work-tree"], safe=safe)
    if head != "true":
        return GitState(str(place))
    commit = await _git(place, boundary, ["rev-parse", "--verify", "-q", "HEAD"], safe=safe)
    commit = commit if _OID.fullmatch(commit) else ""
    branch = await _git(place, boundary, ["symbolic-ref", "-q", "--short", "HEAD"], safe=safe)
    remote = await _git(place, boundary, ["remote", "get-url", "origin"], safe=safe)
    state = GitState(str(place), is_repository=True, branch=branch, commit=commit, remote=_shown(remote))
    if commit:
        count = await _git(place, boundary, ["rev-list", "--count", "HEAD"], safe=safe)
        when = await _git(place, boundary, ["log", "-1", "--format=%cI"], safe=safe)
        state = msgspec.structs.replace(state, commits=int(count or 0), last_commit_at=when)
    if safe:  # status may run filters that the repository names
        # The sandbox covers what is nanobot's own, which git would take for changes.
        own = [f":(exclude){name}" for name in HIDDEN]
        changed = await _git(place, boundary, ["status", "--porcelain", "-z", "--", ".", *own], safe=True)
        state = msgspec.structs.replace(state, dirty=bool(changed))
    return state


async def _git(place: Path, boundary: Boundary, arguments: Sequence[str], *, safe: bool) -> str:
    line = ["git", *_QUIET, *arguments]
    variables = {**environment.scrubbed(place), "GIT_OPTIONAL_LOCKS": "0", "GIT_CONFIG_NOSYSTEM": "1"}
    try:
        if safe:
            line = sandbox.command(line, boundary=boundary.within(place), working_dir=place)
        done = await process.run(line, cwd=place, environment=variables, timeout=GIT_SECONDS)
    except (OSError, NanobotError):
        return ""
    return done.output.strip() if done.code == 0 else ""


def _shown(remote: str) -> str:
    """Without what may be a password."""
    return re.sub(r"//[^/@]*@", "//", remote)


def task_files(place: Path) -> TaskFiles:
    todo, folder = place / "TODO.md", place / "tasks"
    found = TaskFiles()
    if todo.is_file() and not todo.is_symlink():
        with todo.open("r", encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 20)
        found = TaskFiles(
            str(todo),
            datetime.fromtimestamp(todo.stat().st_mtime, UTC).isoformat(timespec="seconds"),
            len(re.findall(r"^\s*[-*] \[ \]", text, re.MULTILINE)),
            len(re.findall(r"^\s*[-*] \[[xX]\]", text, re.MULTILINE)),
        )
    if folder.is_dir() and not folder.is_symlink():
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False))
        found = msgspec.structs.replace(found, tasks=tuple(names[:MAX_TASKS]))
    return found


def metrics(root: tree.Identity, marker: str = "") -> Metrics:
    """What a process and all that came of it use."""
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    pages = cpu = count = 0
    for seen in tree.members(root, marker):
        try:
            line = Path(f"/proc/{seen.identity.pid}/stat").read_bytes()
        except OSError:
            continue
        fields = line[line.rindex(b")") + 2 :].split()
        count += 1
        cpu += int(fields[11]) + int(fields[12])
        pages += int(fields[21])
    return Metrics(count, round(pages * page / 1e6, 1), round(cpu / ticks, 2))


def tree_size(place: Path) -> tuple[int, int]:
    """Files and bytes below a directory; looking ends at MAX_FILES."""
    files = size = 0
    for folder, _, names in os.walk(place):
        for name in names:
            if files == MAX_FILES:
                return files, size
            files += 1
            try:
                size += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - a text is faster here
            except OSError:
                continue
    return files, size


async def project_summary(place: Path, boundary: Boundary) -> dict[str, Any]:
    """All of it as one object, for people and models."""
    git = await git_state(place, boundary)
    tasks = await asyncio.to_thread(task_files, place)
    files, size = await asyncio.to_thread(tree_size, place)
    return {
        "path": str(place),
        "git": msgspec.to_builtins(git) | {"detached": git.detached},
        "tasks": msgspec.to_builtins(tasks),
        "files": files,
        "files_capped": files == MAX_FILES,
        "size_mb": round(size / 1e6, 2),
    }
