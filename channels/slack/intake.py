"""From an event to an accepted message: what is durable when this returns may be acknowledged.

Slack wants its acknowledgement within 3 s. What a message needs first (names, files, the thread it was said in) may
take longer; then the event itself is kept, acknowledged, and accepted as soon as it is complete, also after a crash.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from loguru import logger

from nanobot.channel import (
    Address,
    Attachment,
    ChannelError,
    DeadlineExceeded,
    Inbound,
    Port,
    StoreError,
)

from .buttons import Click
from .files import Inbox
from .marks import Marks
from .people import People
from .settings import Settings
from .threads import Threads
from .wire import Me, Said, addressed_elsewhere, mentioned_users, plain, read_edit, read_message, sent_at

ACK_SECONDS = 2.0  # of Slack's 3, for everything before the acknowledgement
LATE = "late:"  # keys of events that were acknowledged before they were accepted
LATE_RETRY = 5.0
BEFORE, NOW = "[Said in this thread before]\n", "\n\n[Now]\n"  # around what a thread said before the bot came
MAX_CHATS = 10_000  # whose last speaker is remembered


class Intake:
    """Reads events, completes them, hands them to the port. One message of a chat at a time, in order."""

    def __init__(
        self,
        port: Port,
        settings: Settings,
        people: People,
        files: Inbox,
        threads: Threads,
        marks: Marks,
    ) -> None:
        self._port = port
        self._settings = settings
        self._people = people
        self._files = files
        self._threads = threads
        self._marks = marks
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        self._late: set[asyncio.Task[None]] = set()
        self._speakers: OrderedDict[str, tuple[str, str]] = OrderedDict()  # session → team, user
        self.me: Me | None = None

    def speaker(self, session: str) -> tuple[str, str] | None:
        """Who spoke last in a session, as (team, user)."""
        return self._speakers.get(session)

    async def message(self, body: Mapping[str, Any]) -> None:
        """A `message` or `app_mention` event. Raises where it could not be kept."""
        me = self._known_me()
        said = read_message(body, me)
        if said is not None:
            await self._in_time(said.id, body, lambda: self._accept(said, me))
            return
        edited = read_edit(body, me)
        if edited is not None:
            await self._edited(edited, me)

    async def click(self, click: Click) -> bool:
        """A button was pressed; False where the person may not speak here, or somebody was first."""
        me = self._known_me()
        names = await self._people.names([click.user]) if self._people.known([click.user]) else {}
        inbound = Inbound(
            channel=self._port.name,
            message_id=click.id,
            chat_id=click.channel,
            thread=click.thread,
            text=click.value,
            sender=click.user,
            sender_name=names.get(click.user, ""),
            private=click.channel.startswith("D"),
            meta={"user": click.user, "team": click.team or me.team},
        )
        accepted = await self._port.accept(inbound)
        if accepted is None or accepted.duplicate:
            return False
        self._spoke(inbound)
        return True

    async def command(self, body: Mapping[str, Any]) -> None:
        """The slash command: what follows it is a command of ours."""
        me = self._known_me()
        channel, user = str(body.get("channel_id") or ""), str(body.get("user_id") or "")
        if not channel or not user:
            return
        text = plain(str(body.get("text") or ""), {}, me).strip() or "help"
        inbound = Inbound(
            channel=self._port.name,
            message_id=f"{body.get('team_id') or me.team}:{channel}:command:{body.get('trigger_id')}",
            chat_id=channel,
            text=text if text[0] in "/!" else f"/{text}",
            sender=user,
            sender_name=str(body.get("user_name") or ""),
            private=channel.startswith("D"),
            meta={
                "user": user,
                "team": str(body.get("team_id") or me.team),
                "response_url": str(body.get("response_url") or ""),
            },
        )
        self._spoke(inbound)
        await self._port.accept(inbound)

    async def stopped(self, address: Address, ts: str, user: str, team: str = "") -> None:
        """Somebody pressed the platform's stop button, `ts` is of what they saw: the same as /stop."""
        if not user:  # a stream of which only Slack knows who reads it
            await self._port.stop(address.key)
            return
        me = self._known_me()
        inbound = Inbound(
            channel=self._port.name,
            message_id=f"{me.team}:{address.chat_id}:stop:{ts}",  # told by an event and by the stream's refusal
            chat_id=address.chat_id,
            thread=address.thread,
            text="/stop",
            sender=user,
            private=address.chat_id.startswith("D"),
            meta={"user": user, "team": team or me.team},
        )
        await self._port.accept(inbound)

    async def resume(self) -> None:
        """Take up the events that an earlier life acknowledged and did not finish."""
        for key, value in await self._port.keys.items(LATE):
            body = msgspec.json.decode(value)
            me = self._known_me()
            said = read_message(body, me)
            if said is None:
                await self._port.keys.delete(key)
            else:
                self._spawn(self._until_accepted(said, me, key))

    async def close(self) -> None:
        """Stop; what is late is kept and resumed by the next start."""
        for task in self._late:
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)

    # --- completing and accepting ------------------------------------------------------------------------------

    async def _in_time(self, id: str, body: Mapping[str, Any], work: Callable[[], Awaitable[None]]) -> None:
        """Run the work; where it takes too long, keep the event and let the work go on behind the acknowledgement."""
        task = asyncio.ensure_future(work())
        try:
            done, _ = await asyncio.wait({task}, timeout=ACK_SECONDS)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if done:
            task.result()
            return
        key = f"{LATE}{id}"
        await self._port.keys.set(key, msgspec.json.encode(body).decode())
        self._spawn(self._finish(task, body, key))

    async def _finish(self, task: "asyncio.Future[None]", body: Mapping[str, Any], key: str) -> None:
        try:
            await task
        except (ChannelError, DeadlineExceeded, StoreError) as error:
            logger.warning("slack: a message is late: {}", error)
            me = self._known_me()
            said = read_message(body, me)
            if said is not None:
                await self._until_accepted(said, me, key)
            return
        except asyncio.CancelledError:
            task.cancel()
            raise
        await self._port.keys.delete(key)

    async def _until_accepted(self, said: Said, me: Me, key: str) -> None:
        while True:
            try:
                await self._accept(said, me)
                await self._port.keys.delete(key)
            except (ChannelError, DeadlineExceeded, StoreError) as error:
                logger.warning("slack: a message is late: {}", error)
                await self._port.clock.sleep(LATE_RETRY)
            else:
                return

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _accept(self, said: Said, me: Me) -> None:
        chat = f"{said.channel}:{said.thread}"
        lock, users = self._locks.get(chat, (asyncio.Lock(), 0))
        self._locks[chat] = (lock, users + 1)
        try:
            async with lock:
                await self._accept_now(said, me)
        finally:
            lock, users = self._locks[chat]
            if users == 1:
                del self._locks[chat]
            else:
                self._locks[chat] = (lock, users - 1)

    async def _accept_now(self, said: Said, me: Me) -> None:
        in_thread = bool(said.thread_ts) and not said.private
        followed = in_thread and await self._threads.followed(said.channel, said.thread_ts)
        mentioned = said.mentioned or (
            self._settings.thread_follow
            and (followed or said.follows_us)
            and not addressed_elsewhere(said.text, me)
        )
        heard = mentioned or self._settings.group_policy == "open"
        text, media, name = said.text, tuple[Attachment, ...](), ""
        if heard:  # else it is refused anyway, and nothing needs to be fetched for it
            text, media, name = await self._complete(said, me, entering=in_thread and not followed)
        inbound = self._inbound(
            said, text, name=name, media=media, mentioned=mentioned, sent_at=sent_at(said.ts)
        )
        self._spoke(inbound)
        # Before the accept: who answers in the thread right after a kill must find the bot in it.
        entered = heard and not said.private and await self._threads.follow(said.channel, said.thread)
        accepted = await self._port.accept(inbound)
        if accepted is None or accepted.duplicate:
            self._files.forget(media)
        if accepted is None and entered:
            await self._threads.leave(said.channel, said.thread)
        if accepted is not None and not accepted.duplicate:
            self._marks.received(accepted, inbound)

    async def _complete(
        self, said: Said, me: Me, *, entering: bool
    ) -> tuple[str, tuple[Attachment, ...], str]:
        """The text as people read it, the files, and the sender's name."""
        text, name = await self._readable(said, me)
        media, problems = await self._files.fetch(said.files)
        if problems:
            text = "\n".join([text, *(f"[{problem}]" for problem in problems)]).strip()
        if entering and not said.follows_us and not text.lstrip().startswith(("/", "!")):
            earlier = await self._people.earlier(said, me)
            if earlier:
                text = f"{BEFORE}{earlier}{NOW}{text}"
        return text, media, name

    async def _readable(self, said: Said, me: Me) -> tuple[str, str]:
        """The text as people read it, and the sender's name."""
        wanted = [one for one in dict.fromkeys([said.user, *mentioned_users(said.text)]) if one != me.user]
        names = {**await self._people.names(wanted), me.user: me.name}
        return plain(said.text, names, me), names.get(said.user, "")

    def _inbound(self, said: Said, text: str, **fields: Any) -> Inbound:
        return Inbound(
            channel=self._port.name,
            message_id=said.id,
            chat_id=said.channel,
            thread=said.thread,
            text=text,
            sender=said.user,
            sender_name=fields.pop("name", ""),
            private=said.private,
            meta={"ts": said.ts, "user": said.user, "team": said.team},
            **fields,
        )

    async def _edited(self, said: Said, me: Me) -> None:
        """What counts is what a message says when it is answered; one that was answered stays answered."""
        text, name = await self._readable(said, me)
        inbound = self._inbound(said, text, name=name)
        for one in await self._port.waiting(inbound.key):
            if one.message.message_id == said.id and one.message.text.startswith(BEFORE):
                inbound = msgspec.structs.replace(
                    inbound, text=f"{one.message.text.partition(NOW)[0]}{NOW}{text}"
                )
        await self._port.edit(inbound)

    def _spoke(self, inbound: Inbound) -> None:
        self._speakers[inbound.key] = (str(inbound.meta["team"]), inbound.sender)
        self._speakers.move_to_end(inbound.key)
        if len(self._speakers) > MAX_CHATS:
            self._speakers.popitem(last=False)

    def _known_me(self) -> Me:
        if self.me is None:
            raise ChannelError("not connected yet")
        return self.me
