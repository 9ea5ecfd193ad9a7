"""Whose chat it is: the principal that opened it, remembered across restarts."""

from collections import OrderedDict

from nanobot.channel import Keys, Sessions

from .settings import OWNER

MAX_KNOWN = 8_192


class Owners:
    """With no users configured every chat is the owner's, and nothing is stored.

    A chat without an entry that has a history is the owner's too: it dates from before there were users.
    """

    def __init__(self, keys: Keys, sessions: Sessions, channel: str, *, alone: bool) -> None:
        self._keys = keys
        self._sessions = sessions
        self._channel = channel
        self._alone = alone
        self._known: OrderedDict[str, str] = OrderedDict()
        self._stored: OrderedDict[str, None] = OrderedDict()

    async def claim(self, chat_id: str, principal: str) -> bool:
        """Whether the chat is this principal's; one that nobody has becomes theirs, for as long as we run."""
        if self._alone:
            return principal == OWNER
        owner = self._known.get(chat_id)
        if owner is None:
            owner = await self.owner(chat_id) or principal
            owner = self._remember(chat_id, owner)
        return owner == principal

    async def store(self, chat_id: str, principal: str) -> None:
        """Make a claim durable; done before the first message is accepted."""
        if self._alone or chat_id in self._stored:
            return
        await self._keys.set(f"owner:{chat_id}", principal)
        self._remember(chat_id, principal)
        self._stored[chat_id] = None
        if len(self._stored) > MAX_KNOWN:
            self._stored.popitem(last=False)

    async def owner(self, chat_id: str) -> str:
        """Whose chat it is, "" where nobody has it yet."""
        if self._alone:
            return OWNER
        known = self._known.get(chat_id)
        if known is not None:
            return known
        stored = await self._keys.get(f"owner:{chat_id}")
        if stored is not None:
            return stored
        page = await self._sessions.messages(f"{self._channel}:{chat_id}", limit=1)
        return OWNER if page.total else ""

    def known(self, chat_id: str) -> str:
        """Whose chat it is, without a look at the store: "" where nobody was asked for it yet."""
        return OWNER if self._alone else self._known.get(chat_id, "")

    async def may_see(self, session: str, principal: str) -> bool:
        """Whether a principal may read a session: the owner all, a user the chats they opened."""
        if principal == OWNER:
            return True
        channel, _, chat_id = session.partition(":")
        return channel == self._channel and await self.owner(chat_id) == principal

    async def of(self, principal: str) -> set[str]:
        """The session keys of a user."""
        pairs = await self._keys.items("owner:")
        return {f"{self._channel}:{key.removeprefix('owner:')}" for key, owner in pairs if owner == principal}

    async def forget(self, chat_id: str) -> None:
        """The chat was deleted; whoever opens it next has it."""
        await self._keys.delete(f"owner:{chat_id}")
        self._known.pop(chat_id, None)
        self._stored.pop(chat_id, None)

    def _remember(self, chat_id: str, principal: str) -> str:
        """Keep an answer, unless another task was faster; returns what holds."""
        owner = self._known.setdefault(chat_id, principal)
        self._known.move_to_end(chat_id)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return owner
