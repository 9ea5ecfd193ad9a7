"""What is known of chats: where they moved, which refuse us, and who asked us to wait."""

from loguru import logger

from nanobot.channel import Address, Budget, Port

from .wire import is_private

MOVED, BLOCKED = "moved:", "blocked:"
SHARE = 0.6  # of what a group may be sent is for previews, of all its topics together


class Chats:
    """Moves and refusals survive a restart; flood waits do not need to.

    `edit_interval`: seconds between two messages or edits that a group bears for long.
    """

    def __init__(self, port: Port, edit_interval: float) -> None:
        self._port = port
        self._per_minute = SHARE * 60.0 / max(0.05, edit_interval)
        self._budgets: dict[str, Budget] = {}
        self._moved: dict[str, str] = {}  # old id → new id
        self._origin: dict[str, str] = {}  # new id → the id its session was begun under
        self._blocked: dict[str, set[Address]] = {}
        self._waits: dict[str, float] = {}

    async def load(self) -> None:
        for key, new in await self._port.keys.items(MOVED):
            self._remember(key.removeprefix(MOVED), new)
        for key, _ in await self._port.keys.items(BLOCKED):
            self._blocked.setdefault(key.removeprefix(BLOCKED), set())

    # --- a group that became a supergroup has a new id ---------------------------------------------------------

    def current(self, chat_id: str) -> str:
        """The id to post to."""
        for _ in range(8):  # a chain of moves, never a circle
            if chat_id not in self._moved:
                break
            chat_id = self._moved[chat_id]
        return chat_id

    def session(self, chat_id: str, thread: str) -> str:
        """The session key of a chat that moved, so that its history goes on; "" for any other."""
        origin = self._origin.get(chat_id)
        return Address(self._port.name, origin, thread).key if origin else ""

    async def move(self, old: str, new: str) -> None:
        if self._moved.get(old) == new or old == new:
            return
        self._remember(old, new)
        await self._port.keys.set(MOVED + old, new)
        logger.info("telegram: chat {} has become {}", old, new)

    def _remember(self, old: str, new: str) -> None:
        self._moved[old] = new
        self._origin[new] = self._origin.get(old, old)

    # --- chats that refuse us ----------------------------------------------------------------------------------

    async def block(self, address: Address, reason: str) -> None:
        """Nothing can be posted there until somebody there wants it again."""
        first = address.chat_id not in self._blocked
        self._blocked.setdefault(address.chat_id, set()).add(address)
        if first:
            logger.warning("telegram: chat {} refuses the bot: {}", address.chat_id, reason)
            await self._port.keys.set(BLOCKED + address.chat_id, reason)

    async def welcome(self, chat_id: str) -> None:
        """Somebody there wrote to us, or let us in again."""
        if chat_id not in self._blocked:
            return
        addresses = self._blocked.pop(chat_id)
        await self._port.keys.delete(BLOCKED + chat_id)
        for address in addresses:
            self._port.reachable(address)

    # --- how much a group is sent ------------------------------------------------------------------------------

    def may_show(self, chat_id: str) -> bool:
        """Whether a preview may take one more of a group's messages; the answers must find some left."""
        return is_private(chat_id) or self._budget(chat_id).take()

    def said(self, chat_id: str) -> None:
        """An answer was sent."""
        if not is_private(chat_id):
            self._budget(chat_id).spend()

    def _budget(self, chat_id: str) -> Budget:
        found = self._budgets.get(chat_id)
        if found is None:
            found = self._budgets[chat_id] = Budget(self._per_minute, self._port.clock)
        return found

    # --- flood waits -------------------------------------------------------------------------------------------

    def wait(self, chat_id: str, seconds: float) -> None:
        """Telegram asked for a pause in this chat."""
        until = self._port.clock.monotonic() + seconds
        self._waits[chat_id] = max(until, self._waits.get(chat_id, 0.0))

    def waiting(self, chat_id: str) -> float:
        """Seconds until the chat may be written to again; 0 for now."""
        if chat_id not in self._waits:
            return 0.0
        left = self._waits[chat_id] - self._port.clock.monotonic()
        if left <= 0:
            del self._waits[chat_id]
        return max(0.0, left)
