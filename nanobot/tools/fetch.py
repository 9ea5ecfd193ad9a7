"""The HTTP client of web_fetch: pinned addresses, checked redirects, bounded bytes. Imports aiohttp, so load it late."""

import socket
import zlib
from typing import Any

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from nanobot import __version__
from nanobot.clock import deadline
from nanobot.errors import Refused, ToolError
from nanobot.security.network import Guard

REDIRECTS = 5
MOST_BYTES = 5 << 20  # of a body, after decompression
SECONDS = 45.0
_CODES = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "User-Agent": f"Mozilla/5.0 (compatible; nanobot/{__version__})",
    "Accept": "text/html,application/xhtml+xml,application/json,text/plain;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}


class Fetched(msgspec.Struct, frozen=True):
    """A page as it came. `cut` = the body went on beyond what is kept."""

    url: str
    status: int
    type: str
    charset: str
    body: bytes
    cut: bool


class _Pinned(AbstractResolver):
    """Answers with the addresses that were checked, and knows no others."""

    def __init__(self, host: str, addresses: list[str]) -> None:
        self._host = host
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        if host != self._host:
            raise Refused(f"{host} was not checked")
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
            if family in (socket.AF_UNSPEC, socket.AF_INET6 if ":" in address else socket.AF_INET)
        ]

    async def close(self) -> None:
        pass


async def fetch(address: str, guard: Guard) -> Fetched:
    """GET with redirects. Raises Refused for places not to be reached, ToolError for what fails."""
    try:
        async with deadline(SECONDS, f"fetching {address}"):
            url = _parsed(address)
            for _ in range(REDIRECTS + 1):
                result = await _once(url, guard)
                if isinstance(result, Fetched):
                    return result
                url = result
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise ToolError(f"{address} could not be fetched: {error or type(error).__name__}") from error
    raise ToolError(f"{address} redirects more than {REDIRECTS} times")


async def _once(url: URL, guard: Guard) -> Fetched | URL:
    """One request: the page, or where it redirects to. The guard has seen every address that can be connected."""
    host = url.raw_host or ""
    addresses = await guard.resolve(host)
    connector = aiohttp.TCPConnector(resolver=_Pinned(host, addresses), use_dns_cache=False, force_close=True)
    timeout = aiohttp.ClientTimeout(connect=15, sock_read=20)
    options: dict[str, Any] = {
        "auto_decompress": False,
        "trust_env": False,
        "cookie_jar": aiohttp.DummyCookieJar(),
    }
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout, headers=_HEADERS, **options) as session,
        session.get(url, allow_redirects=False) as response,
    ):
        if response.status in _CODES and "Location" in response.headers:
            return _parsed(str(url.join(URL(response.headers["Location"]))))
        body, cut = await _body(response)
        return Fetched(str(url), response.status, response.content_type, response.charset or "", body, cut)


async def _body(response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    """The decompressed body, never more than MOST_BYTES of it in memory, whatever a small file would unpack to."""
    unpack = _unpacker(response.headers.get("Content-Encoding", "identity").strip().lower())
    body = bytearray()
    async for chunk in response.content.iter_chunked(65_536):
        room = MOST_BYTES - len(body)
        try:
            body += unpack.decompress(chunk, room + 1) if unpack else chunk[: room + 1]
        except zlib.error as error:
            raise ToolError(f"the page's compression is damaged: {error}") from error
        if len(body) > MOST_BYTES:
            return bytes(body[:MOST_BYTES]), True
    return bytes(body), False


def _unpacker(encoding: str) -> Any:
    if encoding in ("", "identity"):
        return None
    if encoding in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # 32: gzip or zlib, told by its head
    raise ToolError(f"the page is compressed with {encoding}, which was not asked for")


def _parsed(address: str) -> URL:
    url = URL(address.strip())
    if url.scheme not in ("http", "https"):
        raise Refused(f"{address}: only http and https can be fetched")
    if not url.raw_host:
        raise ToolError(f"{address} names no host")
    if url.user or url.password:
        raise Refused("addresses with a user name or password are not fetched")
    return url
