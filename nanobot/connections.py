"""The server's connections: uvicorn's HTTP and WebSocket, with an end to what never comes to its point.

uvicorn waits for ever for the rest of a request's head, and for a client that does not read. Who has not been let in
is counted in the lobby and may send little; `scope["extensions"]["nanobot.door"]` is how an application lets it in.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request as Handshake
from websockets.protocol import State

from nanobot.lobby import Lobby, address_of

HEAD_SECONDS = 15.0  # for a request's head, from the first byte or the connection's beginning
REQUEST_SECONDS = 120.0  # for the whole of a request of somebody who was not let in
STALL_SECONDS = 30.0  # for a client to take some of what waits for it
STRANGER_FRAME = 64 * 1024  # bytes of a frame of somebody who was not let in
PIECES = 1_024  # of one message


def lobby_of(scope: Any) -> Lobby:
    return cast(Lobby, scope.lobby)


class HttpConnection(H11Protocol):
    """One HTTP connection. It is in the lobby until a request of its own is let in."""

    _late: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _in = False
    _passed_on = False  # to a SocketConnection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._lobby = lobby_of(self.config.app)
        self._address = address_of(self.client)
        self._lobby.enter(self, self._address)
        self._wait(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Bytes end uvicorn's own wait for the next request, however few they are.
        if not (self._busy or self._late or self._passed_on or self.transport.is_closing()):
            self._wait(HEAD_SECONDS)

    def handle_events(self) -> None:
        before = self.scope
        super().handle_events()
        if self.scope is not before and self._busy:
            self.scope["extensions"] = {"nanobot.door": {"let_in": self.let_in, "wrong": self.wrong}}
            self._wait(0 if self._in else REQUEST_SECONDS)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._gone()
        self._passed_on = True
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        self._wait(0)
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(STALL_SECONDS, self.cut)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def let_in(self) -> None:
        """Whoever asks has shown who it is."""
        self._in = True
        self._lobby.leave(self, self._address)
        self._wait(0)

    def wrong(self) -> None:
        self._lobby.wrong(self._address)

    def cut(self) -> None:
        self.transport.abort()

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self, seconds: float) -> None:
        """Cut the connection off after this long; 0 = not any more."""
        if self._late is not None:
            self._late.cancel()
        self._late = self.loop.call_later(seconds, self.cut) if seconds else None

    def _gone(self) -> None:
        self._lobby.leave(self, self._address)
        self._wait(0)
        if self._stalled is not None:
            self._stalled.cancel()


class SocketConnection(WebSocketsSansIOProtocol):
    """uvicorn's fastest WebSocket, which also lets the application cut clients off and write whole frames."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # At debug level this logger would be given every handshake with its tokens, whatever level is configured.
        self.conn.debug = False
        self.conn.max_message_size = STRANGER_FRAME

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        lobby_of(self.config.app).enter(self, address_of(self.client))

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def handle_connect(self, event: Handshake) -> None:
        super().handle_connect(event)
        scope = getattr(self, "scope", None)
        if scope is not None:  # a handshake that was refused has none
            scope["extensions"]["nanobot.socket"] = {"abort": self.cut, "write": self.write_frame}
            scope["extensions"]["nanobot.door"] = {"let_in": self.let_in, "wrong": self.wrong}

    def handle_cont(self, event: Frame) -> None:
        # The limit of bytes does not count pieces that hold none.
        if len(self.frames) < PIECES:
            super().handle_cont(event)
        elif not self.conn.close_expected():
            self.frames = []
            self.conn.fail(1009, f"more than {PIECES} pieces")
            self.handle_parser_exception()

    def let_in(self) -> None:
        """Whoever is there has shown who it is."""
        self._leave()
        self.conn.max_message_size = self.config.ws_max_size

    def wrong(self) -> None:
        lobby_of(self.config.app).wrong(address_of(self.client))

    def cut(self) -> None:
        self.transport.abort()

    def write_frame(self, frame: bytes) -> bool:
        """Write a ready-made frame now; False where it cannot be, or must wait for a client that does not read.

        A server's frames are the same bytes for every client, since nothing here masks or compresses them: whoever
        sends one to many makes it once.
        """
        if not self.writable.is_set() or self.conn.state is not State.OPEN or self.transport.is_closing():
            return False
        self.transport.write(frame)
        return True

    def start_keepalive(self) -> None:
        super().start_keepalive()
        # What was said in the handshake is a quarter of an idle socket's memory; the parser itself holds the request.
        self.request.headers.clear()
        del self.request, self.response

    def _leave(self) -> None:
        lobby_of(self.config.app).leave(self, address_of(self.client))
