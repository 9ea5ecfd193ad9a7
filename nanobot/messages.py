"""The words that cross every border: what came in, what goes out, and where.

Frozen and slotted; they hold values, never behaviour that needs a network or a disk.
"""

import os
import time
from datetime import datetime
from typing import Any, Literal

import msgspec

# "task": what a session gives its sub-session to do; "child_result": what came of it, for the parent;
# "nudge": said by a watcher to the turn that runs, and to no other
InboundKind = Literal["user", "goal", "child_result", "schedule", "task", "nudge"]
OutboundKind = Literal["reply", "notice", "error"]

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id() -> str:
    """Return a new id of 26 characters that sorts by time: 48 bits of milliseconds, 80 random bits (ULID)."""
    number = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10), "big")
    return "".join([_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5)])


class Address(msgspec.Struct, frozen=True):
    """A place messages come from and go to: a chat of a channel, or a thread or topic in it."""

    channel: str
    chat_id: str
    thread: str = ""

    @property
    def key(self) -> str:
        """The session key: `channel:chat_id`, extended by the thread where there is one."""
        base = f"{self.channel}:{self.chat_id}"
        return f"{base}:{self.thread}" if self.thread else base


class Attachment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that came with a message or leaves with one; `path` is inside the workspace's state or its tree."""

    path: str
    name: str
    mime: str = "application/octet-stream"
    size: int = 0  # bytes
    copy: str = ""  # of one that came in: where the agent's tools find it, relative to the workspace


class Inbound(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message on its way in.

    `message_id` is the platform's own id and, with the channel, what duplicates are known by.
    """

    channel: str
    message_id: str
    chat_id: str
    text: str
    thread: str = ""
    sender: str = ""
    sender_name: str = ""
    media: tuple[Attachment, ...] = ()
    kind: InboundKind = "user"
    private: bool = True  # a direct chat, not a group
    mentioned: bool = True  # the bot was addressed; always true in a direct chat
    session: str = ""  # a session key that overrides the address's own
    sent_at: datetime | None = None  # the platform's time, aware UTC
    meta: dict[str, Any] = {}  # the adapter's own notes, for example the message to reply to

    @property
    def address(self) -> Address:
        return Address(self.channel, self.chat_id, self.thread)

    @property
    def key(self) -> str:
        """The session this message belongs to."""
        return self.session or self.address.key


class Accepted(msgspec.Struct, frozen=True):
    """The receipt of `accept`. `id` is the inbox id; for a duplicate it is the first one's."""

    id: str
    duplicate: bool = False


class Outbound(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message on its way out. (`turn`, `part`) is unique, so a turn's answer exists once, whatever is retried."""

    turn: str
    part: int
    address: Address
    text: str
    media: tuple[Attachment, ...] = ()
    kind: OutboundKind = "reply"
    streamed: bool = False  # its text was shown live while the turn ran
    ref: str = ""  # the platform's message id, once there is one; then sending means editing
    meta: dict[str, Any] = {}  # what the adapter needs, for example the inbound's reply_to

    @property
    def id(self) -> str:
        """The message id clients and platforms know it by."""
        return f"{self.turn}.{self.part}"


class Line(dict[str, Any]):
    """One message of a history, as a line of the session file has it: role, content, timestamp, turn, …

    The slots cache what is derived from it, so that a long history costs little per turn:
    `wire` the bytes sent to a model (with the dialect they are for), `tokens` their estimated number.
    Whoever changes a line's items clears both.
    """

    __slots__ = ("tokens", "wire")

    wire: tuple[str, bytes]
    tokens: int
