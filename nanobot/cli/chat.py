"""`nanobot chat`: talk to the bot in a terminal, or ask it one thing."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nanobot.cli.common import WorkspaceOption, workspace_of
from nanobot.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from nanobot.config import Config

DEFAULT_CHAT = "cli"
PREFIX = "websocket:"
START_SECONDS = 20.0  # a gateway that is just starting tells its address within this time


def chat(
    ctx: typer.Context,
    workspace: WorkspaceOption = None,
    message: Annotated[
        str | None, typer.Option("-m", "--message", help="Ask this, print the answer, exit.")
    ] = None,
    session: Annotated[
        str, typer.Option("-s", "--session", metavar="KEY", help="Which chat.")
    ] = DEFAULT_CHAT,
) -> None:
    """Talk to the bot.

    Uses the workspace's running gateway; where none runs, one is started for as long as the chat lasts. Ctrl-C stops
    an answer, Ctrl-D ends the chat. With -m the answer is printed alone; the exit code is 1 where there was none.

    Example: nanobot chat -m "What is in TODO.md?"
    """
    from nanobot.cli.client import attached  # noqa: PLC0415 - lazy: --help needs no network
    from nanobot.cli.screen import ask, converse  # noqa: PLC0415 - lazy: see above

    place = workspace_of(ctx, workspace)
    name = session.removeprefix(PREFIX)

    async def work() -> bool:
        config = _config(place)
        token = str(config.channels["websocket"].values["token"])
        async with gateway(config) as address, attached(address, token, name) as client:
            if message is not None:
                return await ask(client, message)
            return await converse(client, interactive=sys.stdin.isatty() and sys.stdout.isatty())

    if not asyncio.run(work()):
        raise typer.Exit(1)


def _config(workspace: Path) -> "Config":
    from nanobot.config import load  # noqa: PLC0415 - lazy: --help reads no configuration

    config = load(workspace)
    if config.unwritten:
        typer.echo(config.unwritten, err=True)
    websocket = config.channels["websocket"]
    if not websocket.enabled:
        raise ConfigError(
            f"{config.file}: chat needs the websocket channel. Set enabled = true in [channels.websocket]."
        )
    if websocket.values["users"] and not websocket.values["token"]:
        raise ConfigError(
            f"{config.file}: chat acts as the owner. Set token in [channels.websocket] beside users."
        )
    return config


@asynccontextmanager
async def gateway(config: "Config") -> AsyncIterator[str]:
    """The address of the workspace's gateway: the running one, else one of our own."""
    from nanobot.clock import SystemClock, deadline  # noqa: PLC0415 - lazy: see chat
    from nanobot.stores.lock import holder  # noqa: PLC0415 - lazy: see chat

    found = holder(config.state_dir) if config.state_dir.is_dir() else None
    if found is not None:
        async with deadline(START_SECONDS, "the start of the workspace's gateway"):
            while found is not None and not found.address:
                await SystemClock().sleep(0.1)
                found = holder(config.state_dir)
    if found is not None:
        yield found.address
        return
    if not config.agent.model:
        raise UsageError(config.model_hint)
    from nanobot import logs  # noqa: PLC0415 - lazy: only for a gateway of our own
    from nanobot.app import embedded  # noqa: PLC0415 - lazy: it imports the whole gateway

    logs.setup("warning", as_json=config.logs.as_json, secrets=config.secrets())
    async with embedded(config.workspace) as address:
        yield address
