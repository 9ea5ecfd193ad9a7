"""A trajectory: the steps of an agent's work, told in full or in short. Pure."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from nanobot.executor import Step, StepKind, StepState
from nanobot.messages import Line

THOUGHT = 100  # characters, in a summary
OUTPUT = 100
ARGUMENTS = 100
SAID = 200


def joined(steps: Iterable[Step]) -> list[Step]:
    """One step for each thing done: a start is replaced by its end, and a result joins the call it answers."""
    found: list[Step] = []
    place: dict[tuple[int, str], int] = {}
    for step in steps:
        key = (step.turn, step.id)
        if step.kind == "result" and key in place:
            call = found[place[key]]
            found[place[key]] = msgspec.structs.replace(
                call,
                output=step.output,
                state=call.state if call.state == "declined" else step.state,
                exit_code=step.exit_code if step.exit_code is not None else _success(call, step),
            )
        elif step.kind in {"command", "tool", "files", "todo", "search"} and step.id and key in place:
            found[place[key]] = step
        else:
            if step.id and step.kind in {"command", "tool", "files", "todo", "search"}:
                place[key] = len(found)
            found.append(step)
    return found


def _success(call: Step, result: Step) -> int | None:
    return 0 if call.kind == "command" and result.state == "completed" else None


def told(step: Step, *, full: bool = False) -> str:
    """One step as a person reads it."""
    match step.kind:
        case "thinking":
            return f"[thinking] {_cut(step.text, THOUGHT, full)}"
        case "command":
            out = f"\n  → {_cut(step.output, OUTPUT, full)}" if step.output else ""
            # None is an unknown status, which is not the same as none worth telling
            code = step.exit_code
            if code is None:
                known = "" if step.state == "completed" else f" ({_unfinished(step)})"
            else:
                known = f" (exit: {code})" if code else ""
            return f"[command] $ {step.text if full else _cut(step.text, SAID, full)}{out}{known}"
        case "tool":
            out = f"\n[result] {_cut(step.output, OUTPUT, full)}" if step.output else ""
            if full:
                arguments = json.dumps(dict(step.arguments), indent=2, ensure_ascii=False)
                return f"[tool] {step.name}\n{arguments}{out}"
            short = _cut(json.dumps(dict(step.arguments), ensure_ascii=False), ARGUMENTS, full)
            return f"[tool] {step.name}({short}){out}"
        case "result":
            return f"[result] {_cut(step.output, OUTPUT, full)}"
        case "files":
            named = ", ".join(f"{one.get('kind', 'change')} {one.get('path', '?')}" for one in step.changes)
            known = "" if step.state == "completed" else f" ({_unfinished(step)})"
            return f"[files] {_cut(named, SAID, full)}{known}"
        case "said":
            return f"[said] {_cut(step.text, SAID, full)}"
        case "message":
            return f"[response] {_cut(step.text, SAID, full)}"
        case kind:
            return f"[{kind}] {_cut(step.text, SAID, full)}"


def _unfinished(step: Step) -> str:
    return {"started": "no end seen", "declined": "declined"}.get(step.state, step.state)


def summary(steps: Iterable[Step], *, full: bool = False) -> list[str]:
    return [told(step, full=full) for step in joined(steps)]


def of_history(lines: Sequence[Line]) -> list[Step]:
    """The steps of our own agent, from its session's history. Their tokens sum up to what their turns used."""
    steps: list[Step] = []
    calls: dict[str, tuple[str, dict[str, Any]]] = {}
    turn = asked = spent = 0
    answering: Any = None  # a turn's id; in files of others, which name none, the number of what was asked
    for line in lines:
        at = str(line.get("timestamp") or "")
        text = str(line.get("content") or "")
        if line.get("role") in {"assistant", "tool"} and (line.get("turn") or asked) != answering:
            answering = line.get("turn") or asked
            turn, spent = turn + 1, 0
        match line.get("role"):
            case "user":
                asked += not line.get("injected")
            case "assistant":
                before, spent = spent, max(spent, _tokens(line.get("spent") or line.get("usage")))
                tokens = spent - before
                if line.get("reasoning"):
                    steps.append(Step("thinking", text=str(line["reasoning"]), at=at, turn=turn))
                if text:
                    failed = line.get("injected") == "failed"
                    kind: StepKind = "error" if failed else "message"
                    steps.append(Step(kind, text=text, at=at, turn=turn, tokens=tokens))
                    tokens = 0
                for call in line.get("tool_calls") or ():
                    function = call.get("function") or {}
                    arguments = _arguments(function.get("arguments"))
                    calls[str(call.get("id"))] = (str(function.get("name")), arguments)
                    step = called(str(call.get("id")), str(function.get("name")), arguments, at, turn)
                    steps.append(msgspec.structs.replace(step, tokens=tokens))
                    tokens = 0
            case "tool":
                call_id = str(line.get("tool_call_id"))
                name = calls.get(call_id, (str(line.get("name") or ""), {}))[0]
                failed = bool(line.get("error")) or text.startswith(("Error:", "Refused:", "interrupted:"))
                state: StepState = "failed" if failed else "completed"
                steps.append(
                    Step(
                        "result",
                        call_id,
                        output=text,
                        state=state,
                        exit_code=_code(text),
                        name=name,
                        at=at,
                        turn=turn,
                    )
                )
    return steps


def called(id: str, name: str, arguments: dict[str, Any], at: str = "", turn: int = 0) -> Step:
    """A call of one of our own tools, as it starts."""
    if name == "exec":
        return Step("command", id, str(arguments.get("command", "")), state="started", at=at, turn=turn)
    if name in {"write_file", "edit_file"}:
        change = {
            "path": str(arguments.get("path", "?")),
            "kind": "add" if name == "write_file" else "update",
        }
        return Step("files", id, state="started", name=name, changes=[change], at=at, turn=turn)
    return Step("tool", id, state="started", name=name, arguments=arguments, at=at, turn=turn)


def _tokens(usage: Any) -> int:
    if not isinstance(usage, dict):
        return 0
    return sum(value for name in ("input", "output") if isinstance(value := usage.get(name), int))


def _arguments(text: Any) -> dict[str, Any]:
    try:
        value = json.loads(text) if isinstance(text, str) and text.strip() else {}
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"arguments": text}


def _code(text: str) -> int | None:
    """The exec tool ends its text with the status."""
    last = text.rstrip().rpartition("\n")[2]
    if last.startswith("[exit code ") and last.endswith("]"):
        number = last.removeprefix("[exit code ").removesuffix("]")
        return int(number) if number.lstrip("-").isdecimal() else None
    return None


def _cut(text: str, width: int, full: bool) -> str:
    return text if full or len(text) <= width else text[: width - 3] + "..."
