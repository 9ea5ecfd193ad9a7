"""The project_summary tool: what the workspace holds, in one call."""

import json

import msgspec

from nanobot.project import project_summary
from nanobot.security.paths import Boundary
from nanobot.tool import Tool, ToolContext, ToolResult, tool


class Project(msgspec.Struct, forbid_unknown_fields=True):
    pass


def project_tool(boundary: Boundary) -> Tool:
    @tool(
        "project_summary",
        "The state of the working directory: git branch, commit and changes, TODO.md and tasks/, size.",
        read_only=True,
    )
    async def summary(arguments: Project, context: ToolContext) -> ToolResult:  # noqa: ARG001 - it takes none
        found = await project_summary(context.workspace, boundary.within(context.workspace))
        return ToolResult(json.dumps(found, ensure_ascii=False), data=found)

    return summary
