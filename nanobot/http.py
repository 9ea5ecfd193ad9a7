"""The gateway's one HTTP server: the routes of all channels, health and metrics, on one port.

uvicorn runs inside our loop with our own signals and our own socket, so that a taken port is a clear error, port 0
works, and a stop is bounded. There is no access log: query strings may hold tokens.
"""

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from hmac import compare_digest
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from nanobot.connections import HttpConnection, SocketConnection
from nanobot.errors import PortTaken
from nanobot.lobby import Lobby, address_of

MAX_FRAME = 36 * 1024 * 1024  # bytes of one WebSocket frame
PING_SECONDS = 20.0
STOP_SECONDS = 5.0  # for running requests, once we stop

FOREIGN = Response("this host name is not served here\n", 403, media_type="text/plain")

Health = Callable[[], Awaitable[Mapping[str, Any]]]


class Guard:
    """Who may ask for the server's own routes: with a token, its bearer; without one, who names this machine.

    A web page that had its name resolve to this machine would come with that name.
    """

    def __init__(self, token: str = "", *, tokens: bool = False) -> None:
        self.token = token
        self.tokens = tokens or bool(token)  # whether anybody needs one; then nobody else is told details

    def known(self, request: Request) -> bool:
        """Whether the request may be told everything."""
        if not self.tokens:
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        same = compare_digest(digest(given.strip()), digest(self.token))
        known = bool(self.token) and scheme.lower() == "bearer" and same
        if not known and given:
            request.scope["extensions"]["nanobot.door"]["wrong"]()
        return known

    def named(self, request: Request) -> bool:
        """Whether its Host header names this machine; with tokens it does not matter."""
        if self.tokens:
            return True
        host = request.headers.get("host", "")
        name = (host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]).lower()
        if name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def bears_token(scope: Scope) -> bool:
    """Whether a request may bring a token: every socket may, in its first frame."""
    if scope["type"] == "websocket":
        return True
    return b"token=" in scope["query_string"] or any(name == b"authorization" for name, _ in scope["headers"])


def digest(text: str) -> bytes:
    return sha256(text.encode(errors="surrogateescape")).digest()


class Application(Starlette):
    """Starlette for HTTP; sockets go to their route straight, without middleware that only costs them memory."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        super().__init__(routes=routes, exception_handlers={HTTPException: _refusal})
        self.lobby = Lobby()
        self._sockets = {route.path: route.app for route in routes if isinstance(route, WebSocketRoute)}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:  # type: ignore[override]
        wait = self.lobby.wait(address_of(scope["client"]))
        if wait and bears_token(scope):
            return self._later(wait, scope, receive, send)
        return self._now(scope, receive, send)

    async def _later(self, wait: float, scope: Scope, receive: Receive, send: Send) -> None:
        """Whoever guesses learns nothing sooner by asking often; the right token is let in all the same."""
        await asyncio.sleep(wait)
        await self._now(scope, receive, send)

    def _now(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "websocket":
            found = self._sockets.get(scope["path"])
            if found is not None:
                scope["app"] = self
                return found(scope, receive, send)
        return super().__call__(scope, receive, send)


def build(
    routes: Iterable[BaseRoute],
    *,
    health: Health,
    ready: Callable[[], bool],
    metrics: Callable[[], bytes],
    guard: Guard | None = None,
) -> Application:
    """One application from the channels' routes.

    Catch-all routes come last, whichever channel brings them. `health` is awaited for /healthz, whose answer is 200
    as long as we answer at all, with nothing but its `status` for who may not know more; /readyz is 503 until
    `ready`; `metrics` is Prometheus text.
    """
    guard = guard or Guard()

    async def healthz(request: Request) -> Response:
        if not guard.named(request):
            return FOREIGN
        found = await health()
        return _json(found if guard.known(request) else {"status": found.get("status", "ok")})

    async def readyz(request: Request) -> Response:
        is_ready = ready()
        return _json({"ready": is_ready}, 200 if is_ready else 503) if guard.named(request) else FOREIGN

    async def exposition(request: Request) -> Response:
        if not guard.named(request):
            return FOREIGN
        if not guard.known(request):
            return Response(
                "the owner's token is needed\n", 401, {"WWW-Authenticate": "Bearer"}, media_type="text/plain"
            )
        return Response(metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    own = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", exposition)]
    return Application(sorted([*own, *routes], key=_is_catch_all))


class HttpServer:
    """Serves an application until it is stopped."""

    def __init__(self, app: Application, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self.port = port  # after start the real one
        self._app = app
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._server.server_state.connections) if self._server else 0

    @property
    def lobby(self) -> Lobby:
        return self._app.lobby

    async def start(self) -> int:
        """Listen; returns the port. Raises PortTaken where the address cannot be had."""
        listener = bind(self.host, self.port)
        self.port = int(listener.getsockname()[1])
        self._app.state.host = self.host
        config = uvicorn.Config(
            self._app,
            http=HttpConnection,
            interface="asgi3",  # our __call__ returns an awaitable instead of being a coroutine function
            ws=SocketConnection,
            ws_max_size=MAX_FRAME,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
            ws_per_message_deflate=False,  # a compressor costs memory for every idle socket
            lifespan="off",
            log_config=None,
            log_level="warning",  # at "info" uvicorn logs handshakes with their query strings
            access_log=False,
            proxy_headers=False,  # nothing here trusts a forwarded address
            server_header=False,
            date_header=False,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        up = asyncio.create_task(self._server.up.wait())
        await asyncio.wait((up, self._task), return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if self._task.done():
            listener.close()
            await self._task
        return self.port

    async def stop(self) -> None:
        """Close: running requests get STOP_SECONDS, sockets are told to come back (1012)."""
        if self._server is None or self._task is None:
            return
        self._server.down.set()
        await asyncio.wait((self._task,), timeout=STOP_SECONDS + 2)
        if not self._task.done():
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._server = self._task = None


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; raises PortTaken with the remedy."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, since asyncio turns Nagle's delay off only for sockets that say so: else small frames wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2_048)  # here, so that a second listener fails now and not later
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            reason = "another program listens there; stop it or set [http] port in config.toml"
        elif error.errno == errno.EACCES:
            reason = "this user may not use that port; set [http] port in config.toml to one above 1023"
        else:
            reason = f"{error.strerror or error}; check [http] host and port in config.toml"
        raise PortTaken(f"cannot listen on {host}:{port}: {reason}") from None
    listener.setblocking(False)
    return listener


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers and its ten wake-ups a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self.down = asyncio.Event()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    async def main_loop(self) -> None:
        await self.down.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Like uvicorn's, which looks ten times a second whether all is done; this one waits for just that."""
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if self.server_state.tasks:
            _, late = await asyncio.wait(self.server_state.tasks, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()


def _is_catch_all(route: BaseRoute) -> bool:
    return getattr(route, "path", "").startswith("/{")


async def _refusal(_request: Request, error: Exception) -> Response:
    """No route has this path or this method: told like all that the REST refuses."""
    assert isinstance(error, HTTPException)
    code = "bad_method" if error.status_code == 405 else "not_found"
    response = _json({"error": {"code": code, "detail": error.detail}}, error.status_code)
    response.headers.update(error.headers or {})
    return response


def _json(value: Mapping[str, Any], status: int = 200) -> Response:
    return Response(
        msgspec.json.encode(value), status, {"Cache-Control": "no-store"}, media_type="application/json"
    )
