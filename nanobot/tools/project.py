"""The project_summary tool: what the workspace holds, in one call."""

import json

import msgspec

from nanobot.clock import Clock
from nanobot.project import project_summary
from nanobot.security.context import SecurityContext
from nanobot.tool import Tool, ToolContext, ToolResult, tool


class Project(msgspec.Struct, forbid_unknown_fields=True):
    pass


def project_tool(security: SecurityContext, clock: Clock) -> Tool:
    @tool(
        "project_summary",
        "The state of the working directory: git branch, commit and changes, TODO.md and tasks/, size.",
        read_only=True,
    )
    async def summary(arguments: Project, context: ToolContext) -> ToolResult:  # noqa: ARG001 - it takes none
        found = await project_summary(security.within(context.workspace), clock.now())
        return ToolResult(json.dumps(found, ensure_ascii=False), data=found)

    return summary
