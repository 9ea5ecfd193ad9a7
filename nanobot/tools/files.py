"""read_file, write_file, edit_file, list_dir: all by way of the SecurityContext, on a worker thread."""

import asyncio
import difflib
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from nanobot.errors import ToolError
from nanobot.security.context import SecurityContext
from nanobot.security.paths import Boundary, Entry
from nanobot.tool import FunctionTool, ToolContext, ToolResult, tool

LINES = 2_000  # lines read_file returns when not told otherwise
CHARACTERS = 15_000  # one result of read_file or list_dir: under the size at which results go to a file
LINE_CHARACTERS = 4_000  # of one line
ENTRIES = 500
SKIPPED = (".git", "node_modules", "__pycache__", ".venv")

Path = Annotated[str, Meta(description="Relative to the workspace, or absolute inside it.")]


class Read(msgspec.Struct, forbid_unknown_fields=True):
    path: Path
    offset: Annotated[int, Meta(description="The first line to read, from 1.", ge=1)] = 1
    limit: Annotated[int, Meta(description="How many lines at most.", ge=1)] = LINES


class Write(msgspec.Struct, forbid_unknown_fields=True):
    path: Path
    content: Annotated[str, Meta(description="The whole new content.")]


class Edit(msgspec.Struct, forbid_unknown_fields=True):
    path: Path
    old_text: Annotated[
        str, Meta(description="The exact text to replace, without line numbers.", min_length=1)
    ]
    new_text: Annotated[str, Meta(description="What takes its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False


class List(msgspec.Struct, forbid_unknown_fields=True):
    path: Path = "."
    recursive: Annotated[
        bool, Meta(description="Also what is below, without .git, node_modules and the like.")
    ] = False


def file_tools(security: SecurityContext) -> Sequence[FunctionTool[Any]]:
    changing = threading.Lock()  # sessions share the files: an edit must see the one before it

    @tool("read_file", "Read a text file of the workspace, with line numbers.", read_only=True)
    async def read_file(arguments: Read, context: ToolContext) -> ToolResult:
        data = await asyncio.to_thread(security.within(context.workspace).read, arguments.path)
        if is_binary(data):
            raise ToolError(
                f"{arguments.path} is binary ({len(data):,} bytes)", "use exec with file, strings or xxd"
            )
        return ToolResult(numbered(data.decode("utf-8", "replace"), arguments.offset, arguments.limit))

    @tool(
        "write_file",
        "Create a text file or replace its whole content. Parent folders are created.",
        idempotent=True,
    )
    async def write_file(arguments: Write, context: ToolContext) -> ToolResult:
        data = arguments.content.encode()
        place = security.within(context.workspace)

        def put() -> bool:
            with changing:
                return place.write(arguments.path, data)

        created = await asyncio.to_thread(put)
        return ToolResult(f"{'Created' if created else 'Replaced'} {arguments.path}: {len(data):,} bytes")

    @tool(
        "edit_file",
        "Replace a piece of text in a file. old_text must occur exactly once, or set replace_all.",
    )
    async def edit_file(arguments: Edit, context: ToolContext) -> ToolResult:
        place = security.within(context.workspace)

        def change() -> int:
            with changing:
                text = _decoded(place.read(arguments.path), arguments.path)
                changed, count = edited(text, arguments)
                place.write(arguments.path, changed.encode())
            return count

        count = await asyncio.to_thread(change)
        return ToolResult(f"Edited {arguments.path}: {count} replacement{'s' if count > 1 else ''}")

    @tool("list_dir", "List a folder of the workspace: names, sizes and times of change.", read_only=True)
    async def list_dir(arguments: List, context: ToolContext) -> ToolResult:
        place = security.within(context.workspace).boundary
        return ToolResult(await asyncio.to_thread(listing, place, arguments))

    return (read_file, write_file, edit_file, list_dir)


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:8_192]


def numbered(text: str, offset: int, limit: int) -> str:
    """Lines `offset`, `offset` + 1, … with their numbers, and what to ask for to see more."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return "(the file is empty)"
    if offset > len(lines):
        raise ToolError(f"the file has {len(lines)} lines; line {offset} is behind its end")
    shown: list[str] = []
    room = CHARACTERS
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        kept = line.rstrip("\r")
        if len(kept) > LINE_CHARACTERS:
            kept = f"{kept[:LINE_CHARACTERS]} […{len(kept) - LINE_CHARACTERS:,} more characters]"
        row = f"{number:>6}\t{kept}"
        room -= len(row) + 1
        if room < 0 and shown:
            break
        shown.append(row)
    following = offset + len(shown)
    if following <= len(lines):
        shown.append(f"[lines {offset}-{following - 1} of {len(lines)}; continue with offset={following}]")
    return "\n".join(shown)


def edited(text: str, edit: Edit) -> tuple[str, int]:
    """The changed text and the number of replacements; ToolError says why there is none."""
    old, new = edit.old_text, edit.new_text
    if old not in text and "\r\n" in text:
        old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    count = text.count(old)
    if count == 0:
        raise ToolError(f"old_text was not found in {edit.path}", _nearest(text, old))
    if old == new:
        raise ToolError("old_text and new_text are the same")
    if count > 1 and not edit.replace_all:
        places = [str(text.count("\n", 0, at) + 1) for at in _occurrences(text, old, 5)]
        raise ToolError(
            f"old_text occurs {count} times in {edit.path} (lines {', '.join(places)}{'…' if count > 5 else ''})",
            "add lines around it until it is unique, or set replace_all",
        )
    return text.replace(old, new), count


def listing(boundary: Boundary, arguments: List) -> str:
    pairs: Iterable[tuple[tuple[str, ...], list[Entry]]]
    if arguments.recursive:
        first = len(boundary.locate(arguments.path))
        pairs = ((parts[first:], found) for parts, found in boundary.walk(arguments.path, SKIPPED))
    else:
        pairs = [((), boundary.scan(boundary.locate(arguments.path)))]
    rows: list[str] = []
    total = room = 0
    for parts, entries in pairs:
        for entry in entries:
            total += 1
            name = "/".join((*parts, entry.name)) + {"directory": "/", "link": "@"}.get(entry.kind, "")
            when = datetime.fromtimestamp(entry.modified, UTC).strftime("%Y-%m-%d %H:%M")
            row = (
                f"{entry.size:>12,}  {when}  {name}" if entry.kind == "file" else f"{'':>12}  {when}  {name}"
            )
            room += len(row) + 1
            if len(rows) < ENTRIES and room < CHARACTERS:
                rows.append(row)
    if total > len(rows):
        rows.append(f"[{total - len(rows):,} more; list a folder below, or use find_files]")
    return "\n".join(rows) or "(the folder is empty)"


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start})", "use exec"
        ) from error


def _occurrences(text: str, part: str, most: int) -> list[int]:
    found: list[int] = []
    at = text.find(part)
    while at >= 0 and len(found) < most:
        found.append(at)
        at = text.find(part, at + len(part))
    return found


def _nearest(text: str, sought: str) -> str:
    """The line of the file that is most like the first line of what was sought; bounded work on large files."""
    first = next((line.strip() for line in sought.splitlines() if line.strip()), "")
    lines = [line.strip()[:300] for line in text.splitlines()[:5_000]]
    near = difflib.get_close_matches(first[:300], lines, n=1, cutoff=0.6)
    if not near:
        return "read the file again: it may have changed"
    number = lines.index(near[0]) + 1
    return f"the nearest line is {number}: {near[0]!r}; spaces and line breaks must match exactly"
