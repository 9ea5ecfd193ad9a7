"""The rules of a history: which sequences a model accepts, what fits its window, where turns begin and end.

How turns are marked in a history: a user line's `turn` is its own inbox id; every assistant and tool line carries the
id of the row that leads its turn; the turn's final answer is the assistant line that has `latency_ms`.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from nanobot.events import Usage
from nanobot.messages import Line
from nanobot.model import ToolCall

INTERRUPTED = "interrupted: outcome unknown"

# Rules of thumb, not a tokenizer: vendors give four characters of English a token, East Asian scripts take about one
# token a character, and every message costs a few for its frame. Usage as the provider counts it is the truth.
MESSAGE_TOKENS = 4
CALL_TOKENS = 8
IMAGE_TOKENS = 1_000
# Lines `injected` so are shown to people and not to models, which would imitate them.
UNSPOKEN = frozenset({"command", "failed"})
RECENT = 16  # lines at a history's end that a running turn is looked for in first


class Interrupted(msgspec.Struct, frozen=True):
    """What a history knows of a turn: its final line, the inbox ids it heard, and its calls without a result."""

    final: Line | None
    heard: frozenset[str]
    unfinished: Sequence[ToolCall]


def for_models(lines: Iterable[Line]) -> list[Line]:
    """The lines that a model may be told of: no commands and their answers, no errors of ours.

    `_command` is how the reference's files mark a command.
    """
    return [line for line in lines if line.get("injected") not in UNSPOKEN and not line.get("_command")]


def legal(lines: Sequence[Line]) -> list[Line]:
    """The nearest sequence that every provider accepts; the same one again when it is legal already.

    Results directly follow their call, once; a call without one gets INTERRUPTED; orphan and duplicate results,
    malformed calls and empty answers are left out. User lines are all kept; one that came between a call and its
    results moves behind them.
    """
    out: list[Line] = []
    add = out.append
    open_calls: dict[str, str] = {}  # id → name of the calls that wait for their result
    held: list[Line] = []  # what came while calls were open
    caller: Line | None = None
    for line in lines:
        role = line.get("role")
        if role == "tool":
            if line.get("tool_call_id") in open_calls:
                del open_calls[line["tool_call_id"]]
                add(line)
                if not open_calls and held:
                    out += held
                    held = []
        elif role == "assistant":
            calls = line.get("tool_calls")
            if calls is not None:
                line, names = _sound(line, calls)  # noqa: PLW2901 - the line without its malformed calls
            else:
                names = None
            if not names and _blank(line.get("content")):
                continue
            if open_calls:
                out += _synthetic(open_calls, caller)
            if held:
                out += held
                held = []
            add(line)
            open_calls, caller = names or {}, line
        elif role == "user" or role == "system":  # noqa: PLR1714 - this loop runs over whole histories at each turn
            if open_calls:
                held.append(line)
            else:
                add(line)
    if open_calls:
        out += _synthetic(open_calls, caller)
    out += held
    return out


def window(lines: Sequence[Line], start: int = 0, max_messages: int = 0, max_tokens: int = 0) -> list[Line]:
    """The legal tail of `lines[start:]` that fits; 0 means no limit.

    It begins with a user line where something was cut off, never with a tool result. The last user line, and the one
    that leads the running turn, are kept whatever they cost.
    """
    end = len(lines)
    first = start = max(0, min(start, end))
    if max_messages > 0:
        first = max(first, end - max_messages)
    if max_tokens > 0:
        first = _affordable(lines, first, max_tokens)
    if first == 0:
        return legal(lines)
    for index in range(first, end):
        if lines[index].get("role") == "user":
            lead = _lead(lines, index)
            return legal(lines[index:] if lead is None else [lines[lead], *lines[index:]])
    # No user line fits: a long run of tools. Its question stays, what is between is left out.
    for index in range(first - 1, -1, -1):
        if lines[index].get("role") == "user":
            return legal([lines[index], *lines[first:]])
    return legal(lines[first:])


def estimate_tokens(line: Line) -> int:
    """About how many tokens a model counts for this line; remembered in `line.tokens`."""
    try:
        return line.tokens
    except AttributeError:
        pass
    total = MESSAGE_TOKENS + _content_tokens(line.get("content"))
    calls = line.get("tool_calls")
    if isinstance(calls, list):
        total += sum(CALL_TOKENS + _json_tokens(call) for call in calls)
    media = line.get("media")
    if isinstance(media, list):
        total += IMAGE_TOKENS * len(media)
    extra = line.get("extra") or line.get("thinking_blocks")
    if extra:
        total += _json_tokens(extra)
    with suppress(AttributeError):  # a plain dict that a caller put into the history
        line.tokens = total
    return total


def text_tokens(text: str) -> int:
    """About how many tokens a text takes: a quarter of its ASCII characters, one for a Chinese character."""
    if text.isascii():
        return len(text) // 4 + 1
    # UTF-8 spends 2 more bytes on a Chinese character, 1 on a Cyrillic one: 1/4 + 2 · 3/8 = 1 token, 1/4 + 3/8 = 5/8.
    surplus = len(text.encode("utf-8", "replace")) - len(text)
    return (2 * len(text) + 3 * surplus) // 8 + 1


def turns(lines: Sequence[Line]) -> list[tuple[int, int]]:
    """A history's turns as half-open ranges that cover it without a gap.

    A turn begins with a user line (the first one perhaps with what a channel said unasked); lines that were steered
    into a running turn, and questions taken together, belong to the same one.
    """
    if not lines:
        return []
    starts = [0]
    lead: Any = None  # the turn id that the answers of the present range carry
    asking = True  # no answer has come yet in the present range
    for index, line in enumerate(lines):
        role = line.get("role")
        if role != "user":
            lead, asking = line.get("turn") or lead, False
        elif not asking:
            following = _answering(lines, index)
            if following is None or following != lead:
                starts.append(index)
                lead, asking = None, True
    return list(zip(starts, [*starts[1:], len(lines)], strict=True))


def interrupted(lines: Sequence[Line], turn: str) -> Interrupted:
    """What is there of a turn, so that a restart continues it from its last line and does nothing twice."""
    # A turn that runs is at the end, a new one nowhere: neither should cost a walk over a long history.
    recent = turn in [line.get("turn") for line in lines[-RECENT:]]
    if not recent and turn not in [line.get("turn") for line in lines]:
        ids = [line.get("turn") for line in lines if line.get("role") == "user"]
        return Interrupted(None, frozenset(filter(None, ids)), [])
    final: Line | None = None
    heard: set[str] = set()
    results: set[str] = set()
    calls: list[ToolCall] = []
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        role = line.get("role")
        if role == "user":
            if line.get("turn"):
                heard.add(line["turn"])
            if line.get("turn") == turn:
                break
        elif line.get("turn") != turn:
            continue
        elif role == "tool":
            results.add(str(line.get("tool_call_id")))
        elif role == "assistant":
            if "latency_ms" in line and final is None:
                final = line
            # Going backwards, a result belongs to the nearest call before it: providers may use an id again.
            mine = [call for call in _calls(line) if call.id not in results]
            results -= {call.id for call in _calls(line)}
            calls[:0] = mine
    return Interrupted(final, frozenset(heard), calls)


def spent(lines: Sequence[Line], turn: str) -> tuple[Usage, float]:
    """What a turn used before it was interrupted, and how many seconds it worked, as far as its lines tell."""
    newest: Any = None
    for line in reversed(lines):
        if line.get("turn") != turn:
            continue
        if line.get("role") == "user":
            break
        newest = newest or line.get("timestamp")
        if told := line.get("spent"):
            with suppress(
                msgspec.ValidationError, KeyError, TypeError, ValueError
            ):  # a file may hold anything
                after = datetime.fromisoformat(newest) - datetime.fromisoformat(line["timestamp"])
                return msgspec.convert(told, Usage), max(0.0, told["ms"] / 1_000 + after.total_seconds())
            break
    return Usage(), 0.0


def unfinished(lines: Sequence[Line], turn: str) -> Sequence[ToolCall]:
    """The calls of a turn that have no result yet, oldest first."""
    return interrupted(lines, turn).unfinished


def _sound(line: Line, calls: Any) -> tuple[Line, dict[str, str]]:
    """The line with only its well-formed calls (a copy where some are not), and their names by id."""
    names: dict[str, str] = {}
    bad = type(calls) is not list or not calls
    for call in () if bad else calls:
        try:
            call_id, function = call["id"], call["function"]
            name = function["name"]
            if type(name) is str is type(call_id) and name and call_id and call_id not in names:
                names[call_id] = name
                bad = bad or type(function["arguments"]) is not str
                continue
        except (KeyError, TypeError):
            pass
        bad = True
    if not bad:
        return line, names
    mended = Line(line)
    del mended["tool_calls"]
    names.clear()
    kept = [] if type(calls) is not list else [good for call in calls if (good := _mended(call, names))]
    if kept:
        mended["tool_calls"] = kept
    return mended, names


def _mended(call: Any, names: dict[str, str]) -> dict[str, Any] | None:
    """A call with its arguments as text; None where it has no id or name, or its id is taken."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return None
    call_id, name = call.get("id"), function.get("name")
    if not (isinstance(call_id, str) and call_id and isinstance(name, str) and name) or call_id in names:
        return None
    names[call_id] = name
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        return dict(call)
    text = "{}" if arguments is None else msgspec.json.encode(arguments, enc_hook=str).decode()
    return {**call, "function": {**function, "arguments": text}}


def _synthetic(open_calls: dict[str, str], caller: Line | None) -> Iterable[Line]:
    turn = caller.get("turn") if caller is not None else None
    for call_id, name in open_calls.items():
        line = Line(role="tool", tool_call_id=call_id, name=name, content=INTERRUPTED)
        if turn:
            line["turn"] = turn
        yield line


def _blank(content: Any) -> bool:
    if type(content) is str:
        return not content or content.isspace()
    return not content


def _affordable(lines: Sequence[Line], first: int, budget: int) -> int:
    """The index from which the lines up to the end cost no more than the budget."""
    index = len(lines)
    while index > first:
        line = lines[index - 1]
        try:
            budget -= line.tokens
        except AttributeError:
            budget -= estimate_tokens(line)
        if budget < 0:
            return index
        index -= 1
    return first


def _lead(lines: Sequence[Line], first: int) -> int | None:
    """Where the question of the last turn is, if that is before `first`: a steered line must not displace it."""
    turn = lines[-1].get("turn")
    if not turn or lines[-1].get("role") == "user":
        return None
    for index in range(len(lines) - 1, -1, -1):
        if lines[index].get("role") == "user" and lines[index].get("turn") == turn:
            return index if index < first else None
    return None


def _answering(lines: Sequence[Line], index: int) -> Any:
    """The turn id of the first answer at or after an index; None where there is none or it does not say."""
    for position in range(index, len(lines)):
        if lines[position].get("role") != "user":
            return lines[position].get("turn")
    return None


def _calls(line: Line) -> list[ToolCall]:
    calls = line.get("tool_calls")
    if calls is None:
        return []
    sound, _ = _sound(line, calls)
    return [
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in sound.get("tool_calls", ())
    ]


def _content_tokens(content: Any) -> int:
    if isinstance(content, str):
        return text_tokens(content)
    if not isinstance(content, list):
        return 0 if content is None else _json_tokens(content)
    total = 0
    for block in content:
        text = block.get("text") if isinstance(block, dict) else block
        # A block without text is a picture or a file: its bytes are not its price.
        total += text_tokens(text) if isinstance(text, str) else IMAGE_TOKENS
    return total


def _json_tokens(value: Any) -> int:
    try:
        return len(msgspec.json.encode(value, enc_hook=str)) // 4 + 1
    except (TypeError, ValueError):
        return len(str(value)) // 4 + 1
