"""What the platform asks of a call besides its arguments: a scope, a form it reads, and not too many a minute."""

import time
from collections import defaultdict, deque
from collections.abc import Mapping

from tests.emulators.slack.faults import Refused

SCOPE = {
    "chat.postMessage": "chat:write",
    "chat.update": "chat:write",
    "chat.delete": "chat:write",
    "chat.startStream": "chat:write",
    "chat.appendStream": "chat:write",
    "chat.stopStream": "chat:write",
    "users.info": "users:read",
    "reactions.add": "reactions:write",
    "reactions.remove": "reactions:write",
    "assistant.threads.setStatus": "assistant:write",
    "assistant.threads.setSuggestedPrompts": "assistant:write",
    "files.getUploadURLExternal": "files:write",
    "files.completeUploadExternal": "files:write",
    "files.info": "files:read",
}
# What reading a conversation needs, by its kind.
HISTORY = {
    "channel": "channels:history",
    "group": "groups:history",
    "im": "im:history",
    "mpim": "mpim:history",
}
# Methods that read no JSON: arguments in a JSON body are as good as none.
FORM_ONLY = frozenset(
    {
        "auth.test",
        "conversations.history",
        "conversations.replies",
        "users.info",
        "files.info",
        "files.getUploadURLExternal",
    }
)
TIER_2, TIER_3, TIER_4 = 20, 50, 100  # calls a minute
PER_MINUTE = {
    "chat.update": TIER_3,
    "chat.delete": TIER_3,
    "chat.startStream": TIER_2,
    "chat.stopStream": TIER_2,
    "chat.appendStream": TIER_4,
    "apps.connections.open": TIER_3,
    "conversations.history": TIER_3,
    "conversations.replies": TIER_3,
    "reactions.add": TIER_3,
    "reactions.remove": TIER_2,
    "users.info": TIER_4,
}
POSTS = 300  # a minute in the whole workspace
BURST = 3  # posts that one channel takes at once; then one a second


def check_scope(method: str, scopes: str, kind: str) -> None:
    """`kind` is of the conversation that is named, where one is."""
    needed = HISTORY.get(kind, "") if method.startswith("conversations.") else SCOPE.get(method, "")
    if needed and needed not in scopes.split(","):
        raise Refused("missing_scope", needed=needed, provided=scopes)


class Rates:
    """The limits of docs.slack.dev/apis/web-api/rate-limits, each method in the whole workspace, posts per channel."""

    def __init__(self) -> None:
        self.refused = 0
        self._calls: defaultdict[str, deque[float]] = defaultdict(deque)
        self._posts: dict[str, tuple[float, float]] = {}  # channel → what is left of its burst, and when

    def wait(self, method: str, channel: str) -> float:
        """Seconds until the call may be made; 0 where it is made now."""
        now = time.monotonic()
        limit = POSTS if method == "chat.postMessage" else PER_MINUTE.get(method)
        made = self._calls[method]
        while made and made[0] <= now - 60.0:
            made.popleft()
        seconds = 60.0 - (now - made[0]) if limit is not None and len(made) >= limit else 0.0
        left = 1.0
        if method == "chat.postMessage":
            left, at = self._posts.get(channel, (float(BURST), now))
            left = min(float(BURST), left + now - at)
            seconds = max(seconds, 1.0 - left)
        if seconds > 0:
            self.refused += 1
            return seconds
        made.append(now)
        if method == "chat.postMessage":
            self._posts[channel] = (left - 1.0, now)
        return 0.0


def readable(method: str, args: Mapping[str, object], *, as_json: bool) -> Mapping[str, object]:
    """The arguments as the method sees them."""
    return {} if as_json and method in FORM_ONLY else args
