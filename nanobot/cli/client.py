"""A client of the WebSocket protocol, as far as a terminal needs it; docs/protocol.md has all of it."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from nanobot.clock import Clock, SystemClock, deadline
from nanobot.errors import DeadlineExceeded, NanobotError
from nanobot.messages import new_id

SECONDS = 10.0  # to connect, and for a frame to leave
CLOSE_SECONDS = 2.0  # for goodbyes
PAUSE = 0.3  # seconds between two tries to come back
MAX_FRAME = 36 * 1024 * 1024  # bytes; a page of history may be long
PAGE = 50  # messages of the history that are asked for

Frame = Mapping[str, Any]
Find = Callable[[], Awaitable[str]]  # the gateway's `http://…` address, as soon as there is one


class Gone(NanobotError):
    """The gateway went away and did not come back in time."""


class Refused(NanobotError):
    """The gateway does not let us in."""


class Client:
    """One chat. It outlives its connection: what was not accepted is sent again, and what was missed is read."""

    def __init__(self, find: Find, token: str, chat: str, clock: Clock | None = None) -> None:
        self.chat = chat
        self._find = find
        self._token = token
        self._clock = clock or SystemClock()
        self._connection: ClientConnection | None = None
        self._epoch, self._seq = "", 0
        self._unsure: dict[str, str] = {}  # what was said and not accepted yet, by the id it is sent under
        self._seen: set[str] = set()  # messages that were handed out, by their id

    @property
    def unsent(self) -> list[str]:
        """What was said and is not known to be accepted."""
        return list(self._unsure.values())

    async def say(self, text: str) -> str:
        """Send a message, now or when there is a connection; returns the id it is sent under."""
        given = new_id()
        self._unsure[given] = text
        await self._send("message", content=text, id=given)
        return given

    async def stop(self) -> None:
        await self._send("stop")

    async def look(self) -> None:
        """Ask for the history once more; it comes as a frame."""
        await self._send("history", limit=PAGE)

    async def frames(self, patience: float | None = None) -> AsyncGenerator[Frame, None]:
        """What the gateway says about this chat, each message once.

        A `history` comes first, with its new lines as `fresh`. Where the connection breaks a `lost` comes, then another
        `history`. Raises Gone after so many seconds without a connection; None waits for ever. Replies are acknowledged.
        """
        connection = await self._open()
        while True:
            try:
                async for frame in self._read(connection):
                    yield frame
            except ConnectionClosed:
                self._connection = None
            finally:
                await connection.close()  # bounded by close_timeout
            yield {"event": "lost"}
            try:
                async with deadline(patience, "the gateway's return") if patience else nullcontext():
                    connection = await self._again()
            except DeadlineExceeded as error:
                raise Gone(
                    f"The gateway went away and was not back within {patience:g} s. "
                    "What it had accepted is answered when it runs again: nanobot chat shows it."
                ) from error

    async def _open(self) -> ClientConnection:
        """Raises Refused, and NanobotError where nobody listens."""
        address = await self._find()
        try:
            async with deadline(SECONDS, f"connecting to {address}"):
                connection = await connect(
                    socket_url(address),
                    additional_headers={"Authorization": f"Bearer {self._token}"} if self._token else None,
                    max_size=MAX_FRAME,
                    proxy=None,
                    compression=None,
                    close_timeout=CLOSE_SECONDS,
                )
        except InvalidHandshake as error:
            kind = Refused if isinstance(error, InvalidStatus) else NanobotError
            raise kind(
                f"The gateway at {address} refused: {error}. Check that [channels.websocket] is enabled, and its token."
            ) from error
        except OSError as error:
            raise NanobotError(f"There is no gateway at {address}: {error.strerror or error}.") from error
        return connection

    async def _again(self) -> ClientConnection:
        while True:
            await self._clock.sleep(PAUSE)
            try:
                return await self._open()
            except Refused:
                raise
            except NanobotError:
                continue  # it is starting, or it went away again

    async def _read(self, connection: ClientConnection) -> AsyncIterator[Frame]:
        """The frames of one connection. What comes before the history belongs behind it."""
        place = {"epoch": self._epoch, "after": self._seq} if self._epoch else {}
        await self._write(connection, "attach", place)
        await self._write(connection, "history", {"limit": PAGE})
        held: list[Frame] = []
        async for frame in self._heard(connection):
            held.append(frame)
            if frame["event"] == "error":
                raise Refused(f"The gateway refused: {frame['detail']} ({frame['code']})")
            if frame["event"] == "history":
                break
        for frame in (held.pop(), *held):
            yield await self._taken(connection, frame)
        self._connection = connection
        for given, text in list(self._unsure.items()):
            await self._write(connection, "message", {"content": text, "id": given})
        async for frame in self._heard(connection):
            yield await self._taken(connection, frame)

    async def _heard(self, connection: ClientConnection) -> AsyncIterator[Frame]:
        """Bounded by the connection's keep-alive: a gateway that is silent for good ends it."""
        while True:
            frame: dict[str, Any] = msgspec.json.decode(await connection.recv())
            if frame.get("chat_id", self.chat) == self.chat:
                if frame["event"] == "attached":
                    self._epoch, self._seq = frame["epoch"], frame["seq"]
                self._seq = max(self._seq, frame.get("seq", 0))
                yield frame

    async def _taken(self, connection: ClientConnection, frame: Frame) -> Frame:
        """Note what a frame settles. A reply or message that was handed out before is marked as `known`."""
        match frame["event"]:
            case "history":
                fresh = [line for line in frame["messages"] if line.get("message_id") not in self._seen]
                self._seen.update(line["message_id"] for line in fresh if line.get("message_id"))
                return {**frame, "fresh": fresh}
            case "accepted":
                self._unsure.pop(frame["id"], None)
                self._seen.add(frame["message_id"])
            case "error" if frame.get("code") != "stopping":  # that one is sent again after the return
                self._unsure.pop(frame.get("id", ""), None)
            case "message" | "stream_end" | "user_message" if frame.get("message_id"):
                known = frame["message_id"] in self._seen
                self._seen.add(frame["message_id"])
                if frame["event"] != "user_message":
                    await self._write(connection, "ack", {"seq": frame["seq"]})
                return {**frame, "known": True} if known else frame
        return frame

    async def _send(self, kind: str, **fields: Any) -> None:
        if self._connection is not None:
            try:
                await self._write(self._connection, kind, fields)
            except ConnectionClosed:
                return  # who reads the frames finds out

    async def _write(self, connection: ClientConnection, kind: str, fields: Mapping[str, Any]) -> None:
        frame = msgspec.json.encode({"type": kind, "chat_id": self.chat, **fields}).decode()
        async with deadline(SECONDS, "sending to the gateway"):
            await connection.send(frame)


def socket_url(address: str) -> str:
    """The WebSocket's URL of a gateway's address; a gateway that listens everywhere is reached here."""
    parts = urlsplit(address)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(parts.hostname or "", parts.hostname or "127.0.0.1")  # noqa: S104
    name = f"[{host}]" if ":" in host else host
    return f"ws://{name}:{parts.port}/ws"
