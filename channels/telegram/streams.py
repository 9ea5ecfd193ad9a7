"""A turn while it runs: typing, then a draft in a private chat or one edited message elsewhere.

All of it may fail or be dropped; the reply itself comes by `deliver`. One task a turn makes one call at a time, so a
slow or flooded chat holds up nothing but its own preview.
"""

import asyncio
import zlib
from collections import OrderedDict
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from loguru import logger

from nanobot.channel import (
    Address,
    ChannelError,
    DeadlineExceeded,
    Event,
    Port,
    RetryLater,
    Steered,
    StoreError,
    TurnEnded,
    TurnStarted,
    Unreachable,
)
from telegram import ReplyParameters
from telegram.error import BadRequest, ChatMigrated, TelegramError

from .api import CALL_SECONDS, Api, says, translated
from .chats import Chats
from .preview import Picture
from .settings import Settings
from .text import preview
from .wire import is_private, thread_id

TYPING_SECONDS = 4.5  # the platform shows it for 5
TYPING_AFTER = 0.15  # an answer that is there at once needs none
REFRESH = {
    True: 5.0,
    False: 10.0,
}  # seconds between mere updates of the elapsed time, in a draft and in a message
KEPT = 2_000  # origins and ended previews that are remembered


class Preview:
    """One turn's live message."""

    def __init__(self, picture: Picture, *, draft: bool, silent: bool) -> None:
        self.picture = picture
        self.draft = draft
        self.silent = silent  # typing only
        self.draft_id = zlib.crc32(picture.turn.encode()) >> 1 | 1  # never 0, and positive
        self.ref = ""  # id of the posted preview
        self.shown = ""
        self.shown_at = 0.0
        self.held_until = 0.0  # the group has had enough for now
        self.typed_at = picture.started + TYPING_AFTER - TYPING_SECONDS
        self.changed = asyncio.Event()
        self.ended = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Streams:
    """All live previews of the channel."""

    def __init__(self, api: Api, port: Port, chats: Chats, settings: Settings) -> None:
        self._api = api
        self._port = port
        self._chats = chats
        self._settings = settings
        self._previews: OrderedDict[str, Preview] = OrderedDict()
        self._origins: OrderedDict[str, tuple[str, int]] = OrderedDict()  # inbox id → chat and message
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._drafts = True  # until the server turns out not to know them

    def came_from(self, inbox_id: str, chat_id: str, message_id: int) -> None:
        """Remember which message of the platform an accepted one is, to react and reply to it."""
        self._origins[inbox_id] = (chat_id, message_id)
        if len(self._origins) > KEPT:
            self._origins.popitem(last=False)

    def show(self, event: Event) -> None:
        """Never blocks, never raises."""
        now = self._port.clock.monotonic()
        match event:
            case TurnStarted():
                self._begin(event, now)
            case TurnEnded():
                self._end(event)
            case _:
                if isinstance(event, Steered):
                    self._react(event.address, event.answers, self._settings.reaction)
                found = self._previews.get(event.turn)
                if found is not None and not found.ended.is_set():
                    found.picture.take(event, now)
                    found.changed.set()

    async def finish(self, turn: str) -> str:
        """End a turn's preview; returns the id of its message, to be edited into the reply, or ""."""
        found = self._previews.pop(turn, None)
        if found is None or found.task is None:
            return ""
        found.ended.set()
        found.changed.set()
        # A call under way must come to its end: a draft that arrives after the reply would stay, and a posted
        # preview whose id is not known could not become the reply.
        await asyncio.wait((found.task,), timeout=CALL_SECONDS)
        return found.ref

    async def close(self) -> None:
        """Show nothing more. Posted previews are still known, for the replies that end them."""
        self._closed = True
        for one in self._previews.values():
            one.ended.set()
            one.changed.set()
        tasks = [*self._tasks, *(one.task for one in self._previews.values() if one.task)]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=2.0)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    # --- a turn's beginning and end ----------------------------------------------------------------------------

    def _begin(self, event: TurnStarted, now: float) -> None:
        address = event.address
        if self._closed or event.turn in self._previews or address.channel != self._port.name:
            return
        draft = is_private(address.chat_id) and self._drafts
        # A turn that nobody here asked for is a goal's: what it says is for its progress message.
        asked = any(one in self._origins for one in event.answers)
        silent = not self._settings.stream or not (asked or (event.resumed and draft))
        found = Preview(Picture(address, event.turn, now), draft=draft, silent=silent)
        found.task = asyncio.create_task(self._run(found))
        self._previews[event.turn] = found
        if event.resumed and not draft and not asked and self._settings.stream:
            self._spawn(self._adopt(found))
        if len(self._previews) > KEPT:
            self._drop_oldest()
        if not is_private(address.chat_id):
            self._react(address, event.answers, self._settings.reaction)

    def _end(self, event: TurnEnded) -> None:
        if not is_private(event.address.chat_id):
            self._react(event.address, event.answers, "👎" if event.status == "failed" else "")
        found = self._previews.get(event.turn)
        if found is None:
            return
        found.ended.set()
        found.changed.set()
        if not event.replies:
            self._spawn(self._withdraw(event.turn))

    async def _adopt(self, found: Preview) -> None:
        """Go on in the message that an earlier life posted for this turn; where it posted none, show typing only."""
        ref = await self._port.preview(found.picture.turn, 0)
        if ref and not found.ended.is_set():
            found.ref, found.silent = ref, False
            found.changed.set()

    async def _withdraw(self, turn: str) -> None:
        """Nothing will be said: take back what was shown."""
        found = self._previews.get(turn)
        ref = await self.finish(turn)
        if found is not None and ref:
            chat = self._chats.current(found.picture.address.chat_id)
            async with translated("deleteMessage"):
                await self._api.bot.delete_message(chat, int(ref))

    def _drop_oldest(self) -> None:
        _, old = self._previews.popitem(last=False)
        old.ended.set()
        old.changed.set()

    # --- while it runs -----------------------------------------------------------------------------------------

    async def _run(self, one: Preview) -> None:
        clock = self._port.clock
        while not one.ended.is_set():
            one.changed.clear()
            chat = self._chats.current(one.picture.address.chat_id)
            flooded = self._chats.waiting(chat)
            if flooded:
                await pause(one.ended, flooded)
                continue
            try:
                if clock.monotonic() - one.typed_at >= TYPING_SECONDS:
                    one.typed_at = clock.monotonic()
                    await self._type(one, chat)
                due = self._due(one)
                if due is not None and due <= clock.monotonic() and not one.ended.is_set():
                    if one.draft or self._chats.may_show(chat):
                        await self._update(one, chat)
                    else:
                        one.held_until = clock.monotonic() + self._settings.edit_interval
            except RetryLater as error:
                self._chats.wait(chat, error.seconds)
            except Unreachable:
                one.silent = True
                one.typed_at = clock.monotonic() + 3_600.0
            except (TelegramError, ChannelError, DeadlineExceeded) as error:
                # Of a message that may or may not stand there, a second one would make two.
                one.silent = one.silent or not (one.draft or one.ref)
                one.shown_at = clock.monotonic()
                logger.debug("telegram: preview in {} not shown: {}", chat, error)
            await self._rest(one)

    async def _rest(self, one: Preview) -> None:
        """Wait for what comes next: news, the time to show it, or to type again."""
        now = self._port.clock.monotonic()
        typing = max(0.05, one.typed_at + TYPING_SECONDS - now)
        due = self._due(one)
        if due is None:
            await pause(one.changed, typing)
        elif due > now:
            waits_for = one.ended if one.picture.markdown(now) != one.shown else one.changed
            await pause(waits_for, min(typing, due - now))

    def _due(self, one: Preview) -> float | None:
        """When the preview is to be shown (again); None: not before something changes."""
        due = self._wanted(one)
        return None if due is None else max(due, one.held_until)

    def _wanted(self, one: Preview) -> float | None:
        if one.silent:
            return None
        picture, settings = one.picture, self._settings
        content = picture.markdown(self._port.clock.monotonic())
        if not content and not (one.draft and not one.shown_at):
            return None
        if not one.shown_at:
            patience = settings.patience
            return picture.started + (patience / 2 if one.draft and picture.writing else patience)
        interval = settings.draft_interval if one.draft else settings.edit_interval
        if picture.writing:
            if content == one.shown:
                return one.shown_at + 20.0 if one.draft else None  # a draft fades after 30 s
            return one.shown_at + interval
        return one.shown_at + max(interval, REFRESH[one.draft] if self._only_time(one, content) else interval)

    @staticmethod
    def _only_time(one: Preview, content: str) -> bool:
        """Whether nothing but the elapsed time is different."""
        return [line.partition(" · ")[0] for line in content.splitlines()] == [
            line.partition(" · ")[0] for line in one.shown.splitlines()
        ]

    async def _type(self, one: Preview, chat: str) -> None:
        async with translated("sendChatAction"):
            await self._api.bot.send_chat_action(
                chat, "typing", message_thread_id=thread_id(one.picture.address)
            )

    async def _update(self, one: Preview, chat: str) -> None:
        content = one.picture.markdown(self._port.clock.monotonic())
        part = preview(content)
        try:
            if one.draft:
                async with translated("sendMessageDraft"):
                    await self._api.bot.send_message_draft(
                        int(chat),
                        one.draft_id,
                        part.text,
                        entities=part.formats(),
                        message_thread_id=thread_id(one.picture.address),
                    )
            elif one.ref:
                async with translated("editMessageText"):
                    await self._api.bot.edit_message_text(
                        part.text, chat, int(one.ref), entities=part.formats()
                    )
            elif part.text:
                await self._post(one, chat, part.text, part.formats())
        except BadRequest as error:
            if one.draft and says(error, "draft_peer_invalid", "textdraft"):
                one.draft = False
                return
            if not says(error, "not modified"):
                raise
        except ChatMigrated as error:
            await self._chats.move(chat, str(error.new_chat_id))
        one.shown, one.shown_at = content, self._port.clock.monotonic()

    async def _post(self, one: Preview, chat: str, text: str, entities: Any) -> None:
        """The first showing outside private chats: from here on this message is the reply."""
        address = one.picture.address
        _, origin = self._origins.get(one.picture.turn, ("", 0))
        reply = ReplyParameters(origin, allow_sending_without_reply=True) if origin else None
        async with translated("sendMessage"):
            posted = await self._api.bot.send_message(
                chat,
                text,
                entities=entities,
                message_thread_id=thread_id(address),
                reply_parameters=reply,
            )
        one.ref = str(posted.message_id)
        await self._port.posted(one.picture.turn, 0, address, one.ref)

    # --- reactions ---------------------------------------------------------------------------------------------

    def _react(self, address: Address, answers: tuple[str, ...], emoji: str) -> None:
        if self._closed or not self._settings.reaction or address.channel != self._port.name:
            return
        messages = [self._origins[one] for one in answers if one in self._origins]
        if messages:
            self._spawn(self._set_reactions(messages, emoji))

    async def _set_reactions(self, messages: list[tuple[str, int]], emoji: str) -> None:
        for chat, message_id in messages:
            current = self._chats.current(chat)
            if self._chats.waiting(current):
                return
            async with translated("setMessageReaction"):
                await self._api.bot.set_message_reaction(current, message_id, emoji or None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        async def quiet() -> None:
            with suppress(TelegramError, ChannelError, DeadlineExceeded, StoreError):
                await work

        task = asyncio.create_task(quiet())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def pause(event: asyncio.Event, seconds: float) -> None:
    """Until the event, but not longer than this."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
