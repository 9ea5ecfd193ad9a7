"""What a working tree has in TODO.md and tasks/: followed by their times of change, read again only when they changed."""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice

import msgspec

from nanobot.errors import ToolError
from nanobot.security.context import SecurityContext
from nanobot.security.paths import Boundary

TODO, TASKS = "TODO.md", "tasks"
MOST_TASKS = 200  # read
MOST_SEEN = 10_000  # counted
MOST_BYTES = 1 << 20  # of a file that are read
# Blanks of one line only: where line ends counted too, a file of nothing else took hours, and everything with it.
_OPEN = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+\[ \]", re.MULTILINE)
_DONE = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+\[[xX]\]", re.MULTILINE)
_AGENT = re.compile(
    r"^(?:assigned[ _-]?to|assigned|agent|owner):[ \t]*(\S[^\n]*)$", re.MULTILINE | re.IGNORECASE
)

Stamp = tuple[int, int]  # mtime in ns, size


class TaskFile(msgspec.Struct, frozen=True):
    """One file of boxes to tick. `agent` is who it says it is assigned to."""

    name: str
    changed_at: str = ""
    open_items: int = 0
    done_items: int = 0
    agent: str = ""
    stamp: Stamp = (0, 0)


class TaskFileTracker(msgspec.Struct, frozen=True):
    """What was seen at `scanned_at`. Paths are absolute; a file that is not there has no time of change."""

    todo_file_path: str
    tasks_directory: str
    scanned_at: datetime
    todo: TaskFile = TaskFile(TODO)
    tasks: Sequence[TaskFile] = ()
    left_out: int = 0  # files of tasks/ beyond MOST_TASKS

    def __post_init__(self) -> None:
        if not (self.todo_file_path.startswith("/") and self.tasks_directory.startswith("/")):
            raise ValueError("the paths of task files are absolute")

    @property
    def assignments(self) -> Mapping[str, str]:
        """Task file → who it is assigned to."""
        return {one.name: one.agent for one in self.tasks if one.agent}

    def is_todo_modified(self, boundary: Boundary) -> bool:
        """Whether TODO.md is another than the one that was seen. Blocks."""
        return _stamp(boundary, TODO) != self.todo.stamp

    def told(self) -> str:
        """In one line, for people and models; empty where there are none."""
        parts = []
        if self.todo.changed_at:
            parts.append(f"{TODO} has {_items(self.todo)}")
        if self.tasks:
            count = len(self.tasks) + self.left_out
            items = TaskFile(
                "", "", sum(t.open_items for t in self.tasks), sum(t.done_items for t in self.tasks)
            )
            boxes = f" with {_items(items)}" if items.open_items or items.done_items else ""
            more = "+" if count >= MOST_SEEN else ""
            parts.append(f"{TASKS}/ has {count}{more} file{'s' if count > 1 else ''}{boxes}")
        return "; ".join(parts)


def scan(
    security: SecurityContext, now: datetime, previous: TaskFileTracker | None = None
) -> TaskFileTracker:
    """Look; what did not change since `previous` is not read again. Links out of the tree are not followed. Blocks."""
    boundary = security.boundary
    known = {} if previous is None else {one.name: one for one in (previous.todo, *previous.tasks)}
    names = _names(boundary)
    return TaskFileTracker(
        str(boundary.root / TODO),
        str(boundary.root / TASKS),
        now,
        _read(boundary, TODO, known.get(TODO)),
        tuple(
            found
            for name in names[:MOST_TASKS]
            if (found := _read(boundary, f"{TASKS}/{name}", known.get(f"{TASKS}/{name}"))).changed_at
        ),
        max(0, len(names) - MOST_TASKS),
    )


def _names(boundary: Boundary) -> list[str]:
    """The files of tasks/; looking ends at MOST_SEEN."""
    try:
        with boundary.directory((TASKS,)) as opened, os.scandir(opened) as entries:
            return sorted(
                one.name for one in islice(entries, MOST_SEEN) if one.is_file(follow_symlinks=False)
            )
    except (ToolError, OSError):
        return []  # there is none, or it is a link


def _read(boundary: Boundary, path: str, known: TaskFile | None) -> TaskFile:
    try:
        with boundary.file_at(tuple(path.split("/"))) as (opened, facts):
            stamp = (facts.st_mtime_ns, facts.st_size)
            if known is not None and known.stamp == stamp:
                return known
            text = os.pread(opened, MOST_BYTES, 0).decode("utf-8", "replace")
    except (ToolError, OSError):
        return TaskFile(path)
    agent = _AGENT.search(text[:4_000])
    return TaskFile(
        path,
        datetime.fromtimestamp(facts.st_mtime, UTC).isoformat(timespec="seconds"),
        len(_OPEN.findall(text)),
        len(_DONE.findall(text)),
        agent[1].strip()[:80] if agent else "",
        stamp,
    )


def _stamp(boundary: Boundary, path: str) -> Stamp:
    try:
        with boundary.file_at((path,)) as (_, facts):
            return facts.st_mtime_ns, facts.st_size
    except ToolError:
        return 0, 0


def _items(file: TaskFile) -> str:
    return f"{file.open_items} open and {file.done_items} done"
