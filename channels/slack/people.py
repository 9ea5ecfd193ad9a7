"""Names of people, and what was said in a thread before the bot was called into it."""

from collections import OrderedDict
from collections.abc import Iterable

from nanobot.channel import ChannelError, DeadlineExceeded, deadline

from .api import Api, Refusal
from .wire import Me, Said, mentioned_users, plain

MAX_NAMES = 5_000
THREAD = 1_000  # messages of a thread that Slack gives at once, beginning with its first
CONTEXT_MESSAGES = 20
CONTEXT_CHARS = 500  # of each earlier message
LOOKUP_SECONDS = 5.0


class People:
    """Looks names up once. Where the app may not, ids stand for names."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._names: OrderedDict[str, str] = OrderedDict()
        self._allowed = True

    def known(self, users: Iterable[str]) -> bool:
        return not self._allowed or all(user in self._names for user in users)

    async def names(self, users: Iterable[str]) -> dict[str, str]:
        """Names by id; an id that cannot be looked up now is left out."""
        found = {}
        for user in users:
            name = self._names.get(user) or await self._look_up(user)
            if name:
                found[user] = name
        return found

    async def _look_up(self, user: str) -> str:
        if not self._allowed:
            return ""
        try:
            async with deadline(LOOKUP_SECONDS, "users.info"):
                profile = (await self._api.call("users.info", user=user)).get("user") or {}
        except Refusal as refusal:
            self._allowed = refusal.error not in ("missing_scope", "unknown_method")
            return self._keep(user, user)
        except (ChannelError, DeadlineExceeded):
            return ""
        shown = (profile.get("profile") or {}).get("display_name")
        return self._keep(user, str(shown or profile.get("real_name") or profile.get("name") or user))

    def _keep(self, user: str, name: str) -> str:
        self._names[user] = name
        if len(self._names) > MAX_NAMES:
            self._names.popitem(last=False)
        return name

    async def earlier(self, said: Said, me: Me) -> str:
        """What was said in the thread before this message, as text for the model; "" where it cannot be read."""
        try:
            answer = await self._api.call(
                "conversations.replies",
                channel=said.channel,
                ts=said.thread_ts,
                latest=said.ts,
                limit=THREAD,
            )
        except (ChannelError, DeadlineExceeded):
            return ""
        rows = [
            row
            for row in answer.get("messages") or ()
            if isinstance(row, dict) and str(row.get("ts")) < said.ts and str(row.get("text") or "").strip()
        ]
        left_out = len(rows) - CONTEXT_MESSAGES
        if left_out > 0:  # what it is about, and what was said last
            rows = [rows[0], *rows[left_out + 1 :]]
        users = [str(row.get("user")) for row in rows if row.get("user")]
        for row in rows:
            users += mentioned_users(str(row["text"]))
        names = {**await self.names(dict.fromkeys(users)), me.user: me.name or "you"}
        lines = []
        for row in rows:
            text = plain(str(row["text"]), names, me).strip()
            short = f"{text[:CONTEXT_CHARS]}…" if len(text) > CONTEXT_CHARS else text
            lines.append(f"{names.get(str(row.get('user')), str(row.get('user') or 'app'))}: {short}")
        if left_out > 0:
            lines.insert(1, f"[{left_out} more]")
        return "\n".join(lines)
