"""The inbox in SQLite: accepted messages and the leases of their sessions."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from nanobot import mailbox
from nanobot.clock import Clock
from nanobot.errors import LeaseLost
from nanobot.messages import Accepted, Inbound, Outbound, new_id
from nanobot.store import Claim, Delivery, Row
from nanobot.stores.sqlite.codec import Codec, Stored
from nanobot.stores.sqlite.outbox import insert_reply
from nanobot.stores.sqlite.sql import queries
from nanobot.stores.sqlite.writer import Writer

PAGE = 200  # rows read at once


class SqliteInbox:
    def __init__(self, writer: Writer, clock: Clock, epoch: str, codec: Codec) -> None:
        self._writer = writer
        self._codec = codec
        self._clock = clock
        self._epoch = epoch
        self._sql = queries()

    async def accept(self, message: Inbound) -> Accepted:
        return await self._writer.submit(self._insertion(message))

    async def claim(self, session: str) -> Claim | None:
        now = self._clock.now().timestamp()
        taken: list[Claim | None] = []

        def job(db: sqlite3.Connection) -> Claim | None:
            taken.append(self._claim(db, session, now))
            return taken[-1]

        try:
            return await self._writer.submit(job, durable=False)
        except asyncio.CancelledError:
            # The lease may be taken all the same. One that nobody knows of would block the session until a restart.
            self._writer.send(lambda db: self._give_back(db, taken))
            raise

    async def steer(self, claim: Claim, *, only_nudges: bool = False) -> Sequence[Row]:
        return await self._writer.submit(
            lambda db: self._steer(db, claim, only_nudges=only_nudges), durable=False
        )

    async def commit(
        self,
        claim: Claim,
        done: Sequence[str],
        replies: Sequence[Outbound] = (),
        *,
        dead: str = "",
        enqueue: Sequence[Inbound] = (),
    ) -> Sequence[Delivery]:
        now = self._clock.now()
        seconds = now.timestamp()
        ends = [("dead" if dead else "done", seconds, dead, row_id) for row_id in done]
        packed = [self._codec.pack(reply) for reply in replies]
        follow_ups = [self._insertion(message) for message in enqueue]
        sql = self._sql

        def job(db: sqlite3.Connection) -> list[Delivery]:
            if db.execute(sql["give_lease"], fence(claim)).rowcount != 1:
                raise lost(claim)
            for end in ends:
                db.execute(sql["end_row"], end)
            db.execute(sql["return_rows"], (claim.session,))
            made = [insert_reply(db, reply, text, now) for reply, text in packed]
            for insert in follow_ups:
                insert(db)
            return [one for one in made if one is not None]

        return await self._writer.submit(job)

    async def release(self, claim: Claim, *, count: bool = False) -> None:
        await self._writer.submit(lambda db: self._release(db, claim, count=count), durable=False)

    async def cancel(self, session: str, *, before: int | None = None) -> Sequence[str]:
        parameters = (self._clock.now().timestamp(), session, before, before, self._epoch)

        def job(db: sqlite3.Connection) -> list[str]:
            return [row_id for _, row_id in sorted(db.execute(self._sql["cancel"], parameters).fetchall())]

        return await self._writer.submit(job)

    async def edit(self, channel: str, message_id: str, text: str) -> bool:
        def job(db: sqlite3.Connection) -> bool:
            found = db.execute(self._sql["editable"], (channel, message_id)).fetchone()
            if found is None:
                return False
            seq, row_id, column = found
            changed = msgspec.structs.replace(self._codec.inbound(column, row_id), text=text)
            db.execute(self._sql["edit"], (self._codec.pack(changed, row_id)[1], seq))
            return True

        return await self._writer.submit(job)

    async def find(self, channel: str, message_id: str) -> Row | None:
        known_by = (channel, message_id)
        found = await self._writer.read(
            lambda db: db.execute(self._sql["row_of_message"], known_by).fetchone()
        )
        return self._codec.row(found) if found else None

    async def waiting(self) -> Sequence[str]:
        def job(db: sqlite3.Connection) -> list[str]:
            return [session for (session,) in db.execute(self._sql["waiting_sessions"], (self._epoch,))]

        return await self._writer.read(job)

    async def row(self, id: str) -> Row | None:
        found = await self._writer.read(lambda db: db.execute(self._sql["row"], (id,)).fetchone())
        return self._codec.row(found) if found else None

    async def pending(self, session: str) -> Sequence[Row]:
        found = await self._writer.read(lambda db: db.execute(self._sql["open_rows"], (session,)).fetchall())
        return [self._codec.row(one) for one in found]

    async def depth(self) -> tuple[int, float]:
        count, oldest = await self._writer.read(lambda db: db.execute(self._sql["depth"]).fetchone())
        return count, max(0.0, self._clock.now().timestamp() - oldest) if count else 0.0

    async def prune(self, before: datetime) -> int:
        seconds = before.timestamp()
        return await self._writer.submit(
            lambda db: db.execute(self._sql["prune_inbox"], (seconds,)).rowcount, durable=False
        )

    async def media(self, since: datetime) -> set[str]:
        found: set[str] = set()
        after = 0
        while rows := await self._since(since, after):  # page by page: nothing else waits for long
            for seq, row_id, column in rows:
                found.update(one.path for one in self._codec.inbound(column, row_id).media)
                after = seq
        return found

    async def _since(self, since: datetime, after: int) -> list[tuple[int, str, Stored]]:
        page = (since.timestamp(), after, PAGE)
        return await self._writer.read(lambda db: db.execute(self._sql["since"], page).fetchall())

    # --- in the writer's thread ------------------------------------------------------------------------------

    def _insertion(self, message: Inbound) -> Callable[[sqlite3.Connection], Accepted]:
        accepted = Accepted(new_id())
        message, text = self._codec.pack(message, accepted.id)
        known_by = (message.channel, message.message_id)
        now = self._clock.now().timestamp()
        columns = (accepted.id, *known_by, message.key, mailbox.rank(message.kind), text, now)

        def job(db: sqlite3.Connection) -> Accepted:
            if db.execute(self._sql["accept"], columns).rowcount == 1:
                return accepted
            return Accepted(db.execute(self._sql["accepted_id"], known_by).fetchone()[0], duplicate=True)

        return job

    def _claim(self, db: sqlite3.Connection, session: str, now: float) -> Claim | None:
        first = db.execute(self._sql["next_row"], (session,)).fetchone()
        if first is None or first[0] == self._epoch:
            return None
        found = [first[1:]]
        if first[4] == "running":
            found = db.execute(self._sql["running_rows"], (session,)).fetchall()
        leader, *others = mailbox.next_turn([self._codec.row(one) for one in found])
        attempt = leader.attempts + 1
        db.execute(self._sql["start_turn"], (leader.seq,))
        db.execute(self._sql["take_lease"], (session, self._epoch, leader.id, now))
        leader = msgspec.structs.replace(leader, status="running", turn=leader.id, attempts=attempt)
        return Claim(session, self._epoch, (leader, *others), attempt)

    def _steer(self, db: sqlite3.Connection, claim: Claim, *, only_nudges: bool) -> list[Row]:
        if db.execute(self._sql["holds_lease"], fence(claim)).fetchone() is None:
            raise lost(claim)
        rows = [
            self._codec.row(one) for one in db.execute(self._sql["steerable"], (claim.session,)).fetchall()
        ]
        found = [one for one in rows if mailbox.may_steer(one, only_nudges=only_nudges)]
        for one in found:
            db.execute(self._sql["steer"], (claim.turn, one.seq))
        return [msgspec.structs.replace(one, status="running", turn=claim.turn) for one in found]

    def _release(self, db: sqlite3.Connection, claim: Claim, *, count: bool) -> None:
        if db.execute(self._sql["give_lease"], fence(claim)).rowcount != 1:
            raise lost(claim)
        if not count:
            db.execute(self._sql["uncount"], (claim.turn,))

    def _give_back(self, db: sqlite3.Connection, taken: Sequence[Claim | None]) -> None:
        claim = taken[-1] if taken else None
        if claim and db.execute(self._sql["give_lease"], fence(claim)).rowcount == 1:
            db.execute(self._sql["uncount"], (claim.turn,))


def fence(claim: Claim) -> tuple[str, str, str]:
    return (claim.session, claim.epoch, claim.turn)


def lost(claim: Claim) -> LeaseLost:
    return LeaseLost(f"turn {claim.turn} no longer owns session {claim.session}")
