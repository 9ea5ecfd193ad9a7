"""The WebSocket channel: the web page, its socket and its REST."""

from .adapter import WebSocketChannel, create

__all__ = ["WebSocketChannel", "create"]
