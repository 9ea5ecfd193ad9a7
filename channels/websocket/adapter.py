"""The WebSocket channel: chats over a socket, with replay, acknowledgements and REST. docs/protocol.md has it all."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.routing import WebSocketRoute

from nanobot.channel import Capabilities, Event, Outbound, Port, Receipt, Unreachable, new_id

from .connection import Served
from .desk import Desk
from .hub import Hub
from .pages import Pages
from .rest import Rest
from .settings import read_settings
from .socket import Socket

ACK_SECONDS = 15.0  # for a client that acks to do so; then it is cut off and the reply waits for its return


class WebSocketChannel:
    """Implements `nanobot.channel.Channel`."""

    name = "websocket"
    capabilities = Capabilities(live=True, repeatable=True)

    def __init__(self, port: Port) -> None:
        self.name = port.name
        self._hub = Hub(port.name, new_id())
        self._desk = Desk(port, read_settings(port.settings), self._hub)

    async def start(self) -> None:
        """Nothing to connect to: clients come by the gateway's HTTP server."""
        self._desk.stopping = False

    async def stop(self) -> None:
        """Accept no more messages. Sockets stay until the HTTP server closes, for the replies still on their way."""
        self._desk.stopping = True

    def show(self, event: Event) -> None:
        self._hub.show(event)

    async def deliver(self, message: Outbound) -> Receipt:
        """Send a reply to everyone attached; returns once one client has it.

        A client that acks has it once it acked, any other once it is written. Raises Unreachable where nobody is
        attached, or where all who were went away first.
        """
        chat_id = message.address.chat_id
        owner = await self._desk.owners.owner(chat_id) if message.media else ""
        media = await self._desk.media.publish(message.media, message.id, owner)
        while True:
            chat = self._hub.find(chat_id)
            # The check and the raise are one step of the loop, so nobody can attach in between unnoticed.
            if chat is None or not chat.connections:
                raise Unreachable(f"nobody is attached to {chat_id}")
            served = Served()
            chat.post(message, media, served)
            if await self._reached(served):
                return Receipt()

    async def _reached(self, served: Served) -> bool:
        if served.open == 0 and not served.future.done():
            return False
        try:
            async with asyncio.timeout(ACK_SECONDS):
                await served.future
        except Unreachable:
            return False
        except TimeoutError:
            for connection in [one for one in self._hub.connections if one.owes(served)]:
                connection.cut()
            return False
        return True

    async def find(self, message: Outbound) -> Receipt | None:
        """Never asked: delivering again is harmless, since clients know a message by its id."""
        del message
        return None

    def routes(self) -> Sequence[Any]:
        socket = Socket(self._desk)
        page = Pages(self._desk, Path(__file__).parent / "web")
        return [
            WebSocketRoute("/", socket),
            WebSocketRoute("/ws", socket),
            *Rest(self._desk).routes(),
            *page.routes(),
        ]


def create(port: Port) -> WebSocketChannel:
    """What the gateway calls."""
    return WebSocketChannel(port)
