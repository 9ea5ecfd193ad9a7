"""`nanobot chat`: talk to the bot in a terminal, or ask it one thing."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nanobot.cli.common import WorkspaceOption, workspace_of
from nanobot.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from nanobot.cli.client import Find
    from nanobot.config import Config

DEFAULT_CHAT = "cli"
PREFIX = "websocket:"
CHAT = re.compile(r"[A-Za-z0-9_:-]{1,64}")
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
    From a pipe each line is a message.

    Example: nanobot chat -m "What is in TODO.md?"
    """
    from nanobot.cli.answers import ask, each_line  # noqa: PLC0415 - lazy: --help needs no network
    from nanobot.cli.client import Client  # noqa: PLC0415 - lazy: see above

    place = workspace_of(ctx, workspace)

    async def work() -> bool:
        config = _config(place)
        name = chat_of(session, config.channels)
        async with gateway(config) as find:
            client = Client(find, str(config.channels["websocket"].values["token"]), name)
            if message is not None:
                return await ask(client, message)
            if not _interactive():
                return await each_line(client)
            from nanobot.cli.talk import Talk  # noqa: PLC0415 - 0.2 s that a pipe does not need

            await Talk(client).run()
            return True

    if not asyncio.run(work()):
        raise typer.Exit(1)


def _interactive() -> bool:
    terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    return terminal and os.environ.get("TERM") not in ("dumb", "unknown")  # those have no cursor to move


def chat_of(session: str, channels: Iterable[str]) -> str:
    """The chat that `-s` means: `websocket:cli` and `cli` are the same. Raises UsageError for what is none."""
    name = session.removeprefix(PREFIX)
    channel, colon, _ = session.partition(":")
    if colon and name == session and channel in {*channels, "sub"}:
        raise UsageError(
            f"{session} cannot be talked to here, only chats of the page and the terminal (websocket:…). "
            f"`nanobot sessions show {session}` prints it."
        )
    if not CHAT.fullmatch(name):
        raise UsageError(
            f"{session!r} is no name for a chat: up to 64 letters, digits, and the signs _ : - may be in it."
        )
    return name


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
async def gateway(config: "Config") -> AsyncIterator["Find"]:
    """How to find the workspace's gateway: the running one, also when it was started again, else one of our own."""
    from nanobot.clock import SystemClock, deadline  # noqa: PLC0415 - lazy: see chat
    from nanobot.stores.lock import holder  # noqa: PLC0415 - lazy: see chat

    async def running() -> str:
        while True:
            found = holder(config.state_dir)
            if found is not None and found.address:
                return found.address
            await SystemClock().sleep(0.1)

    if config.state_dir.is_dir() and holder(config.state_dir) is not None:
        async with deadline(START_SECONDS, "the start of the workspace's gateway"):
            await running()
        yield running
        return
    if not config.agent.model:
        raise UsageError(config.model_hint)
    from nanobot import logs  # noqa: PLC0415 - lazy: only for a gateway of our own
    from nanobot.app import embedded  # noqa: PLC0415 - lazy: it imports the whole gateway

    logs.setup("warning", as_json=config.logs.as_json, secrets=config.secrets())
    async with embedded(config.workspace) as address:

        async def ours() -> str:
            return address

        yield ours
