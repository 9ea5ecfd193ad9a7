"""`nanobot init`: a workspace from the example."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from nanobot import content
from nanobot.cli.common import WorkspaceOption, workspace_of
from nanobot.workspace import CONFIG_FILE, state_dir


def init(
    ctx: typer.Context,
    directory: Annotated[
        str | None, typer.Argument(metavar="[DIR]", help="Where; else the workspace of -w.")
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Make a workspace: configuration, persona files, an example channel.

    Files that are there already are left as they are; it never asks anything.

    Example: nanobot init ~/bot
    """
    place = workspace_of(ctx, directory or workspace)
    made, kept = copy(content.bundled("workspace.example"), place)
    state_dir(place).mkdir(mode=0o700, exist_ok=True)
    typer.echo(f"Workspace {place}: {made} files made" + (f", {kept} left as they were" if kept else ""))
    option = "" if place == workspace_of(ctx, None) else f" -w {place}"
    typer.echo(
        f"\nNext:\n  1. Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or edit {place / CONFIG_FILE}.\n"
        f"     Without a key the small built-in model answers, where nanobot[local] is installed.\n"
        f"  2. nanobot doctor{option}     checks everything\n"
        f"  3. nanobot gateway{option}    starts it; the page is at http://127.0.0.1:8765"
    )


def copy(source: Path, target: Path) -> tuple[int, int]:
    """Copy what is not there yet; returns how many files were made and how many left. Private: 0700 and 0600."""
    made = kept = 0
    if not target.exists():
        target.mkdir(mode=0o700, parents=True)
    for path in sorted(source.rglob("*")):
        if "__pycache__" in path.parts:
            continue
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(exist_ok=True)
        elif place.exists() or place.is_symlink():
            kept += 1
        else:
            shutil.copyfile(path, place)
            if place.name == CONFIG_FILE:
                place.chmod(0o600)  # it may come to hold keys
            made += 1
    return made, kept
