"""Small durable values in SQLite, a name space per owner."""

from nanobot.stores.sqlite.codec import Codec, Stored
from nanobot.stores.sqlite.sql import queries
from nanobot.stores.sqlite.writer import Writer


class SqliteKeys:
    def __init__(self, writer: Writer, owner: str, codec: Codec) -> None:
        self._writer = writer
        self._codec = codec
        self._owner = owner
        self._sql = queries()

    async def get(self, key: str) -> str | None:
        sql, parameters = self._sql["get_key"], (self._owner, key)
        found = await self._writer.read(lambda db: db.execute(sql, parameters).fetchone())
        return self._opened(key, found[0]) if found else None

    async def set(self, key: str, value: str) -> None:
        sql, parameters = (
            self._sql["set_key"],
            (self._owner, key, self._codec.text(value, "kv", self._owner, key)),
        )
        await self._writer.submit(lambda db: db.execute(sql, parameters).rowcount)

    async def delete(self, key: str) -> None:
        sql, parameters = self._sql["delete_key"], (self._owner, key)
        await self._writer.submit(lambda db: db.execute(sql, parameters).rowcount)

    async def items(self, prefix: str = "") -> list[tuple[str, str]]:
        sql, parameters = self._sql["keys"], (self._owner, prefix, prefix)
        found = await self._writer.read(lambda db: db.execute(sql, parameters).fetchall())
        return [(key, self._opened(key, value)) for key, value in found]

    def _opened(self, key: str, value: Stored) -> str:
        return self._codec.opened(value, f"the value {self._owner}/{key}", "kv", self._owner, key)
