"""SqliteStore: the whole port over `gateway.db`."""

from pathlib import Path
from typing import Literal

from nanobot.channel import Keys
from nanobot.clock import Clock, SystemClock
from nanobot.messages import new_id
from nanobot.security import state_key
from nanobot.security.sealing import Sealer
from nanobot.store import Inbox, Outbox, Pairings, Schedules
from nanobot.stores.sqlite.codec import Codec
from nanobot.stores.sqlite.database import connect
from nanobot.stores.sqlite.inbox import SqliteInbox
from nanobot.stores.sqlite.keys import SqliteKeys
from nanobot.stores.sqlite.outbox import SqliteOutbox
from nanobot.stores.sqlite.pairings import SqlitePairings
from nanobot.stores.sqlite.schedules import SqliteSchedules
from nanobot.stores.sqlite.writer import Writer

Durability = Literal["full", "normal"]


class SqliteStore:
    """Everything durable but the histories, in `directory`/gateway.db.

    `durability`: "full" survives a power cut with all that was accepted; "normal" may lose the last moments of it,
    though nothing on a kill. Opening takes no lock, so that the command line can work beside a gateway; whoever
    claims turns holds the directory's StateLock first. An encrypted state is read with the key that is here;
    StateSealed where there is none.
    """

    def __init__(
        self,
        directory: Path,
        clock: Clock | None = None,
        durability: Durability = "full",
        *,
        sealer: Sealer | None = None,
    ) -> None:
        clock = clock or SystemClock()
        codec = Codec(sealer or state_key.found(directory))
        self._codec = codec
        self.path = directory / "gateway.db"
        self.epoch = new_id()
        self._writer = Writer(
            lambda: connect(self.path), directory / "gateway.db-wal", sync=durability == "full"
        )
        self.inbox: Inbox = SqliteInbox(self._writer, clock, self.epoch, codec)
        self.outbox: Outbox = SqliteOutbox(self._writer, clock, self.epoch, codec)
        self.pairings: Pairings = SqlitePairings(self._writer, codec)
        self.schedules: Schedules = SqliteSchedules(self._writer, codec)

    def keys(self, owner: str) -> Keys:
        return SqliteKeys(self._writer, owner, self._codec)

    async def open(self) -> None:
        """Raises StateDamaged, StoreError or PermissionError; what was found on disk is then unchanged."""
        await self._writer.start()

    async def close(self) -> None:
        await self._writer.close()
