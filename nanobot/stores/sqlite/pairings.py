"""Pairings in SQLite: who asked to be let in and who was."""

from collections.abc import Sequence
from typing import Any

from nanobot.store import Pairing
from nanobot.stores.sqlite.codec import Codec, moment
from nanobot.stores.sqlite.sql import queries
from nanobot.stores.sqlite.writer import Writer


class SqlitePairings:
    def __init__(self, writer: Writer, codec: Codec) -> None:
        self._writer = writer
        self._codec = codec
        self._sql = queries()

    async def put(self, pairing: Pairing) -> None:
        place = ("pairing", pairing.channel, pairing.sender)
        columns = (
            pairing.channel,
            pairing.sender,
            self._codec.text(pairing.name, *place, "name"),
            pairing.chat_id,
            self._codec.text(pairing.code, *place, "code"),
            pairing.status,
            pairing.created_at.timestamp(),
            pairing.expires_at.timestamp(),
        )
        await self._writer.submit(lambda db: db.execute(self._sql["put_pairing"], columns).rowcount)

    async def get(self, channel: str, sender: str) -> Pairing | None:
        found = await self._read("pairing", (channel, sender))
        return found[0] if found else None

    async def list(self, channel: str = "") -> Sequence[Pairing]:
        return await self._read("pairings", (channel,))

    async def delete(self, channel: str, sender: str) -> bool:
        sql = self._sql["delete_pairing"]
        return await self._writer.submit(lambda db: db.execute(sql, (channel, sender)).rowcount) == 1

    async def _read(self, name: str, parameters: tuple[Any, ...]) -> Sequence[Pairing]:
        found = await self._writer.read(lambda db: db.execute(self._sql[name], parameters).fetchall())
        return [self._pairing(one) for one in found]

    def _pairing(self, columns: tuple[Any, ...]) -> Pairing:
        channel, sender, name, chat_id, code, status, created_at, expires_at = columns
        place = ("pairing", channel, sender)
        name = self._codec.opened(name, "a pairing", *place, "name")
        code = self._codec.opened(code, "a pairing", *place, "code")
        return Pairing(channel, sender, name, chat_id, code, status, moment(created_at), moment(expires_at))
