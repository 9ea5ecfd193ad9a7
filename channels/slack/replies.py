"""Committed replies on their way out: in order, each part once, whatever is repeated."""

from collections import OrderedDict
from typing import Any

import aiohttp
import msgspec

from nanobot.channel import (
    Address,
    Event,
    Outbound,
    Port,
    Receipt,
    RetryLater,
    TurnEnded,
    TurnStarted,
    Undeliverable,
    deadline,
)

from .api import Lost, Refusal
from .buttons import button_block, read_buttons
from .files import Outbox, shown_name
from .live import STREAM_ENDED, Shown, Stage, View
from .markdown import split
from .posts import GONE, Posts, asked_at, made_at, reply_mark, since

MAX_VIEWS = 2_000
RESPOND_SECONDS = 10.0
# Nobody could ever read a message there.
NO_WAY_IN = frozenset({"channel_not_found", "not_in_channel", "is_archived"})


class Replies:
    """Delivers replies and keeps the views of running turns."""

    def __init__(self, stage: Stage, files: Outbox, port: Port) -> None:
        self._stage = stage
        self._posts: Posts = stage.posts
        self._files = files
        self._port = port
        self._views: OrderedDict[str, View] = OrderedDict()
        self._born = port.clock.now().timestamp()
        self._began = 0.0

    def began(self, since: float) -> None:
        """This life began then, by Slack's clock."""
        self._began = self._began or since

    # --- live ------------------------------------------------------------------------------------------------

    def show(self, event: Event, recipient: tuple[str, str] | None, *, inherited: bool) -> View | None:
        """Hand an event to its turn's view; `inherited`: what it answers was not accepted in this life. Returns the view that has to be discarded, if its turn left nothing."""
        view = self._views.get(event.turn)
        if isinstance(event, TurnEnded):
            if view is not None and not any(reply.address == event.address for reply in event.replies):
                return self._views.pop(event.turn)
            return None
        if view is None:
            if not event.turn or not isinstance(event, TurnStarted):
                return None
            view = View(self._stage, event.turn, event.address, recipient, inherited=inherited)
            self._views[event.turn] = view
            if len(self._views) > MAX_VIEWS:
                self._views.popitem(last=False)
        view.take(event)
        return None

    async def close(self) -> None:
        """Stop all views; what they left is found again by the turns' next life or their final."""
        for view in list(self._views.values()):
            await view.close()

    def inherited(self, message: Outbound) -> bool:
        """Whether it may answer what an earlier life accepted: what was asked before this one began.

        Slack's clock says so where it can, since ours may have been moved in between; of what nobody asked, ours has
        to. A clock that was set back makes ids of the future.
        """
        asked = asked_at(message.meta)
        if asked and self._began:
            return float(asked) < self._began + 1  # Slack told whole seconds
        made = made_at(message.turn)
        return made is not None and not self._born <= made <= self._port.clock.now().timestamp()

    # --- final -----------------------------------------------------------------------------------------------

    async def deliver(self, message: Outbound) -> Receipt:
        try:
            ref = await self._deliver(message)
        except Refusal as refusal:
            if refusal.error in NO_WAY_IN and message.meta.get("response_url"):
                await self._respond(message)
                return Receipt()
            raise Undeliverable(str(refusal)) from refusal
        self._views.pop(message.turn, None)
        return Receipt(ref)

    async def find(self, message: Outbound) -> Receipt | None:
        """The reply by its metadata, if all of its parts are there; files are checked by sending again."""
        if message.media:
            return None
        parts = await self._posts.parts(message)
        count = len(split(message.text)) if message.text.strip() else 0
        if count and all(number in parts for number in range(count)):
            await self._done(message)
            return Receipt(parts[0])
        return None

    async def _deliver(self, message: Outbound) -> str:
        shown = await self._shown(message)
        texts = split(message.text) if message.text.strip() or not message.media else []
        several = len(texts) + len(message.media) > 1
        there: dict[int, str] = {}
        if several:
            # Set before anything is posted: who finds it set must look at what is there already.
            if await self._port.keys.get(f"parts:{message.id}"):
                there = await self._posts.parts(message)
            else:
                await self._port.keys.set(f"parts:{message.id}", "begun")
        ref = shown.ts
        for number, text in enumerate(texts):
            last = number == len(texts) - 1
            extra = self._extra(message) if last else []
            mark = reply_mark(message, number, len(texts))
            if number == 0 and shown.ts:
                ref = await self._take_over(message.address, shown, text, mark, extra)
            elif number in there:
                ref = ref or there[number]
            else:
                ts = await self._posts.post(message.address, text, mark, extra)
                ref = ref or ts
        if not texts and shown.ts:
            await self._posts.remove(message.address, shown.ts, streaming=shown.streaming)
        for number in range(len(message.media)):
            await self._file(message, number, len(texts), there)
        if several:
            await self._done(message)
        return ref

    async def _shown(self, message: Outbound) -> Shown:
        """What of this reply stands in the chat already: a live view's message, or an earlier delivery's."""
        view = self._views.get(message.turn) if message.part == 0 else None
        if view is None or view.address != message.address:
            return Shown(message.ref or await self._left(message))
        shown = await view.close()
        if message.ref and shown.ts != message.ref:
            if shown.ts:
                await self._posts.remove(message.address, shown.ts, streaming=shown.streaming)
            return Shown(message.ref)
        return shown

    async def _left(self, message: Outbound) -> str:
        """The preview that an earlier life posted without living to store its id, if there is one."""
        if message.part or not self.inherited(message):
            return ""
        found = await self._posts.previews(message.address, message.turn, since(message.turn, message.meta))
        for further in found[1:]:
            await self._posts.remove(message.address, further, streaming=True)
        return found[0] if found else ""

    async def _take_over(
        self, address: Address, shown: Shown, text: str, mark: dict[str, Any], extra: list[dict[str, Any]]
    ) -> str:
        """Make the message that is there the final one; returns its ts."""
        if shown.streaming and text.startswith(shown.text) and not extra:
            rest = text[len(shown.text) :]
            try:
                await self._stage.api.call(
                    "chat.stopStream",
                    channel=address.chat_id,
                    ts=shown.ts,
                    markdown_text=rest or None,
                    metadata=mark,
                )
            except Refusal as refusal:
                if refusal.error not in STREAM_ENDED:
                    await self._posts.stop_stream(address, shown.ts)
            else:
                return shown.ts
        elif shown.streaming:
            await self._posts.stop_stream(address, shown.ts)
        try:
            await self._posts.edit(address, shown.ts, text, mark, extra)
        except Refusal as refusal:
            if refusal.error not in GONE:
                raise
            return await self._posts.post(address, text, mark, extra)
        return shown.ts

    def _extra(self, message: Outbound) -> list[dict[str, Any]]:
        buttons = read_buttons(message.meta)
        return [button_block(buttons)] if buttons else []

    async def _file(self, message: Outbound, number: int, texts: int, there: dict[int, str]) -> None:
        part = texts + number
        if part in there:
            return
        try:
            await self._files.send(message, number, message.address.thread)
        except (Refusal, OSError) as error:
            if isinstance(error, Refusal) and error.error in NO_WAY_IN:
                raise
            reason = error.strerror if isinstance(error, OSError) else str(error)
            note = f"I could not send `{shown_name(message.media[number].name)}`: {reason}"
            await self._posts.post(message.address, note, reply_mark(message, part, part + 1))

    async def _done(self, message: Outbound) -> None:
        await self._files.forget(message)
        await self._port.keys.delete(f"parts:{message.id}")

    async def _respond(self, message: Outbound) -> None:
        """Answer a slash command where the bot is no member: only the person who gave it sees the answer."""
        url = str(message.meta["response_url"])
        text = "\n\n".join(split(message.text)[:1])
        body = {"response_type": "ephemeral", "text": text}
        try:
            async with (
                deadline(RESPOND_SECONDS, "answering a slash command"),
                aiohttp.ClientSession() as session,
                session.post(
                    url, data=msgspec.json.encode(body), headers={"content-type": "application/json"}
                ) as answer,
            ):
                if answer.status == 429 or answer.status >= 500:
                    raise RetryLater(5.0, f"response_url: HTTP {answer.status}")
                if answer.status != 200:
                    raise Undeliverable(f"response_url: HTTP {answer.status}")
        except (aiohttp.ClientError, OSError) as error:
            raise Lost(f"response_url: {error}") from error
