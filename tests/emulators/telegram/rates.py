"""Telegram's limits: about a message a second in a chat, twenty a minute in a group, thirty a second in all.

Edits count as messages do (core.telegram.org/bots/faq). Who goes on asking in a flood wait makes it longer.
"""

import math
import time
from collections import defaultdict, deque

from tests.emulators.telegram.errors import ApiError
from tests.emulators.telegram.world import Chat

BURST = 5  # messages that a chat takes at once; then one a second
GROUP, GROUP_SECONDS = 20, 60.0
ALL = 30  # a second
PENALTY = 5.0  # seconds that a call in a flood wait adds to it
COUNTED = frozenset(
    {
        "sendmessage",
        "sendphoto",
        "senddocument",
        "sendvoice",
        "sendaudio",
        "sendvideo",
        "editmessagetext",
        "editmessagereplymarkup",
    }
)


class Rates:
    def __init__(self) -> None:
        self.refused = 0
        self._left: dict[int, tuple[float, float]] = {}  # chat → what is left of its burst, and when
        self._groups: defaultdict[int, deque[float]] = defaultdict(deque)
        self._all: deque[float] = deque()

    def check(self, method: str, chat: Chat) -> None:
        """Count the call, or refuse it with the time to wait."""
        if method not in COUNTED:
            return
        now = time.monotonic()
        if now < chat.flooded_until:
            chat.flooded_until += PENALTY
            wait = chat.flooded_until - now
        else:
            wait = self._wait(chat, now)
            chat.flooded_until = now + wait if wait > 0 else 0.0
        if wait > 0:
            self.refused += 1
            seconds = math.ceil(wait)
            raise ApiError(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)

    def _wait(self, chat: Chat, now: float) -> float:
        left, at = self._left.get(chat.id, (float(BURST), now))
        left = min(float(BURST), left + now - at)
        group = self._groups[chat.id]
        wait = 1.0 - left
        if chat.kind != "private":
            wait = max(wait, full(group, GROUP, GROUP_SECONDS, now))
        wait = max(wait, full(self._all, ALL, 1.0, now))
        if wait <= 0:
            self._left[chat.id] = (left - 1.0, now)
            group.append(now)
            self._all.append(now)
        return max(0.0, wait)


def full(made: deque[float], most: int, seconds: float, now: float) -> float:
    """How long until one more fits in; 0 where it fits now."""
    while made and made[0] <= now - seconds:
        made.popleft()
    return seconds - (now - made[0]) if len(made) >= most else 0.0
