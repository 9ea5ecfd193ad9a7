"""Schedules in SQLite: what is to happen later."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from nanobot.messages import Address
from nanobot.store import Schedule
from nanobot.stores.sqlite.codec import Codec, moment
from nanobot.stores.sqlite.sql import queries
from nanobot.stores.sqlite.writer import Writer


class SqliteSchedules:
    def __init__(self, writer: Writer, codec: Codec) -> None:
        self._writer = writer
        self._codec = codec
        self._sql = queries()

    async def put(self, schedule: Schedule) -> None:
        columns = (
            schedule.id,
            schedule.session,
            msgspec.json.encode(schedule.address).decode(),
            schedule.kind,
            schedule.spec,
            schedule.tz,
            self._codec.text(schedule.payload, "schedule", schedule.id),
            seconds(schedule.next_at),
            seconds(schedule.last_claimed),
        )
        await self._writer.submit(lambda db: db.execute(self._sql["put_schedule"], columns).rowcount)

    async def due(self, now: datetime) -> Sequence[Schedule]:
        return await self._read("due_schedules", (now.timestamp(),))

    async def next_at(self) -> datetime | None:
        def job(db: sqlite3.Connection) -> float | None:
            found: tuple[float | None] = db.execute(self._sql["next_schedule"]).fetchone()
            return found[0]

        at = await self._writer.read(job)
        return moment(at) if at is not None else None

    async def claim(self, schedule: Schedule, now: datetime, next_at: datetime | None) -> bool:
        sql, known_by = self._sql, (schedule.id, seconds(schedule.next_at))

        def job(db: sqlite3.Connection) -> int:
            if next_at is None:
                return db.execute(sql["end_schedule"], known_by).rowcount
            columns = (now.timestamp(), next_at.timestamp(), *known_by)
            return db.execute(sql["claim_schedule"], columns).rowcount

        return await self._writer.submit(job) == 1

    async def list(self, session: str = "") -> Sequence[Schedule]:
        return await self._read("schedules", (session,))

    async def delete(self, id: str) -> bool:
        sql = self._sql["delete_schedule"]
        return await self._writer.submit(lambda db: db.execute(sql, (id,)).rowcount) == 1

    async def _read(self, name: str, parameters: tuple[Any, ...]) -> Sequence[Schedule]:
        sql = self._sql[name]
        found = await self._writer.read(lambda db: db.execute(sql, parameters).fetchall())
        return [self._schedule(one) for one in found]

    def _schedule(self, columns: tuple[Any, ...]) -> Schedule:
        name, session, address, kind, spec, tz, payload, next_at, last_claimed = columns
        return Schedule(
            name,
            session,
            msgspec.json.decode(address, type=Address),
            kind,
            spec,
            tz,
            self._codec.opened(payload, "a schedule", "schedule", name),
            moment(next_at) if next_at is not None else None,
            moment(last_claimed) if last_claimed is not None else None,
        )


def seconds(at: datetime | None) -> float | None:
    return at.timestamp() if at is not None else None
