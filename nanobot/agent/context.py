"""What of a history goes into a model call: whole turns that fit, in a legal order, never without the last request.

No I/O. The history's own lines are never changed: where a tool's result is shortened, a fresh line stands in for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from nanobot import history
from nanobot.agent import compaction
from nanobot.messages import Line

SAFETY = 1_024  # tokens left free, since counts are estimates
PRESSURE = 0.85  # share of the budget above which older turns' tool results are shortened
LONG_RESULT = 1_500  # characters of a tool result from an older turn that need no shortening
LONG_STEP = 6_000  # the same for the running turn, once there is too little room
LAST_RESORT = 600
STEPS = 8  # turns are dropped by this part of the budget at a time, so that a provider's cached prefix lasts


class Window(msgspec.Struct, frozen=True):
    """The lines of one call. `dropped` counts the history's lines left out; `tokens` is an estimate."""

    lines: list[Line]
    tokens: int
    dropped: int


def spoken(lines: Sequence[Line], last_consolidated: int, metadata: Mapping[str, Any]) -> list[Line]:
    """A history as the model should see it: the summary of what was folded away, then the rest.

    Without a summary nothing is left out, whatever the pointer says: files of other gateways move it when they
    archive.
    """
    summary = compaction.stored(metadata)
    if summary is None:
        return list(lines)
    return [compaction.preface(summary), *lines[max(0, last_consolidated) :]]


def room(*, system_tokens: int, tool_tokens: int, context_window: int, max_output: int) -> int:
    """Tokens that messages may have. At least an eighth of the window, so that something is always asked."""
    left = context_window - max_output - system_tokens - tool_tokens - min(SAFETY, context_window // 8)
    return max(left, context_window // 8, 1)


def fit(
    lines: Sequence[Line], *, system_tokens: int, tool_tokens: int, context_window: int, max_output: int
) -> Window:
    """Choose what is sent. May exceed the room only by the running turn's own user lines and last step."""
    budget = room(
        system_tokens=system_tokens,
        tool_tokens=tool_tokens,
        context_window=context_window,
        max_output=max_output,
    )
    legal = history.legal(lines)
    whole = tokens(legal)
    if whole <= budget * PRESSURE:
        return Window(legal, whole, 0)
    head, body = _split(legal)
    starts = compaction.starts(body)
    running = starts[-1] if starts else 0
    # 1. Tool results of older turns are shortened, all of them, so that the same lines come out next time.
    chosen = [_shorter(line, LONG_RESULT) if n < running else line for n, line in enumerate(body)]
    # 2. The oldest turns go, in steps.
    cut = _cut(chosen, starts, budget - tokens(head))
    kept = [*head, *chosen[cut:]]
    # 3. What is left is the running turn's own.
    if tokens(kept) > budget:
        kept = [*head, *_squeeze(chosen[cut:], budget - tokens(head))]
    return Window(kept, tokens(kept), len(legal) - len(kept))


def shrink(window: Window) -> Window:
    """About half of a window that the provider found too long: fewer turns first, then shorter tool results."""
    target = window.tokens // 2
    head, body = _split(window.lines)
    cut, left = 0, tokens(window.lines)
    for start in compaction.starts(body)[1:]:
        if left <= target:
            break
        left -= tokens(body[cut:start])
        cut = start
    kept = body[cut:]
    if tokens(kept) + tokens(head) > target:
        kept = _squeeze([_shorter(line, LAST_RESORT) for line in kept], target - tokens(head))
    lines = [*head, *kept]
    return Window(lines, tokens(lines), window.dropped + len(window.lines) - len(lines))


def tokens(lines: Sequence[Line]) -> int:
    try:
        # All are known but for the first time, so the short way first.
        return sum([line.tokens for line in lines])
    except AttributeError:
        pass
    return sum(map(history.estimate_tokens, lines))


def _split(lines: list[Line]) -> tuple[list[Line], list[Line]]:
    """The summary, which always stays, and the rest."""
    at = 1 if lines and lines[0].get("injected") == compaction.INJECTED else 0
    return lines[:at], lines[at:]


def _cut(lines: Sequence[Line], starts: Sequence[int], budget: int) -> int:
    """Where to begin so that the rest fits, at a turn's start; the last turn's where none does."""
    over = _over(lines, budget)
    gone = at = 0
    for start in starts[1:]:
        if gone >= over:
            break
        gone += tokens(lines[at:start])
        at = start
    return at


def _squeeze(turn: Sequence[Line], budget: int) -> list[Line]:
    """One turn made smaller. Its last step is what the model works on, so the older ones give way first."""
    kept = list(turn)
    last = next((n for n in range(len(kept) - 1, -1, -1) if kept[n].get("tool_calls")), len(kept))
    for limit in (LONG_STEP, LAST_RESORT):
        if tokens(kept) <= budget:
            return kept
        kept[:last] = [_shorter(line, limit) for line in kept[:last]]
    if tokens(kept[last:]) > budget // 2:
        kept[last:] = [_shorter(line, LONG_STEP) for line in kept[last:]]
    over, gone = _over(kept, budget), set[int]()
    for step in _steps(kept[:last]):
        if over <= 0:
            break
        gone.update(step)
        over -= tokens([kept[n] for n in step])
    kept = [line for n, line in enumerate(kept) if n not in gone]
    return kept if tokens(kept) <= budget else [_shorter(line, LAST_RESORT) for line in kept]


def _over(lines: Sequence[Line], budget: int) -> int:
    """Tokens to leave out: in coarse steps, so that the same beginning serves several calls."""
    step = max(1, budget // STEPS)
    return -(-(tokens(lines) - budget) // step) * step


def _steps(lines: Sequence[Line]) -> Iterator[list[int]]:
    """The assistant lines with their results, by index, oldest first; user lines belong to none."""
    step: list[int] = []
    for n, line in enumerate(lines):
        if line.get("role") == "assistant":
            if step:
                yield step
            step = [n]
        elif line.get("role") == "tool":
            step.append(n)
    if step:
        yield step


def _shorter(line: Line, limit: int) -> Line:
    """A tool result with its middle left out, as a new line; any other line as it is."""
    content = line.get("content")
    if line.get("role") != "tool" or not isinstance(content, str) or len(content) <= limit:
        return line
    copy = Line(line)  # the cached slots are not copied: they are of the long text
    copy["content"] = compaction.clip(content, limit)
    return copy
