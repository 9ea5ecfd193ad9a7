"""Connections that nobody has vouched for yet, and addresses that guess tokens: both bounded, neither in anybody's way.

Where there are too many connections, the address that has most of them loses its oldest; but all who come at once, as
after a restart, are first given the time to say who they are. A token is never refused
for what others tried: after many wrong ones from its address it is only looked at later.
"""

import ipaddress
import resource
import sys
from collections import OrderedDict
from typing import Any, Protocol

import msgspec
from loguru import logger

from nanobot.clock import Clock, SystemClock

MOST = 512  # connections that were not let in and had PATIENCE
PATIENCE = 10.0  # seconds: thousands that come back at once need some to be read
SHARE = 0.75  # of the process's descriptors: more strangers than this there are never
FREE = 10  # wrong tokens a minute from one address, before its next ones wait
WINDOW = 60.0  # seconds
STEP, LONGEST = 0.05, 2.0  # seconds: how much longer each wrong one makes them wait, and at most
ADDRESSES = 4_096  # that are remembered


class Guest(Protocol):
    """A connection."""

    def cut(self) -> None: ...


class Guesses(msgspec.Struct):
    """Wrong tokens from one address."""

    since: float
    count: int = 0


class Lobby:
    """Of one server."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._guests: dict[str, OrderedDict[Guest, float]] = {}  # by address; since when, monotonic
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._all = sys.maxsize if descriptors == resource.RLIM_INFINITY else int(descriptors * SHARE)
        self._wrong: OrderedDict[str, Guesses] = OrderedDict()
        self.count = 0

    def enter(self, guest: Guest, address: str) -> None:
        now = self._clock.monotonic()
        self._guests.setdefault(address, OrderedDict())[guest] = now
        self.count += 1
        while self.count > MOST:
            fullest = max(self._guests, key=lambda one: len(self._guests[one]))
            oldest, since = next(iter(self._guests[fullest].items()))
            if now - since < PATIENCE and self.count <= self._all:
                return
            self.leave(oldest, fullest)
            oldest.cut()

    def leave(self, guest: Guest, address: str) -> None:
        """It was let in, or is gone. Harmless twice."""
        here = self._guests.get(address)
        if here is None or guest not in here:
            return
        del here[guest]
        self.count -= 1
        if not here:
            del self._guests[address]

    def wrong(self, address: str) -> None:
        """A wrong token came from there."""
        now = self._clock.monotonic()
        guesses = self._wrong.pop(address, None)
        if guesses is None or now - guesses.since > WINDOW:
            guesses = Guesses(now)
        guesses.count += 1
        self._wrong[address] = guesses
        if len(self._wrong) > ADDRESSES:
            self._wrong.popitem(last=False)
        if guesses.count == FREE + 1:
            logger.warning("more than {} wrong tokens in a minute from {}; its next ones wait", FREE, address)

    def wait(self, address: str) -> float:
        """For how many seconds a token from there is not looked at."""
        guesses = self._wrong.get(address)
        if guesses is None or self._clock.monotonic() - guesses.since > WINDOW:
            return 0.0
        return min(max(guesses.count - FREE, 0) * STEP, LONGEST)


def address_of(client: Any) -> str:
    """What counts as one address: an IPv6 network of 64 bits is one household."""
    text = str(client[0]) if client else ""
    if ":" not in text:
        return text
    try:
        address = ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return text
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))
