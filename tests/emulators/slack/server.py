"""The emulator as one server: `async with SlackServer() as slack:`; people speak by `slack.say`."""

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import Any, Self

import msgspec
from aiohttp import web

from tests.emulators.slack.events import Delivery, Events
from tests.emulators.slack.faults import Fault, Faults, Refused
from tests.emulators.slack.rules import Rates, check_scope, readable
from tests.emulators.slack.streams import Streams
from tests.emulators.slack.web_api import SCOPES, WebApi
from tests.emulators.slack.workspace import APP, BOT_USER, TEAM, Message, Workspace

LIST_FIELDS = ("blocks", "metadata", "files", "chunks", "prompts")
MAX_RESPONSES = 5  # posts that a response URL takes


class SlackServer:
    """`fail` adds a fault; `calls` are all Web API calls as (method, arguments); `scopes` what the token may do.

    With `limited` the platform's own rate limits hold; without, tests say what is limited.
    """

    def __init__(self, port: int = 0, *, limited: bool = False) -> None:
        self.port = port
        self.bot_token, self.app_token, self.signing_secret = "xoxb-test", "xapp-test", "secret-of-the-test"
        self.workspace = Workspace()
        self.events = Events(self.signing_secret)
        self.streams = Streams(self.workspace)
        self.api = WebApi(self.workspace, self.streams, lambda: self.url, self._echo)
        self.rates = Rates() if limited else None
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.scopes = SCOPES
        self.limits: dict[str, int] = {}  # method → calls left before it answers 429
        self.refuses_html = False  # files answer a sign-in page even to a right token
        self._faults = Faults()
        self._responded: Counter[str] = Counter()
        self._ids = itertools.count(1)
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/api/{method}", self._call)
        app.router.add_get("/link/", self.events.serve)
        app.router.add_post("/upload/{id}", self._upload)
        app.router.add_get("/files/{id}", self._download)
        app.router.add_post("/respond/{id}", self._respond)
        app.router.add_post("/say", self._say)
        app.router.add_get("/shown/{channel}", self._shown)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner
        await self.events.close()
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/"

    def fail(self, method: str, **fields: Any) -> Fault:
        return self._faults.add(Fault(method, **fields))

    def heal(self) -> None:
        self._faults.clear()

    def counts(self) -> Counter[str]:
        return Counter(method for method, _ in self.calls)

    # --- people ----------------------------------------------------------------------------------------------

    def person(self, user: str, name: str = "") -> str:
        """A person with a direct chat `D<user>`."""
        self.workspace.person(user, name or user.lower())
        self.workspace.channel(f"D{user}", kind="im")
        return user

    def say(
        self,
        channel: str,
        user: str,
        text: str,
        *,
        thread: str = "",
        ts: str = "",
        raw: bool = False,
        files: list[dict[str, Any]] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> tuple[Message, list[Delivery]]:
        """Somebody writes; returns the message and its events' ways (`message`, then `app_mention` if addressed).

        A `ts` that is there already sends the same events again; `fields` are put over the event's own. `raw`: the text is in Slack's markup already.
        """
        wire = text if raw else escape(text, quote=False)
        found = self.workspace.find(channel, ts) if ts else None
        message = found or self.workspace.add(
            Message(channel, ts or self.workspace.next_ts(), user, wire, thread_ts=thread, files=files or [])
        )
        kind = self.workspace.channels[channel]["kind"]
        parent = self.workspace.find(channel, message.thread_ts)
        event: dict[str, Any] = {
            **message.wire(),
            **({"parent_user_id": parent.user} if parent else {}),
            "team": TEAM,
            "channel": channel,
            "event_ts": message.ts,
            "channel_type": kind,
            "client_msg_id": f"c-{message.ts}",
            **(fields or {}),
        }
        if files:
            event |= {"subtype": "file_share"}
            del event["client_msg_id"]
        ways = [self.event(event)]
        if f"<@{BOT_USER}>" in wire and kind != "im":
            mention = {key: value for key, value in event.items() if key not in ("channel_type", "subtype")}
            ways.append(self.event({**mention, "type": "app_mention"}))
        return message, ways

    def edit(self, channel: str, ts: str, text: str, id: str = "") -> Delivery:
        """Somebody changes what they wrote; the text is in Slack's markup. `id` is the event's."""
        message = self.workspace.find(channel, ts)
        assert message
        before = message.wire()
        message.text = text
        return self.event(
            {
                "type": "message",
                "subtype": "message_changed",
                "hidden": True,
                "channel": channel,
                "channel_type": self.workspace.channels[channel]["kind"],
                "ts": self.workspace.next_ts(),
                "message": {**message.wire(), "edited": {"user": message.user, "ts": message.ts}},
                "previous_message": before,
            },
            id,
        )

    def press_stop(self, message: Message, user: str, *, told: bool = True) -> Delivery | None:
        """Somebody presses the stop button of a stream; `told` where the app has subscribed to the event."""
        self.streams.stopped_by_user(message)
        if not told:
            return None
        return self.event(
            {
                "type": "agent_session_stopped",
                "channel": message.channel,
                "thread_ts": message.thread_ts,
                "streaming_message_ts": [message.ts],
                "user": user,
                "event_ts": self.workspace.next_ts(),
            }
        )

    def _echo(self, event: dict[str, Any]) -> None:
        self.event(event, echo=True)

    def event(self, event: dict[str, Any], id: str = "", *, echo: bool = False) -> Delivery:
        """Send any event, with an event_id of its own unless one is given."""
        return self.events.send(
            "events_api",
            echo=echo,
            payload={
                "token": "deprecated",
                "team_id": TEAM,
                "api_app_id": APP,
                "type": "event_callback",
                "event_id": id or f"Ev{next(self._ids)}",
                "event_time": 1_700_000_000,
                "event": event,
                "authorizations": [{"team_id": TEAM, "user_id": BOT_USER, "is_bot": True}],
            },
        )

    def slash(self, channel: str, user: str, text: str) -> Delivery:
        number = next(self._ids)
        return self.events.send(
            "slash_commands",
            {
                "token": "deprecated",
                "team_id": TEAM,
                "api_app_id": APP,
                "command": "/nanobot",
                "text": text,
                "channel_id": channel,
                "channel_name": "directmessage" if channel.startswith("D") else "general",
                "user_id": user,
                "user_name": user.lower(),
                "trigger_id": f"trigger.{number}",
                "response_url": f"{self.url}/respond/{number}",
            },
        )

    def click(self, message: Message, user: str, label: str) -> Delivery:
        """Somebody presses the button with this label."""
        buttons = [one for block in message.blocks if block["type"] == "actions" for one in block["elements"]]
        [button] = [one for one in buttons if one["text"]["text"] == label]
        number = next(self._ids)
        return self.events.send(
            "interactive",
            {
                "type": "block_actions",
                "team": {"id": TEAM},
                "user": {"id": user, "username": user.lower(), "team_id": TEAM},
                "api_app_id": APP,
                "container": {
                    "type": "message",
                    "message_ts": message.ts,
                    "channel_id": message.channel,
                    "thread_ts": message.thread_ts,
                },
                "channel": {"id": message.channel, "name": "x"},
                "message": message.wire(),
                "trigger_id": f"trigger.{number}",
                "response_url": f"{self.url}/respond/{number}",
                "actions": [{**button, "action_ts": f"{number}.5", "block_id": "b"}],
            },
        )

    def upload(self, name: str, data: bytes, mime: str) -> dict[str, Any]:
        """A person's file, as the events describe it."""
        made = f"F{len(self.workspace.files) + 1}"
        self.workspace.files[made] = {
            "id": made,
            "name": name,
            "size": len(data),
            "data": data,
            "mimetype": mime,
            "shares": [],
        }
        return {
            "id": made,
            "name": name,
            "mimetype": mime,
            "size": len(data),
            "mode": "hosted",
            "url_private_download": f"{self.url}/files/{made}",
        }

    # --- HTTP ------------------------------------------------------------------------------------------------

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        args = await arguments(request)
        channel = str(args.get("channel") or args.get("channel_id") or "")
        fault = self._faults.take(method, channel)
        if fault is not None:
            if fault.hang:
                await fault.release.wait()
            if fault.lost == "before":
                return cut(request)
            if fault.retry_after is not None:
                return limited(fault.retry_after)
            if fault.status:
                return web.Response(status=fault.status, text="upstream trouble")
            if fault.error:
                self.calls.append((method, args))
                return web.json_response({"ok": False, "error": fault.error})
        if self.limits.get(method, 1) <= 0:
            return limited(1)
        if method in self.limits:
            self.limits[method] -= 1
        wait = self.rates.wait(method, channel) if self.rates else 0.0
        if wait > 0:
            return limited(math.ceil(wait))
        self.calls.append((method, args))
        try:
            answer = self._run(method, args, request)
        except Refused as refused:
            return web.json_response({"ok": False, "error": refused.error, **refused.details})
        if fault is not None and fault.lost == "after":
            return cut(request)
        return web.json_response({"ok": True, **answer}, headers={"x-oauth-scopes": self.scopes})

    def _run(self, method: str, args: dict[str, Any], request: web.Request) -> dict[str, Any]:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if method == "apps.connections.open":
            if token != self.app_token:
                raise Refused("invalid_auth")
            return {"url": f"ws://127.0.0.1:{self.port}/link/?ticket={self.events.ticket()}"}
        if token != self.bot_token:
            raise Refused("invalid_auth" if token else "not_authed")
        handler = self.api.methods.get(method)
        if handler is None:
            raise Refused("unknown_method")
        place = self.workspace.channels.get(str(args.get("channel") or args.get("channel_id") or ""), {})
        check_scope(method, self.scopes, str(place.get("kind") or ""))
        return handler(readable(method, args, as_json=request.content_type == "application/json"))

    async def _upload(self, request: web.Request) -> web.Response:
        found = self.workspace.files.get(request.match_info["id"])
        if found is None:
            return web.Response(status=404)
        data = await request.read()
        if len(data) != found["size"]:
            return web.Response(status=400, text="length does not fit")
        found["data"] = data
        return web.Response(text=f"OK - {len(data)}")

    async def _download(self, request: web.Request) -> web.Response:
        fault = self._faults.take("download", "")
        if fault is not None:
            return cut(request) if fault.lost else web.Response(status=fault.status or 503)
        found = self.workspace.files.get(request.match_info["id"])
        right = request.headers.get("authorization") == f"Bearer {self.bot_token}"
        if found is None or not right or self.refuses_html:
            return web.Response(text="<!DOCTYPE html><title>Sign in</title>", content_type="text/html")
        return web.Response(body=found["data"], content_type=found["mimetype"])

    async def _respond(self, request: web.Request) -> web.Response:
        self._responded[request.match_info["id"]] += 1
        if self._responded[request.match_info["id"]] > MAX_RESPONSES:
            return web.json_response({"ok": False, "error": "used_url"}, status=404)
        self.workspace.responses.append(msgspec.json.decode(await request.read()))
        self.workspace.touch()
        return web.Response(text="ok")

    async def _say(self, request: web.Request) -> web.Response:
        """By hand: POST {"channel", "user", "text", "thread"}; unknown people and channels are made."""
        body = msgspec.json.decode(await request.read())
        user = str(body.get("user") or "U1")
        if user not in self.workspace.users:
            self.person(user)
        channel = str(body.get("channel") or f"D{user}")
        if channel not in self.workspace.channels:
            self.workspace.channel(channel)
        message, ways = self.say(
            channel, user, str(body["text"]), thread=str(body.get("thread") or ""), raw=True
        )
        return web.json_response({"ts": message.ts, "acked": await ways[0].acked()})

    async def _shown(self, request: web.Request) -> web.Response:
        return web.json_response(self.workspace.shown(request.match_info["channel"]))


async def arguments(request: web.Request) -> dict[str, Any]:
    """A call's arguments: JSON, form or query, as the SDK sends each method's."""
    args: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        args |= msgspec.json.decode(await request.read() or b"{}")
    else:
        args |= {key: value for key, value in (await request.post()).items() if isinstance(value, str)}
    for key in LIST_FIELDS:
        if isinstance(args.get(key), str):
            args[key] = msgspec.json.decode(args[key])
    return args


def limited(seconds: float) -> web.Response:
    return web.json_response(
        {"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": f"{seconds:g}"}
    )


def cut(request: web.Request) -> web.Response:
    """Close the connection instead of answering."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def serve(port: int) -> None:
    """Run until cancelled, for use by hand."""
    async with SlackServer(port, limited=True) as slack:
        print(f"api_url = {slack.api_url}  bot_token = {slack.bot_token}  app_token = {slack.app_token}")
        print(
            f"POST {slack.url}/say {{channel, user, text, thread}}; GET {slack.url}/shown/<channel>",
            flush=True,
        )
        await asyncio.Event().wait()
