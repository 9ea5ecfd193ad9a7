"""The Slack channel: what connects, listens, shows and delivers, put together."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from loguru import logger
from starlette.routing import Route

from nanobot.channel import (
    Address,
    Capabilities,
    ChannelError,
    DeadlineExceeded,
    Event,
    Outbound,
    Port,
    Receipt,
    StoreError,
    TurnEnded,
    TurnStarted,
)

from .api import Api
from .buttons import Click, answered, read_click
from .checkup import missing
from .connection import Connection
from .files import Inbox, Outbox
from .intake import Intake
from .live import Stage
from .markdown import LIMIT
from .marks import Marks
from .people import People
from .posts import Posts
from .replies import Replies
from .settings import Pace, read_settings
from .threads import Threads

GREETING = ("What can you do?", "/status", "/help")
MAX_TAKEN = 2_000  # Slack repeats an event within the hour at most


class SlackChannel:
    """Implements `nanobot.channel.Channel`."""

    name = "slack"
    capabilities = Capabilities(live=True, reconcile=True, progress=True, max_text=LIMIT)

    def __init__(self, port: Port, pace: Pace | None = None) -> None:
        self.name = port.name
        self._port = port
        self._settings = read_settings(port.settings)
        settings = self._settings
        self._api = Api(settings.bot_token, settings.api_url, port.clock, port.report)
        self._posts = Posts(self._api)
        self._marks = Marks(self._api, port.clock, enabled=settings.reactions)
        stage = Stage(self._api, self._posts, port, pace or Pace(), streaming=settings.streaming)
        stage.stopped = self._stream_stopped
        self._replies = Replies(stage, Outbox(self._api, port.keys, port.files), port)
        most = settings.max_file_mb << 20
        files = Inbox(self._api, port.media, port.files, port.clock, token=settings.bot_token, most=most)
        self._threads = Threads(port.keys, port.clock)
        self._intake = Intake(port, settings, People(self._api), files, self._threads, self._marks)
        self._connection = Connection(settings, self._api, self, port.clock, port.report)
        self._put_off: set[Address] = set()  # where a delivery has not succeeded since it was last tried
        self._taken: OrderedDict[str, None] = OrderedDict()  # ids of events, newest last
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        await self._api.open()
        me = await self._connection.identify()
        self._intake.me = me
        self._replies.began(me.since)
        lacking = missing(me.scopes)
        if lacking:
            logger.warning("slack: the app lacks scopes: {}", ", ".join(lacking))
        await self._connection.open()
        await self._intake.resume()

    async def stop(self) -> None:
        await self._connection.close()
        await self._intake.close()
        await self._marks.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                await self._replies.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._api.close()

    def show(self, event: Event) -> None:
        inherited = isinstance(event, TurnStarted) and not any(map(self._marks.knows, event.answers))
        ended = self._replies.show(event, self._intake.speaker(event.session), inherited=inherited)
        if ended is not None:
            self._later(ended.discard())
        if isinstance(event, TurnEnded):
            silent = not event.replies
            self._marks.ended(event.answers, failed=event.status == "failed", silent=silent)
            key = event.address.key
            if (event.status == "stopped" or event.session != key) and self._marks.of(key):
                self._later(self._unmark(key))

    async def deliver(self, message: Outbound) -> Receipt:
        self._put_off.add(message.address)
        receipt = await self._replies.deliver(message)
        self._put_off.discard(message.address)
        self._sign(message)
        return receipt

    async def find(self, message: Outbound) -> Receipt | None:
        receipt = await self._replies.find(message)
        if receipt is not None:
            self._sign(message)
        return receipt

    def _sign(self, message: Outbound) -> None:
        """What an earlier life marked as received is answered; nothing else here knows of that mark."""
        asked = str(message.meta.get("ts") or "")
        if asked and not message.part and self._replies.inherited(message):
            self._marks.answered(message.address.chat_id, asked, failed=message.kind == "error")

    def routes(self) -> Sequence[Any]:
        """Slack's requests, where a signing secret is set."""
        if not self._connection.by_http:
            return []
        return [Route("/slack/events", self._connection.handle, methods=["POST"])]

    # --- what the connection hands over ------------------------------------------------------------------------

    async def on_event(self, body: Mapping[str, Any]) -> None:
        """Take an event, once: Slack repeats what it believes unacknowledged, and an old edit must undo no newer one.

        Messages are also known by their place, since one text comes as two events, and a restart forgets these ids.
        """
        number = str(body.get("event_id") or "")
        if number and number in self._taken:
            return
        await self._take(body)
        self._taken[number] = None
        if len(self._taken) > MAX_TAKEN:
            self._taken.popitem(last=False)

    async def _take(self, body: Mapping[str, Any]) -> None:
        event = body.get("event")
        kind = event.get("type") if isinstance(event, Mapping) else ""
        match kind:
            case "message" | "app_mention":
                await self._intake.message(body)
                if self._threads.prunable():
                    self._later(self._threads.prune())
            case "agent_session_stopped" if isinstance(event, Mapping):
                await self._stopped(event)
            case "assistant_thread_started" if isinstance(event, Mapping):
                self._later(self._greet(event))
            case _:
                logger.debug("slack: {} concerns nobody", kind)

    async def on_action(self, body: Mapping[str, Any]) -> None:
        me = self._connection.me
        click = read_click(body, me) if me is not None else None
        if click is None:
            return
        if await self._intake.click(click) and click.answers:
            self._later(self._answered(click))

    def on_connected(self) -> None:
        """What failed while Slack was away need not wait for its turn."""
        for address in self._put_off:
            self._port.reachable(address)
        self._put_off.clear()

    async def on_command(self, body: Mapping[str, Any]) -> None:
        await self._intake.command(body)

    async def _stopped(self, event: Mapping[str, Any]) -> None:
        """The stop button that Slack shows beside an agent's work."""
        channel, user = str(event.get("channel") or ""), str(event.get("user") or "")
        streams = event.get("streaming_message_ts")
        ts = str(streams[0]) if isinstance(streams, list) and streams else str(event.get("event_ts") or "")
        if channel and user and ts:
            address = Address(self.name, channel, str(event.get("thread_ts") or ""))
            await self._intake.stopped(address, ts, user)

    def _stream_stopped(self, address: Address, ts: str, reader: tuple[str, str] | None) -> None:
        """The same button, noticed when a stream takes no more words."""
        team, user = reader or ("", "")
        self._later(self._intake.stopped(address, ts, user, team))

    async def _greet(self, event: Mapping[str, Any]) -> None:
        """A new assistant thread gets prompts to begin with."""
        thread = event.get("assistant_thread")
        if not isinstance(thread, Mapping):
            return
        prompts = (self._settings.prompts or GREETING)[:4]
        await self._api.call(
            "assistant.threads.setSuggestedPrompts",
            channel_id=str(thread.get("channel_id") or ""),
            thread_ts=str(thread.get("thread_ts") or ""),
            prompts=[{"title": one[:80], "message": one} for one in prompts],
        )

    async def _unmark(self, key: str) -> None:
        """What was dropped by a /stop is not waited for any more."""
        if not self._port.state(key).running:
            waiting = {one.id for one in await self._port.waiting(key)}
            self._marks.dropped(one for one in self._marks.of(key) if one not in waiting)

    async def _answered(self, click: Click) -> None:
        """A choice that was made cannot be made again."""
        text = click.text[:3_000] or click.label
        blocks = answered(click)
        await self._api.call(
            "chat.update", channel=click.channel, ts=click.message_ts, text=text, blocks=blocks
        )

    def _later(self, work: Any) -> None:
        """Do something that nobody waits for and that may fail."""

        async def run() -> None:
            try:
                await work
            except (ChannelError, DeadlineExceeded, StoreError) as error:
                logger.debug("slack: {}", error)

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def create(port: Port) -> SlackChannel:
    """What the gateway calls."""
    return SlackChannel(port)
