"""`nanobot gateway`: run until told to stop."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import nanobot
from nanobot.cli import serve
from nanobot.cli.common import WorkspaceOption, workspace_of


def gateway(
    ctx: typer.Context,
    workspace: WorkspaceOption = None,
    host: Annotated[str | None, typer.Option(help="Listen here instead of http.host.")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Listen here instead of http.port; 0 takes a free one."),
    ] = None,
) -> None:
    """Run the gateway: channels, web page, agent.

    Prints one line `ready http://127.0.0.1:8765 channels=…` once every enabled channel is up or has said why not.
    SIGTERM and Ctrl-C stop it: turns reach a safe point first, and unfinished work is taken up at the next start.

    Example: nanobot gateway -w ~/bot --port 9000
    """
    become(workspace_of(ctx, workspace), host or "", "" if port is None else str(port))


def become(workspace: Path, host: str, port: str) -> None:
    """Replace this process by the gateway's own, which knows nothing of the command line's libraries."""
    sys.stdout.flush()
    arguments = [str(workspace), host, port]
    home = str(Path(nanobot.__file__).parents[1])
    if home in sys.path[1:]:  # found without the current directory, as -P wants it
        os.execv(sys.executable, [sys.executable, "-P", "-m", serve.__name__, *arguments])  # noqa: S606 - ourselves
    sys.argv[1:] = arguments
    raise typer.Exit(serve.main())
