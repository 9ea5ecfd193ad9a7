"""Updates on their way to the bot: long polling with its offsets, or the webhook."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from tests.emulators.telegram.errors import ApiError, bad
from tests.emulators.telegram.world import World

MAX_POLL = 50.0
REPEAT_SECONDS = (
    3.0  # a poll with the offset of the one before waits so long; so does a second conflict in this time
)
PORTS = (443, 80, 88, 8443)
CONNECTIONS = 40
CONFLICT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
ACTIVE = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"


class Updates:
    """What waits is in the world; `touch` is called with every change, `changed` gives what is set by the next."""

    def __init__(self, world: World, touch: Callable[[], None], changed: Callable[[], asyncio.Event]) -> None:
        self.world = world
        self.confirmed = 0  # every update with a smaller id was confirmed, by polling
        self.pollers = 0
        self.conflicts = 0
        self.replay: list[dict[str, Any]] = []  # updates that the next poll brings once more
        self.webhook: dict[str, Any] = {}
        self._touch = touch
        self._changed = changed
        self._poller: asyncio.Event | None = None
        self._asked = (-1, 0.0)  # offset and time of the newest poll
        self._answered_conflict = 0.0
        self._set_at = 0.0
        self._pusher: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._pusher:
            self._pusher.cancel()
            await asyncio.gather(self._pusher, return_exceptions=True)
            self._pusher = None

    # --- polling ---------------------------------------------------------------------------------------------

    async def get(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        if self.webhook:
            await self._conflict(ACTIVE)
        if self._poller is not None:  # the older one is told to go away
            self._poller.set()
        mine = self._poller = asyncio.Event()
        self.pollers += 1
        try:
            if params.get("allowed_updates") is not None:
                self.world.allowed = params["allowed_updates"]
            offset, now = int(params.get("offset", 0)), time.monotonic()
            seconds = min(float(params.get("timeout", 0)), MAX_POLL)
            if offset == self._asked[0] and now < self._asked[1] + REPEAT_SECONDS:
                seconds = max(seconds, REPEAT_SECONDS)
            self._asked = (offset, now)
            self._confirm(offset)
            return await self._found(mine, now + seconds, int(params.get("limit", 100)))
        finally:
            self.pollers -= 1
            if self._poller is mine:
                self._poller = None

    def _confirm(self, offset: int) -> None:
        if offset < 0:
            kept = self.world.updates[offset:]
            offset = kept[0]["update_id"] if kept else 0
        self.confirmed = max(self.confirmed, offset)
        self.world.updates = [one for one in self.world.updates if one["update_id"] >= offset]
        self._touch()

    async def _found(self, mine: asyncio.Event, ends: float, limit: int) -> list[dict[str, Any]]:
        while True:
            if mine.is_set():
                self.conflicts += 1
                await self._conflict(CONFLICT)
            repeated, self.replay = self.replay, []
            found = [*repeated, *self.world.updates]
            left = ends - time.monotonic()
            if found or left <= 0:
                return found[: min(100, limit)]
            waits = [asyncio.ensure_future(mine.wait()), asyncio.ensure_future(self._changed().wait())]
            await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()

    async def _conflict(self, text: str) -> None:
        if time.monotonic() < self._answered_conflict + REPEAT_SECONDS:
            await asyncio.sleep(REPEAT_SECONDS)
        self._answered_conflict = time.monotonic()
        raise ApiError(409, text)

    # --- webhook ---------------------------------------------------------------------------------------------

    def set_webhook(self, params: dict[str, Any]) -> bool:
        """Without a URL it is deleted."""
        url = str(params.get("url", ""))
        now = time.monotonic()
        if url and now < self._set_at + 1.0:
            raise ApiError(429, "Too Many Requests: retry after 1", retry_after=1)
        parts = urlsplit(url)
        if url and not (parts.scheme == "https" or url.startswith("http://127.0.0.1:")):
            raise bad("bad webhook: An HTTPS URL must be provided for webhook")
        if parts.scheme == "https" and (parts.port or 443) not in PORTS:
            raise bad("bad webhook: Webhook can be set up only on ports 80, 88, 443 or 8443")
        secret = str(params.get("secret_token", ""))
        if secret and not (len(secret) <= 256 and secret.replace("_", "a").replace("-", "a").isalnum()):
            raise bad("secret token contains illegal symbols")
        if str(params.get("drop_pending_updates", "")).lower() in ("1", "true"):
            self.world.updates.clear()
        self.webhook = dict(params) if url else {}
        if params.get("allowed_updates") is not None:
            self.world.allowed = params["allowed_updates"]
        if self._pusher:
            self._pusher.cancel()
            self._pusher = None
        if url:
            self._set_at = now
            self._pusher = asyncio.create_task(self._push(url, secret))
        return True

    async def _push(self, url: str, secret: str) -> None:
        """Updates of different chats go side by side, those of one chat one after another."""
        headers = {"X-Telegram-Bot-Api-Secret-Token": secret} if secret else {}
        most = asyncio.Semaphore(int(self.webhook.get("max_connections", CONNECTIONS)))
        lanes: dict[tuple[str, int], asyncio.Task[None]] = {}
        async with aiohttp.ClientSession(headers=headers) as session:
            try:
                while True:
                    for update in list(self.world.updates):
                        lane = lane_of(update)
                        if lane not in lanes or lanes[lane].done():
                            lanes[lane] = asyncio.create_task(self._send(session, url, update, most))
                    await asyncio.wait({asyncio.ensure_future(self._changed().wait())}, timeout=1.0)
            finally:
                for task in lanes.values():
                    task.cancel()
                await asyncio.gather(*lanes.values(), return_exceptions=True)

    async def _send(
        self, session: aiohttp.ClientSession, url: str, update: dict[str, Any], most: asyncio.Semaphore
    ) -> None:
        """Until it is taken, more and more slowly."""
        delay = 0.05
        while True:
            taken = False
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with most, session.post(url, json=update) as response:
                    taken = 200 <= response.status < 300
            if taken:
                self.world.updates.remove(update)
                self._touch()
                return
            await asyncio.sleep(delay)
            delay = min(delay * 2, 2.0)


def lane_of(update: dict[str, Any]) -> tuple[str, int]:
    """What is kept in order: a chat's messages, a person's presses."""
    [kind] = [key for key in update if key != "update_id"]
    content = update[kind]
    if not isinstance(content, dict):
        return kind, 0
    if kind == "callback_query":
        return kind, int(content["from"]["id"])
    chat = content.get("chat")
    group = "message" if kind == "edited_message" else kind
    return group, int(chat["id"]) if isinstance(chat, dict) and isinstance(chat.get("id"), int) else 0
