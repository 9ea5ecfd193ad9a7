"""Posting a reply: its parts in order, each once; edits where a preview stands already."""

import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from nanobot.channel import Outbound, Port, Receipt, RetryLater, StoreError, Undeliverable, Unreachable
from telegram import InlineKeyboardMarkup, Message, ReplyParameters
from telegram.error import BadRequest, ChatMigrated

from .api import Api, says, translated, undeliverable
from .buttons import Buttons
from .chats import Chats
from .files import Outgoing, send_file, to_send
from .text import Part, formatted, plain
from .wire import thread_id

PROGRESS = "sent:"
STORE_SECONDS = 5.0  # before a reply whose progress could not be written goes on
KEEP_SECONDS = 2 * 86_400.0
UNPARSED = ("can't parse entities", "entity begins", "entity ends", "entities")
NO_RIGHTS = ("not enough rights", "have no rights", "chat_write_forbidden", "need administrator rights")
GONE = ("message to edit not found", "message can't be edited", "message_id_invalid")


class Sent(msgspec.Struct):
    """How far a reply of several parts got: the ids of those that are posted."""

    at: float
    ids: list[str]


class Target(msgspec.Struct, frozen=True):
    """Where a part goes."""

    chat: str
    thread: int | None
    reply_to: int = 0
    keyboard: InlineKeyboardMarkup | None = None


class Poster:
    """Delivers replies. A receipt's ref names all messages of the reply, "12,13"."""

    def __init__(self, api: Api, port: Port, chats: Chats, buttons: Buttons) -> None:
        self._api = api
        self._port = port
        self._chats = chats
        self._buttons = buttons
        self._finished: dict[str, str] = {}  # address → progress key of its last reply, which may go
        self._under_way: dict[str, Sent] = {}  # the same by reply, also where a full disk takes no progress

    async def tidy(self) -> None:
        """Forget the progress of what was sent long ago."""
        for key, value in await self._port.keys.items(PROGRESS):
            if msgspec.json.decode(value, type=Sent).at < time.time() - KEEP_SECONDS:
                await self._port.keys.delete(key)

    async def deliver(self, message: Outbound, preview: str = "") -> Receipt:
        """Post or edit; `preview` is the message that shows the reply already, if the outbox does not know it yet."""
        try:
            return await self._deliver(
                message, (message.ref or preview).split(",") if message.ref or preview else []
            )
        except Unreachable as error:
            await self._chats.block(message.address, str(error))
            raise
        except RetryLater as error:
            self._chats.wait(self._chats.current(message.address.chat_id), error.seconds)
            raise
        except Undeliverable:
            self._under_way.pop(message.id, None)
            raise
        except StoreError as error:  # what was sent so far is known
            raise RetryLater(STORE_SECONDS, str(error)) from error

    async def _deliver(self, message: Outbound, refs: Sequence[str]) -> Receipt:
        address = message.address
        chat = self._chats.current(address.chat_id)
        wait = self._chats.waiting(chat)
        if wait:
            raise RetryLater(wait, "Telegram asked to wait in this chat")
        texts = formatted(message.text)
        files = to_send(message.media, self._port.workspace)
        jobs: list[Part | Outgoing] = [*texts, *files]
        if not jobs:
            raise Undeliverable("the message is empty")
        keyboard = await self._buttons.keyboard(message)
        await self._forget_previous(message, kept=len(jobs) > 1)
        sent = await self._sent(message) if len(jobs) > 1 else Sent(time.time(), [])
        for index, job in enumerate(jobs):
            if index < len(sent.ids):
                continue
            target = Target(
                chat,
                thread_id(address),
                int(message.meta.get("reply_to", 0)) if index == 0 else 0,
                keyboard if index == max(0, len(texts) - 1) else None,
            )
            ref = refs[index] if index < len(refs) else ""
            self._chats.said(chat)
            sent.ids.append(await self._moved(target, job, ref))
            if len(jobs) > 1:
                await self._port.keys.set(PROGRESS + message.id, msgspec.json.encode(sent).decode())
        for surplus in refs[len(jobs) :]:
            await self.remove(chat, surplus)
        self._under_way.pop(message.id, None)
        return Receipt(",".join(sent.ids))

    async def remove(self, chat: str, ref: str) -> None:
        """Delete a message of ours; one that is gone is as good."""
        try:
            async with translated("deleteMessage"):
                await self._api.bot.delete_message(chat, int(ref))
        except (BadRequest, ChatMigrated):
            return

    async def _sent(self, message: Outbound) -> Sent:
        if message.id not in self._under_way:
            value = await self._port.keys.get(PROGRESS + message.id)
            known = msgspec.json.decode(value, type=Sent) if value else Sent(time.time(), [])
            self._under_way[message.id] = known
        return self._under_way[message.id]

    async def _forget_previous(self, message: Outbound, *, kept: bool) -> None:
        """The reply before this one is marked as delivered by now; its own progress is kept until the next."""
        before = self._finished.pop(message.address.key, "")
        if before and before != PROGRESS + message.id:
            await self._port.keys.delete(before)
        if kept:
            self._finished[message.address.key] = PROGRESS + message.id

    async def _moved(self, target: Target, job: Part | Outgoing, ref: str) -> str:
        """Do it, following the chat where it has moved to."""
        try:
            return await self._refused(target, job, ref)
        except ChatMigrated as error:
            await self._chats.move(target.chat, str(error.new_chat_id))
            moved = msgspec.structs.replace(target, chat=str(error.new_chat_id), reply_to=0)
            # What was posted before stays in the old chat, which nobody can write to any more.
            return await self._refused(moved, job, "")

    async def _refused(self, target: Target, job: Part | Outgoing, ref: str) -> str:
        try:
            if isinstance(job, Outgoing):
                return ref or await send_file(self._api, target.chat, target.thread, job, self._port.files)
            return await self._text(target, job, ref)
        except BadRequest as error:
            if says(error, *NO_RIGHTS):
                raise Unreachable(str(error)) from error
            raise undeliverable(error) from error

    async def _text(self, target: Target, part: Part, ref: str) -> str:
        if ref:
            try:
                return await self._plain_if_refused(part, lambda one: self._edit(target, one, ref))
            except BadRequest as error:
                if says(error, "message is not modified"):
                    return ref
                if not says(error, *GONE):
                    raise
        return await self._plain_if_refused(part, lambda one: self._send(target, one))

    async def _plain_if_refused(self, part: Part, post: Callable[[Part], Awaitable[str]]) -> str:
        """Formatting that Telegram does not take must not cost the text."""
        try:
            return await post(part)
        except BadRequest as error:
            if not part.entities or not says(error, *UNPARSED):
                raise
        return await post(plain(part.text)[0])

    async def _send(self, target: Target, part: Part) -> str:
        reply = (
            ReplyParameters(target.reply_to, allow_sending_without_reply=True) if target.reply_to else None
        )
        async with translated("sendMessage"):
            posted: Message = await self._api.bot.send_message(
                target.chat,
                part.text,
                entities=part.formats(),
                message_thread_id=target.thread,
                reply_parameters=reply,
                reply_markup=target.keyboard,
            )
        return str(posted.message_id)

    async def _edit(self, target: Target, part: Part, ref: str) -> str:
        async with translated("editMessageText"):
            await self._api.bot.edit_message_text(
                part.text,
                target.chat,
                int(ref),
                entities=part.formats(),
                reply_markup=target.keyboard,
            )
        return ref
