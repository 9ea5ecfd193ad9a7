"""The streaming HTTP client of all providers, and the model that is one provider's dialect spoken over it."""

import asyncio
import errno
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit

from loguru import logger

from nanobot import __version__
from nanobot.clock import deadline
from nanobot.errors import DeadlineExceeded, NanobotError
from nanobot.model import Failed, Finished, ModelEvent, ModelRequest, Text
from nanobot.models.failures import Target, retry_after
from nanobot.models.sse import EventTooLong, Splitter
from nanobot.models.turnstile import Place, Turnstile

if TYPE_CHECKING:
    import aiohttp

CONNECT_TIMEOUT = 15.0  # seconds
AFTER_FINISH = 5.0  # seconds a server may still take for usage and its end mark, once it gave a finish reason
DRAIN = 0.2  # seconds to wait for the response's last bytes, so that its connection can be used again
MAX_REFUSAL = 64 * 1024  # bytes of an error's body that are read
PIECE = 64 * 1024  # bytes given to the socket at once

T = TypeVar("T")


class ProviderSettings(Protocol):
    """A `[models.<provider>]` table. Times are in seconds; `extra` is merged into the request's body."""

    @property
    def kind(self) -> str: ...  # openai | anthropic | local | scripted
    @property
    def api_key(self) -> str: ...
    @property
    def base_url(self) -> str: ...
    @property
    def timeout(self) -> float: ...  # the whole call
    @property
    def idle_timeout(self) -> float: ...  # between streamed chunks
    @property
    def path(self) -> str: ...  # the GGUF file, for local
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def extra(self) -> Mapping[str, Any]: ...


class Decoder(Protocol):
    """The data of one response's events in, model events out; rules without I/O."""

    finishing: bool  # the finish reason is known; usage or the end mark may still come

    def feed(self, data: bytes) -> Sequence[ModelEvent]:
        """What a datum stands for. A Finished or Failed is the last event and ends the call."""
        ...

    def end(self) -> Sequence[ModelEvent]:
        """The stream ended by itself; the last of these is a Finished or Failed."""
        ...


class CallFailed(NanobotError):
    """A call cannot go on; `failed` is what its stream ends with."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.failed = failed


class HttpClient:
    """One connection pool for every provider, made at the first call. Connections are kept, cookies are not."""

    def __init__(self, *, trust_env: bool = True) -> None:
        self._trust_env = trust_env
        self._proxies: dict[str, str | None] = {}  # by URL; the environment does not change while we run
        self._session: aiohttp.ClientSession | None = None
        self.turnstile = Turnstile()

    def session(self) -> "aiohttp.ClientSession":
        if self._session is None or self._session.closed:
            # Imported at the first call: a gateway's start need not wait for 0.2 s and 25 MB.
            import aiohttp  # noqa: PLC0415

            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,  # it would ask a thread for .netrc and for proxies at every request: 0.35 ms
                read_bufsize=256 * 1024,
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(
        self, url: str, headers: Mapping[str, str], body: Sequence[bytes], place: Place
    ) -> "aiohttp.ClientResponse":
        """Send a body and return the response as soon as its headers are there; the caller bounds it.

        The place at the turnstile is left when the body is written. Raises CallFailed where nobody answers.
        """
        session = self.session()
        import aiohttp  # noqa: PLC0415 - see session()

        sent = {**headers, "Content-Type": "application/json", "Content-Length": str(sum(map(len, body)))}
        proxy = self._proxy(url)

        def once() -> Awaitable["aiohttp.ClientResponse"]:
            return session.post(
                url, data=_pieces(body, place), headers=sent, proxy=proxy, allow_redirects=False
            )

        try:
            try:
                return await once()
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError):
                # A kept connection that the server had closed: nothing was answered, so once more on a new one.
                return await once()
        except (aiohttp.InvalidURL, ValueError) as error:
            text = f"No request can be made of {url} ({type(error).__name__}); check base_url, api_key and headers."
            raise CallFailed(Failed("invalid", text)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise CallFailed(Failed("unreachable", f"Cannot reach {url}: {_reason(error)}.")) from error

    def _proxy(self, url: str) -> str | None:
        """The proxy the environment names for this URL (HTTPS_PROXY, NO_PROXY …), or None."""
        if self._trust_env and url not in self._proxies:
            from urllib import request  # noqa: PLC0415 - comes with aiohttp, so as late as that

            parts = urlsplit(url)
            bypassed = request.proxy_bypass(parts.hostname or "")
            self._proxies[url] = None if bypassed else request.getproxies().get(parts.scheme)
        return self._proxies.get(url)


class HttpModel:
    """A model that is reached by one streaming POST. A dialect fills in the four methods at the top.

    The first byte may take as long as the whole call (a long prompt, silent thinking); later ones `idle_timeout`.
    """

    small = False

    def credentials(self, key: str) -> Mapping[str, str]:
        """The headers that carry the key."""
        raise NotImplementedError

    async def encode(self, request: ModelRequest) -> Sequence[bytes]:
        """The request's body, in pieces."""
        raise NotImplementedError

    def decoder(self) -> Decoder:
        raise NotImplementedError

    def classify(self, status: int, body: bytes, wait: float | None) -> Failed:
        """What a response other than 200 means; `wait` is the Retry-After header's."""
        raise NotImplementedError

    def __init__(
        self, target: Target, settings: ProviderSettings, client: HttpClient, *, context_window: int
    ) -> None:
        self.name = target.name
        self.context_window = context_window
        self.target = target
        self.timeout = settings.timeout
        self.idle_timeout = settings.idle_timeout
        self.client = client
        self.headers = {
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",  # a compressor holds small chunks back
            "User-Agent": f"nanobot/{__version__}",
            **self.credentials(settings.api_key.strip()),
            **settings.headers,
        }

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        ends_at = asyncio.get_running_loop().time() + self.timeout
        response = None
        place = await self.client.turnstile.enter()
        try:
            body = await self.encode(request)
            response = await self._wait(self._post(body, place), ends_at, self.timeout)
            del body  # an answer may take minutes
            if response.status != 200:
                refusal = await self._wait(response.content.read(MAX_REFUSAL), ends_at, self.idle_timeout)
                yield self.classify(response.status, refusal, retry_after(response.headers))
                return
            decoder = self.decoder()
            reader = _Reader(response)
            idle = self.timeout
            while (data := await self._next(reader, decoder, ends_at, idle)) is not None:
                idle = self.idle_timeout
                for event in joined([event for datum in data for event in decoder.feed(datum)]):
                    yield event
                    if isinstance(event, Finished | Failed):
                        await reader.drain()
                        return
            for event in decoder.end():
                yield event
        except CallFailed as error:
            yield error.failed
        except EventTooLong as error:
            yield Failed("cut", f"{self.name}: {error}.")
        except Exception as error:  # noqa: BLE001 - the contract of a model: its errors travel in its stream
            logger.exception("call of {} failed", self.name)
            yield Failed("invalid", f"{self.name}: an unforeseen {type(error).__name__}; see the log.")
        finally:
            place.leave()
            if response is not None:
                response.close()  # a no-op after a response that was read to its end: its connection is kept

    async def warm(self) -> None:
        """Import the HTTP library now, beside the loop, so that the first turn need not wait for it."""
        await asyncio.to_thread(import_module, "aiohttp")

    async def close(self) -> None:
        """Nothing of its own: the pool belongs to the registry."""

    def _post(self, body: Sequence[bytes], place: Place) -> "Awaitable[aiohttp.ClientResponse]":
        return self.client.post(self.target.url, self.headers, body, place)

    async def _next(
        self, reader: "_Reader", decoder: Decoder, ends_at: float, idle: float
    ) -> list[bytes] | None:
        if not decoder.finishing:
            return await self._wait(reader.next(), ends_at, idle)
        try:
            return await self._wait(reader.next(), ends_at, AFTER_FINISH)
        except CallFailed:  # the answer is complete; some servers never end their stream
            return None

    async def _wait(self, awaitable: Awaitable[T], ends_at: float, idle: float) -> T:
        left = ends_at - asyncio.get_running_loop().time()
        try:
            async with deadline(max(min(left, idle), 0.001), self.name):
                return await awaitable
        except DeadlineExceeded as error:
            what = f"sent nothing for {idle:g} s" if idle < left else f"took longer than {self.timeout:g} s"
            raise CallFailed(Failed("timeout", f"{self.name} {what}.")) from error


class _Reader:
    """A response's body as lists of event data."""

    def __init__(self, response: "aiohttp.ClientResponse") -> None:
        self._content = response.content
        self._splitter = Splitter()
        self._whole = response.content_type == "application/json"  # a server that did not stream
        self._ended = False

    async def next(self) -> list[bytes] | None:
        """The data that came since; None at the end. A broken connection is an end too: the decoder knows better."""
        import aiohttp  # noqa: PLC0415 - see HttpClient.session

        if self._ended:
            return None
        if self._whole:
            self._ended = True
            return [await self._content.read()]
        try:
            chunk = await self._content.readany()
        except (aiohttp.ClientError, OSError):
            chunk = b""
        if not chunk:
            self._ended = True
            return self._splitter.end()
        return self._splitter.feed(chunk)

    async def drain(self) -> None:
        """Read what follows the last event, mostly the end mark of the body."""
        import aiohttp  # noqa: PLC0415 - see HttpClient.session

        try:
            async with deadline(DRAIN, "the end of a stream"):
                while not self._content.at_eof():
                    await self._content.readany()
        except (DeadlineExceeded, aiohttp.ClientError, OSError):
            return


def joined(events: list[ModelEvent]) -> list[ModelEvent]:
    """The events of one chunk, with texts that came together as one: whoever is behind has less to do."""
    if len(events) < 2:
        return events
    out: list[ModelEvent] = []
    texts: list[str] = []
    for event in events:
        if type(event) is Text:
            texts.append(event.text)
            continue
        if texts:
            out.append(Text("".join(texts)))
            texts = []
        out.append(event)
    if texts:
        out.append(Text("".join(texts)))
    return out


def secrets_of(settings: ProviderSettings) -> tuple[str, ...]:
    """What must not show in any sentence: the key, and whatever else goes in headers."""
    return tuple(value for value in (settings.api_key, *settings.headers.values()) if len(value) >= 8)


async def _pieces(body: Sequence[bytes], place: Place) -> AsyncIterator[bytes]:
    """The body as few writes: small parts joined, none so large that one write holds the loop up."""
    ends = list(accumulate(map(len, body)))
    start = written = 0
    while start < len(body):
        stop = max(bisect_right(ends, written + PIECE, start), start + 1)
        whole = body[start] if stop == start + 1 else b"".join(body[start:stop])
        for at in range(0, len(whole), PIECE):
            yield whole[at : at + PIECE]
        start, written = stop, ends[stop - 1]
    place.leave()


def _reason(error: Exception) -> str:
    cause = error.__cause__ if error.__cause__ is not None else error
    number = getattr(error, "errno", None) or getattr(cause, "errno", None)
    if number == errno.ECONNREFUSED:
        return "connection refused. Start the server there, or mend base_url"
    return str(error) or type(error).__name__
