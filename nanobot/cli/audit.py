"""`nanobot audit`: whether the trail of the agent's actions is whole."""

import typer

from nanobot.cli.common import WorkspaceOption, existing_workspace, make_app
from nanobot.errors import NanobotError
from nanobot.workspace import state_dir

app = make_app("Check the trail of what the agent's tools did.")


@app.callback()
def group() -> None:
    """Keeps `verify` a command of its own, although it is the only one."""


@app.command("verify")
def verify(ctx: typer.Context, workspace: WorkspaceOption = None) -> None:
    """Check the hash chain of audit.jsonl; a changed, removed or moved line is named. Exit code 1 where it is broken."""
    from nanobot.security import audit  # noqa: PLC0415 - lazy: --help does not need it

    path = state_dir(existing_workspace(ctx, workspace)) / "audit.jsonl"
    if not path.is_file() and not audit.head_of(path).is_file():
        typer.echo(f"{path}: nothing recorded yet")
        return
    report = audit.verify(path)
    if not report.ok:
        raise NanobotError(f"{path}: line {report.line}: {report.reason}")
    torn = "; the last line is incomplete, as a crash leaves it" if report.torn else ""
    typer.echo(f"{path}: {report.entries} entries, unbroken{torn}")
