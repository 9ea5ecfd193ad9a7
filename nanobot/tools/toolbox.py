"""The tools by name, and the one way in which a model's call becomes a result."""

import asyncio
import difflib
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from loguru import logger

from nanobot.clock import being_cancelled, deadline
from nanobot.errors import BadArguments, DeadlineExceeded, Refused, ToolError
from nanobot.files import Files
from nanobot.model import ToolCall, ToolSpec
from nanobot.security.audit import Audit
from nanobot.security.context import SecurityContext
from nanobot.stores.media import MediaFiles
from nanobot.tool import Tool, ToolContext, ToolResult
from nanobot.tools.files import file_tools
from nanobot.tools.memory import memory_tools
from nanobot.tools.message import Send, message_tool
from nanobot.tools.search import search_tools
from nanobot.tools.shell import exec_tool
from nanobot.tools.spill import LIMIT, spill
from nanobot.tools.web import web_tool

__all__ = ["Send", "Toolbox", "run_tool", "standard"]

Outcome = Literal["ok", "error", "refused", "timeout", "cancelled"]


class Toolbox:
    """Tools by name. `specs` is one object for its whole life, so that its encoding can be kept."""

    def __init__(
        self,
        tools: Iterable[Tool],
        security: SecurityContext,
        audit: Audit | None = None,
        *,
        keep: bool = True,
    ) -> None:
        """`keep`: long results are kept whole in the workspace."""
        self.keep = keep
        self._tools = {tool.spec.name: tool for tool in tools}
        self.security = security
        self.audit = audit
        self.names: tuple[str, ...] = tuple(self._tools)
        self.specs: Sequence[ToolSpec] = tuple(tool.spec for tool in self._tools.values())

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def extended(self, tools: Iterable[Tool]) -> "Toolbox":
        """A new toolbox that holds these tools too; one of the same name takes the older one's place."""
        return self._of((self._tools | {tool.spec.name: tool for tool in tools}).values())

    def only(self, names: Iterable[str]) -> "Toolbox":
        """A new toolbox of some of these tools."""
        wanted = set(names)
        return self._of(t for n, t in self._tools.items() if n in wanted)

    def _of(self, tools: Iterable[Tool]) -> "Toolbox":
        return Toolbox(tools, self.security, self.audit, keep=self.keep)


def standard(
    security: SecurityContext,
    state: Path,
    send: Send,
    audit: Audit | None = None,
    files: Files | None = None,
) -> Toolbox:
    """The tools every agent has: files, search, exec, web_fetch, message and memory. `files` keeps what is sent."""
    files = files or MediaFiles(state)
    tools: list[Tool] = [
        *file_tools(security),
        *search_tools(security),
        exec_tool(security),
        web_tool(security),
        message_tool(security, state / "media" / "outgoing", send, files),
        *memory_tools(security),
    ]
    return Toolbox(tools, security, audit, keep=not files.sealed)


async def run_tool(toolbox: Toolbox, call: ToolCall, context: ToolContext) -> ToolResult:
    """Run a model's call. Never raises but CancelledError: what goes wrong is told to the model as an error result."""
    outcome: Outcome = "cancelled"
    try:
        result, outcome = await _attempt(toolbox, call, context)
        text = result.text
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()  # file names may hold what no JSON can
        if len(text) > LIMIT:
            text = await asyncio.to_thread(
                spill,
                toolbox.security,
                context.workspace,
                context.session,
                call.id,
                text,
                keep=toolbox.keep,
            )
        return result if text is result.text else msgspec.structs.replace(result, text=text)
    finally:
        _record(toolbox.audit, call, context, outcome)


async def _attempt(toolbox: Toolbox, call: ToolCall, context: ToolContext) -> tuple[ToolResult, Outcome]:
    try:
        tool = _find(toolbox, call.name)
        arguments = _parse(call)
        async with deadline(tool.timeout, call.name):
            result = await tool.run(arguments, context)
    except Refused as error:
        return ToolResult(f"Refused: {error}", error=True), "refused"
    except ToolError as error:
        return ToolResult(f"Error: {error}", error=True), "error"
    except DeadlineExceeded as error:
        return ToolResult(f"Error: {error}; what it did until then is unknown", error=True), "timeout"
    # A worker's edge: a tool's defect must not end the turn; it is logged.
    except (Exception, asyncio.CancelledError) as error:
        if being_cancelled():
            raise
        logger.opt(exception=error).error("tool {} failed in session {}", call.name, context.session)
        return ToolResult(f"Error: {call.name} failed: {type(error).__name__}: {error}", error=True), "error"
    return result, "error" if result.error else "ok"


def _find(toolbox: Toolbox, name: str) -> Tool:
    tool = toolbox.get(name)
    if tool is None:
        near = difflib.get_close_matches(name, toolbox.names, n=3, cutoff=0.5) or toolbox.names
        raise BadArguments(f"there is no tool {name!r}", f"did you mean {', '.join(near)}?")
    return tool


def _parse(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object; models send an empty text for a call without any."""
    if not call.arguments.strip():
        return {}
    try:
        arguments = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError as error:
        raise BadArguments(
            f"the arguments of {call.name} are not valid JSON ({error}); they were: {call.arguments[:300]}",
            "send one complete JSON object; escape quotes and line breaks inside strings",
        ) from error
    if not isinstance(arguments, dict):
        raise BadArguments(f"the arguments of {call.name} must be a JSON object, not {call.arguments[:100]}")
    return arguments


def _record(audit: Audit | None, call: ToolCall, context: ToolContext, outcome: Outcome) -> None:
    """Who ran what. Only a digest of the arguments is kept, since they may hold what must not be written down."""
    if audit is None:
        return
    try:
        audit.append(
            "tool",
            session=context.session,
            turn=context.turn,
            call=call.id,
            tool=call.name,
            arguments=hashlib.sha256(call.arguments.encode()).hexdigest()[:32],
            outcome=outcome,
        )
    except OSError as error:
        logger.error("audit trail {}: {}", audit.path, error)
