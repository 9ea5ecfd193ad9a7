"""The seam for where state lives and who runs what: Store, Dispatcher, Bus.

Nothing outside `stores/` and `app` may know which implementation is in use. One contract suite
(`nanobot.contracts.store`) runs over each of them.
"""

from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Literal, Protocol

import msgspec

from nanobot.channel import Keys
from nanobot.messages import Accepted, Address, Inbound, Line, Outbound

InboxStatus = Literal["pending", "running", "done", "dead"]
OutboxStatus = Literal["posted", "pending", "sending", "delivered", "unknown", "dead"]
PairingStatus = Literal["pending", "approved"]


class Row(msgspec.Struct, frozen=True):
    """An accepted message. `id` is the inbox id; `seq` rises in the order of acceptance."""

    id: str
    seq: int
    inbound: Inbound
    status: InboxStatus
    accepted_at: datetime
    attempts: int = 0
    turn: str = ""  # the id of the row that leads the turn it was taken into


class Claim(msgspec.Struct, frozen=True):
    """The right to run one turn of a session, until commit or release.

    `rows` holds the leader first, then what was steered into it before an interruption. `attempt` is 1 for a fresh
    turn and rises with every interruption.
    """

    session: str
    epoch: str
    rows: tuple[Row, ...]
    attempt: int

    @property
    def turn(self) -> str:
        return self.rows[0].id


class Delivery(msgspec.Struct, frozen=True):
    """An outbox row: a reply and how far it got."""

    id: int
    message: Outbound
    status: OutboxStatus
    attempts: int
    created_at: datetime
    next_at: datetime
    error: str = ""


class Pairing(msgspec.Struct, frozen=True):
    """An unknown sender who asked to be let in, or who was."""

    channel: str
    sender: str
    name: str
    chat_id: str
    code: str
    status: PairingStatus
    created_at: datetime
    expires_at: datetime


class Schedule(msgspec.Struct, frozen=True):
    """Something that is to happen later. `spec` and `tz` say when, `payload` what, both as `kind` has it.

    `next_at` is the moment that it is due; None where it never will be again.
    """

    id: str
    session: str
    address: Address
    kind: str
    spec: str
    tz: str
    payload: str
    next_at: datetime | None
    last_claimed: datetime | None = None


class Inbox(Protocol):
    """Accepted messages and the leases of the sessions they belong to."""

    async def accept(self, message: Inbound) -> Accepted:
        """Store a message; durable on return. (channel, message_id) is accepted once: a repeat gets the first's id.

        Raises StoreFull or StoreError with nothing stored. Concurrent calls share one commit.
        """
        ...

    async def claim(self, session: str) -> Claim | None:
        """Take the session's lease and its next turn; None where nothing waits or another owner holds it.

        A turn that this store's earlier life left running comes first, with all its rows and its attempt counted.
        Else the oldest pending row, `user` before other kinds. Counted before the return, so that a kill cannot undo
        it; a power cut may, which only runs the turn once more. A cancelled call takes nothing.
        """
        ...

    async def steer(self, claim: Claim, *, only_nudges: bool = False) -> Sequence[Row]:
        """Take what people said and sub-sessions brought back meanwhile into the running turn, oldest first.

        `only_nudges` takes what is meant for this turn alone: changed messages, and what watchers say.
        """
        ...

    async def commit(
        self,
        claim: Claim,
        done: Sequence[str],
        replies: Sequence[Outbound] = (),
        *,
        dead: str = "",
        enqueue: Sequence[Inbound] = (),
    ) -> Sequence[Delivery]:
        """End the turn in one transaction: rows done (or dead, with the reason), replies into the outbox, follow-up
        messages into the inbox, lease given back. Rows of the claim that are not in `done` go back to pending.

        Raises LeaseLost where the lease is not the claim's any more; then nothing changed.
        """
        ...

    async def release(self, claim: Claim, *, count: bool = False) -> None:
        """Give the lease back unfinished; the turn stays resumable. Without `count` the attempt is not counted."""
        ...

    async def cancel(self, session: str, *, before: int | None = None) -> Sequence[str]:
        """End what waits in a session, unanswered: pending rows, and an interrupted turn that nobody runs now.

        Only rows accepted before the one whose seq is `before`, where that is given. Returns their ids, oldest first.
        A turn that runs is not touched.
        """
        ...

    async def edit(self, channel: str, message_id: str, text: str) -> bool:
        """Change the text of a row that is still pending; False where it is too late."""
        ...

    async def find(self, channel: str, message_id: str) -> Row | None:
        """The row of a platform's message, whatever became of it."""
        ...

    async def waiting(self) -> Sequence[str]:
        """Sessions with something to do: rows pending, or running from an earlier life."""
        ...

    async def row(self, id: str) -> Row | None: ...

    async def pending(self, session: str) -> Sequence[Row]:
        """What waits or runs in a session, oldest first."""
        ...

    async def depth(self) -> tuple[int, float]:
        """How many rows wait, and the age of the oldest in seconds."""
        ...

    async def prune(self, before: datetime) -> int:
        """Forget rows that ended before this, and with them what duplicates of them are known by; returns how many."""
        ...

    async def media(self, since: datetime) -> AbstractSet[str]:
        """The paths of all files that came with messages accepted since then."""
        ...


class Outbox(Protocol):
    """Replies on their way. Never forgets one: it ends as delivered or dead."""

    async def undelivered(self) -> Sequence[Delivery]:
        """The rows that are pending or of unknown outcome, in order; `posted` ones of unfinished turns are left out.

        A row that was left at `sending`, by an earlier life or by a lane that died, is returned as `unknown`.
        """
        ...

    async def waiting(self, address: Address) -> Sequence[Delivery]:
        """The undelivered rows of one address, oldest first."""
        ...

    async def posted(self, turn: str, part: int, address: Address, ref: str) -> None:
        """Remember the platform's id of a message shown before its turn is committed; commit keeps it."""
        ...

    async def add(self, message: Outbound) -> Delivery | None:
        """Queue a message outside a turn's commit; None where (turn, part) is there already."""
        ...

    async def sending(self, id: int) -> bool:
        """Durable before the platform is called, so that a crash in between is known as an unknown outcome.

        False where it must not be called: the row was dropped or has ended.
        """
        ...

    async def delivered(self, id: int, ref: str = "") -> None:
        """The platform has it. Safe from a kill on return, from a power cut a moment later."""
        ...

    async def retry(self, id: int, at: datetime, error: str) -> None: ...

    async def unknown(self, id: int, error: str) -> None: ...

    async def dead(self, id: int, error: str) -> None: ...

    async def resend(self, id: int) -> Delivery | None:
        """Make a dead or unknown row pending again, with its age and attempts reset."""
        ...

    async def drop(self, id: int) -> bool:
        """Forget a row that is not delivered; the person at the terminal decided so."""
        ...

    async def find(self, turn: str, part: int) -> Delivery | None:
        """A reply by what it is known by; its `ref` is the platform's id once it was delivered."""
        ...

    async def list(self, statuses: Sequence[OutboxStatus] = (), limit: int = 200) -> Sequence[Delivery]: ...

    async def prune(self, before: datetime) -> int:
        """Remove delivered rows older than this; returns how many."""
        ...


class Pairings(Protocol):
    """Who asked to be let in and who was."""

    async def put(self, pairing: Pairing) -> None:
        """Insert, or replace the row of the same (channel, sender)."""
        ...

    async def get(self, channel: str, sender: str) -> Pairing | None: ...

    async def list(self, channel: str = "") -> Sequence[Pairing]: ...

    async def delete(self, channel: str, sender: str) -> bool: ...


class Schedules(Protocol):
    """What is to happen later."""

    async def put(self, schedule: Schedule) -> None:
        """Insert, or replace the one of the same id; durable on return."""
        ...

    async def due(self, now: datetime) -> Sequence[Schedule]:
        """What should have happened by now, oldest first."""
        ...

    async def next_at(self) -> datetime | None:
        """When the next one is due."""
        ...

    async def claim(self, schedule: Schedule, now: datetime, next_at: datetime | None) -> bool:
        """Note that it happens now, and when it is due again; None removes it. False where it was claimed already."""
        ...

    async def list(self, session: str = "") -> Sequence[Schedule]:
        """The next one first."""
        ...

    async def delete(self, id: str) -> bool: ...


class Store(Protocol):
    """Everything durable but the histories. `keys(owner)` are separate name spaces."""

    inbox: Inbox
    outbox: Outbox
    pairings: Pairings
    schedules: Schedules
    epoch: str  # new with every opening; leases of other epochs are an earlier life's

    def keys(self, owner: str) -> Keys: ...

    async def open(self) -> None:
        """Raises StateLocked, StateDamaged or a StoreError, each with its remedy."""
        ...

    async def close(self) -> None: ...


class Transcript(Protocol):
    """One session's history in memory."""

    key: str
    messages: list[Line]
    metadata: dict[str, Any]
    last_consolidated: int


class Transcripts(Protocol):
    """The histories of all sessions."""

    async def open(self, key: str) -> Transcript:
        """The session, loaded and legal; a new one where there is none. The same object while anyone holds it."""
        ...

    async def append(self, key: str, lines: Sequence[Line]) -> None:
        """Add lines in one write; durable on return."""
        ...

    async def update(self, key: str, metadata: dict[str, Any]) -> None:
        """Merge into the metadata (a None value removes its key); durable on return."""
        ...


class Dispatcher(Protocol):
    """Who runs which session: at most one handler per session at a time."""

    def wake(self, session: str) -> None:
        """Something waits in this session. Cheap, may be called often."""
        ...

    async def serve(self, handler: Callable[[str], Awaitable[None]]) -> None:
        """Call the handler for each woken session until cancelled; again where it was woken meanwhile."""
        ...

    async def drain(self, seconds: float) -> None:
        """Start nothing more and wait so long for what runs."""
        ...


class Bus(Protocol):
    """Live frames. Lossy by design, fast, never awaited."""

    def publish(self, topic: str, frame: Any) -> None: ...

    def subscribe(self, topic: str, callback: Callable[[Any], None]) -> Callable[[], None]:
        """Returns what ends the subscription."""
        ...
