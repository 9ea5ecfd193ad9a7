"""Updates on their way in: each chat in order, albums as one message, files fetched, then accepted durably."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from loguru import logger

from nanobot.channel import Accepted, ChannelError, DeadlineExceeded, Inbound, Port, StoreError
from telegram.error import BadRequest, ChatMigrated, TelegramError

from .api import Api, translated
from .buttons import Buttons, answers
from .chats import Chats
from .files import Incoming
from .late import Late
from .wire import (
    Me,
    Membership,
    Message,
    Press,
    Update,
    files_of,
    read_update,
    sound,
    thread_of,
    to_inbound,
)

ALBUM_SECONDS = 0.6  # of silence after which an album is complete
ALBUM_LONGEST = 3.0
HELD_SECONDS = 600.0  # a chat waits so long for an update that could not be kept to come again
TRIES = 3  # of an update that makes our own code fail
ALBUMS = 1_000  # that are remembered


class Album:
    """Messages that were sent as one."""

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}
        self.taken: frozenset[int] = frozenset()  # the ids it is accepted with, once it is gathered
        self.task: asyncio.Task[None] | None = None
        self.grew = asyncio.Event()


class Intake:
    """`take` returns once an update is safe, or not wanted; it raises StoreError where it must come again."""

    def __init__(
        self, api: Api, port: Port, chats: Chats, buttons: Buttons, came_from: Callable[[str, str, int], None]
    ) -> None:
        self.me = Me(0, "")
        self._api = api
        self._port = port
        self._chats = chats
        self._buttons = buttons
        self._files = Incoming(api, port)
        self._came_from = came_from
        self._lanes: dict[int, asyncio.Future[None]] = {}
        self._late = Late(port, self._process)
        self._albums: dict[tuple[int, str], Album] = {}
        self._complete: OrderedDict[tuple[int, str], frozenset[int]] = OrderedDict()  # albums' message ids
        self._failures: dict[int, int] = {}
        # Chat → its first update that could not be kept, and since when.
        self._held: dict[int, tuple[int, float]] = {}
        self._answers: set[asyncio.Task[None]] = set()

    async def take(self, raw: Any) -> None:
        try:
            update = read_update(raw)
        except msgspec.ValidationError as error:
            logger.warning("telegram: an update cannot be read and is left out: {}", error)
            return
        await self._late.take(update, sound(raw))

    async def resume(self) -> None:
        """Take up what an earlier life confirmed before it was accepted."""
        await self._late.resume()

    async def close(self) -> None:
        """Take in nothing more. What was confirmed and not accepted is taken up by the next start."""
        await self._late.close()
        gathering = [album.task for album in self._albums.values() if album.task is not None]
        for task in gathering:
            task.cancel()
        await asyncio.gather(*gathering, return_exceptions=True)

    async def _process(self, update: Update) -> None:
        chat_id, number = update.chat_id, update.update_id
        if not (update.message and (chat_id, update.message.media_group_id) in self._albums):
            self._wait_for_held(chat_id, number)
        try:
            if update.message and update.message.media_group_id:
                await self._join_album(chat_id, number, update.message)
            else:
                await self._in_order(chat_id, number, lambda: self._handle(update))
        except (StoreError, DeadlineExceeded):
            self._hold(chat_id, number)
            raise
        except Exception as error:  # noqa: BLE001 - one update must not stop all others; it is recorded and tried again
            self._hold(chat_id, number)
            self._give_up_or_raise(number, error)
        self._failures.pop(number, None)
        if self._held.get(chat_id, (0, 0.0))[0] == number:
            del self._held[chat_id]

    def _give_up_or_raise(self, update_id: int, error: Exception) -> None:
        times = self._failures[update_id] = self._failures.get(update_id, 0) + 1
        logger.opt(exception=error).error("telegram: update {} failed ({} of {})", update_id, times, TRIES)
        if times < TRIES:
            raise StoreError(f"update {update_id} failed: {error}") from error
        del self._failures[update_id]

    def _hold(self, chat_id: int, number: int) -> None:
        first, _ = self._held.get(chat_id, (number, 0.0))
        self._held[chat_id] = (min(first, number), self._port.clock.monotonic())

    def _wait_for_held(self, chat_id: int, number: int) -> None:
        """What is behind an update that could not be kept is not taken before it, or the order would be lost."""
        first, since = self._held.get(chat_id, (number, 0.0))
        if number <= first:
            return
        if self._port.clock.monotonic() - since > HELD_SECONDS:
            del self._held[chat_id]
            return
        raise StoreError("an earlier message of this chat could not be kept")

    # --- order -------------------------------------------------------------------------------------------------

    async def _in_order(self, chat_id: int, number: int, work: Callable[[], Awaitable[None]]) -> None:
        """One after another within a chat."""
        previous = self._lanes.get(chat_id)
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lanes[chat_id] = kept
        try:
            if previous is not None:
                await asyncio.shield(previous)
                self._wait_for_held(chat_id, number)
            await work()
        except (StoreError, DeadlineExceeded):
            self._hold(chat_id, number)
            raise
        finally:
            if not kept.done():
                kept.set_result(None)
            if self._lanes.get(chat_id) is kept:
                del self._lanes[chat_id]

    async def _join_album(self, chat_id: int, number: int, message: Message) -> None:
        key = (chat_id, message.media_group_id)
        album, complete = self._albums.get(key), self._complete.get(key)
        taken = complete or (album.taken if album else frozenset())
        if taken and message.message_id not in taken:
            straggler = msgspec.structs.replace(message, media_group_id="")
            await self._in_order(chat_id, number, lambda: self._message(straggler))
            return
        if complete:
            return
        if album is None:
            album = self._albums[key] = Album()
            gather = self._in_order(chat_id, number, lambda: self._gather(key))
            album.task = asyncio.create_task(gather)
            album.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        if not album.taken:
            album.messages[message.message_id] = message
            album.grew.set()
        assert album.task is not None
        await asyncio.shield(album.task)

    async def _gather(self, key: tuple[int, str]) -> None:
        album = self._albums[key]
        try:
            try:
                async with asyncio.timeout(ALBUM_LONGEST):
                    while album.grew.is_set():
                        album.grew.clear()
                        async with asyncio.timeout(ALBUM_SECONDS):
                            await album.grew.wait()
            except TimeoutError:
                pass  # complete
            album.taken = frozenset(album.messages)
            messages = [album.messages[number] for number in sorted(album.messages)]
            await self._message(messages[0], *messages[1:])
            self._complete[key] = album.taken
            if len(self._complete) > ALBUMS:
                self._complete.popitem(last=False)
        finally:
            del self._albums[key]

    # --- what an update is about -------------------------------------------------------------------------------

    async def _handle(self, update: Update) -> None:
        if update.message is not None:
            await self._message(update.message)
        elif update.edited_message is not None:
            await self._edited(update.edited_message)
        elif update.callback_query is not None:
            await self._press(update.callback_query)
        elif update.my_chat_member is not None:
            await self._membership(update.my_chat_member)

    async def _message(self, message: Message, *more: Message) -> None:
        chat = message.chat
        if chat is None:
            return
        if message.migrate_to_chat_id:
            await self._chats.move(str(chat.id), str(message.migrate_to_chat_id))
            return
        if message.migrate_from_chat_id:
            await self._chats.move(str(message.migrate_from_chat_id), str(chat.id))
            return
        captions = [one for one in (message, *more) if one.caption]
        lead = captions[0] if captions else message
        inbound = to_inbound(lead, self.me, channel=self._port.name)
        if inbound is None:
            return
        inbound = msgspec.structs.replace(
            inbound, session=self._chats.session(inbound.chat_id, inbound.thread)
        )
        if any(files_of(one) for one in (message, *more)):
            inbound = await self._with_files(inbound, (message, *more))
        accepted = await self._port.accept(inbound)
        if accepted is not None:
            self._accepted(accepted, inbound.chat_id, lead.message_id)
            await self._chats.welcome(inbound.chat_id)

    async def _edited(self, message: Message) -> None:
        """What counts is what a message says when it is answered; one that was answered stays answered."""
        inbound = to_inbound(message, self.me, channel=self._port.name)
        if inbound is None or message.chat is None:
            return
        edited_at = (
            datetime.fromtimestamp(message.edit_date, UTC) if 0 < message.edit_date < 1 << 33 else None
        )
        if await self._port.edit(msgspec.structs.replace(inbound, sent_at=edited_at)):
            return
        if not inbound.private and inbound.mentioned:
            await self._message(message)  # the bot was named only now; what it was sent before is a duplicate

    async def _with_files(self, inbound: Inbound, messages: tuple[Message, ...]) -> Inbound:
        media = []
        problems = []
        for one in messages:
            got, failed = await self._files.fetch(one)
            media += got
            problems += failed
        text = "\n".join(part for part in (inbound.text, *problems) if part)
        return msgspec.structs.replace(inbound, media=tuple(media), text=text)

    def _accepted(self, accepted: Accepted, chat_id: str, message_id: int) -> None:
        self._came_from(accepted.id, chat_id, message_id)

    async def _press(self, press: Press) -> None:
        message = press.message
        session = (
            self._chats.session(str(message.chat.id), thread_of(message)) if message and message.chat else ""
        )
        inbound = await self._buttons.read(press, session=session)
        accepted = await self._port.accept(inbound) if inbound is not None else None
        if accepted is not None and inbound is not None and press.message is not None:
            self._accepted(accepted, inbound.chat_id, press.message.message_id)
        answered = accepted is not None and inbound is not None and answers(inbound)
        task = asyncio.create_task(self._answer(press, chosen=answered))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, press: Press, *, chosen: bool) -> None:
        """Stop the button's spinner, and take the keyboard away once a choice was made."""
        try:
            async with translated("answerCallbackQuery"):
                await self._api.bot.answer_callback_query(press.id)
            if chosen and press.message and press.message.chat:
                async with translated("editMessageReplyMarkup"):
                    await self._api.bot.edit_message_reply_markup(
                        press.message.chat.id, press.message.message_id, reply_markup=None
                    )
        except (BadRequest, ChatMigrated):
            return  # too old, or no keyboard any more
        except (TelegramError, ChannelError, DeadlineExceeded) as error:
            logger.debug("telegram: button not answered: {}", error)

    async def _membership(self, change: Membership) -> None:
        if change.chat is None or change.new_chat_member is None:
            return
        if change.new_chat_member.status in ("member", "administrator", "creator"):
            await self._chats.welcome(str(change.chat.id))
