"""The tools of sustained work: long_task, complete_goal, ask_user and report_progress."""

from collections.abc import Sequence
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from nanobot.tool import FunctionTool, ToolContext, ToolResult, tool

NAMES = frozenset({"long_task", "complete_goal", "ask_user", "report_progress"})
VERIFY_SECONDS = 1_800.0  # the checks and the verifier together


class LongTask(msgspec.Struct, forbid_unknown_fields=True):
    goal: Annotated[
        str,
        Meta(
            description="What is to be reached, and how one sees that it is.", min_length=1, max_length=12_000
        ),
    ]
    ui_summary: Annotated[
        str, Meta(description="The goal in a few words, for a status line.", max_length=120)
    ] = ""
    checks: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=2_000)]],
        Meta(
            description="Shell commands that must end with exit code 0 before it counts as done.",
            max_length=10,
        ),
    ] = []


class CompleteGoal(msgspec.Struct, forbid_unknown_fields=True):
    recap: Annotated[
        str,
        Meta(
            description="What was reached and where it is: the user reads this text.",
            min_length=1,
            max_length=8_000,
        ),
    ]
    evidence: Annotated[
        str, Meta(description="What shows it: files, commands and their results, links.", max_length=8_000)
    ] = ""


class AskUser(msgspec.Struct, forbid_unknown_fields=True):
    question: Annotated[
        str,
        Meta(description="One question, with what you would do by default.", min_length=1, max_length=4_000),
    ]


class ReportProgress(msgspec.Struct, forbid_unknown_fields=True):
    text: Annotated[str, Meta(description="The step just done or begun.", min_length=1, max_length=300)]
    percent: Annotated[int, Meta(description="Of the whole goal.", ge=0, le=100)] | None = None


class Desk(Protocol):
    """Who keeps the goals. Each raises ToolError for what the model should know."""

    async def refine(
        self, context: ToolContext, goal: str, ui_summary: str, checks: Sequence[str]
    ) -> str: ...

    async def complete(self, context: ToolContext, recap: str, evidence: str) -> ToolResult: ...

    async def ask(self, context: ToolContext, question: str) -> str: ...

    async def report(self, context: ToolContext, text: str, percent: int | None) -> str: ...


def goal_tools(desk: Desk) -> list[FunctionTool[Any]]:
    # All of them are idempotent: called again after a crash they lead to the same state.

    @tool(
        "long_task",
        "Put the goal that the user set with /goal into precise words, with a short summary and, where they are "
        "possible, checks. Call it once when work on a goal begins, and again if it turns out to be another one. It "
        "begins nothing by itself: only the user's /goal does.",
        idempotent=True,
    )
    async def long_task(arguments: LongTask, context: ToolContext) -> ToolResult:
        return ToolResult(await desk.refine(context, arguments.goal, arguments.ui_summary, arguments.checks))

    @tool(
        "complete_goal",
        "Say that the goal is reached. The declared checks are run and somebody who knows nothing of the work looks "
        "at it; only then it ends. A refusal says what is missing.",
        idempotent=True,
        timeout=VERIFY_SECONDS,
    )
    async def complete_goal(arguments: CompleteGoal, context: ToolContext) -> ToolResult:
        return await desk.complete(context, arguments.recap, arguments.evidence)

    @tool(
        "ask_user",
        "Ask the user something that only they can decide, while working on a goal. The work rests until they answer.",
        idempotent=True,
    )
    async def ask_user(arguments: AskUser, context: ToolContext) -> ToolResult:
        return ToolResult(await desk.ask(context, arguments.question))

    @tool(
        "report_progress",
        "Show the user how far the work on a goal is, in the one progress message they watch. Not a message of its own.",
        idempotent=True,
    )
    async def report_progress(arguments: ReportProgress, context: ToolContext) -> ToolResult:
        return ToolResult(await desk.report(context, arguments.text, arguments.percent))

    return [long_task, complete_goal, ask_user, report_progress]
