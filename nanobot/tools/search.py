"""find_files and grep, both in a child process.

A regular expression can neither be bounded nor stopped inside our own: it would hold the interpreter, and every chat
with it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from nanobot.errors import BadArguments, ToolError
from nanobot.security import environment, process
from nanobot.security.paths import Boundary
from nanobot.tool import FunctionTool, ToolContext, ToolResult, tool

SECONDS = 20.0
_LIMITS = process.Limits(memory_mb=1024)
_START = "import sys; sys.path.insert(0, sys.argv[1]); from nanobot.tools.scan import main; main()"


class Find(msgspec.Struct, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(description="For example *.py, or src/**/test_*.py.", min_length=1)]
    path: Annotated[str, Meta(description="The folder to look in.")] = "."


class Grep(msgspec.Struct, forbid_unknown_fields=True):
    pattern: Annotated[
        str, Meta(description="A Python regular expression, matched line by line.", min_length=1)
    ]
    path: Annotated[str, Meta(description="A file, or a folder to look in.")] = "."
    files: Annotated[str, Meta(description="Only files whose name matches, for example *.py.")] = "*"
    ignore_case: bool = False
    context: Annotated[int, Meta(description="Lines shown before and after each match.", ge=0, le=20)] = 0


def search_tools(boundary: Boundary) -> Sequence[FunctionTool[Any]]:
    @tool(
        "find_files",
        "Find files by name, newest first; .git, node_modules and the like are left out.",
        read_only=True,
        timeout=SECONDS + 10,
    )
    async def find_files(arguments: Find, context: ToolContext) -> ToolResult:
        return await _scan("find", boundary.within(context.workspace), arguments)

    @tool(
        "grep",
        "Search text files with a regular expression; binary files, .git, node_modules and the like are left out.",
        read_only=True,
        timeout=SECONDS + 10,
    )
    async def grep(arguments: Grep, context: ToolContext) -> ToolResult:
        return await _scan("grep", boundary.within(context.workspace), arguments)

    return (find_files, grep)


async def _scan(what: str, boundary: Boundary, arguments: Find | Grep) -> ToolResult:
    request = {
        "what": what,
        "root": str(boundary.root),
        "hidden": [str(place) for place in boundary.hidden],
        **msgspec.to_builtins(arguments),
    }
    package = Path(__file__).parents[2]
    done = await process.run(
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", _START, str(package)],
        cwd=boundary.root,
        environment=environment.scrubbed(boundary.root),
        timeout=SECONDS,
        stdin=msgspec.json.encode(request),
        limits=_LIMITS,
    )
    if done.timed_out:
        raise ToolError(
            f"the search took more than {SECONDS:g} s", "narrow the path, or simplify the expression"
        )
    try:
        answer = msgspec.json.decode(done.output, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise ToolError(f"the search failed: {done.output[-300:]}") from error
    if "bad" in answer:
        raise BadArguments(answer["bad"])
    if "error" in answer:
        raise ToolError(answer["error"])
    return ToolResult(answer["text"])
