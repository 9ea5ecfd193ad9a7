"""The guard against requests to places that are not public (SSRF): which addresses may be reached, and by what name.

A name is resolved once, every address it has is checked, and the caller connects to those addresses and no others,
so that a second look-up cannot answer differently.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

from nanobot.clock import deadline
from nanobot.errors import Refused, ToolError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Lookup = Callable[[str], Awaitable[Sequence[str]]]

_LOOKUP_SECONDS = 10.0

# IANA's special-purpose registries. The ipaddress module's own answers differ between Python's patch releases.
_CLOSED_V4 = {
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "carrier-grade NAT",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "protocol assignments",
    "192.0.2.0/24": "documentation",
    "192.88.99.0/24": "6to4 relay",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved or broadcast",
}
_OPEN_V6 = "2000::/3"  # global unicast; all else is closed
_CLOSED_V6 = {
    "2001::/23": "protocol assignments, Teredo",
    "2001:db8::/32": "documentation",
    "2002::/16": "6to4",
    "3fff::/20": "documentation",
}
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

_V4 = [(ipaddress.IPv4Network(net), why) for net, why in _CLOSED_V4.items()]
_V6 = [(ipaddress.IPv6Network(net), why) for net, why in _CLOSED_V6.items()]
_V6_OPEN = ipaddress.IPv6Network(_OPEN_V6)


def closed(address: Address) -> str:
    """Why an address is not public; "" where it is."""
    if isinstance(address, ipaddress.IPv4Address):
        return next((why for net, why in _V4 if address in net), "")
    if address.ipv4_mapped is not None:
        return closed(address.ipv4_mapped)
    if address in _NAT64:
        return closed(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if address not in _V6_OPEN:
        return "not global unicast"
    return next((why for net, why in _V6 if address in net), "")


async def system_lookup(host: str) -> Sequence[str]:
    """All addresses the system's resolver knows; it also reads forms such as 127.1 and 0x7f000001."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class Guard:
    """Decides for one web client. `allowed` holds host names and networks that are reached although not public.

    With `only_allowed` nothing else is reached.
    """

    def __init__(
        self, allowed: Sequence[str] = (), *, only_allowed: bool = False, lookup: Lookup = system_lookup
    ) -> None:
        self._names: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for entry in allowed:
            try:
                self._networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                self._names.add(_plain(entry))
        self._only_allowed = only_allowed
        self._lookup = lookup

    async def resolve(self, host: str) -> list[str]:
        """The addresses to connect to. Refused where any of them is closed; ToolError for an unknown name."""
        name = _plain(host)
        try:
            async with deadline(_LOOKUP_SECONDS, f"looking up {host}"):
                found = await self._lookup(name)
        except (OSError, UnicodeError) as error:
            raise ToolError(f"{host} could not be resolved: {error}") from error
        addresses = list(dict.fromkeys(found))
        if not addresses:
            raise ToolError(f"{host} has no address")
        for text in addresses:
            self._check(name, text)
        return addresses

    def _check(self, name: str, text: str) -> None:
        if name in self._names:
            return
        if "%" in text:
            raise Refused(f"{name} is at {text}: link-local")
        address = ipaddress.ip_address(text)
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        if any(candidate in net for net in self._networks for candidate in (address, mapped) if candidate):
            return
        if self._only_allowed:
            raise Refused(f"{name} is not in [security] allowed_hosts, and this level reaches nothing else")
        if why := closed(address):
            raise Refused(
                f"{name} is at {text}, which is not public ({why})",
                "only the owner can allow it, in [security] allowed_hosts",
            )


def _plain(host: str) -> str:
    return host.strip().rstrip(".").strip("[]").lower()
