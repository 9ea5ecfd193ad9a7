"""The tools of delegation: begin, continue, look at and end sub-sessions. Every result is an object with `success`."""

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from nanobot import child as rules
from nanobot.child import Caller, Child, NoSuchChild
from nanobot.child_maker import OWN
from nanobot.child_trajectory import trajectory
from nanobot.children import Children
from nanobot.errors import NanobotError
from nanobot.security import tree
from nanobot.session_metrics import load_of
from nanobot.tool import FunctionTool, Tool, ToolContext, ToolResult, tool

NO_ANSWER = "(no response captured)"
LISTED = 50  # sub-sessions in one list, besides those at work
SLEEP_MOST = 300.0  # seconds
_SPARE = 120.0  # what a call that waits may take beyond the sub-session's own time
SessionId = Annotated[str, Meta(description="The sub-session's id, or its first characters (at least 4).")]


class Delegate(msgspec.Struct, forbid_unknown_fields=True):
    task: Annotated[
        str, Meta(description="All it must know: it sees nothing of this conversation.", min_length=1)
    ]
    executor: Annotated[str, Meta(description="agent (like you), codex, or claude.")] = OWN
    mode: Annotated[
        Literal["sync", "async"],
        Meta(description="sync waits for the result; async brings it later as a message."),
    ] = "sync"
    model: str | None = None
    working_dir: Annotated[
        str | None, Meta(description="An allowed directory; by default the workspace.")
    ] = None


class Converse(msgspec.Struct, forbid_unknown_fields=True):
    session_id: SessionId
    message: Annotated[str, Meta(min_length=1)]
    wait: Annotated[bool, Meta(description="Wait for the answer; else it comes later as a message.")] = True


class Check(msgspec.Struct, forbid_unknown_fields=True):
    session_id: SessionId
    latest: Annotated[bool, Meta(description="Only the last answer; else all messages.")] = True


class One(msgspec.Struct, forbid_unknown_fields=True):
    session_id: SessionId


class Trajectory(msgspec.Struct, forbid_unknown_fields=True):
    session_id: SessionId
    full: Annotated[bool, Meta(description="Nothing is cut.")] = False


class End(msgspec.Struct, forbid_unknown_fields=True):
    session_id: SessionId
    reason: str | None = None
    delete: Annotated[bool, Meta(description="Remove its history and files too.")] = False


class List(msgspec.Struct, forbid_unknown_fields=True):
    status: Literal["pending", "running", "completed", "failed", "killed", "timed_out", "paused"] | None = (
        None
    )


class Sleep(msgspec.Struct, forbid_unknown_fields=True):
    seconds: Annotated[float, Meta(description="At most 300.")]


def delegation_tools(children: Children) -> list[Tool]:
    """The tools, for every session; what one may do with them depends on its depth and the configuration."""
    records, clock = children.records, children.clock
    waiting = children.settings.timeout + _SPARE

    @tool(
        "delegate",
        "Give a task to a sub-session, which works on its own with its own context. "
        f"Executors: {', '.join([OWN, *children.executors])}. Async results arrive as messages; do not poll for them.",
        idempotent=True,  # the same call finds the sub-session that it made
        timeout=waiting,
    )
    async def delegate(arguments: Delegate, context: ToolContext) -> ToolResult:
        wait = arguments.mode == "sync"
        try:
            child = await children.begin(
                _caller(context),
                arguments.task,
                executor=arguments.executor,
                model=arguments.model or "",
                working_dir=arguments.working_dir,
                wait=wait,
            )
        except NanobotError as error:
            return refusal(error)
        if wait:
            child = await _until_ended(children, child)
        return told(_delegated(child, await records.answer(child) if child.ended else "", children))

    @tool(
        "converse",
        "Say something to a sub-session whose last turn has ended; it knows what was said before. "
        "Claude hears it also while it works.",
        idempotent=True,
        timeout=waiting,
    )
    async def converse(arguments: Converse, context: ToolContext) -> ToolResult:
        try:
            child = records.find(arguments.session_id, context.session)
            child = await children.go_on(_caller(context), child, arguments.message, wait=arguments.wait)
        except NanobotError as error:
            return refusal(error)
        if arguments.wait:
            child = await _until_ended(children, child)
        said = {"turn": child.turn, "you_said": rules.cut(arguments.message, 100)}
        return told(_delegated(child, await records.answer(child) if child.ended else "", children) | said)

    @tool("check_session", "A sub-session's state and its answer.", read_only=True)
    async def check(arguments: Check, context: ToolContext) -> ToolResult:
        try:
            child = await records.seen(records.find(arguments.session_id, context.session))
        except NanobotError as error:
            return refusal(error)
        lines = await records.history(child)
        shown = [line for line in lines if line.get("role") in {"user", "assistant"} and line.get("content")]
        response: Any = _response(child, await records.answer(child), "(no response yet)")
        if not arguments.latest:
            response = [{"role": line["role"], "content": line["content"]} for line in shown]
        process = child.process
        running = None
        if process is not None and not child.ended:
            root = tree.Identity(process.pid, process.started)
            running = msgspec.to_builtins(await asyncio.to_thread(load_of, {root: process.marker}))
        return told(
            _state(child)
            | {
                "process": running,
                "turn": child.turn,
                "message_count": len(shown),
                "task": rules.cut(child.task, 80),
                "response": response,
                "tokens": rules.tokens(child),
                "runtime": rules.age((child.updated_at - child.created_at).total_seconds())
                if child.ended
                else rules.age((clock.now() - child.created_at).total_seconds()),
                "log_file": _log_file(child, children),
            }
        )

    @tool("peek_session", "One line on what a sub-session does now.", read_only=True)
    async def peek(arguments: One, context: ToolContext) -> ToolResult:
        try:
            child = records.find(arguments.session_id, context.session)
        except NanobotError as error:
            return refusal(error)
        latest = rules.one_line(child.last or await records.answer(child))
        return told(
            {
                "success": True,
                "session_id": child.short,
                "status": child.status,
                "is_running": not child.ended,
                "latest_message": rules.cut(latest, 150) or None,
            }
        )

    @tool("get_trajectory", "What a sub-session did, step by step.", read_only=True)
    async def get_trajectory(arguments: Trajectory, context: ToolContext) -> ToolResult:
        try:
            child = records.find(arguments.session_id, context.session)
        except NanobotError as error:
            return refusal(error)
        return told(await trajectory(records, child, full=arguments.full))

    @tool("end_session", "End a sub-session, with all it runs.", idempotent=True)
    async def end(arguments: End, context: ToolContext) -> ToolResult:
        try:
            child = records.find(arguments.session_id, context.session)
        except NanobotError as error:
            return refusal(error)
        if arguments.delete:
            await children.delete(child, arguments.reason or "deleted by its parent")
            return told(_ended(child) | {"status": "deleted"})
        return told(_ended(await children.end(child, arguments.reason or "ended by its parent")))

    @tool("list_sessions", "Your sub-sessions, newest first.", read_only=True)
    async def list_sessions(arguments: List, context: ToolContext) -> ToolResult:
        return told(listing(records.of(context.session), clock.now(), arguments.status))

    @tool("sleep", "Wait, for example for something outside.", read_only=True, timeout=SLEEP_MOST + _SPARE)
    async def sleep(arguments: Sleep, context: ToolContext) -> ToolResult:  # noqa: ARG001 - every tool has it
        if not arguments.seconds > 0:
            return told({"success": False, "error": "seconds must be more than 0"})
        seconds = min(arguments.seconds, SLEEP_MOST)
        await clock.sleep(seconds)
        capped = arguments.seconds > SLEEP_MOST
        return told({"success": True, "slept_seconds": seconds, "capped": capped, "max_allowed": SLEEP_MOST})

    made: Sequence[FunctionTool[Any]] = (
        delegate,
        converse,
        check,
        peek,
        get_trajectory,
        end,
        list_sessions,
        sleep,
    )
    return list(made)


def listing(found: Sequence[Child], now: Any, status: str | None = None) -> dict[str, Any]:
    """A list of sub-sessions with its counts, which are those of all."""
    wanted = [child for child in found if status in (None, child.status)]
    rows = [rules.row(child, now) for child in rules.newest(wanted, LISTED)]
    waiting = sum(1 for one in found if rules.needs_attention(one))
    left_out = {"left_out": len(wanted) - len(rows)} if len(wanted) > len(rows) else {}
    return {
        "success": True,
        "sessions": rows,
        "count": len(wanted),
        **left_out,
        "running": sum(1 for one in found if not one.ended),
        "completed": sum(1 for one in found if one.status == "completed"),
        "needs_attention": waiting,
        "filter": status,
        "hint": f"{waiting} ended since you last looked: use check_session" if waiting else "",
    }


async def _until_ended(children: Children, child: Child) -> Child:
    """Wait for its end; whoever stops the waiting stops the work, but for a gateway that stops: that one goes on."""
    try:
        return await children.until_ended(child)
    except asyncio.CancelledError:
        if not children.draining():
            await asyncio.shield(children.end(child, "its caller was stopped", wait=False))
        raise


def _delegated(child: Child, answer: str, children: Children) -> dict[str, Any]:
    shown = _state(child) | {
        "executor": child.executor,
        "model": child.model or None,
        "task": rules.cut(child.task, 100),
        "log_file": _log_file(child, children),
    }
    if child.ended:
        shown["response"] = _response(child, answer)
        shown["tokens"] = rules.tokens(child)
        known = f"converse {child.short} continues it"
        if child.status in {"failed", "timed_out"}:
            known = f"see get_trajectory {child.short}; converse may continue it"
        elif child.status == "killed":
            known = f"see get_trajectory {child.short}; delegate begins a new one"
        shown["hint"] = shown.get("hint") or known
    else:
        running = msgspec.structs.replace(child, status="running")  # or about to
        shown |= {"status": "running", "session": rules.header(running)}
        shown["hint"] = f"its result comes as a message; check_session {child.short} tells how far it is"
    return shown


def _response(child: Child, answer: str, none: str = NO_ANSWER) -> str:
    """Its last words, where they are not only its error again."""
    return none if not answer or answer == child.error else answer


def _state(child: Child) -> dict[str, Any]:
    state: dict[str, Any] = {
        "success": child.status not in {"failed", "timed_out", "killed", "paused"},
        "session": rules.header(child),
        "session_id": child.id,
        "status": child.status,
        "is_running": not child.ended,
    }
    if child.error:
        state["error"], _, hint = child.error.partition("\nHint: ")
        if hint:
            state["hint"] = hint
    if child.restarts:
        state["restarts"], state["restart_reason"] = child.restarts, child.unwell
    if child.watched:
        state["watchers"] = list(child.watched)
    return state


def _ended(child: Child) -> dict[str, Any]:
    return {
        "success": True,
        "session": rules.header(child),
        "session_id": child.id,
        "status": child.status,
        "turn": child.turn,
        "tokens": rules.tokens(child),
    }


def _log_file(child: Child, children: Children) -> str:
    if child.executor == OWN:
        return child.key
    return str(children.records.folder(child) / f"turn_{child.turn}.jsonl")


def refusal(error: NanobotError) -> ToolResult:
    """What could not be done, in the shape of all results."""
    message, _, hint = str(error).partition("\nHint: ")
    kind = {"hint": hint} if hint else {"hint": "list_sessions shows what there is"}
    if isinstance(error, NoSuchChild):
        return told({"success": False, "error": message, **kind})
    return told(
        {"success": False, "error": message, "hint": hint or "correct the call or do the work yourself"}
    )


def told(result: dict[str, Any]) -> ToolResult:
    return ToolResult(
        json.dumps(result, ensure_ascii=False, default=str), error=not result["success"], data=result
    )


def _caller(context: ToolContext) -> Caller:
    return Caller(context.session, context.address, context.turn, context.call_id)
