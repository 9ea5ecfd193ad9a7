"""`nanobot gateway`: run until told to stop."""

from typing import Annotated

import typer

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
    from nanobot import app  # noqa: PLC0415 - lazy: it imports the whole gateway

    raise typer.Exit(app.run(workspace_of(ctx, workspace), host=host, port=port))
