"""The contract between the gateway and a channel, and every word an adapter needs.

An adapter is a folder `channels/<name>/` whose package exports `create(port: Port) -> Channel`. It imports this
module and its own files, nothing else of nanobot; a test reads its sources to prove it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from nanobot.budget import Budget
from nanobot.clock import Clock, SystemClock, deadline, stamp
from nanobot.errors import (
    ChannelDown,
    ChannelError,
    ConfigError,
    DeadlineExceeded,
    MissingExtra,
    RetryLater,
    StoreError,
    StoreFull,
    Undeliverable,
    Unreachable,
)
from nanobot.events import (
    Event,
    GoalChanged,
    Notice,
    ReasoningDelta,
    ReasoningEnded,
    SessionUpdated,
    Steered,
    TextDelta,
    TextEnded,
    TextReset,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
)
from nanobot.files import Files, believed
from nanobot.messages import Accepted, Address, Attachment, Inbound, Line, Outbound, new_id
from nanobot.owner import Applicant, DeadLetter, Office

__all__ = [
    "About",
    "Accepted",
    "Address",
    "Applicant",
    "Attachment",
    "Budget",
    "Capabilities",
    "Channel",
    "ChannelDown",
    "ChannelError",
    "Clock",
    "Command",
    "ConfigError",
    "DeadLetter",
    "DeadlineExceeded",
    "Event",
    "Files",
    "GoalChanged",
    "Inbound",
    "Keys",
    "Line",
    "MissingExtra",
    "Notice",
    "Office",
    "Outbound",
    "Page",
    "Port",
    "ReasoningDelta",
    "ReasoningEnded",
    "Receipt",
    "RetryLater",
    "SessionSummary",
    "SessionUpdated",
    "Sessions",
    "Steered",
    "StoreError",
    "StoreFull",
    "SystemClock",
    "Tasks",
    "TextDelta",
    "TextEnded",
    "TextReset",
    "ToolEnded",
    "ToolProgress",
    "ToolStarted",
    "TurnEnded",
    "TurnStarted",
    "TurnState",
    "Undeliverable",
    "Unreachable",
    "Usage",
    "Waiting",
    "believed",
    "deadline",
    "new_id",
    "stamp",
]


class Capabilities(msgspec.Struct, frozen=True):
    """What a channel can do; what it cannot, the gateway does not ask for."""

    live: bool = False  # `show` is called with a turn's events
    repeatable: bool = False  # delivering the same message again is harmless: receivers know it by its id
    reconcile: bool = False  # `find` can tell whether a message of unknown outcome arrived
    progress: bool = False  # a goal is shown by one message that is edited, instead of its turns one by one
    max_text: int = 0  # characters a single platform message holds; 0 = no limit


class Receipt(msgspec.Struct, frozen=True):
    """A delivery that happened. `ref` is the platform's message id, where it has one."""

    ref: str = ""


class TurnState(msgspec.Struct, frozen=True):
    """What runs in a session now. `queued` counts accepted messages that wait behind it."""

    running: bool
    turn: str = ""
    started_at: float = 0.0  # epoch seconds
    queued: int = 0


class SessionSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row of the session list."""

    key: str
    title: str
    updated_at: str
    created_at: str = ""
    preview: str = ""
    messages: int = 0
    running: bool = False
    metadata: dict[str, Any] = {}


class Waiting(msgspec.Struct, frozen=True):
    """An accepted message that no turn has taken yet. `id` is its inbox id."""

    id: str
    message: Inbound
    accepted_at: datetime


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a chat's status line says: its model and how full that model's context is, in tokens (estimated)."""

    model: str = ""
    context_window: int = 0
    context_tokens: int = 0
    spent: Usage = Usage()  # of this conversation's turns, as the providers counted; nothing from the archive
    dollars: float | None = None  # what that cost; None where a model has no price in the configuration
    goal_state: dict[str, Any] | None = None
    parent: str = ""  # of a sub-session: the session key it works for
    parent_title: str = ""
    forked_from: str = ""  # of a copy: the session key it was made from
    suggestions: tuple[str, ...] = ()  # where nothing was said yet: what one might say, from the skills


class Page(msgspec.Struct, frozen=True):
    """Some of a session's messages, oldest first. `before` is the cursor of the page that precedes it, or None."""

    messages: Sequence[Line]
    before: int | None
    total: int


class Command(msgspec.Struct, frozen=True):
    """A slash command as menus show it."""

    name: str
    usage: str
    description: str


class Keys(Protocol):
    """Small durable values of one owner."""

    async def get(self, key: str) -> str | None: ...

    async def set(self, key: str, value: str) -> None:
        """Durable on return."""
        ...

    async def delete(self, key: str) -> None: ...

    async def items(self, prefix: str = "") -> list[tuple[str, str]]:
        """All pairs whose key begins so, sorted by key."""
        ...


class Sessions(Protocol):
    """The histories of all channels, to read and to manage. Authorising the reader is the channel's duty."""

    async def list(self) -> Sequence[SessionSummary]:
        """Newest first."""
        ...

    async def messages(self, key: str, before: int | None = None, limit: int = 24) -> Page: ...

    async def rename(self, key: str, title: str) -> bool:
        """Give a session a title; False where there was none."""
        ...

    async def delete(self, key: str) -> bool:
        """Stop what runs in it and remove it; False where there was none."""
        ...

    async def search(self, query: str, limit: int = 50) -> Sequence[Mapping[str, Any]]:
        """Hits as {key, title, index, role, excerpt, timestamp}, best first."""
        ...

    async def state(self, key: str) -> TurnState: ...

    async def about(self, key: str) -> About: ...

    async def workspace(self, key: str) -> Mapping[str, Any]:
        """How a session stands: {stage, since, reason, project, metrics, security}, as docs/protocol.md has them."""
        ...

    async def export(self, key: str) -> bytes | None:
        """The whole session as JSONL, archive included; None where there is none."""
        ...

    async def fork(self, key: str, to: str, *, before: str = "", through: str = "") -> bool:
        """Copy a session's messages to a new key: those before a user's message, through an answer, or all of them.

        Messages are named by their turn. False where the session or the message is not there.
        """
        ...


class Tasks(Protocol):
    """What sessions have delegated. Authorising the reader of a session is the channel's duty."""

    async def list(self, session: str) -> Sequence[Mapping[str, Any]]:
        """Its sub-sessions, newest first: {id, full_id, session, executor, state, task, turn, tokens, …}."""
        ...

    async def trajectory(self, session: str, id: str, *, full: bool = False) -> Mapping[str, Any] | None:
        """{steps: texts, details: every field of each step, …}; None where the session has none of that id."""
        ...

    async def end(self, session: str, id: str) -> bool:
        """False where nothing by that id runs."""
        ...


class Port(Protocol):
    """What the gateway gives a channel."""

    name: str
    settings: Mapping[str, Any]  # the channel's table of the configuration, checked against its channel.toml
    workspace: Path
    media: Path  # a folder of the state directory for files that come in; the channel names its files
    files: Files  # the way to what lies in `media`
    clock: Clock

    @property
    def keys(self) -> Keys: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def office(self) -> Office: ...

    @property
    def tasks(self) -> Tasks: ...

    async def accept(self, message: Inbound) -> Accepted | None:
        """Authorise the message and make it durable; only after the return may the platform be acknowledged.

        None means that it was not let in (an unknown sender, a group where the bot was not addressed): acknowledge
        and forget; a pairing answer, where one is due, is on its way. StoreError: nothing was accepted, so
        acknowledge nothing. Never blocks on a model or a tool.
        """
        ...

    async def edit(self, message: Inbound) -> bool:
        """A message, known by its `message_id`, was changed: what it says now is answered.

        False where nothing came of it: unknown here, no longer let in, or answered already. Raises StoreError.
        """
        ...

    async def stop(self, session: str) -> bool:
        """Stop what runs in a session, as /stop does; False where nothing ran."""
        ...

    def reachable(self, address: Address) -> None:
        """Somebody is at this address again: what waits for it is delivered now, in order."""
        ...

    async def undelivered(self, address: Address) -> Sequence[Outbound]:
        """What waits in the outbox for this address, oldest first."""
        ...

    async def waiting(self, session: str) -> Sequence[Waiting]:
        """Accepted messages of a session that no turn has taken yet, oldest first."""
        ...

    def state(self, session: str) -> TurnState:
        """What runs in a session now, without touching the disk."""
        ...

    def commands(self) -> Sequence[Command]:
        """The commands every chat understands."""
        ...

    async def posted(self, turn: str, part: int, address: Address, ref: str) -> None:
        """Remember the platform's id of a message that shows a reply before it is committed; its final is an edit."""
        ...

    async def preview(self, turn: str, part: int) -> str:
        """The platform's id that `posted` was told for a reply, maybe in an earlier life; "" where there is none."""
        ...

    def report(self, problem: str) -> None:
        """Say in one sentence what is wrong with the channel, for the log, /healthz and doctor; "" = it is well."""
        ...


class Channel(Protocol):
    """One platform's adapter."""

    name: str
    capabilities: Capabilities

    async def start(self) -> None:
        """Connect; return once messages can arrive. ChannelDown says why not and what to do; it is tried again."""
        ...

    async def stop(self) -> None:
        """Take in nothing more and close. What was accepted is safe already."""
        ...

    async def deliver(self, message: Outbound) -> Receipt:
        """Post, or edit where `message.ref` is set; return once the platform has it.

        Raises Unreachable, RetryLater or Undeliverable where those are true. Any other error means that the outcome
        is unknown. Must not retry by itself: the outbox does.
        """
        ...

    async def find(self, message: Outbound) -> Receipt | None:
        """Whether a message whose outcome is unknown did arrive. Only asked with `capabilities.reconcile`."""
        ...

    def show(self, event: Event) -> None:
        """Show what happens in a turn. Must return at once and must not raise; losing an event costs nothing."""
        ...

    def routes(self) -> Sequence[Any]:
        """Starlette routes that the gateway's HTTP server carries for this channel."""
        ...
