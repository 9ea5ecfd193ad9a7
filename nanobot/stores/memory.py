"""MemoryStore: the whole port without a disk, for tests and trials. It forgets everything with the process."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from nanobot import mailbox
from nanobot.channel import Keys
from nanobot.clock import Clock, SystemClock
from nanobot.errors import LeaseLost
from nanobot.messages import Accepted, Address, Inbound, Outbound, new_id
from nanobot.store import (
    Claim,
    Delivery,
    Inbox,
    Outbox,
    OutboxStatus,
    Pairing,
    Pairings,
    Row,
    Schedule,
    Schedules,
)

WAITING: set[OutboxStatus] = {"pending", "sending", "unknown"}


class State:
    """What outlives a store: the tables."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.ids: dict[tuple[str, str], str] = {}  # (channel, message_id) → inbox id
        self.open: dict[str, dict[str, None]] = {}  # session → ids of its open rows, in order of acceptance
        self.ended: dict[str, datetime] = {}
        self.leases: dict[str, tuple[str, str]] = {}  # session → (epoch, turn)
        self.deliveries: dict[int, Delivery] = {}
        self.parts: dict[tuple[str, int], int] = {}  # (turn, part) → outbox id
        self.senders: dict[int, str] = {}  # outbox id → the epoch that sends it
        self.pairings: dict[tuple[str, str], Pairing] = {}
        self.schedules: dict[str, Schedule] = {}
        self.keys: dict[str, dict[str, str]] = {}
        self.seq = 0
        self.delivery_id = 0


class MemoryStore:
    def __init__(self, clock: Clock | None = None, state: State | None = None) -> None:
        self._clock = clock or SystemClock()
        self._state = state or State()
        self.epoch = new_id()
        outbox = MemoryOutbox(self._state, self._clock, self.epoch)
        self.outbox: Outbox = outbox
        self.inbox: Inbox = MemoryInbox(self._state, self._clock, self.epoch, outbox)
        self.pairings: Pairings = MemoryPairings(self._state)
        self.schedules: Schedules = MemorySchedules(self._state)

    def keys(self, owner: str) -> Keys:
        return MemoryKeys(self._state.keys.setdefault(owner, {}))

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def restarted(self) -> "MemoryStore":
        """A store as the next life would find it: the same state, a new epoch."""
        return MemoryStore(self._clock, self._state)


class MemoryInbox:
    def __init__(self, state: State, clock: Clock, epoch: str, outbox: "MemoryOutbox") -> None:
        self._state = state
        self._clock = clock
        self._epoch = epoch
        self._outbox = outbox

    async def accept(self, message: Inbound) -> Accepted:
        return self._insert(message)

    async def claim(self, session: str) -> Claim | None:
        epoch, _ = self._state.leases.get(session, ("", ""))
        rows = mailbox.next_turn(self._open(session))
        if epoch == self._epoch or not rows:
            return None
        leader = rows[0]
        leader = self._change(leader, status="running", turn=leader.id, attempts=leader.attempts + 1)
        self._state.leases[session] = (self._epoch, leader.id)
        return Claim(session, self._epoch, (leader, *rows[1:]), leader.attempts)

    async def steer(self, claim: Claim, *, only_nudges: bool = False) -> Sequence[Row]:
        self._fence(claim)
        rows = [row for row in self._open(claim.session) if mailbox.may_steer(row, only_nudges=only_nudges)]
        return [self._change(row, status="running", turn=claim.turn) for row in rows]

    async def commit(
        self,
        claim: Claim,
        done: Sequence[str],
        replies: Sequence[Outbound] = (),
        *,
        dead: str = "",
        enqueue: Sequence[Inbound] = (),
    ) -> Sequence[Delivery]:
        self._fence(claim)
        del self._state.leases[claim.session]
        for row_id in done:
            if (row := self._state.rows.get(row_id)) is not None and row.status in ("pending", "running"):
                self._end(row, "dead" if dead else "done")
        for row in self._open(claim.session):
            if row.status == "running":
                self._change(row, status="pending", turn="")
        made = [self._outbox.insert(reply) for reply in replies]
        for message in enqueue:
            self._insert(message)
        return [one for one in made if one is not None]

    async def release(self, claim: Claim, *, count: bool = False) -> None:
        self._fence(claim)
        del self._state.leases[claim.session]
        leader = self._state.rows[claim.turn]
        if not count:
            self._change(leader, attempts=max(0, leader.attempts - 1))

    async def cancel(self, session: str, *, before: int | None = None) -> Sequence[str]:
        epoch, _ = self._state.leases.get(session, ("", ""))
        rows = [
            row
            for row in self._open(session)
            if (row.status == "pending" or epoch != self._epoch) and (before is None or row.seq < before)
        ]
        for row in rows:
            self._end(row, "done")
        return [row.id for row in rows]

    async def edit(self, channel: str, message_id: str, text: str) -> bool:
        row = self._state.rows.get(self._state.ids.get((channel, message_id), ""))
        if row is None or row.status != "pending":
            return False
        self._change(row, inbound=msgspec.structs.replace(row.inbound, text=text))
        return True

    async def find(self, channel: str, message_id: str) -> Row | None:
        return self._state.rows.get(self._state.ids.get((channel, message_id), ""))

    async def waiting(self) -> Sequence[str]:
        found: list[tuple[int, str]] = []
        for session in self._state.open:
            epoch, _ = self._state.leases.get(session, ("", ""))
            rows = [row for row in self._open(session) if row.status == "pending" or epoch != self._epoch]
            if rows:
                found.append((rows[0].seq, session))
        return [session for _, session in sorted(found)]

    async def row(self, id: str) -> Row | None:
        return self._state.rows.get(id)

    async def pending(self, session: str) -> Sequence[Row]:
        return self._open(session)

    async def depth(self) -> tuple[int, float]:
        rows = [row for session in self._state.open for row in self._open(session) if row.status == "pending"]
        if not rows:
            return 0, 0.0
        oldest = min(row.accepted_at for row in rows)
        return len(rows), max(0.0, (self._clock.now() - oldest).total_seconds())

    async def prune(self, before: datetime) -> int:
        old = [row_id for row_id, ended in self._state.ended.items() if ended < before]
        for row_id in old:
            row = self._state.rows.pop(row_id)
            del self._state.ended[row_id], self._state.ids[row.inbound.channel, row.inbound.message_id]
        return len(old)

    async def media(self, since: datetime) -> set[str]:
        rows = [row for row in self._state.rows.values() if row.accepted_at >= since]
        return {one.path for row in rows for one in row.inbound.media}

    def _open(self, session: str) -> list[Row]:
        return [self._state.rows[row_id] for row_id in self._state.open.get(session, ())]

    def _insert(self, message: Inbound) -> Accepted:
        known_by = (message.channel, message.message_id)
        if known_by in self._state.ids:
            return Accepted(self._state.ids[known_by], duplicate=True)
        self._state.seq += 1
        row = Row(new_id(), self._state.seq, message, "pending", self._clock.now())
        self._state.rows[row.id] = row
        self._state.ids[known_by] = row.id
        self._state.open.setdefault(message.key, {})[row.id] = None
        return Accepted(row.id)

    def _change(self, row: Row, **changes: Any) -> Row:
        changed = msgspec.structs.replace(row, **changes)
        self._state.rows[row.id] = changed
        return changed

    def _end(self, row: Row, status: str) -> None:
        self._change(row, status=status)
        self._state.ended[row.id] = self._clock.now()
        session = row.inbound.key
        del self._state.open[session][row.id]
        if not self._state.open[session]:
            del self._state.open[session]

    def _fence(self, claim: Claim) -> None:
        if self._state.leases.get(claim.session) != (claim.epoch, claim.turn):
            raise LeaseLost(f"turn {claim.turn} no longer owns session {claim.session}")


class MemoryOutbox:
    def __init__(self, state: State, clock: Clock, epoch: str) -> None:
        self._state = state
        self._clock = clock
        self._epoch = epoch

    async def undelivered(self) -> Sequence[Delivery]:
        found = []
        for one in self._where(WAITING):
            row = one
            if row.status == "sending":
                row = msgspec.structs.replace(row, status="unknown", error="interrupted while sending")
                if self._state.senders.get(row.id) != self._epoch:
                    self._state.deliveries[row.id] = row
            found.append(row)
        return found

    async def waiting(self, address: Address) -> Sequence[Delivery]:
        return [row for row in self._where(WAITING) if row.message.address == address]

    async def posted(self, turn: str, part: int, address: Address, ref: str) -> None:
        row = self._state.deliveries.get(self._state.parts.get((turn, part), 0))
        if row is None:
            self._new(Outbound(turn, part, address, "", ref=ref), "posted")
        elif row.status == "posted" or not row.message.ref:
            self._change(row.id, message=msgspec.structs.replace(row.message, ref=ref))

    async def add(self, message: Outbound) -> Delivery | None:
        return self.insert(message)

    async def sending(self, id: int) -> bool:
        row = self._state.deliveries.get(id)
        if row is None or row.status not in WAITING:
            return False
        self._change(id, status="sending")
        self._state.senders[id] = self._epoch
        return True

    async def delivered(self, id: int, ref: str = "") -> None:
        row = self._state.deliveries.get(id)
        if row is not None:
            message = msgspec.structs.replace(row.message, ref=ref or row.message.ref)
            self._change(id, message=message, status="delivered", error="")

    async def retry(self, id: int, at: datetime, error: str) -> None:
        self._failed(id, "pending", error, at)

    async def unknown(self, id: int, error: str) -> None:
        self._failed(id, "unknown", error)

    async def dead(self, id: int, error: str) -> None:
        self._change(id, status="dead", error=error)

    async def resend(self, id: int) -> Delivery | None:
        row = self._state.deliveries.get(id)
        if row is None or row.status not in ("dead", "unknown"):
            return None
        now = self._clock.now()
        return self._change(id, status="pending", attempts=0, created_at=now, next_at=now, error="")

    async def drop(self, id: int) -> bool:
        row = self._state.deliveries.get(id)
        if row is None or row.status == "delivered":
            return False
        del self._state.deliveries[id]  # its (turn, part) stays taken
        return True

    async def prune(self, before: datetime) -> int:
        old = [row for row in self._where({"delivered"}) if row.created_at < before]
        for row in old:
            del self._state.deliveries[row.id], self._state.parts[row.message.turn, row.message.part]
        return len(old)

    def insert(self, message: Outbound) -> Delivery | None:
        """Queue a reply; None where it had been queued before. Keeps the id of a preview."""
        key = (message.turn, message.part)
        if key not in self._state.parts:
            return self._new(message, "pending")
        row = self._state.deliveries.get(self._state.parts[key])
        if row is None or row.status != "posted":
            return None
        now = self._clock.now()
        kept = msgspec.structs.replace(message, ref=message.ref or row.message.ref)
        return self._change(row.id, message=kept, status="pending", created_at=now, next_at=now)

    def _new(self, message: Outbound, status: OutboxStatus) -> Delivery:
        self._state.delivery_id += 1
        now = self._clock.now()
        row = Delivery(self._state.delivery_id, message, status, 0, now, now)
        self._state.deliveries[row.id] = row
        self._state.parts[message.turn, message.part] = row.id
        return row

    def _where(self, statuses: set[OutboxStatus]) -> list[Delivery]:
        rows = [row for row in self._state.deliveries.values() if row.status in statuses]
        return sorted(rows, key=lambda row: row.id)

    def _failed(self, id: int, status: OutboxStatus, error: str, at: datetime | None = None) -> None:
        row = self._state.deliveries.get(id)
        if row is not None:
            next_at = max(row.next_at, at) if at else row.next_at
            self._change(id, status=status, attempts=row.attempts + 1, next_at=next_at, error=error)

    def _change(self, id: int, **changes: Any) -> Delivery | None:
        row = self._state.deliveries.get(id)
        if row is None:
            return None
        self._state.deliveries[id] = msgspec.structs.replace(row, **changes)
        return self._state.deliveries[id]

    async def find(self, turn: str, part: int) -> Delivery | None:
        return self._state.deliveries.get(self._state.parts.get((turn, part), 0))

    async def list(self, statuses: Sequence[OutboxStatus] = (), limit: int = 200) -> Sequence[Delivery]:
        rows = [row for row in self._state.deliveries.values() if not statuses or row.status in statuses]
        return sorted(rows, key=lambda row: -row.id)[:limit]


class MemoryPairings:
    def __init__(self, state: State) -> None:
        self._rows = state.pairings

    async def put(self, pairing: Pairing) -> None:
        self._rows[pairing.channel, pairing.sender] = pairing

    async def get(self, channel: str, sender: str) -> Pairing | None:
        return self._rows.get((channel, sender))

    async def list(self, channel: str = "") -> Sequence[Pairing]:
        rows = [row for row in self._rows.values() if channel in ("", row.channel)]
        return sorted(rows, key=lambda row: (row.created_at, row.channel, row.sender))

    async def delete(self, channel: str, sender: str) -> bool:
        return self._rows.pop((channel, sender), None) is not None


class MemorySchedules:
    def __init__(self, state: State) -> None:
        self._rows = state.schedules

    async def put(self, schedule: Schedule) -> None:
        self._rows[schedule.id] = schedule

    async def due(self, now: datetime) -> Sequence[Schedule]:
        return [row for row in await self.list() if row.next_at is not None and row.next_at <= now]

    async def next_at(self) -> datetime | None:
        return min((row.next_at for row in self._rows.values() if row.next_at is not None), default=None)

    async def claim(self, schedule: Schedule, now: datetime, next_at: datetime | None) -> bool:
        row = self._rows.get(schedule.id)
        if row is None or row.next_at != schedule.next_at:
            return False
        if next_at is None:
            del self._rows[row.id]
        else:
            self._rows[row.id] = msgspec.structs.replace(row, last_claimed=now, next_at=next_at)
        return True

    async def list(self, session: str = "") -> Sequence[Schedule]:
        rows = [row for row in self._rows.values() if session in ("", row.session)]
        return sorted(rows, key=lambda row: (row.next_at.timestamp() if row.next_at else 0.0, row.id))

    async def delete(self, id: str) -> bool:
        return self._rows.pop(id, None) is not None


class MemoryKeys:
    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    async def get(self, key: str) -> str | None:
        return self._values.get(key)

    async def set(self, key: str, value: str) -> None:
        self._values[key] = value

    async def delete(self, key: str) -> None:
        self._values.pop(key, None)

    async def items(self, prefix: str = "") -> list[tuple[str, str]]:
        return sorted((key, value) for key, value in self._values.items() if key.startswith(prefix))
