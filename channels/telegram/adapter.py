"""The Telegram channel: long polling or a webhook in, messages, drafts and files out."""

import asyncio
from collections.abc import Sequence
from typing import Any

from loguru import logger

from nanobot.channel import Capabilities, ChannelDown, DeadlineExceeded, Event, Outbound, Port, Receipt
from telegram.error import InvalidToken, TelegramError

from .api import UPDATES, Api, translated
from .buttons import Buttons
from .chats import Chats
from .intake import Intake
from .menu import publish_menu
from .polling import REVOKED, Polling
from .posting import Poster
from .settings import read_settings
from .streams import Streams
from .text import MAX_UNITS
from .webhook import Webhook
from .wire import Me


class TelegramChannel:
    """Implements `nanobot.channel.Channel`."""

    name = "telegram"
    capabilities = Capabilities(live=True, progress=True, max_text=MAX_UNITS)

    def __init__(self, port: Port) -> None:
        self.name = port.name
        self._port = port
        self._settings = read_settings(port.settings)
        self._api = Api(self._settings.token, self._settings.api_url)
        self._chats = Chats(port, self._settings.edit_interval)
        buttons = Buttons(port)
        self._streams = Streams(self._api, port, self._chats, self._settings)
        self._poster = Poster(self._api, port, self._chats, buttons)
        self._intake = Intake(self._api, port, self._chats, buttons, self._streams.came_from)
        self._webhook = Webhook(self._settings.webhook_secret, self._intake.take)
        self._task: asyncio.Task[None] | None = None
        self._delivering = 0

    async def start(self) -> None:
        """Ask Telegram who we are and begin to take updates. ChannelDown holds the remedy."""
        try:
            await self._api.open()
        except InvalidToken:
            raise ChannelDown(REVOKED) from None  # the library's own text holds the token
        except (TelegramError, DeadlineExceeded) as error:
            raise ChannelDown(f"Telegram cannot be reached at {self._settings.api_url}: {error}") from error
        bot = self._api.bot
        self._intake.me = Me(bot.id, bot.username, frozenset(one.name for one in self._port.commands()))
        if self._settings.group_policy != "open" and not bot.bot.can_read_all_group_messages:
            logger.info(
                "telegram: privacy mode is on: in groups the bot sees only commands, mentions and replies"
            )
        await self._chats.load()
        await self._poster.tidy()
        await self._intake.resume()
        try:
            await self._take_updates()
        except (TelegramError, DeadlineExceeded) as error:
            raise ChannelDown(f"Telegram does not let us receive updates: {error}") from error
        await publish_menu(self._api, self._port)

    async def _take_updates(self) -> None:
        url = self._settings.webhook
        if url:
            self._webhook.open = True
            async with translated("setWebhook"):
                await self._api.bot.set_webhook(
                    url, secret_token=self._settings.webhook_secret, allowed_updates=UPDATES
                )
            return
        async with translated("deleteWebhook"):
            await self._api.bot.delete_webhook(drop_pending_updates=False)
        seconds = max(1, min(50, self._settings.poll_timeout))
        polling = Polling(self._api, self._port, self._intake.take, seconds=seconds)
        self._task = asyncio.create_task(polling.run())
        self._task.add_done_callback(self._polling_ended)

    def _polling_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            logger.opt(exception=task.exception()).error("telegram: polling ended by a fault of ours")
            self._port.report(f"polling ended by a fault: {task.exception()}; restart the gateway")

    async def stop(self) -> None:
        """Take in nothing more, and close the connections unless a reply is on its way over one."""
        self._webhook.open = False
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._intake.close()
        await self._streams.close()
        if not self._delivering:
            await self._api.close()

    async def deliver(self, message: Outbound) -> Receipt:
        """Post the reply, as an edit of the turn's preview where one stands; what it was cut into stays in order."""
        self._delivering += 1
        try:
            await self._api.reopen()  # replies may still leave after the channel was stopped
            preview = await self._streams.finish(message.turn) if message.part == 0 else ""
            return await self._poster.deliver(message, preview)
        finally:
            self._delivering -= 1

    async def find(self, message: Outbound) -> Receipt | None:
        """Never asked: bots cannot read back what they wrote."""
        del message
        return None

    def show(self, event: Event) -> None:
        self._streams.show(event)

    def routes(self) -> Sequence[Any]:
        return [self._webhook.route()] if self._settings.webhook else []


def create(port: Port) -> TelegramChannel:
    """What the gateway calls."""
    return TelegramChannel(port)
