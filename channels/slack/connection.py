"""How events reach us: slack-bolt over Socket Mode, or over HTTP with signed requests."""

import asyncio
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

import aiohttp
from loguru import logger
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.adapter.starlette.async_handler import AsyncSlackRequestHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.context.async_context import AsyncBoltContext
from slack_bolt.error import BoltUnhandledRequestError
from slack_bolt.response import BoltResponse
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from starlette.requests import Request
from starlette.responses import Response

from nanobot.channel import ChannelDown, ChannelError, Clock, DeadlineExceeded, deadline

from .api import TOKEN_ERRORS, Api
from .settings import Settings
from .wire import Me

MAX_BODY = 4 << 20  # bytes of an HTTP event
CONNECT_SECONDS = 45.0  # for the socket, from asking for its address to its hello
PING_SECONDS = 3.0  # a silent socket is given up after four of these
WATCH_SECONDS = 5.0
TELL_SECONDS = 30.0  # without a socket, then it is told
REBUILD_SECONDS = 90.0  # without a socket, then the client is made anew
ANY = re.compile(".*", re.DOTALL)
# What Bolt raises where a request is not as Slack makes them. It asks nothing before it takes things for granted.
MALFORMED = (AttributeError, LookupError, TypeError, ValueError, RecursionError, BoltUnhandledRequestError)
HANDED_OVER = "nanobot.handed_over"  # in a request's context: what fails from now on is our own failure

Ack = Callable[..., Awaitable[Any]]


class Listener(Protocol):
    """What the connection hands over. Each returns once the event may be acknowledged, or raises."""

    async def on_event(self, body: Mapping[str, Any]) -> None: ...

    async def on_action(self, body: Mapping[str, Any]) -> None: ...

    async def on_command(self, body: Mapping[str, Any]) -> None: ...

    def on_connected(self) -> None:
        """Slack's socket is open, for the first time or again."""
        ...


class Connection:
    """One app's connection. `me` is known once the Web API answered."""

    def __init__(
        self, settings: Settings, api: Api, listener: Listener, clock: Clock, report: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._api = api
        self._listener = listener
        self._clock = clock
        self._report = report
        self._handler: AsyncSocketModeHandler | None = None
        self._watch: asyncio.Task[None] | None = None
        self._open = False
        self._hello = asyncio.Event()
        self.me: Me | None = None
        self._app = self._build()
        self._http = AsyncSlackRequestHandler(self._app)

    @property
    def by_http(self) -> bool:
        return bool(self._settings.signing_secret)

    async def identify(self) -> Me:
        """Ask the Web API who we are; ChannelDown says what is wrong with the token or the way there."""
        try:
            found = await self._api.call("auth.test")
        except (ChannelError, DeadlineExceeded) as error:
            raise ChannelDown(
                f"Slack's Web API at {self._settings.api_url} does not let us in: {error}"
            ) from error
        self.me = Me(
            team=str(found.get("team_id") or ""),
            user=str(found.get("user_id") or ""),
            bot=str(found.get("bot_id") or ""),
            name=str(found.get("user") or ""),
            scopes=frozenset(str(found.get("scopes") or "").replace(" ", "").split(",")) - {""},
            since=seconds_of(str(found.get("date") or "")),
        )
        return self.me

    async def open(self) -> None:
        """Begin to receive. By Socket Mode this returns after Slack's hello."""
        self._open = True
        if self.by_http:
            return
        await self._connect()
        self._watch = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Take in nothing more."""
        self._open = False
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            self._watch = None
        await self._disconnect()

    async def handle(self, request: Request) -> Response:
        """An HTTP event. Slack sends again what is answered with 503."""
        if not self._open:
            return Response("not ready", 503)
        body = await bounded(request)
        if body is None:
            return Response("too large", 413)
        # Here and not in Bolt, which reads the body first.
        if not self._signed(body, request.headers):
            return Response("not signed by Slack", 401)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        try:
            return await self._http.handle(Request(request.scope, receive))
        except MALFORMED as error:
            dropped(error)
            return Response()

    def _signed(self, body: bytes, headers: Mapping[str, str]) -> bool:
        timestamp, signature = (headers.get(f"x-slack-{name}") for name in ("request-timestamp", "signature"))
        try:
            return SignatureVerifier(self._settings.signing_secret).is_valid(body, timestamp, signature)
        except (TypeError, ValueError):  # a time that is no number, a signature or a body that is no text
            return False

    # --- bolt ------------------------------------------------------------------------------------------------

    def _build(self) -> AsyncApp:
        """Bolt runs a listener to its end before it acknowledges, and acknowledges nothing that raised."""
        bolt_log = logging.getLogger("nanobot.slack")
        bolt_log.setLevel(logging.ERROR)

        async def authorize() -> AuthorizeResult:
            return self._identity()

        app = AsyncApp(
            name="nanobot",
            logger=bolt_log,
            client=self._api.client,
            authorize=authorize,
            request_verification_enabled=False,  # `handle` has done it, and a socket needs none
            process_before_response=True,
            raise_error_for_unhandled_request=True,
            attaching_conversation_kwargs_enabled=False,
        )

        async def event(body: dict[str, Any], context: AsyncBoltContext) -> None:
            context[HANDED_OVER] = True
            await self._listener.on_event(body)

        async def action(ack: Ack, body: dict[str, Any], context: AsyncBoltContext) -> None:
            context[HANDED_OVER] = True
            await self._listener.on_action(body)
            await ack()

        async def command(ack: Ack, body: dict[str, Any], context: AsyncBoltContext) -> None:
            context[HANDED_OVER] = True
            await self._listener.on_command(body)
            await ack()

        async def other(ack: Ack) -> None:
            await ack()

        async def failed(error: Exception, context: AsyncBoltContext) -> BoltResponse | None:
            """What nobody can read is acknowledged, or it would come again and again; what failed here comes again."""
            if isinstance(error, MALFORMED) and HANDED_OVER not in context:
                dropped(error)
                return BoltResponse(status=200)
            logger.warning("slack: an event is not acknowledged: {}: {}", type(error).__name__, error)
            return None

        # What has no listener is never acknowledged and comes again and again; these match everything.
        app.event(ANY)(event)
        app.action(ANY)(action)
        app.command(ANY)(command)
        app.shortcut(ANY)(other)
        app.view(ANY)(other)
        app.options(ANY)(other)
        app.error(failed)
        return app

    def _identity(self) -> AuthorizeResult:
        """Who we are, without a call: bolt would acknowledge an event whose look-up failed."""
        if self.me is None:
            raise ChannelError("not connected yet")
        return AuthorizeResult(
            enterprise_id=None,
            team_id=self.me.team,
            bot_user_id=self.me.user,
            bot_id=self.me.bot,
            bot_token=self._settings.bot_token,
        )

    # --- Socket Mode -----------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        self._hello.clear()
        socket_log = logging.getLogger("nanobot.slack.socket")
        socket_log.setLevel(logging.CRITICAL)  # the watch tells once what the SDK repeats every few seconds
        handler = AsyncSocketModeHandler(
            self._app,
            self._settings.app_token,
            logger=socket_log,
            web_client=self._api.client,
            ping_interval=PING_SECONDS,
        )
        self._handler = handler

        async def hello(_: Any, message: dict[str, Any], __: Any = None) -> None:
            if message.get("type") == "hello":
                self._hello.set()
                self._listener.on_connected()

        handler.client.message_listeners.append(hello)
        try:
            async with deadline(CONNECT_SECONDS, "opening Slack's socket"):
                # Asked for here: inside connect a refusal would only be repeated.
                handler.client.wss_uri = await handler.client.issue_new_wss_url()
                await handler.connect_async()  # type: ignore[no-untyped-call]
                await self._hello.wait()
        except SlackApiError as error:
            await self._disconnect()
            word = str(error.response.get("error") or "")
            if word in TOKEN_ERRORS or word == "missing_scope":
                raise ChannelDown(
                    f"Slack refuses the app token ({word}). Make one with the scope connections:write and put it into "
                    "[channels.slack] app_token."
                ) from error
            raise ChannelDown(
                f"Slack opens no socket: apps.connections.open: {word}. Is Socket Mode on?"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            await self._disconnect()
            raise ChannelDown(
                f"Slack's Web API answers, but apps.connections.open failed: {error}"
            ) from error
        except DeadlineExceeded as error:
            await self._disconnect()
            raise ChannelDown(
                f"Slack's Web API answers, but no WebSocket opened within {CONNECT_SECONDS:g} s. Does a proxy or "
                "firewall let wss:// through?"
            ) from error
        except asyncio.CancelledError:
            await self._disconnect()
            raise

    async def _disconnect(self) -> None:
        handler, self._handler = self._handler, None
        if handler is None:
            return
        client = handler.client
        tasks = [client.message_processor, client.current_session_monitor, client.message_receiver]
        with suppress(aiohttp.ClientError, OSError, DeadlineExceeded):
            async with deadline(3.0, "closing Slack's socket"):
                await handler.close_async()  # type: ignore[no-untyped-call]
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _keep(self) -> None:
        """Tell when the socket is gone for long, and start over where the SDK does not find back."""
        since: float | None = None
        told = False
        while True:
            await self._clock.sleep(WATCH_SECONDS)
            handler = self._handler
            if handler is not None and await handler.client.is_connected():
                since = None
                if told:
                    told = False
                    self._report("")
                continue
            now = self._clock.monotonic()
            since = now if since is None else since
            if now - since >= TELL_SECONDS and not told:
                told = True
                self._report("Slack's socket is gone and cannot be opened again; trying on.")
            if now - since >= REBUILD_SECONDS or handler is None:
                since = now
                await self._disconnect()
                try:
                    await self._connect()
                except ChannelDown as error:
                    told = True
                    self._report(str(error))


async def bounded(request: Request) -> bytes | None:
    """A request's body; None where it is larger than any of Slack's. Whoever sends it is not known yet."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            return None
    return bytes(body)


def dropped(error: Exception) -> None:
    """Say that a request was not as Slack makes them."""
    if isinstance(error, BoltUnhandledRequestError):
        logger.debug("slack: a request of no kind that is known here")
    else:
        [*_, last] = traceback.extract_tb(
            error.__traceback__
        )  # names the part of the request that was looked for
        what = f"{type(error).__name__}: {str(error)[:200]}"
        logger.warning("slack: a malformed request is dropped: {} in {}", what, last.name)


def seconds_of(date: str) -> float:
    """The epoch seconds of an HTTP Date; 0 where there is none."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return 0.0
