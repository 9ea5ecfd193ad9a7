"""An outside agent's turns as they lie on the disk, read within bounds however large they are."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from nanobot.executor import Parser, Spent, Step
from nanobot.executors.claude_events import ClaudeEvents
from nanobot.executors.codex_events import CodexEvents
from nanobot.executors.reader import LineReader, Opened, plain
from nanobot.executors.times import times_of
from nanobot.stores.turn_files import TurnFiles

PARSERS: Mapping[str, Callable[[Spent | None, int], Parser]] = {"codex": CodexEvents, "claude": ClaudeEvents}
MOST_STEPS = 5_000
LONGEST = 20_000  # characters kept of one step's text, and of its output
TOGETHER = 8_000_000  # characters of all steps


class Steps:
    """The newest steps, as many as fit; `left_out` counts the older ones."""

    def __init__(self) -> None:
        self.kept: deque[Step] = deque()
        self.left_out = 0
        self._size = 0

    def add(self, step: Step) -> None:
        step = msgspec.structs.replace(step, text=step.text[:LONGEST], output=step.output[:LONGEST])
        self.kept.append(step)
        self._size += len(step.text) + len(step.output)
        while len(self.kept) > MOST_STEPS or self._size > TOGETHER:
            gone = self.kept.popleft()
            self._size -= len(gone.text) + len(gone.output)
            self.left_out += 1


def read_turn(parser: Parser, path: Path, steps: Steps | None = None, *, opened: Opened = plain) -> Steps:
    """The steps of one turn's file, which may still grow."""
    found = steps or Steps()
    times = times_of(path.with_suffix(".times"))
    for events in LineReader(path, opened=opened, times=times).read(final=True):
        for event in events:
            for step in parser.feed(event):
                found.add(step)
    return found


def read_turns(files: TurnFiles, folder: Path, executor: str, live: int = 0) -> Steps:
    """All turns of a sub-session, in order; `live` is the one that may still run."""
    found = Steps()
    turns = [(place, path) for path in folder.glob("turn_*.jsonl") if (place := _place(path.stem))]
    for (number, _), path in sorted(turns):
        opened = partial(files.open, live=number == live)
        read_turn(PARSERS[executor](None, number), path, found, opened=opened)
    return found


def _place(stem: str) -> tuple[int, float] | None:
    """Turn and try of `turn_<n>` or `turn_<n>.try<m>`, which came before it."""
    number, _, attempt = stem.removeprefix("turn_").partition(".try")
    if not number.isdecimal() or (attempt and not attempt.isdecimal()):
        return None
    return int(number), float(attempt or "inf")
