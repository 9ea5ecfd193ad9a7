"""A person in a chat where a goal is worked on: what they write and press, and what they see."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from nanobot import goal_texts
from nanobot.app import App, running
from nanobot.config import load
from tests.emulators.openai import OpenAIServer
from tests.emulators.slack import SlackServer
from tests.emulators.telegram import TelegramServer

SECONDS = 15.0
ANN = 11


class Seat(Protocol):
    """`texts` are the bot's messages as they stand now, oldest first."""

    key: str  # of the session

    def say(self, text: str) -> None: ...

    def texts(self) -> Sequence[str]: ...

    def status(self) -> str:
        """How the goal stands by the view that shows it: its progress message, or the page's strip."""
        ...

    async def until(self, true: Callable[[], Any], seconds: float = SECONDS) -> None: ...


class Page:
    """The WebSocket protocol as the page speaks it."""

    key = "websocket:c"

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._said: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._sent = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.frames: list[dict[str, Any]] = []
        self.goal: dict[str, Any] = {}

    def say(self, text: str) -> None:
        self._sent += 1
        self.send(type="message", chat_id="c", content=text, id=f"m{self._sent}")

    def send(self, **frame: Any) -> None:
        task = asyncio.create_task(self._socket.send(msgspec.json.encode(frame).decode()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def texts(self) -> Sequence[str]:
        return list(self._said.values())

    def status(self) -> str:
        return str(self.goal.get("status", ""))

    async def until(self, true: Callable[[], Any], seconds: float = SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while not true():
                self._changed.clear()
                await self._changed.wait()

    async def listen(self) -> None:
        with suppress(ConnectionClosed):
            async for raw in self._socket:
                frame = msgspec.json.decode(raw)
                self.frames.append(frame)
                if frame["event"] in ("message", "stream_end") and frame.get("message_id"):
                    self._said[frame["message_id"]] = frame["text"]
                if frame.get("goal_state"):
                    self.goal = frame["goal_state"]
                self._changed.set()


class Phone:
    """Telegram, in a direct chat with the bot."""

    key = f"telegram:{ANN}"

    def __init__(self, server: TelegramServer) -> None:
        self.server = server

    def say(self, text: str) -> None:
        self.server.say(ANN, text)

    def press(self, label: str) -> None:
        """A button under the progress message."""
        post = self.server.posts(ANN)[0]
        rows = post.keyboard["inline_keyboard"]
        [value] = [one["callback_data"] for row in rows for one in row if one["text"] == label]
        self.server.press(ANN, post.id, value)

    def texts(self) -> Sequence[str]:
        return self.server.texts(ANN)

    def status(self) -> str:
        return status_of(self.texts())

    async def until(self, true: Callable[[], Any], seconds: float = SECONDS) -> None:
        await self.server.until(true, seconds)


class Desk:
    """Slack, in a direct chat with the bot."""

    key = "slack:DU1"

    def __init__(self, server: SlackServer) -> None:
        self.server = server

    def say(self, text: str) -> None:
        self.server.say("DU1", "U1", text)

    def press(self, label: str) -> None:
        message = self.server.workspace.by_bot("DU1")[0]
        self.server.click(message, "U1", label)

    def texts(self) -> Sequence[str]:
        return self.server.workspace.shown("DU1")

    def status(self) -> str:
        return status_of(self.texts())

    async def until(self, true: Callable[[], Any], seconds: float = SECONDS) -> None:
        await self.server.workspace.until(true, seconds)


STANDING = {words: status for status, words in goal_texts.STANDING.items()}


def status_of(texts: Sequence[str]) -> str:
    """The status that a chat's progress message names, as the state has it."""
    lines = texts[0].splitlines() if texts else []
    return STANDING.get(lines[1].split(",")[0], "") if len(lines) > 1 else ""


def configure(workspace: Path, model: OpenAIServer, *lines: str, limits: str = "") -> Path:
    """Write a workspace's configuration. `lines` come last, `limits` belong to the model's table."""
    workspace.mkdir(exist_ok=True)
    more = "\n".join(lines)
    (workspace / "config.toml").write_text(
        f'[agent]\nmodel = "test/worker"\n[models.test]\nkind = "openai"\napi_key = "none"\n'
        f'base_url = "{model.url}"\n{limits}\n'
        f"[http]\nport = 0\n[security]\nallow_unsandboxed = true\n{more}\n"
    )
    return workspace


def telegram_table(server: TelegramServer, allow: str = f'["{ANN}"]') -> str:
    return (
        f'[channels.telegram]\nenabled = true\ntoken = "{server.token}"\napi_url = "{server.url}"\n'
        f"allow_from = {allow}\npoll_timeout = 5\npatience = 0.05\nedit_interval = 0.1"
    )


def slack_table(server: SlackServer) -> str:
    return (
        f'[channels.slack]\nenabled = true\nbot_token = "{server.bot_token}"\napi_url = "{server.api_url}"\n'
        f'app_token = "{server.app_token}"\nallow_from = ["U1"]'
    )


@asynccontextmanager
async def at(
    channel: str, workspace: Path, model: OpenAIServer, *lines: str, limits: str = ""
) -> AsyncIterator[Seat]:
    """A whole gateway, and somebody in front of it."""
    if channel == "websocket":
        async with (
            running(load(configure(workspace, model, *lines, limits=limits))) as app,
            page(app) as seat,
        ):
            yield seat
    elif channel == "telegram":
        async with (
            TelegramServer() as telegram,
            running(load(configure(workspace, model, *lines, telegram_table(telegram), limits=limits))),
        ):
            yield Phone(telegram)
    else:
        async with SlackServer() as slack:
            slack.person("U1", "ann")
            async with running(load(configure(workspace, model, *lines, slack_table(slack), limits=limits))):
                yield Desk(slack)


@asynccontextmanager
async def page(app: App) -> AsyncIterator[Page]:
    address = app.url.replace("http", "ws", 1) + "/ws"
    async with connect(address, max_size=None, close_timeout=0.5) as socket:
        seat = Page(socket)
        listening = asyncio.create_task(seat.listen())
        seat.send(type="attach", chat_id="c")
        try:
            yield seat
        finally:
            await socket.close()
            await listening
