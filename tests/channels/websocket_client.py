"""A real server with the WebSocket channel on it, and a client that speaks the protocol."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from websockets.asyncio.client import ClientConnection, connect

from channels.websocket import WebSocketChannel, create
from nanobot.events import TextDelta, TurnEnded, TurnStarted, Usage
from nanobot.http import Guard, HttpServer, build
from nanobot.messages import Address, Inbound, Outbound
from nanobot.testing_port import FakePort

SECONDS = 10.0


class House:
    """The channel behind a real server, and the port it talks to."""

    def __init__(self, port: FakePort, channel: WebSocketChannel, server: HttpServer) -> None:
        self.port = port
        self.channel = channel
        self.server = server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    @asynccontextmanager
    async def client(self, path: str = "/ws", **options: Any) -> AsyncIterator["Client"]:
        options = {"max_size": None, "max_queue": None, "close_timeout": 0.5, **options}
        async with connect(f"ws://127.0.0.1:{self.server.port}{path}", **options) as socket:
            yield Client(socket)

    @asynccontextmanager
    async def http(self, token: str = "") -> AsyncIterator[aiohttp.ClientSession]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with aiohttp.ClientSession(self.url, headers=headers) as session:
            yield session

    async def arrival(self) -> Inbound:
        async with asyncio.timeout(SECONDS):
            return await self.port.arrivals.get()

    # What a session's actor would do.

    def start(self, message: Inbound) -> str:
        turn = self.port.inbox_id(message)
        self.channel.show(TurnStarted(message.key, turn, message.address, (turn,), 1_000.0))
        return turn

    def delta(self, message: Inbound, text: str, stream: str = "s1") -> None:
        turn = self.port.inbox_id(message)
        self.channel.show(TextDelta(message.key, turn, message.address, text, stream))

    def end(self, message: Inbound, text: str, *, stream: str = "", first: str = "deliver") -> Outbound:
        """Commit the turn: its reply goes to delivery and its end is announced, in either order."""
        turn = self.port.inbox_id(message)
        reply = Outbound(turn, 0, message.address, text, streamed=bool(stream))
        ended = TurnEnded(
            message.key, turn, message.address, "completed", (turn,), (reply,), stream, 12, Usage(3, 4)
        )
        if first == "deliver":
            self.port.send(reply)
            asyncio.get_running_loop().call_later(0.01, self.channel.show, ended)
        else:
            self.channel.show(ended)
            asyncio.get_running_loop().call_later(0.01, self.port.send, reply)
        return reply

    def push(self, chat_id: str, text: str, turn: str = "t-other") -> Outbound:
        """A reply that no client waited for."""
        reply = Outbound(turn, 0, Address("websocket", chat_id), text)
        self.port.send(reply)
        return reply


class Client:
    """Reads frames as they come; keeps all of them."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.frames: list[dict[str, Any]] = []

    async def send(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    async def read(self) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            frame: dict[str, Any] = json.loads(await self.socket.recv())
        self.frames.append(frame)
        return frame

    async def expect(self, event: str) -> dict[str, Any]:
        """The next frame of that kind, skipping others."""
        while True:
            frame = await self.read()
            if frame["event"] == event:
                return frame

    async def until(self, event: str) -> list[dict[str, Any]]:
        """All frames up to the next of that kind."""
        frames: list[dict[str, Any]] = []
        while not frames or frames[-1]["event"] != event:
            frames.append(await self.read())
        return frames

    async def nothing_more(self) -> list[dict[str, Any]]:
        """What had been sent before the server answered a ping of ours; the frames after which silence is known."""
        await self.send(type="ping", id="silence?")
        return (await self.until("pong"))[:-1]


@asynccontextmanager
async def house(workspace: Path, **settings: Any) -> AsyncIterator[House]:
    port = FakePort(workspace, settings, name="websocket")
    channel = create(port)
    port.connect(channel)

    async def health() -> dict[str, Any]:
        return {"status": "ok"}

    guard = Guard(settings.get("token", ""), tokens=bool(settings.get("users")))
    app = build(channel.routes(), health=health, ready=lambda: True, metrics=lambda: b"up 1\n", guard=guard)
    server = HttpServer(app)
    await server.start()
    await channel.start()
    try:
        yield House(port, channel, server)
    finally:
        await channel.stop()
        await server.stop()
        await port.settle()


def events(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["event"] for frame in frames]
