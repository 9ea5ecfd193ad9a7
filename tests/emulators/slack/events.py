"""Events on their way to the app: by Socket Mode envelopes or signed HTTP posts, redelivered until acknowledged."""

import asyncio
import hashlib
import hmac
import itertools
import time
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp import web

Kind = Literal["events_api", "slash_commands", "interactive"]
MAX_SOCKETS = 10


class Delivery:
    """One event's way to the app. `ack` is what the app answered with; `echo`: it tells of what the app did itself."""

    def __init__(self, kind: Kind, payload: dict[str, Any], *, echo: bool = False) -> None:
        self.kind = kind
        self.echo = echo
        self.payload = payload
        self.attempts = 0
        self.ack: dict[str, Any] | None = None
        self.seconds = 0.0  # from the newest attempt to the acknowledgement
        self.sent_at = 0.0
        self.done = asyncio.Event()

    async def acked(self, seconds: float = 5.0) -> bool:
        """Whether the app acknowledged it in this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.done.wait()
        return self.ack is not None

    def acknowledge(self, payload: dict[str, Any]) -> None:
        self.ack = payload
        self.seconds = time.monotonic() - self.sent_at
        self.done.set()


class Events:
    """Sends events. Without `url` they go through Socket Mode.

    `ack_seconds` is how long the platform waits before it sends again, `retries` how often it does.
    `lose_acks` acknowledgements of what people did are dropped on their way back.
    """

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self.url = ""
        self.ack_seconds = 3.0
        self.retries = 3
        self.lose_acks = 0
        self.frozen = False  # sockets stay open and nothing moves on them, pongs included
        self.refusing = False  # no new connections
        self.sockets: list[web.WebSocketResponse] = []
        self.connections = 0
        self.connected = asyncio.Event()
        self.sent: list[Delivery] = []
        self._tickets: set[str] = set()
        self._next_socket = itertools.count()
        self._open: dict[str, Delivery] = {}
        self._ids = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, kind: Kind, payload: dict[str, Any], *, echo: bool = False) -> Delivery:
        delivery = Delivery(kind, payload, echo=echo)
        self.sent.append(delivery)
        task = asyncio.create_task(self._deliver(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return delivery

    def ticket(self) -> str:
        """For one connection."""
        made = f"t{next(self._ids)}"
        self._tickets.add(made)
        return made

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.drop()

    async def drop(self) -> None:
        """Cut all sockets without a word."""
        sockets, self.sockets = self.sockets, []
        self.connected.clear()
        for socket in sockets:
            transport = socket._req.transport if socket._req else None
            if transport is not None:
                transport.abort()

    async def refresh(self, reason: str = "refresh_requested") -> None:
        """Ask the app to open a new connection."""
        sockets, self.sockets = self.sockets, []
        self.connected.clear()
        for socket in sockets:
            await socket.send_json({"type": "disconnect", "reason": reason})

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """The WebSocket endpoint."""
        if self.refusing:
            return web.Response(status=503)
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=404, text="this address was used before, or never given")
        self._tickets.remove(ticket)
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        if len(self.sockets) >= MAX_SOCKETS:
            await socket.send_json({"type": "disconnect", "reason": "too_many_websockets"})
            await socket.close()
            return socket
        self.connections += 1
        await socket.send_json({"type": "hello", "num_connections": len(self.sockets) + 1})
        self.sockets.append(socket)
        self.connected.set()
        try:
            async for message in socket:
                if self.frozen:
                    continue
                if message.type is aiohttp.WSMsgType.PING:
                    await socket.pong(message.data)
                elif message.type is aiohttp.WSMsgType.TEXT:
                    self._answer(msgspec.json.decode(message.data))
        finally:
            if socket in self.sockets:
                self.sockets.remove(socket)
            if not self.sockets:
                self.connected.clear()
        return socket

    def _answer(self, frame: dict[str, Any]) -> None:
        delivery = self._open.get(frame.get("envelope_id", ""))
        if delivery is not None and not self._loses(delivery):
            delivery.acknowledge(frame.get("payload") or {})

    def _loses(self, delivery: Delivery) -> bool:
        lost = self.lose_acks > 0 and not delivery.echo
        self.lose_acks -= lost
        return lost

    async def _deliver(self, delivery: Delivery) -> None:
        for attempt in range(self.retries + 1):
            delivery.attempts = attempt + 1
            if self.url:
                await self._post(delivery, attempt)
            else:
                await self._envelope(delivery, attempt)
            if delivery.ack is not None:
                return

    async def _envelope(self, delivery: Delivery, attempt: int) -> None:
        await self.connected.wait()
        envelope = f"env-{next(self._ids)}"
        self._open[envelope] = delivery
        frame: dict[str, Any] = {
            "envelope_id": envelope,
            "type": delivery.kind,
            "payload": delivery.payload,
            "accepts_response_payload": delivery.kind != "events_api",
        }
        if delivery.kind == "events_api":
            frame |= {"retry_attempt": attempt, "retry_reason": "timeout" if attempt else ""}
        delivery.sent_at = time.monotonic()
        if not self.frozen:
            with suppress(ConnectionError, ZeroDivisionError):
                # Any connection may get any payload.
                await self.sockets[next(self._next_socket) % len(self.sockets)].send_json(frame)
        await delivery.acked(self.ack_seconds)

    async def _post(self, delivery: Delivery, attempt: int) -> None:
        if delivery.kind == "events_api":
            body, content = msgspec.json.encode(delivery.payload), "application/json"
        else:
            fields = delivery.payload
            if delivery.kind == "interactive":
                fields = {"payload": msgspec.json.encode(delivery.payload).decode()}
            body, content = urlencode(fields).encode(), "application/x-www-form-urlencoded"
        headers = {"content-type": content, **self.signature(body)}
        if attempt:
            headers |= {"x-slack-retry-num": str(attempt), "x-slack-retry-reason": "http_error"}
        delivery.sent_at = time.monotonic()
        timeout = aiohttp.ClientTimeout(total=self.ack_seconds)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(self.url, data=body, headers=headers) as answer,
            ):
                text = await answer.text()
                if answer.status == 200 and not self._loses(delivery):
                    delivery.acknowledge({"text": text} if text else {})
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(self.ack_seconds)

    def signature(self, body: bytes, secret: str = "", at: int = 0) -> dict[str, str]:
        """The headers of a signed request; another secret or an old time makes a forged one."""
        stamp = str(at or int(time.time()))
        key = (secret or self.secret).encode()
        digest = hmac.new(key, f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
        return {"x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={digest}"}
