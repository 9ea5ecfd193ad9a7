"""The smallest channel that keeps every promise; README.md explains it."""

from nanobot.channel import Channel, Port

from .adapter import EchoChannel


def create(port: Port) -> Channel:
    return EchoChannel(port)
