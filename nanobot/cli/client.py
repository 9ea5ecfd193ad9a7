"""A client of the WebSocket protocol, as far as a terminal needs it; docs/protocol.md has all of it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from nanobot.clock import deadline
from nanobot.errors import NanobotError
from nanobot.messages import new_id

SECONDS = 10.0  # to connect, and for a frame to leave
MAX_FRAME = 36 * 1024 * 1024  # bytes; a page of history may be long

Frame = Mapping[str, Any]


class Gone(NanobotError):
    """The gateway closed the connection."""


class Turn(msgspec.Struct):
    """The turn that answers a message: its replies so far, by their ids."""

    message: str  # the inbox id it answers
    replies: dict[str, str]
    status: str = ""  # completed, stopped or failed; "" while it runs


class Client:
    """One chat over one connection."""

    def __init__(self, connection: ClientConnection, chat: str) -> None:
        self._connection = connection
        self.chat = chat

    @property
    def open(self) -> bool:
        return self._connection.close_code is None

    async def send(self, kind: str, **fields: Any) -> None:
        frame = msgspec.json.encode({"type": kind, "chat_id": self.chat, **fields}).decode()
        try:
            async with deadline(SECONDS, "sending to the gateway"):
                await self._connection.send(frame)
        except ConnectionClosed as error:
            raise Gone(why(error)) from error

    async def say(self, text: str) -> str:
        """Send a message; returns the id it was sent under."""
        given = new_id()
        await self.send("message", content=text, id=given)
        return given

    async def stop(self) -> None:
        await self.send("stop")

    async def frames(self) -> AsyncIterator[dict[str, Any]]:
        """What the gateway says about this chat. Replies are acknowledged, so that none waits for us any more.

        Bounded by the connection's keep-alive: a gateway that is silent for good ends it. Raises Gone.
        """
        while True:
            try:
                text = await self._connection.recv()
            except ConnectionClosed as error:
                raise Gone(why(error)) from error
            frame = msgspec.json.decode(text)
            if frame.get("chat_id", self.chat) != self.chat:
                continue
            yield frame
            if frame.get("message_id") and frame.get("event") in ("message", "stream_end"):
                await self.send("ack", seq=frame["seq"])

    async def turn(self, given: str) -> AsyncIterator[tuple[dict[str, Any], Turn]]:
        """The frames from a message sent under this id to the end of the turn that answers it.

        Raises NanobotError where the message is refused.
        """
        turn = Turn("", {})
        replies: dict[str, dict[str, str]] = {}
        async for frame in self.frames():
            match frame["event"]:
                case "accepted" if frame["id"] == given:
                    turn.message = frame["message_id"]
                case "error" if frame.get("id", given) == given:
                    raise NanobotError(f"The gateway refused: {frame['detail']} ({frame['code']})")
                case "message" | "stream_end" if frame.get("message_id"):
                    replies.setdefault(frame["turn_id"], {})[frame["message_id"]] = frame["text"]
                case "turn_end" if turn.message and turn.message in frame["answers"]:
                    turn.replies = replies.get(frame["turn_id"], {})
                    turn.status = frame["status"]
            yield frame, turn
            if turn.status:
                return


@asynccontextmanager
async def attached(address: str, token: str, chat: str) -> AsyncIterator[Client]:
    """Connect to a gateway at its `http://…` address and attach to a chat."""
    try:
        async with deadline(SECONDS, f"connecting to {address}"):
            connection = await connect(
                socket_url(address),
                additional_headers={"Authorization": f"Bearer {token}"} if token else None,
                max_size=MAX_FRAME,
                proxy=None,
                compression=None,
            )
    except InvalidHandshake as error:
        raise NanobotError(
            f"The gateway at {address} refused: {error}. Check that [channels.websocket] is enabled, and its token."
        ) from error
    except OSError as error:
        raise NanobotError(f"There is no gateway at {address}: {error.strerror or error}.") from error
    try:
        client = Client(connection, chat)
        await client.send("attach")
        yield client
    finally:
        async with asyncio.timeout(SECONDS):
            await connection.close()


def socket_url(address: str) -> str:
    """The WebSocket's URL of a gateway's address; a gateway that listens everywhere is reached here."""
    parts = urlsplit(address)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(parts.hostname or "", parts.hostname or "127.0.0.1")  # noqa: S104
    name = f"[{host}]" if ":" in host else host
    return f"ws://{name}:{parts.port}/ws"


def why(error: ConnectionClosed) -> str:
    reason = error.rcvd.reason if error.rcvd else ""
    return (
        f"The gateway went away{f' ({reason})' if reason else ''}. What it had accepted is answered "
        "when it is back: nanobot chat shows it."
    )
