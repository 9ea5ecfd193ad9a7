"""All chats that somebody attends to or lately did, within a bound that ten thousand chats do not move."""

from collections import OrderedDict
from collections.abc import Callable

from nanobot.channel import Address, Event, SessionUpdated, TurnEnded, TurnStarted

from .chat import Chat
from .connection import Connection
from .settings import OWNER
from .wire import encode

MAX_IDLE_CHATS = 1_024  # chats without a client that are remembered
MAX_RING_BYTES = 8 * 1024 * 1024  # of all chats' replay together


class Hub:
    """Finds a chat's state, forgets the longest unused ones, and tells sessions' news to those who may see them."""

    def __init__(self, channel: str, epoch: str) -> None:
        self.channel = channel
        self.epoch = epoch
        self.whose: Callable[[str], str] = lambda _chat_id: (
            ""
        )  # a chat's principal, as far as it is known at once
        self.connections: set[Connection] = set()
        self._watching: set[Connection] = set()  # told of every session its principal may see
        self._chats: OrderedDict[str, Chat] = OrderedDict()
        self._floor = -1  # no chat's numbers may fall below those of a forgotten one
        self._ring_bytes = 0

    def __len__(self) -> int:
        return len(self._chats)

    def find(self, chat_id: str) -> Chat | None:
        return self._chats.get(chat_id)

    def chat(self, chat_id: str) -> Chat:
        """The chat's state, made where there is none; counts as used now."""
        chat = self._chats.get(chat_id)
        if chat is not None:
            self._chats.move_to_end(chat_id)
            return chat
        # One above the floor, so that a client of a forgotten life of this chat is never taken for up to date.
        chat = Chat(Address(self.channel, chat_id), self._floor + 1, self._grew)
        self._chats[chat_id] = chat
        if len(self._chats) > MAX_IDLE_CHATS:
            self._forget()
        return chat

    def leave(self, connection: Connection) -> None:
        """A connection takes nothing more: nobody may count on it."""
        self.connections.discard(connection)
        self._watching.discard(connection)
        for chat_id in connection.chats:
            chat = self._chats.get(chat_id)
            if chat is not None:
                chat.connections.discard(connection)
        connection.chats.clear()

    def watch(self, connection: Connection, *, on: bool) -> None:
        """Tell a connection of all sessions that its principal may see."""
        if on:
            self._watching.add(connection)
        else:
            self._watching.discard(connection)

    def drop(self, chat_id: str) -> None:
        """The chat was deleted: nobody is attached to it any more, and nothing of it can be replayed."""
        chat = self._chats.pop(chat_id, None)
        if chat is None:
            return
        for connection in chat.connections:
            connection.chats.discard(chat_id)
        chat.connections.clear()
        self._retire(chat)

    def show(self, event: Event) -> None:
        """Pass a turn's event to its chat."""
        if isinstance(event, SessionUpdated):
            self.updated(event)
        elif event.address.channel == self.channel:
            chat = self.chat(event.address.chat_id)
            chat.show(event)
            if isinstance(event, TurnStarted | TurnEnded) and self._watching:
                # Those attached have the turn's own frames.
                news = SessionUpdated(event.session, event.turn, event.address)
                self._tell(news, self._watchers(news) - chat.connections)

    def updated(self, event: SessionUpdated) -> None:
        """Tell those attached to the chat, and the connections that watch all sessions and may see this one."""
        own = event.address.channel == self.channel
        chat = self._chats.get(event.address.chat_id) if own else None
        self._tell(event, self._watchers(event) | (chat.connections if chat is not None else set()))

    def _watchers(self, event: SessionUpdated) -> set[Connection]:
        whose = self.whose(event.address.chat_id) if event.address.channel == self.channel else OWNER
        return {one for one in self._watching if one.principal in (OWNER, whose)}

    def _tell(self, event: SessionUpdated, connections: set[Connection]) -> None:
        if not connections:
            return
        fields = {"session": event.session, "scope": event.scope}
        if event.address.channel == self.channel:
            fields["chat_id"] = event.address.chat_id
        text = encode("session_updated", fields)
        for connection in connections:
            connection.push(text)

    def _grew(self, size: int) -> None:
        self._ring_bytes += size
        if self._ring_bytes <= MAX_RING_BYTES:
            return
        for chat in self._chats.values():
            self._ring_bytes -= chat.ring.clear(chat.seq)
            if self._ring_bytes <= MAX_RING_BYTES * 3 // 4:
                return

    def _forget(self) -> None:
        """Drop the longest unused chats that nobody is attached to."""
        idle = [chat_id for chat_id, chat in self._chats.items() if not chat.connections]
        for chat_id in idle[: max(0, len(idle) - MAX_IDLE_CHATS)]:
            self._retire(self._chats.pop(chat_id))

    def _retire(self, chat: Chat) -> None:
        chat.flush()
        self._floor = max(self._floor, chat.seq)
        self._ring_bytes -= chat.ring.clear(chat.seq)
