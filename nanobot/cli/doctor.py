"""`nanobot doctor`: what works, what does not, and what to do about it."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from nanobot.cli.common import WorkspaceOption, workspace_of
from nanobot.plain import clean

MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


def doctor(
    ctx: typer.Context,
    workspace: WorkspaceOption = None,
    ask_model: Annotated[
        bool, typer.Option("--model/--no-model", help="Ask the model for one short answer.")
    ] = True,
) -> None:
    """Check Python, configuration, state, disk, channels, sandbox, port and model.

    Each line says ok, warn or FAIL, with a remedy. Exit code 1 where something failed.
    """
    if not asyncio.run(_print(workspace_of(ctx, workspace), ask_model=ask_model)):
        raise typer.Exit(1)


async def _print(workspace: Path, *, ask_model: bool) -> bool:
    from nanobot.doctor import examine  # noqa: PLC0415 - lazy: it imports models and stores

    fine = True
    async for check in examine(workspace, ask_model=ask_model):
        typer.echo(clean(f"{MARKS[check.status]}  {check.name}: {check.text}"))
        if check.remedy:
            typer.echo(clean(f"      → {check.remedy}"))
        fine = fine and check.status != "fail"
    return fine
