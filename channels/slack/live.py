"""What people see while a turn runs: its words as they come, what is being done, in one message per turn.

The words go out by Slack's own streams where those are possible, else by a post that is edited. Whatever fails here
costs nothing: the final answer, which `replies` sends, takes over the message that is there.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import msgspec

from nanobot.channel import (
    Address,
    Budget,
    ChannelError,
    DeadlineExceeded,
    Event,
    Notice,
    Port,
    RetryLater,
    StoreError,
    TextDelta,
    TextEnded,
    TextReset,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    TurnStarted,
)

from .api import Api, Lost, Refusal
from .markdown import LIMIT, neutral, settled
from .posts import Posts, preview_mark, since
from .settings import Pace

LIVE_LIMIT = LIMIT - 1_000  # of a preview; the final brings the rest
GIVE_UP = 3  # refusals in a row, then the turn is shown no more
# Refusals that mean the app or the plan has no streams at all.
NO_STREAMS = frozenset({"unknown_method", "missing_scope", "not_allowed_token_type", "feature_not_enabled"})
# Appends are refused with these when a stream expired or somebody stopped it.
STOPPED = "stopped_by_user"
STREAM_ENDED = frozenset({"message_not_in_streaming_state", STOPPED})

Mode = Literal["", "stream", "edit"]


class Shown(msgspec.Struct, frozen=True):
    """What a turn's view left in the chat."""

    ts: str = ""
    streaming: bool = False
    text: str = ""


class Stage:
    """What all views share. `native` turns false once Slack says that it has no streams for us.

    `stopped` is called with a stream's place, ts and reader when a person has stopped it.
    """

    def __init__(self, api: Api, posts: Posts, port: Port, pace: Pace, *, streaming: bool) -> None:
        self.api = api
        self.posts = posts
        self.port = port
        self.pace = pace
        self.stopped: Callable[[Address, str, tuple[str, str] | None], None] = nobody
        self.native = streaming
        self.previews = streaming
        self.statuses = True
        self.starts = Budget(pace.starts, port.clock)
        self.appends = Budget(pace.appends, port.clock)
        self.edits = Budget(pace.edits, port.clock)


class View:
    """One turn as its chat sees it. `recipient` is (team, user), which streams outside direct chats must name.

    `inherited`: an earlier life may have begun to show it, also where the turn counts as its first attempt, since
    attempts that a full disk ended do not count.
    """

    def __init__(
        self,
        stage: Stage,
        turn: str,
        address: Address,
        recipient: tuple[str, str] | None,
        *,
        inherited: bool = False,
    ) -> None:
        self.turn = turn
        self.address = address
        self._stage = stage
        self._recipient = recipient
        self._began = self._now()
        self._text = ""
        self._stream = ""  # the model call that the text is of
        self._first_word = 0.0
        self._doing = ""
        self._doing_since = 0.0
        self._worked = False  # tools ran in this turn
        self._mode: Mode = ""
        self._ts = ""
        self._shown = ""
        self._unsure = inherited  # a message of this turn may be there that we do not know of
        self._next = 0.0  # no change before this time, monotonic
        self._failures = 0
        self._status_at = 0.0
        self._status = ""
        self._closing = False
        self._wake = asyncio.Event()
        self._closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # --- what happens ----------------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        if self._closing:
            return
        match event:
            case TurnStarted():
                self._unsure = self._unsure or event.resumed
                self._start()
            case TextDelta():
                if event.stream != self._stream:
                    self._stream, self._text = event.stream, ""
                    self._first_word = self._now()
                    if not self._ts:
                        self._next = max(self._next, self._first_word + self._stage.pace.start)
                self._text += event.text
                self._doing = ""
                self._start()
            case TextEnded():
                self._stream, self._text = event.stream, event.text
            case TextReset():
                self._text = ""
            case ToolStarted():
                self._worked = True
                self._do(describe(event))
            case ToolProgress() if event.text.strip():
                self._do(f"`{event.name}`: {one_line(event.text)}")
            case ToolEnded():
                self._doing = ""
            case Notice():
                self._do(one_line(event.text))
            case _:
                return
        self._wake.set()

    def _do(self, text: str) -> None:
        if not self._doing:
            self._doing_since = self._now()
        self._doing = text
        self._start()

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> Shown:
        """Stop showing; returns what stands in the chat. May be called again."""
        self._closing = True
        self._closed.set()
        self._wake.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        if self._unsure:
            await self._adopt()
        return Shown(self._ts, self._mode == "stream", self._shown)

    async def discard(self) -> None:
        """The turn ended without an answer: nothing of it may stay."""
        with suppress(ChannelError, DeadlineExceeded, StoreError):
            shown = await self.close()
            if shown.ts:
                await self._stage.posts.remove(self.address, shown.ts, streaming=shown.streaming)
            elif self._status:
                await self._set_status("")

    # --- the worker ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._closing:
            self._wake.clear()
            pause = await self._step()
            if self._closing:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            # Many words come at once: they are shown together.
            await self._rest()

    async def _rest(self) -> None:
        wait = self._next - self._now()
        if wait > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._closed.wait()

    async def _step(self) -> float:
        """Show what there is to show; returns in how many seconds to look again at the latest."""
        try:
            await self._say_status()
            content = self._content()
            wanted = content and content != self._shown and self._stage.previews
            if wanted and self._failures < GIVE_UP and (self._ts or await self._is_next()):
                await self._show(content)
        except RetryLater as error:
            self._next = self._now() + max(error.seconds, self._stage.pace.edit)
        except Refusal:
            self._failures += 1
        except (ChannelError, DeadlineExceeded, StoreError):
            self._failures += 1
            self._next = self._now() + self._stage.pace.edit
        pace = self._stage.pace
        now = self._now()
        waits = [pace.tick]
        if not self._ts and self._text:
            waits.append(self._first_word + pace.start - now)
        if not self._ts and self._doing:
            waits.append(self._began + pace.progress - now)
        return max(0.02, min(one for one in waits))

    def _content(self) -> str:
        """What the message should say now; "" while it is too early for one."""
        now, pace = self._now(), self._stage.pace
        text = settled(self._text)[:LIVE_LIMIT] if self._text.strip() else ""
        if not self._doing:
            if text and not self._ts and now - self._first_word < pace.start:
                return ""
            return text
        if now - self._began < pace.progress and not self._ts:
            return ""
        seconds = int((now - self._doing_since) // pace.tick * pace.tick)
        elapsed = f" · {seconds} s" if seconds else ""
        doing = f"_working:_ {neutral(self._doing)}{elapsed}"
        return f"{text}\n\n{doing}" if text else doing

    async def _is_next(self) -> bool:
        """Whether nothing earlier is still on its way to this chat: people read messages by when they were posted."""
        waiting = await self._stage.port.undelivered(self.address)
        if waiting:
            self._next = self._now() + self._stage.pace.edit
        return not waiting

    async def _show(self, content: str) -> None:
        if self._unsure:
            await self._adopt()
        if self._mode == "stream" and (self._doing or not content.startswith(self._shown)):
            # A stream can only grow. What has to shrink goes on as an edited message.
            await self._stage.posts.stop_stream(self.address, self._ts)
            self._mode = "edit"
        match self._mode:
            case "":
                await self._begin(content)
            case "stream":
                await self._append(content)
            case "edit":
                if not self._stage.edits.take():
                    self._next = self._now() + self._stage.pace.edit
                    return
                await self._stage.posts.edit(self.address, self._ts, content, preview_mark(self.turn))
                self._next = self._now() + self._stage.pace.edit
        self._shown = content
        self._failures = 0

    async def _begin(self, content: str) -> None:
        stage = self._stage
        if not stage.starts.take():
            self._next = self._now() + stage.pace.edit
            raise RetryLater(stage.pace.edit, "many turns begin at once")
        try:
            if not (self._may_stream() and await self._begin_stream(content)):
                self._ts = await stage.posts.post(self.address, content, preview_mark(self.turn))
                self._mode = "edit"
        except (Lost, DeadlineExceeded):
            self._unsure = True  # the answer was lost; the message may be there
            raise
        await stage.port.posted(self.turn, 0, self.address, self._ts)
        self._next = self._now() + (stage.pace.append if self._mode == "stream" else stage.pace.edit)

    def _may_stream(self) -> bool:
        """Direct chats stream in threads only; elsewhere the reader has to be named."""
        if not self._stage.native or self._worked or self._doing:
            return False
        return bool(self.address.thread) and (self.address.chat_id.startswith("D") or bool(self._recipient))

    async def _begin_stream(self, content: str) -> bool:
        team, user = self._recipient or (None, None)
        named = (
            {}
            if self.address.chat_id.startswith("D")
            else {"recipient_team_id": team, "recipient_user_id": user}
        )
        try:
            answer = await self._stage.api.call(
                "chat.startStream",
                channel=self.address.chat_id,
                thread_ts=self.address.thread,
                markdown_text=content,
                **named,
            )
        except Refusal as refusal:
            self._stage.native = refusal.error not in NO_STREAMS
            return False
        self._ts, self._mode = str(answer["ts"]), "stream"
        return True

    async def _append(self, content: str) -> None:
        if not self._stage.appends.take():
            raise RetryLater(self._stage.pace.append, "many streams at once")
        try:
            await self._stage.api.call(
                "chat.appendStream",
                channel=self.address.chat_id,
                ts=self._ts,
                markdown_text=content[len(self._shown) :],
            )
        except Refusal as refusal:
            self._mode = "edit"
            if refusal.error == STOPPED:
                self._failures = (
                    GIVE_UP  # it stays as it was when somebody stopped it, until the turn has ended
                )
                self._stage.stopped(self.address, self._ts, self._recipient)
                raise
            if refusal.error not in STREAM_ENDED:
                await self._stage.posts.stop_stream(self.address, self._ts)
            await self._stage.posts.edit(self.address, self._ts, content, preview_mark(self.turn))
        except (Lost, DeadlineExceeded):
            # The words may be there or not: what is shown is no longer known, so it is replaced.
            await self._stage.posts.stop_stream(self.address, self._ts)
            self._mode = "edit"
            raise
        self._next = self._now() + (
            self._stage.pace.append if self._mode == "stream" else self._stage.pace.edit
        )

    async def _adopt(self) -> None:
        """Take over the message that an earlier attempt at this turn left; further ones are removed."""
        # An open stream may be another turn's, whose reply is still to take it over.
        others = {
            one.ref for one in await self._stage.port.undelivered(self.address) if one.turn != self.turn
        }
        found = await self._stage.posts.previews(self.address, self.turn, since(self.turn, {}))
        found = [ts for ts in found if ts != self._ts and ts not in others]
        self._unsure = False
        if not self._ts and found:
            self._ts, self._mode, self._shown = found.pop(0), "edit", ""
            await self._stage.port.posted(self.turn, 0, self.address, self._ts)
        for ts in found:
            await self._stage.posts.remove(self.address, ts, streaming=True)

    # --- the status line of assistant threads -----------------------------------------------------------------

    async def _say_status(self) -> None:
        if not (self._stage.statuses and self.address.thread and self.address.chat_id.startswith("D")):
            return
        if self._ts or self._text:
            return  # a message of ours clears it
        status = f"is working: {one_line(self._doing)}"[:100] if self._doing else "is thinking…"
        stale = self._now() - self._status_at > self._stage.pace.status
        if status != self._status or stale:
            await self._set_status(status)

    async def _set_status(self, status: str) -> None:
        self._status, self._status_at = status, self._now()
        try:
            await self._stage.api.call(
                "assistant.threads.setStatus",
                channel_id=self.address.chat_id,
                thread_ts=self.address.thread,
                status=status,
            )
        except Refusal as refusal:
            if refusal.error in NO_STREAMS:
                self._stage.statuses = False

    def _now(self) -> float:
        return self._stage.port.clock.monotonic()


def nobody(_: Address, __: str, ___: tuple[str, str] | None) -> None:
    """Who hears of stopped streams where nobody does."""


def describe(event: ToolStarted) -> str:
    """A tool's call in a few words."""
    first = next((str(value) for value in event.arguments.values() if isinstance(value, str) and value), "")
    shown = one_line(first)[:80].replace("`", "'")
    return f"`{event.name}` {shown}".strip()


def one_line(text: str) -> str:
    return " ".join(text.split())[:200]
