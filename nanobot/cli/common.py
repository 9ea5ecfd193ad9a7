"""What commands share: the workspace option, plain tables, and strangers' words made harmless for a terminal."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nanobot.errors import UsageError
from nanobot.plain import clean, in_json
from nanobot.workspace import CONFIG_FILE, state_dir, workspace_dir

WorkspaceOption = Annotated[
    str | None,
    typer.Option(
        "-w", "--workspace", metavar="DIR", help="The workspace; else NANOBOT_WORKSPACE, else ~/.nanobot."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def make_app(help_text: str) -> typer.Typer:
    """A group of commands: help without colours, no traceback art, help when called bare."""
    return typer.Typer(
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def workspace_of(ctx: typer.Context, option: str | None) -> Path:
    """`-w` where it stands behind the command, else before it, else the default."""
    return workspace_dir(option or ctx.find_root().obj)


def existing_workspace(ctx: typer.Context, option: str | None) -> Path:
    """The workspace for a command that looks at what is there; a mistyped one must not look like an empty one."""
    place = workspace_of(ctx, option)
    if not (place / CONFIG_FILE).is_file() and not state_dir(place).is_dir():
        raise UsageError(
            f"There is no workspace in {place}. Name yours with -w or NANOBOT_WORKSPACE, or make one with nanobot init."
        )
    return place


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print columns as wide as they must be; control characters are shown, not obeyed."""
    cells = [list(headers), *([clean(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo(line.rstrip())


def as_json(value: Any) -> None:
    typer.echo(in_json(json.dumps(value, ensure_ascii=False, indent=2, default=str)))


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
