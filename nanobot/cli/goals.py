"""`nanobot goal list`: what the sessions work at."""

from collections.abc import Mapping
from typing import Any

import typer

from nanobot.cli.common import JsonOption, WorkspaceOption, as_json, cut, existing_workspace, make_app, table
from nanobot.cli.sessions import manager

app = make_app("Look at goals. A goal is begun, paused and ended in its chat, with /goal.")


@app.callback()
def group() -> None:
    """Keeps `list` a command of its own, although it is the only one."""


@app.command("list")
def list_command(ctx: typer.Context, workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """List the goals of all sessions, whatever became of them."""
    found = []
    for row in manager(existing_workspace(ctx, workspace)).list_sessions():
        goal = goal_of(row["metadata"])
        if goal:
            found.append((str(row["key"]), goal))
    if json:
        as_json([{"session": key, **goal} for key, goal in found])
        return
    table(
        ("SESSION", "STATUS", "TURNS", "SINCE", "GOAL"),
        (
            (
                key,
                goal.get("status", "?"),
                spent(goal),
                str(goal.get("started_at") or "-")[:16].replace("T", " "),
                cut(str(goal.get("ui_summary") or goal.get("objective") or ""), 70),
            )
            for key, goal in found
        ),
    )


def goal_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A session's goal; also as the reference wrote it, under another name or as text."""
    import json as codec  # noqa: PLC0415 - the option of the command above has its name

    for name in ("goal_state", "thread_goal"):
        value = metadata.get(name)
        if isinstance(value, str):
            try:
                value = codec.loads(value)
            except ValueError:
                continue
        if isinstance(value, dict):
            return value
    return {}


def spent(goal: Mapping[str, Any]) -> str:
    """Turns used of turns allowed."""
    used, budget = goal.get("spent"), goal.get("budget")
    turns = used.get("turns", 0) if isinstance(used, dict) else "-"
    limit = budget.get("turns") if isinstance(budget, dict) else None
    return f"{turns}/{limit}" if limit else str(turns)
