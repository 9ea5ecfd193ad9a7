"""The outbox in SQLite: replies and how far they got."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from nanobot.clock import Clock
from nanobot.messages import Address, Outbound
from nanobot.store import Delivery, OutboxStatus
from nanobot.stores.sqlite.codec import Codec, Stored
from nanobot.stores.sqlite.sql import queries
from nanobot.stores.sqlite.writer import Writer


class SqliteOutbox:
    def __init__(self, writer: Writer, clock: Clock, epoch: str, codec: Codec) -> None:
        self._writer = writer
        self._codec = codec
        self._clock = clock
        self._epoch = epoch
        self._sql = queries()

    async def undelivered(self) -> Sequence[Delivery]:
        def job(db: sqlite3.Connection) -> list[Any]:
            db.execute(self._sql["interrupted_sends"], (self._epoch,))
            return db.execute(self._sql["undelivered"]).fetchall()

        return [self._codec.delivery(one) for one in await self._writer.read(job)]

    async def waiting(self, address: Address) -> Sequence[Delivery]:
        return await self._read("waiting_replies", (address.channel, address.chat_id, address.thread))

    async def posted(self, turn: str, part: int, address: Address, ref: str) -> None:
        preview, text = self._codec.pack(Outbound(turn, part, address, ""))
        now = self._clock.now().timestamp()
        await self._write("posted", (*identity(preview), text, ref, now, now))

    async def add(self, message: Outbound) -> Delivery | None:
        now = self._clock.now()
        message, text = self._codec.pack(message)
        return await self._writer.submit(lambda db: insert_reply(db, message, text, now))

    async def sending(self, id: int) -> bool:
        return await self._write("sending", (self._epoch, id)) == 1

    async def delivered(self, id: int, ref: str = "") -> None:
        # Lost in a power cut, it is sent again: that moment exists between the platform's answer and any commit.
        await self._write("delivered", (ref, ref, id), durable=False)

    async def retry(self, id: int, at: datetime, error: str) -> None:
        await self._write("failed", ("pending", at.timestamp(), error, id))

    async def unknown(self, id: int, error: str) -> None:
        await self._write("failed", ("unknown", 0.0, error, id))

    async def dead(self, id: int, error: str) -> None:
        await self._write("dead", (error, id))

    async def resend(self, id: int) -> Delivery | None:
        now = self._clock.now().timestamp()

        def job(db: sqlite3.Connection) -> tuple[Any, ...] | None:
            if db.execute(self._sql["resend"], (now, now, id)).rowcount != 1:
                return None
            found: tuple[Any, ...] = db.execute(self._sql["delivery"], (id,)).fetchone()
            return found

        found = await self._writer.submit(job)
        return self._codec.delivery(found) if found else None

    async def drop(self, id: int) -> bool:
        return await self._write("drop", (id,)) == 1

    async def find(self, turn: str, part: int) -> Delivery | None:
        found = await self._read("reply_of", (turn, part))
        return found[0] if found else None

    async def list(self, statuses: Sequence[OutboxStatus] = (), limit: int = 200) -> Sequence[Delivery]:
        wanted = f" {' '.join(statuses)} " if statuses else ""
        return await self._read("deliveries", (wanted, wanted, limit))

    async def prune(self, before: datetime) -> int:
        seconds = (before.timestamp(),)

        def job(db: sqlite3.Connection) -> int:
            db.execute(self._sql["prune_posted"], seconds)
            return db.execute(self._sql["prune_outbox"], seconds).rowcount

        return await self._writer.submit(job, durable=False)

    async def _write(self, name: str, parameters: tuple[Any, ...], *, durable: bool = True) -> int:
        sql = self._sql[name]
        return await self._writer.submit(lambda db: db.execute(sql, parameters).rowcount, durable=durable)

    async def _read(self, name: str, parameters: tuple[Any, ...]) -> Sequence[Delivery]:
        found = await self._writer.read(lambda db: db.execute(self._sql[name], parameters).fetchall())
        return [self._codec.delivery(one) for one in found]


def identity(message: Outbound) -> tuple[str, int, str, str, str]:
    where = message.address
    return (message.turn, message.part, where.channel, where.chat_id, where.thread)


def insert_reply(db: sqlite3.Connection, message: Outbound, text: Stored, now: datetime) -> Delivery | None:
    """Queue a reply, as a job of the writer; None where it had been queued before. Keeps the id of a preview."""
    sql = queries()
    seconds = now.timestamp()
    inserted = db.execute(sql["reply"], (*identity(message), text, message.ref, seconds, seconds))
    if inserted.rowcount == 1:
        assert inserted.lastrowid is not None
        return Delivery(inserted.lastrowid, message, "pending", 0, now, now)
    completed = db.execute(
        sql["complete_posted"],
        (text, seconds, seconds, message.ref, message.ref, message.turn, message.part),
    ).fetchall()
    if not completed:
        return None
    [(outbox_id, ref)] = completed
    return Delivery(outbox_id, msgspec.structs.replace(message, ref=ref), "pending", 0, now, now)
