"""All commands."""

from typing import Annotated

import typer

from nanobot import __version__
from nanobot.cli import (
    audit,
    backup,
    channels,
    chat,
    children,
    doctor,
    gateway,
    goals,
    init,
    outbox,
    pairing,
    security,
    sessions,
    skills,
)
from nanobot.cli.common import WorkspaceOption, make_app
from nanobot.cli.verdict import judged, unread

HELP = """A chat-bot gateway: one agent behind Slack, Telegram and a web page.

\b
  nanobot init ~/bot          make a workspace
  nanobot gateway -w ~/bot    run it; the page is at http://127.0.0.1:8765
  nanobot chat -w ~/bot       talk to it here

The workspace is -w, else NANOBOT_WORKSPACE, else ~/.nanobot.
Exit codes: 0 ok, 1 failed, 2 usage or configuration error.
"""

app = make_app(HELP)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nanobot {__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    workspace: WorkspaceOption = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version  # its callback has answered
    ctx.obj = workspace


@app.command("version")
def version_command() -> None:
    """Print the version."""
    typer.echo(f"nanobot {__version__}")


app.command("init")(init.init)
app.command("gateway")(gateway.gateway)
app.command("chat")(chat.chat)
app.add_typer(sessions.app, name="sessions")
app.add_typer(outbox.app, name="outbox")
app.add_typer(pairing.app, name="pairing")
app.add_typer(goals.app, name="goal")
app.add_typer(children.app, name="children")
app.command("doctor")(doctor.doctor)
app.command("backup")(backup.backup)
app.add_typer(audit.app, name="audit")
app.add_typer(security.app, name="security")
app.add_typer(skills.app, name="skills")
app.command("channels")(channels.channels)


def run() -> int:
    """Run the command of sys.argv; returns the exit code."""
    return judged(_run)


def _run() -> int:
    try:
        app(prog_name="nanobot")
    except SystemExit as done:
        if isinstance(done.__context__, BrokenPipeError):  # typer would call it a failure
            return unread()
        return done.code if isinstance(done.code, int) else 1
    return 0
