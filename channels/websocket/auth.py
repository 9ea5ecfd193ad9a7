"""Who is calling: Host, Origin and token of a request become a principal. Rules only, no I/O."""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from .settings import OWNER, Settings

PROTOCOL = "nanobot.v1"
_TOKEN_PROTOCOL = "nanobot.token."  # noqa: S105 - a prefix, not a secret
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain")


class Offer(msgspec.Struct, frozen=True):
    """What a request says about itself before it is trusted."""

    host: str  # as the Host header has it
    origin: str  # "" = not a browser
    query: Mapping[str, str]
    token: str  # from the header, the subprotocol or the query
    by_subprotocol: bool  # a browser's only way at the handshake; it cannot see an HTTP status
    subprotocol: str | None  # what the answer to the handshake must name
    cross_site: bool  # the browser says that another site caused the request
    local: bool  # both ends of the connection are loopback addresses


def read_offer(scope: Mapping[str, Any]) -> Offer:
    """Take what matters from an ASGI scope, HTTP or WebSocket."""
    headers = {name: value.decode("latin-1") for name, value in reversed(scope["headers"])}
    query = _query(scope["query_string"].decode("latin-1"))
    scheme, _, bearer = headers.get(b"authorization", "").partition(" ")
    token = bearer.strip() if scheme.lower() == "bearer" else ""
    offered: Sequence[str] = scope.get("subprotocols", ())
    named = next((name for name in offered if name.startswith(_TOKEN_PROTOCOL)), "")
    by_subprotocol = not token and bool(named)
    subprotocol = PROTOCOL if PROTOCOL in offered else named or None
    return Offer(
        host=headers.get(b"host", ""),
        origin=headers.get(b"origin", ""),
        query=query,
        token=token or named.removeprefix(_TOKEN_PROTOCOL) or query.get("token", ""),
        by_subprotocol=by_subprotocol,
        subprotocol=subprotocol,
        cross_site=headers.get(b"sec-fetch-site", "") in ("cross-site", "same-site"),
        local=_is_loopback(_first(scope.get("server"))) and _is_loopback(_first(scope.get("client"))),
    )


def principal_of(token: str, settings: Settings) -> str:
    """The owner or the user whose token this is; "" where there is none. Takes the same time for every token."""
    given = sha256(token.encode(errors="surrogateescape")).digest()
    found = ""
    for name, known in ((OWNER, settings.token), *settings.users.items()):
        same = compare_digest(given, sha256(known.encode()).digest())
        if same and known:
            found = name
    return found


def host_allowed(offer: Offer, settings: Settings, bound: str) -> bool:
    """Whether the Host header is one an attacker's DNS name cannot forge into.

    Without a token only loopback names pass. With one, so do bare addresses (DNS cannot rebind those), the name the
    server was told to bind, and the hosts of `allow_origins`.
    """
    name = host_name(offer.host)
    if not name:
        return False
    if name in _LOOPBACK_NAMES or name.endswith(".localhost") or _is_loopback(name):
        return True
    if settings.open:
        return False
    return _is_address(name) or name == bound.lower() or name in _names(settings.allow_origins)


def origin_allowed(offer: Offer, settings: Settings) -> bool:
    """Same origin, or listed. No Origin means that no browser page is behind the request."""
    if not offer.origin:
        return not offer.cross_site
    if offer.origin.rstrip("/").lower() in {origin.rstrip("/").lower() for origin in settings.allow_origins}:
        return True
    try:
        parts = urlsplit(offer.origin)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return False
    # The scheme is not compared: a proxy that ends TLS keeps the Host header but talks plain HTTP to us.
    default = 443 if parts.scheme == "https" else 80
    return (parts.hostname, port or default) == (host_name(offer.host), _port(offer.host) or default)


def host_name(host: str) -> str:
    """The name in a Host header, lower case, without port and brackets; "" where it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return ""
    name = (parts.hostname or "").rstrip(".")
    plain = parts.netloc == host and not parts.username and not parts.path and "@" not in host
    safe = all(letter.isalnum() or letter in ".-_:" for letter in name) and name.isascii()
    return name if plain and safe else ""


def _query(text: str) -> dict[str, str]:
    try:
        return {name: values[-1] for name, values in parse_qs(text, max_num_fields=32).items()}
    except ValueError:  # more fields than anybody needs
        return {}


def _port(host: str) -> int | None:
    return urlsplit(f"//{host}").port


def _first(pair: Any) -> str:
    return str(pair[0]) if pair else ""


def _is_loopback(name: str) -> bool:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool(address.is_loopback or (mapped and mapped.is_loopback))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _names(origins: Iterable[str]) -> set[str]:
    return {(urlsplit(origin).hostname or "").lower() for origin in origins} - {""}
