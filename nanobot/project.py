"""What a session works on, as one value: its repository, its task files, its size. Looked at within bounds."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from nanobot.git_state import GitState, git_state
from nanobot.security.context import SecurityContext
from nanobot.task_files import TaskFileTracker, scan

MAX_FILES = 10_000  # looked at for the size of a tree


class Project(msgspec.Struct, frozen=True):
    """What was seen of a working tree at `seen_at`."""

    path: str
    git: GitState
    tasks: TaskFileTracker
    seen_at: datetime

    def facts(self) -> Sequence[str]:
        """For the model, in a line each; nothing where there is nothing."""
        at = f"{self.seen_at.astimezone():%H:%M}"
        git, tasks = self.git.told(), self.tasks.told()
        return tuple(
            f"{name} (as of {at}): {text}"
            for name, text in (("git", git if self.git.is_repository else ""), ("tasks", tasks))
            if text
        )

    def shown(self) -> dict[str, Any]:
        """As JSON has it."""
        git, tasks = self.git, self.tasks
        return {
            "path": self.path,
            "seen_at": self.seen_at.isoformat(timespec="seconds"),
            "git": msgspec.to_builtins(git)
            | {
                "detached": git.detached,
                "unborn": git.unborn,
                "identifier": git.identifier,
                "text": git.told(),
            },
            "tasks": {
                "todo": _box(tasks.todo) if tasks.todo.changed_at else None,
                "files": [_box(one) for one in tasks.tasks],
                "left_out": tasks.left_out,
                "assignments": dict(tasks.assignments),
                "text": tasks.told(),
            },
        }


def _box(file: Any) -> Mapping[str, Any]:
    return {key: value for key, value in msgspec.to_builtins(file).items() if key != "stamp"}


async def look(security: SecurityContext, now: datetime, previous: Project | None = None) -> Project:
    """See how a working tree is now."""
    git = await git_state(security)
    tasks = await asyncio.to_thread(scan, security, now, previous.tasks if previous else None)
    return Project(str(security.boundary.root), git, tasks, now)


async def project_summary(security: SecurityContext, now: datetime) -> dict[str, Any]:
    """All of it as one object, with how large the tree is."""
    project = await look(security, now)
    files, size = await asyncio.to_thread(tree_size, str(security.boundary.root))
    capped = files == MAX_FILES
    return project.shown() | {"files": files, "files_capped": capped, "size_mb": round(size / 1e6, 2)}


def tree_size(place: str) -> tuple[int, int]:
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
