"""`nanobot skills`: which there are, and which the owner has looked at and pinned."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nanobot.cli.common import WorkspaceOption, cut, make_app, table, workspace_of
from nanobot.errors import UsageError
from nanobot.workspace import state_dir

if TYPE_CHECKING:
    from nanobot.security.pins import Pins

app = make_app("The skills of a workspace. A pinned one is only used as it was when it was pinned.")

NameArgument = Annotated[str, typer.Argument(help="The skill's name, which is its folder's.")]


@app.command("list")
def list_command(ctx: typer.Context, workspace: WorkspaceOption = None) -> None:
    """List the skills, and whether they are pinned."""
    from nanobot import content  # noqa: PLC0415 - lazy: --help does not need it
    from nanobot.skills import Skills  # noqa: PLC0415 - as above

    place = workspace_of(ctx, workspace)
    pins = pins_of(place)
    rows = []
    for skill in Skills(place, content.roots("skills", place)).list():
        own = skill.folder.is_relative_to(place)
        reason = pins.refuses(skill.name, skill.folder) if own else ""
        state = (
            "shipped" if not own else "changed" if reason else "pinned" if skill.name in pins.all() else "-"
        )
        rows.append((skill.name, state, cut(skill.description, 70)))
    table(("SKILL", "PIN", "WHAT IT IS FOR"), rows)


@app.command("pin")
def pin(ctx: typer.Context, name: NameArgument, workspace: WorkspaceOption = None) -> None:
    """Remember a skill of the workspace as it is now. Changed, it is not used until it is pinned again.

    At the level maximum, skills of the workspace are used only if they are pinned.
    """
    place = workspace_of(ctx, workspace)
    folder = place / "skills" / name
    if not (folder / "SKILL.md").is_file() or folder.parent != place / "skills":
        raise UsageError(
            f"There is no skill {name!r} in {place / 'skills'}; `nanobot skills list` shows them."
        )
    typer.echo(f"{name}: pinned, {pins_of(place).pin(name, folder)[:16]}")


@app.command("unpin")
def unpin(ctx: typer.Context, name: NameArgument, workspace: WorkspaceOption = None) -> None:
    """Forget a pin."""
    if not pins_of(workspace_of(ctx, workspace)).unpin(name):
        raise UsageError(f"{name!r} is not pinned.")
    typer.echo(f"{name}: no longer pinned")


def pins_of(workspace: Path) -> "Pins":
    from nanobot.security.pins import Pins  # noqa: PLC0415 - lazy: --help does not need it

    return Pins(state_dir(workspace))
