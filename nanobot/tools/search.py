"""find_files and grep; the searching itself is in `scan`, in a child process."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from nanobot.errors import BadArguments, Refused, ToolError
from nanobot.security.context import SecurityContext
from nanobot.tool import FunctionTool, ToolContext, ToolResult, tool
from nanobot.tools.worker import TooLong, ask

SECONDS = 20.0


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


def search_tools(security: SecurityContext) -> Sequence[FunctionTool[Any]]:
    @tool(
        "find_files",
        "Find files by name, newest first; .git, node_modules and the like are left out.",
        read_only=True,
        timeout=SECONDS + 10,
    )
    async def find_files(arguments: Find, context: ToolContext) -> ToolResult:
        return await _scan("find", security.within(context.workspace), arguments)

    @tool(
        "grep",
        "Search text files with a regular expression; binary files, .git, node_modules and the like are left out.",
        read_only=True,
        timeout=SECONDS + 10,
    )
    async def grep(arguments: Grep, context: ToolContext) -> ToolResult:
        return await _scan("grep", security.within(context.workspace), arguments)

    return (find_files, grep)


async def _scan(what: str, security: SecurityContext, arguments: Find | Grep) -> ToolResult:
    boundary = security.boundary
    places = {"root": str(boundary.root), "hidden": [str(place) for place in boundary.hidden]}
    try:
        answer = await ask(
            "nanobot.tools.scan", {"what": what, **places, **msgspec.to_builtins(arguments)}, SECONDS
        )
    except TooLong as error:
        raise TooLong(
            f"the search took more than {SECONDS:g} s", "narrow the path or simplify the pattern"
        ) from error
    if "bad" in answer:
        raise BadArguments(answer["bad"])
    if "refused" in answer:
        raise Refused(answer["refused"])
    if "error" in answer:
        raise ToolError(answer["error"])
    return ToolResult(answer["text"])
