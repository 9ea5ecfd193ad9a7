"""The histories of all channels as channels may read and manage them; implements `channel.Sessions`."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from nanobot.channel import Page, SessionSummary, TurnState
from nanobot.session import Actors
from nanobot.stores.sessions import SessionManager

MAX_TITLE = 200  # characters


class SessionLibrary:
    def __init__(self, manager: SessionManager, actors: Actors) -> None:
        self._manager = manager
        self._actors = actors

    async def list(self) -> Sequence[SessionSummary]:
        running = set(self._actors.running())
        return [
            msgspec.structs.replace(row, running=True) if row.key in running else row
            for row in await self._manager.summaries()
        ]

    async def messages(self, key: str, before: int | None = None, limit: int = 24) -> Page:
        return await self._manager.page(key, before, limit)

    async def rename(self, key: str, title: str) -> None:
        await self._manager.update(key, {"title": title.strip()[:MAX_TITLE] or None})

    async def delete(self, key: str) -> bool:
        await self._actors.stop(key)
        return await self._manager.delete(key)

    async def search(self, query: str, limit: int = 50) -> Sequence[Mapping[str, Any]]:
        return await self._manager.search(query, limit)

    async def state(self, key: str) -> TurnState:
        return self._actors.state(key)
