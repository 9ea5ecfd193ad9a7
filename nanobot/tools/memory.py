"""remember and forget: the lines of memory/MEMORY.md, which every session reads at its start."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from nanobot.errors import ToolError
from nanobot.security.context import SecurityContext
from nanobot.security.paths import Boundary
from nanobot.tool import FunctionTool, ToolContext, ToolResult, tool

FILE = "memory/MEMORY.md"
MOST_BYTES = 32_768  # the file is part of every prompt
SECTION = "Notes"


class Remember(msgspec.Struct, forbid_unknown_fields=True):
    text: Annotated[str, Meta(description="One fact, in one sentence.", min_length=1, max_length=1_000)]
    section: Annotated[str, Meta(description="The heading it belongs under.", max_length=80)] = SECTION


class Forget(msgspec.Struct, forbid_unknown_fields=True):
    text: Annotated[str, Meta(description="The remembered fact, or a part that only it has.", min_length=3)]


def memory_tools(security: SecurityContext) -> Sequence[FunctionTool[Any]]:
    changing = threading.Lock()  # sessions share the file

    @tool(
        "remember",
        "Keep a fact for all later conversations: preferences, names, decisions. Not for what only this chat needs.",
        idempotent=True,
    )
    async def remember(arguments: Remember, context: ToolContext) -> ToolResult:
        place = security.within(context.workspace)
        return ToolResult(await asyncio.to_thread(_change, place.boundary, changing, arguments))

    @tool("forget", "Remove a remembered fact.", idempotent=True)
    async def forget(arguments: Forget, context: ToolContext) -> ToolResult:
        place = security.within(context.workspace)
        return ToolResult(await asyncio.to_thread(_change, place.boundary, changing, arguments))

    return (remember, forget)


def added(text: str, arguments: Remember) -> str | None:
    """The file with the fact under its heading; None where it is there already."""
    fact, section = (
        " ".join(arguments.text.split()),
        " ".join(arguments.section.split()).lstrip("# ") or SECTION,
    )
    lines = text.splitlines()
    if any(_fact(line).casefold() == fact.casefold() for line in lines if _is_fact(line)):
        return None
    heading = next((at for at, line in enumerate(lines) if _heading(line) == section.casefold()), None)
    if heading is None:
        lines = [*lines, *([""] if lines and lines[-1].strip() else []), f"## {section}", "", f"- {fact}"]
    else:
        end = next((at for at in range(heading + 1, len(lines)) if lines[at].startswith("#")), len(lines))
        while end > heading + 1 and not lines[end - 1].strip():
            end -= 1
        lines.insert(end, f"- {fact}")
    return "\n".join(lines) + "\n"


def removed(text: str, sought: str) -> tuple[str, str]:
    """The file without the fact, and the fact; ToolError where none or several fit."""
    wanted = " ".join(sought.split()).casefold()
    lines = text.splitlines()
    hits = [at for at, line in enumerate(lines) if _is_fact(line) and wanted in _fact(line).casefold()]
    exact = [at for at in hits if _fact(lines[at]).casefold() == wanted]
    if not hits:
        raise ToolError(
            f"nothing remembered has {sought!r} in it", f"read_file {FILE} shows what is remembered"
        )
    if len(hits) > 1 and len(exact) != 1:
        found = "\n".join(lines[at] for at in hits[:10])
        raise ToolError(f"{len(hits)} facts have this in them:\n{found}", "name one of them more exactly")
    at = (exact or hits)[0]
    return "\n".join([*lines[:at], *lines[at + 1 :]]) + "\n", _fact(lines[at])


def _change(boundary: Boundary, changing: threading.Lock, arguments: Remember | Forget) -> str:
    with changing:
        text = _read(boundary)
        if isinstance(arguments, Forget):
            changed, fact = removed(text, arguments.text)
            boundary.write(FILE, changed.encode())
            return f"Forgotten: {fact}"
        new = added(text, arguments)
        if new is None:
            return "This is remembered already"
        if len(new.encode()) > MOST_BYTES:
            raise ToolError(f"{FILE} is full ({MOST_BYTES:,} bytes)", "forget or shorten something first")
        boundary.write(FILE, new.encode())
        return f"Remembered in {FILE}"


def _read(boundary: Boundary) -> str:
    try:
        return boundary.read(FILE, MOST_BYTES * 8).decode("utf-8", "replace")
    except ToolError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return "# Memory\n"
        raise


def _is_fact(line: str) -> bool:
    return line.lstrip().startswith(("- ", "* "))


def _fact(line: str) -> str:
    return " ".join(line.lstrip()[2:].split())


def _heading(line: str) -> str:
    return " ".join(line.lstrip("# ").split()).casefold() if line.startswith("#") else ""
