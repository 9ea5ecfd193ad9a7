"""The socket's way in: let a client in, read its frames one after another, act on each.

Frames of a connection are handled in order and the next is read only when one is done, so a client that sends faster
than messages can be made durable is slowed down by its own socket.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import uuid4

from loguru import logger

from nanobot.channel import (
    Address,
    ChannelError,
    DeadlineExceeded,
    Inbound,
    StoreError,
    StoreFull,
    new_id,
    stamp,
)

from .auth import Offer
from .connection import Connection
from .desk import Desk
from .history import history_fields
from .wire import (
    Ack,
    Attach,
    Auth,
    BadFrame,
    ClientFrame,
    Detach,
    History,
    Message,
    NewChat,
    Ping,
    Stop,
    Watch,
    check_chat_id,
    check_id,
    clean_text,
    encode,
    error_frame,
    read_frame,
)

AUTH_SECONDS = 10.0  # for the first frame of a client that must still say who it is
DENIED_SECONDS = 2.0  # for a refused socket to close
MAX_CHATS = 256  # that one connection is attached to
UNAUTHORIZED = 4401  # close code

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Socket:
    """The ASGI application behind `/` and `/ws`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        offer = self._desk.admit(scope)
        scope["query_string"] = b""  # it may hold a token; nothing that logs a request may see it
        scope["headers"] = []  # read; an idle socket need not hold them
        if offer is None:
            await _deny(scope, receive, send, 403, "this Host or Origin may not connect")
            return
        door = scope["extensions"].pop("nanobot.door")  # an idle socket need not hold it
        principal = self._desk.principal(offer)
        if not principal and offer.token:
            door["wrong"]()
        if not principal and offer.token and not offer.by_subprotocol:
            await _deny(scope, receive, send, 401, "the token is wrong")
            return
        await send({"type": "websocket.accept", "subprotocol": offer.subprotocol})
        if not principal:
            principal = "" if offer.token else await self._introduce(receive, door["wrong"])
        if not principal:
            await send(
                {"type": "websocket.send", "text": error_frame("unauthorized", "a valid token is needed")}
            )
            await send({"type": "websocket.close", "code": UNAUTHORIZED, "reason": "unauthorized"})
            return
        door["let_in"]()
        del door
        direct = scope.get("extensions", {}).get("nanobot.socket", {})
        connection = self._greet(send, direct, principal, offer)
        del offer
        try:
            await self._listen(connection, receive)
        finally:
            connection.close()

    async def _introduce(self, receive: Receive, wrong: Callable[[], None]) -> str:
        """Wait for the frame that says who it is; "" where that does not come. How many may wait the server bounds."""
        try:
            async with asyncio.timeout(AUTH_SECONDS):
                message = await receive()
            frame = read_frame(message.get("text") or "")
        except (TimeoutError, BadFrame):
            return ""
        if not isinstance(frame, Auth):
            return ""
        principal = self._desk.principal_of(frame.token)
        if not principal:
            wrong()
        return principal

    def _greet(self, send: Send, direct: Mapping[str, Any], principal: str, offer: Offer) -> Connection:
        client_id = offer.query.get("client_id", "")[:128] or f"anon-{uuid4().hex[:12]}"
        abort, write = direct.get("abort", _nothing), direct.get("write", _waits)
        connection = Connection(send, abort, self._desk.hub.leave, principal, client_id, write)
        connection.default = new_id()
        self._desk.hub.connections.add(connection)
        self._desk.hub.watch(connection, on=bool(offer.origin))  # a page shows the list of all sessions
        ready = {
            "chat_id": connection.default,
            "client_id": client_id,
            "epoch": self._desk.hub.epoch,
            "principal": principal,
        }
        connection.push(encode("ready", ready))
        return connection

    async def _listen(self, connection: Connection, receive: Receive) -> None:
        while not connection.closed:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            del message
            frame: ClientFrame | None = None
            try:
                frame = _read(text)
                await self._act(connection, frame)
            except BadFrame as error:
                chat_id = getattr(frame, "chat_id", "")
                connection.push(
                    error_frame(error.code, error.detail, **({"chat_id": chat_id} if chat_id else {}))
                )
            except (DeadlineExceeded, ChannelError, StoreError) as error:
                connection.push(error_frame("unavailable", str(error)))
            except Exception as error:  # noqa: BLE001 - a fault in one frame must not end the client's connection
                logger.opt(exception=error).error("websocket: a frame could not be handled")
                connection.push(error_frame("internal", "the frame could not be handled"))

    async def _act(self, connection: Connection, frame: ClientFrame) -> None:
        match frame:
            case Message():
                await self._message(connection, frame)
            case Attach():
                await self._attach(connection, await self._mine(connection, frame.chat_id), frame)
            case NewChat():
                chat_id = await self._mine(connection, new_id())
                await self._attach(connection, chat_id, Attach(chat_id))
            case Stop():
                chat_id = await self._mine(connection, frame.chat_id)
                stopped = await self._desk.port.stop(self._key(chat_id))
                connection.push(encode("stopped", {"chat_id": chat_id, "stopped": stopped}))
            case History():
                await self._history(connection, frame)
            case Ack():
                connection.ack(frame.chat_id, frame.seq)
            case Ping():
                connection.push(encode("pong", {"id": frame.id}))
            case Detach():
                self._detach(connection, frame.chat_id)
            case Watch():
                self._desk.hub.watch(connection, on=frame.on)
            case Auth():
                raise BadFrame("bad_frame", "auth: this connection is let in already")

    def _key(self, chat_id: str) -> str:
        return Address(self._desk.port.name, chat_id).key

    async def _mine(self, connection: Connection, chat_id: str | None) -> str:
        """The chat meant, checked: well formed and this principal's."""
        chat_id = check_chat_id(chat_id or connection.default)
        if not await self._desk.owners.claim(chat_id, connection.principal):
            raise BadFrame("forbidden", "this chat belongs to somebody else")
        return chat_id

    # Messages.

    async def _message(self, connection: Connection, frame: Message) -> None:
        fields = {"chat_id": frame.chat_id or connection.default, "id": frame.id or frame.turn_id}
        try:
            await self._accept(connection, frame)
        except BadFrame as error:
            connection.push(error_frame(error.code, error.detail, **fields))
        except StoreFull:
            connection.push(
                error_frame("store_full", "the disk is full: the message was not accepted", **fields)
            )
        except (StoreError, DeadlineExceeded) as error:
            connection.push(error_frame("store_error", f"the message was not accepted: {error}", **fields))

    async def _accept(self, connection: Connection, frame: Message) -> None:
        desk = self._desk
        if desk.stopping:
            raise BadFrame("stopping", "the gateway is shutting down: send the message again when it is back")
        given = check_id(frame) or new_id()
        chat_id = await self._mine(connection, frame.chat_id)
        text = clean_text(frame.content or "")
        if not text.strip() and not frame.media:
            raise BadFrame("missing_content", "a message needs content or media")
        media = await desk.media.take(frame.media or (), connection.principal)
        await desk.owners.store(chat_id, connection.principal)
        if chat_id not in connection.chats:
            await self._enter(connection, chat_id)
        message = Inbound(
            channel=desk.port.name,
            message_id=f"{connection.principal}:{chat_id}:{given}",
            chat_id=chat_id,
            text=text,
            sender=connection.principal,
            sender_name=connection.principal,
            media=media,
        )
        accepted = await desk.port.accept(message)
        if accepted is None:
            raise BadFrame("not_allowed", "this sender may not talk to the bot")
        receipt: dict[str, Any] = {"chat_id": chat_id, "id": given, "message_id": accepted.id}
        if accepted.duplicate:
            connection.push(encode("accepted", {**receipt, "duplicate": True}))
            return
        shown = self._shown(accepted.id, message, desk.port.clock.now())
        seq = desk.hub.chat(chat_id).emit("user_message", shown, skip=connection)
        connection.push(encode("accepted", {**receipt, "seq": seq}))

    # Chats.

    async def _enter(self, connection: Connection, chat_id: str) -> None:
        """Attach a client by its first message to a chat."""
        if chat_id == connection.default:
            self._room(connection, chat_id)
            self._desk.hub.chat(chat_id).join(connection)
        else:
            await self._attach(connection, chat_id, Attach(chat_id))

    async def _attach(self, connection: Connection, chat_id: str, frame: Attach) -> None:
        desk = self._desk
        self._room(connection, chat_id)
        key = self._key(chat_id)
        goal = (await desk.port.sessions.about(key)).goal_state
        queued = await desk.port.waiting(key)
        # From here on nothing waits: the state is that of the moment in which the client is let in.
        chat = desk.hub.chat(chat_id)
        state = desk.port.state(key)
        head: dict[str, Any] = {"epoch": desk.hub.epoch, "running": state.running, "queued": state.queued}
        if queued:
            head["waiting"] = [self._shown(one.id, one.message, one.accepted_at) for one in queued]
        if goal is not None:
            head["goal_state"] = goal
        if state.running:
            head |= {"turn_id": state.turn, "started_at": state.started_at}
        chat.attach(connection, frame.after if frame.epoch == desk.hub.epoch else None, head)
        desk.port.reachable(chat.address)

    def _shown(self, id: str, message: Inbound, at: datetime) -> dict[str, Any]:
        """A message as other clients of its chat see it."""
        shown: dict[str, Any] = {
            "id": message.message_id.removeprefix(f"{message.sender}:{message.chat_id}:"),
            "message_id": id,
            "text": message.text,
            "sender": message.sender,
            "timestamp": stamp(at),
        }
        if message.media:
            shown["media"] = [self._desk.media.describe(one.path) for one in message.media]
        return shown

    def _room(self, connection: Connection, chat_id: str) -> None:
        if len(connection.chats) >= MAX_CHATS and chat_id not in connection.chats:
            raise BadFrame("too_many_chats", f"a connection is attached to at most {MAX_CHATS} chats")
        connection.chats.add(chat_id)

    def _detach(self, connection: Connection, chat_id: str) -> None:
        connection.chats.discard(chat_id)
        chat = self._desk.hub.find(chat_id)
        if chat is not None:
            chat.connections.discard(connection)
        connection.push(encode("detached", {"chat_id": chat_id[:64]}))

    async def _history(self, connection: Connection, frame: History) -> None:
        chat_id = await self._mine(connection, frame.chat_id)
        page = await self._desk.port.sessions.messages(
            self._key(chat_id), frame.before, min(max(frame.limit, 1), 200)
        )
        connection.push(encode("history", {"chat_id": chat_id, **history_fields(page, self._desk.media)}))


def _read(text: str | None) -> ClientFrame:
    if text is None:
        raise BadFrame("binary", "binary frames are not understood: send JSON as text")
    return read_frame(text)


async def _deny(scope: Scope, receive: Receive, send: Send, status: int, reason: str) -> None:
    """Refuse the handshake with an HTTP status, where the server can send one."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": UNAUTHORIZED, "reason": reason})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": reason.encode()})
    # uvicorn logs an error for an application that returns before the refused socket is closed.
    with suppress(TimeoutError):
        async with asyncio.timeout(DENIED_SECONDS):
            await receive()
            await receive()


def _nothing() -> None:
    pass


def _waits(_frame: bytes) -> bool:
    """A server that takes no ready frames."""
    return False
