"""A client that keeps the protocol's promise from its side: sends again until accepted, and knows replies by their id."""

import asyncio
import contextlib
from collections import defaultdict
from typing import Any, Self

import msgspec
import websockets


class Client:
    """One connection after another to one gateway; several chats. `replies[chat]` are the answers, each id once."""

    def __init__(self, url: str, *, acks: bool = True, query: str = "") -> None:
        self.url = url
        self.query = query  # of the socket's address, such as token=…
        self.acks = acks
        self.accepted: dict[str, str] = {}  # our id → the gateway's
        # Chat → (message id, text) in order.
        self.replies: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.repeats = 0  # frames that brought a reply once more under its id
        self.deltas = 0
        self._outgoing: dict[str, dict[str, Any]] = {}
        self._chats: dict[str, None] = {}
        self._seen: set[str] = set()
        self._changed = asyncio.Event()
        self._socket: websockets.ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def send(self, chat: str, text: str, id: str, **fields: Any) -> None:
        """Hand a message over; it is sent now, and after each reconnect until it is accepted."""
        self._outgoing[id] = {"type": "message", "chat_id": chat, "content": text, "id": id, **fields}
        self._chats[chat] = None
        await self._try([self._outgoing[id]])

    async def until(self, true: Any, seconds: float = 60.0) -> None:
        async with asyncio.timeout(seconds):
            while not true(self):
                self._changed.clear()
                await self._changed.wait()

    def texts(self, chat: str) -> list[str]:
        return [text for _, text in self.replies[chat]]

    def total(self) -> int:
        return sum(map(len, self.replies.values()))

    async def _keep(self) -> None:
        while True:
            with contextlib.suppress(OSError, websockets.WebSocketException, TimeoutError):
                address = f"{self.url.replace('http', 'ws', 1)}/ws?{self.query}"
                async with websockets.connect(address, open_timeout=5, close_timeout=1) as socket:
                    self._socket = socket
                    for chat in self._chats:
                        if self.acks:  # said before the first reply can come: this connection acks
                            await socket.send(
                                msgspec.json.encode({"type": "ack", "chat_id": chat, "seq": 0}).decode()
                            )
                        await socket.send(msgspec.json.encode({"type": "attach", "chat_id": chat}).decode())
                    await self._try(list(self._outgoing.values()))
                    async for frame in socket:
                        await self._take(msgspec.json.decode(frame))
            self._socket = None
            await asyncio.sleep(0.05)  # between attempts to connect; a closed port answers at once

    async def _try(self, messages: list[dict[str, Any]]) -> None:
        with contextlib.suppress(OSError, websockets.WebSocketException):
            for message in messages:
                if self._socket is not None:
                    await self._socket.send(msgspec.json.encode(message).decode())

    async def _take(self, frame: dict[str, Any]) -> None:
        match frame.get("event"):
            case "accepted":
                self.accepted[frame["id"]] = frame["message_id"]
                self._outgoing.pop(frame["id"], None)
            case "delta":
                self.deltas += 1
            case "message" | "stream_end" if frame.get("message_id"):
                if frame["message_id"] in self._seen:
                    self.repeats += 1
                else:
                    self._seen.add(frame["message_id"])
                    self.replies[frame["chat_id"]].append((frame["message_id"], frame["text"]))
                if self.acks and "seq" in frame and self._socket is not None:
                    ack = {"type": "ack", "chat_id": frame["chat_id"], "seq": frame["seq"]}
                    with contextlib.suppress(websockets.WebSocketException):
                        await self._socket.send(msgspec.json.encode(ack).decode())
            case "error":
                raise AssertionError(f"the gateway refused: {frame}")
        self._changed.set()
