"""The state behind the emulator: people, channels, messages, files; and what the platform checks of a message."""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.emulators.slack.faults import Refused

TEAM, APP, BOT_ID, BOT_USER = "T1", "A1", "B1", "UBOT"
MARKDOWN_MAX = 12_000  # characters of all markdown in one message
SECTION_MAX, HEADER_MAX, BLOCKS_MAX, BUTTON_MAX, ACTIONS_MAX, ACTION_ID_MAX = 3_000, 150, 50, 75, 25, 255
TEXT_MAX, UPDATE_TEXT_MAX, BLOCKS_TEXT_MAX = 40_000, 4_000, 13_200
STATUS_SECONDS = 120.0
PING = re.compile(r"<!(?:channel|here|everyone|group)\b[^>]*>|<!subteam[^>]*>|<@[UW]\w+[^>]*>")


class Message(msgspec.Struct):
    channel: str
    ts: str
    user: str
    text: str = ""
    thread_ts: str = ""
    blocks: list[dict[str, Any]] = []
    markdown: str = ""
    metadata: dict[str, Any] = {}
    files: list[dict[str, Any]] = []
    bot: bool = False
    streaming: bool = False
    stopped_by_user: bool = False
    touched: float = 0.0  # monotonic; of a stream
    edits: int = 0
    reactions: dict[str, list[str]] = {}

    @property
    def shown(self) -> str:
        """What people read."""
        if self.markdown:
            return self.markdown
        parts = [one["text"] for one in self.blocks if one["type"] == "markdown"]
        parts += [one["text"]["text"] for one in self.blocks if one["type"] == "section"]
        return "\n".join(parts) or self.text

    def wire(self, *, metadata: bool = False) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "message", "ts": self.ts, "user": self.user, "text": self.text}
        if self.thread_ts:
            made["thread_ts"] = self.thread_ts
        if self.bot:
            made["bot_id"] = BOT_ID
        if self.blocks:
            made["blocks"] = self.blocks
        if metadata and self.metadata:
            made["metadata"] = self.metadata
        if self.files:
            made["files"] = self.files
        return made


class Workspace:
    """One Slack workspace. `changed` is set whenever anything people can see changes."""

    def __init__(self) -> None:
        self.users: dict[str, dict[str, Any]] = {}
        self.channels: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, list[Message]] = {}
        self.files: dict[str, dict[str, Any]] = {}
        self.statuses: list[tuple[str, str, str]] = []  # assistant threads: channel, thread, status
        self._status: dict[tuple[str, str], tuple[str, float]] = {}
        self.prompts: list[dict[str, Any]] = []
        self.pings: list[str] = []  # everybody who was pinged by the bot
        self.responses: list[dict[str, Any]] = []  # posts to response URLs
        self.changed = asyncio.Event()
        self._last = 0
        self.person(BOT_USER, "nanobot", bot=True)

    def person(self, user: str, name: str, *, bot: bool = False) -> str:
        self.users[user] = {
            "id": user,
            "name": name,
            "is_bot": bot,
            "real_name": name.title(),
            "profile": {"display_name": name},
        }
        return user

    def channel(self, id: str, *, member: bool = True, kind: str = "channel") -> str:
        """A channel, or with kind "im" / "mpim" / "group" another conversation."""
        self.channels[id] = {"id": id, "member": member, "kind": kind}
        self.messages.setdefault(id, [])
        return id

    def next_ts(self) -> str:
        """Unique in the workspace, rising, like the platform's."""
        self._last = max(self._last + 1, time.time_ns() // 1_000)
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"

    def touch(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def until(self, true: Any, seconds: float = 20.0) -> None:
        """Wait until something visible makes this true."""
        async with asyncio.timeout(seconds):
            while not true():
                await self.changed.wait()

    def status(self, channel: str, thread: str) -> str:
        """What stands under an assistant thread now; it goes by itself."""
        text, at = self._status.get((channel, thread), ("", 0.0))
        return text if time.monotonic() - at < STATUS_SECONDS else ""

    def set_status(self, channel: str, thread: str, text: str) -> None:
        self.statuses.append((channel, thread, text))
        self._status[channel, thread] = (text, time.monotonic())
        self.touch()

    def add(self, message: Message) -> Message:
        self.messages[message.channel].append(message)
        if message.bot:
            self._status.pop((message.channel, message.thread_ts), None)
        self.touch()
        return message

    def find(self, channel: str, ts: str) -> Message | None:
        return next((one for one in self.messages.get(channel, ()) if one.ts == ts), None)

    def room(self, channel: str) -> dict[str, Any]:
        """The conversation, if the bot may write there."""
        found = self.channels.get(channel)
        if found is None:
            raise Refused("channel_not_found")
        if not found["member"]:
            raise Refused("not_in_channel")
        return found

    def thread(self, channel: str, ts: str) -> str:
        """A thread's parent, which is what replies must name."""
        if not ts:
            return ""
        parent = self.find(channel, ts)
        if parent is None or (parent.thread_ts and parent.thread_ts != ts):
            raise Refused("thread_not_found")
        return ts

    def own(self, channel: str, ts: str) -> Message:
        found = self.find(channel, ts)
        if found is None:
            raise Refused("message_not_found")
        if not found.bot:
            raise Refused("cant_update_message")
        return found

    def by_bot(self, channel: str, thread: str | None = None) -> list[Message]:
        return [
            one
            for one in self.messages.get(channel, ())
            if one.bot and (thread is None or one.thread_ts == thread)
        ]

    def shown(self, channel: str, thread: str | None = None) -> list[str]:
        """The bot's messages as people see them now."""
        return [one.shown for one in self.by_bot(channel, thread)]

    def note_pings(self, *texts: str) -> None:
        for text in texts:
            self.pings += PING.findall(text)


def check_content(args: Mapping[str, Any], *, update: bool = False) -> dict[str, Any]:
    """The content fields of a message, refused as the platform refuses them."""
    text, markdown = str(args.get("text") or ""), str(args.get("markdown_text") or "")
    blocks = args.get("blocks") or []
    if markdown and (text or blocks):
        raise Refused("markdown_text_conflict")
    if not (text.strip() or markdown.strip() or blocks):
        raise Refused("no_text")
    if len(text) > (UPDATE_TEXT_MAX if update else TEXT_MAX):
        raise Refused("msg_too_long")
    if len(markdown) > MARKDOWN_MAX:
        raise Refused("msg_too_long")
    check_blocks(blocks)
    metadata = args.get("metadata") or {}
    if metadata and not (metadata.get("event_type") and isinstance(metadata.get("event_payload"), dict)):
        raise Refused("invalid_metadata_format")
    return {"text": text, "markdown": markdown, "blocks": list(blocks), "metadata": dict(metadata)}


def check_blocks(blocks: Sequence[Mapping[str, Any]]) -> None:
    if len(blocks) > BLOCKS_MAX:
        raise Refused("invalid_blocks")
    markdown = total = 0
    for block in blocks:
        match block.get("type"):
            case "markdown":
                if not str(block.get("text") or "").strip():
                    raise Refused("invalid_blocks")
                markdown += len(block["text"])
                total += len(block["text"])
            case "section":
                total += check_text(block.get("text"), SECTION_MAX)
            case "context":
                if not 1 <= len(block.get("elements", ())) <= 10:
                    raise Refused("invalid_blocks")
                for one in block["elements"]:
                    check_text(one, SECTION_MAX)
            case "actions":
                check_actions(block.get("elements", ()))
            case "header":
                total += check_text(block.get("text"), HEADER_MAX, "plain_text")
            case "divider":
                pass
            case _:
                raise Refused("invalid_blocks")
    if markdown > MARKDOWN_MAX or total > BLOCKS_TEXT_MAX:
        raise Refused("msg_blocks_too_long")


def check_text(text: Any, limit: int, *kinds: str) -> int:
    """The length of a text object, if it is one."""
    if not isinstance(text, Mapping) or text.get("type") not in (kinds or ("plain_text", "mrkdwn")):
        raise Refused("invalid_blocks")
    length = len(str(text.get("text") or ""))
    if not 1 <= length <= limit:
        raise Refused("invalid_blocks")
    return length


def check_actions(elements: Sequence[Mapping[str, Any]]) -> None:
    if not 1 <= len(elements) <= ACTIONS_MAX:
        raise Refused("invalid_blocks")
    ids = [one.get("action_id") for one in elements]
    if len(set(ids)) != len(ids):
        raise Refused("invalid_blocks")
    for one in elements:
        check_text(one.get("text"), BUTTON_MAX, "plain_text")
        if one.get("type") != "button" or len(str(one.get("value", ""))) > 2_000:
            raise Refused("invalid_blocks")
        if len(str(one.get("action_id", ""))) > ACTION_ID_MAX:
            raise Refused("invalid_blocks")
