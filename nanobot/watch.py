"""Watchers: rules over a trajectory that say when an agent should be told something, held or ended. Pure.

Each looks at what was done so far and finds nothing or one thing. The strongest finding counts; the same one is not
repeated until more has been done.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from nanobot.executor import Step

Action = Literal["continue", "nudge", "pause", "abort"]
SEVERITY: Mapping[str, int] = {"continue": 0, "nudge": 1, "pause": 2, "abort": 3}
COOLDOWN = 5  # steps until the same watcher is heard again
_LOOKED_AT = 4_000  # characters of one step: an expression cannot be interrupted

_DOING = frozenset({"command", "tool", "files", "search"})
_WRITES = re.compile(
    r"""<<-?\s*['"]?\w+          # a heredoc
    | \b(?:echo|printf)\b[^|;&\n]*>{1,2}\s*(?!&|/dev/null)\S
    | \btee\b\s+(?!-|/dev/null)\S
    | \bsed\b\s+(?:-\w+\s+)*-i""",
    re.VERBOSE,
)
_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|jest|vitest|mocha|ctest|go test|cargo test|npm (?:run )?test|make test)\b"
)


class Finding(msgspec.Struct, frozen=True):
    action: Action
    watcher: str
    guidance: str

    @property
    def message(self) -> str:
        """As it is put to the agent: marked, so that nobody takes it for a person's words."""
        return f"[WATCHER: {self.watcher}] {self.guidance}"


class Seen(msgspec.Struct, frozen=True):
    """What a watcher looks at: the steps so far, oldest first, and what is used up most, from 0 to 1."""

    steps: Sequence[Step]
    used: float = 0.0
    of: str = "time"  # or "tokens", "money", "steps"


Watcher = Callable[[Seen], Finding | None]


class Watch:
    """Watchers over one run. `look` is called after each step."""

    def __init__(self, watchers: Sequence[Watcher], *, cooldown: int = COOLDOWN) -> None:
        self._watchers = watchers
        self._cooldown = cooldown
        # Watcher and action → number of steps when it was last heard.
        self._heard: dict[tuple[str, str], int] = {}

    def look(self, seen: Seen, count: int | None = None) -> Finding | None:
        """The strongest new finding. `count` is how many steps there have been, where `seen` has only the last."""
        steps = len(seen.steps) if count is None else count
        found = [one for watcher in self._watchers if (one := watcher(seen)) and self._due(one, steps)]
        if not found:
            return None
        strongest = max(found, key=lambda one: SEVERITY[one.action])
        self._heard[(strongest.watcher, strongest.action)] = steps
        return strongest

    def _due(self, finding: Finding, steps: int) -> bool:
        last = self._heard.get((finding.watcher, finding.action))
        return finding.action != "continue" and (last is None or steps - last >= self._cooldown)


def progress(same: int = 3) -> Watcher:
    """The same call with the same arguments over and over: told at `same` times, ended at three times as many."""

    def watch(seen: Seen) -> Finding | None:
        last, repeated = "", 0
        for step in reversed(seen.steps):
            if step.kind not in _DOING:
                continue
            signature = _signature(step)
            if last and signature != last:
                break
            last, repeated = signature, repeated + 1
        if repeated >= 3 * same:
            return Finding("abort", "progress", f"the same call was made {repeated} times in a row")
        if repeated >= same:
            text = f"You made the same call {repeated} times in a row. Do something else, or say what is in the way."
            return Finding("nudge", "progress", text)
        return None

    return watch


def budget(warn_at: float = 0.8) -> Watcher:
    def watch(seen: Seen) -> Finding | None:
        if seen.used < warn_at:
            return None
        return Finding(
            "nudge",
            "budget",
            f"{seen.used:.0%} of your {seen.of} is used. Come to an end: report what you have.",
        )

    return watch


def scope(avoid: Sequence[str], action: Action = "nudge") -> Watcher:
    """Words in the last six things said or done that show that the work goes where it should not.

    Words alone get a nudge at most: only what is done is paused or ended.
    """

    def watch(seen: Seen) -> Finding | None:
        said = " ".join(_texts(seen, 6, action)).lower()
        met = [word for word in avoid if word.lower() in said]
        if not met:
            return None
        return Finding(
            action, "scope", f"This is outside your task: {', '.join(met)}. Go back to what was asked."
        )

    return watch


def pattern(rules: Sequence[tuple[str, Action, str]]) -> Watcher:
    """Regular expressions over the last ten things said or done, ignoring case. A bad one is passed over.

    Words alone get a nudge at most: only what is done is paused or ended.
    """
    compiled: list[tuple[re.Pattern[str], Action, str]] = []
    for expression, action, message in rules:
        try:
            compiled.append((re.compile(expression, re.IGNORECASE), action, message))
        except re.error:
            continue

    def watch(seen: Seen) -> Finding | None:
        met = [rule for rule in compiled if any(rule[0].search(text) for text in _texts(seen, 10, rule[1]))]
        if not met:
            return None
        _, action, message = max(met, key=lambda rule: SEVERITY[rule[1]])
        return Finding(action, "pattern", message)

    return watch


def delegation(action: Action = "nudge") -> Watcher:
    """An agent that should delegate writes files through the shell itself."""

    def watch(seen: Seen) -> Finding | None:
        last = next((step for step in reversed(seen.steps) if step.kind == "command"), None)
        if last is None or not _WRITES.search(_said(last)):
            return None
        return Finding(action, "delegation", "You write files yourself. Delegate this instead.")

    return watch


def quality(*, require_tests: bool = True, max_files: int = 10, action: Action = "nudge") -> Watcher:
    """Files are changed and the agent calls it done without having run tests; or very many are changed."""

    def watch(seen: Seen) -> Finding | None:
        changed = {one.get("path", "") for step in seen.steps if step.kind == "files" for one in step.changes}
        if len(changed) > max_files:
            text = f"{len(changed)} files are changed, more than {max_files}. Make smaller steps."
            return Finding(action, "quality", text)
        said_last = bool(seen.steps) and seen.steps[-1].kind == "message"
        tested = any(step.kind == "command" and _TESTS.search(_said(step)) for step in seen.steps)
        if require_tests and changed and said_last and not tested:
            return Finding(action, "quality", "Files are changed and no tests were run. Run them.")
        return None

    return watch


def _signature(step: Step) -> str:
    if step.kind == "tool":
        return f"{step.name} {json.dumps(dict(step.arguments), sort_keys=True, default=str)}"
    return f"{step.kind} {step.text} {[dict(one) for one in step.changes]}"


def _texts(seen: Seen, count: int, action: Action) -> list[str]:
    words = SEVERITY[action] <= SEVERITY["nudge"]  # an agent that says what it leaves alone is not stopped
    said = [text if words or step.kind in _DOING else "" for step in seen.steps if (text := _said(step))]
    return said[-count:]


def _said(step: Step) -> str:
    """What a step says or does, as text: its words, a tool's arguments, the files it changes."""
    if step.text:
        return step.text[:_LOOKED_AT]
    if step.changes:
        return " ".join(one.get("path", "") for one in step.changes)[:_LOOKED_AT]
    if step.arguments:
        return f"{step.name} {json.dumps(dict(step.arguments), ensure_ascii=False, default=str)}"[:_LOOKED_AT]
    return ""
