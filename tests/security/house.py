"""A real gateway process with an owner and two users, and the words to speak to it; started once for a module."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import websockets

from tests.crash.process import ROOT

OWNER, ALICE, BOB = "owner-token-1f0c", "alice-token-77aa", "bob-token-88bb"
CANARY = "canary-4bb1-9e02"
SECONDS = 20.0


def tokens(*, alice: str = ALICE) -> str:
    return f'token = "{OWNER}"\nusers = {{ alice = "{alice}", bob = "{BOB}" }}\n'


class Gateway:
    """One workspace with a running gateway."""

    def __init__(self, workspace: Path, process: subprocess.Popen[str], url: str) -> None:
        self.workspace = workspace
        self.process = process
        self.url = url

    def http(self, token: str = "", **options: Any) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return aiohttp.ClientSession(self.url, headers=headers, **options)

    @asynccontextmanager
    async def socket(self, token: str, **options: Any) -> AsyncIterator["Socket"]:
        address = self.url.replace("http", "ws", 1) + "/ws"
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with websockets.connect(address, additional_headers=headers, close_timeout=1, **options) as one:
            yield Socket(one)

    async def ask(self, token: str, text: str, chat: str) -> str:
        """Say something in a chat; returns the reply."""
        async with self.socket(token) as socket:
            return await socket.ask(chat, text)

    def log(self) -> str:
        return (self.workspace.parent / "log").read_text(errors="replace")


class Socket:
    def __init__(self, connection: websockets.ClientConnection) -> None:
        self.connection = connection
        self.frames: list[dict[str, Any]] = []

    async def send(self, **frame: Any) -> None:
        await self.connection.send(json.dumps(frame))

    async def until(self, *events: str) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            while True:
                frame: dict[str, Any] = json.loads(await self.connection.recv())
                self.frames.append(frame)
                if frame["event"] in events:
                    return frame

    async def ask(self, chat: str, text: str) -> str:
        await self.send(type="message", chat_id=chat, content=text, id=os.urandom(6).hex())
        while True:
            frame = await self.until("message", "stream_end", "error")
            if frame["event"] == "error":
                return f"error: {frame['code']}"
            if frame.get("message_id") and frame.get("chat_id") == chat:
                return str(frame.get("text", ""))

    async def silence(self) -> list[dict[str, Any]]:
        """What had been sent before a ping of ours was answered."""
        before = len(self.frames)
        await self.send(type="ping", id="silence?")
        await self.until("pong")
        return self.frames[before:-1]


@contextmanager
def model() -> Iterator[str]:
    """The model server as a process; yields its base URL."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.emulators.openai"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def configured(workspace: Path, url: str, *, page: str, more: str = "") -> None:
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "config.toml").write_text(
        f'[agent]\nmodel = "test/echo"\n[models.test]\nkind = "openai"\napi_key = "{CANARY}-model"\nbase_url = "{url}"\n'
        f'[http]\nport = 0\n[channels.websocket]\nenabled = true\n{page}[logs]\nlevel = "trace"\n{more}'
    )


@contextmanager
def started(workspace: Path) -> Iterator[Gateway]:
    with (workspace.parent / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "nanobot", "gateway", "-w", str(workspace)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "CANARY_VARIABLE": f"{CANARY}-environment"},
        )
    with process:
        assert process.stdout
        line = process.stdout.readline()
        if not line.startswith("ready "):
            process.wait(SECONDS)
            raise AssertionError((workspace.parent / "log").read_text()[-4000:])
        try:
            yield Gateway(workspace, process, line.split()[1])
        finally:
            process.terminate()
            process.wait(SECONDS)


def command(workspace: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nanobot", *arguments, "-w", str(workspace)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
