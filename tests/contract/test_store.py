"""The store's contract over every implementation."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanobot.contracts.store import Reopen, StoreContract
from nanobot.security import state_key
from nanobot.store import Store
from nanobot.stores.memory import MemoryStore
from nanobot.stores.sqlite import SqliteStore


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()

    @pytest.fixture
    def reopen(self) -> Reopen:
        async def reopened(store: Store) -> Store:
            assert isinstance(store, MemoryStore)
            return store.restarted()

        return reopened


class TestSqliteStore(StoreContract):
    """The next life opens the file while the earlier one's connection is still there, as after a kill."""

    @pytest.fixture
    async def lives(self) -> AsyncIterator[list[Store]]:
        opened: list[Store] = []
        yield opened
        for store in opened:
            await store.close()

    @pytest.fixture
    async def store(self, lives: list[Store], tmp_path: Path) -> Store:
        return await self.life(lives, tmp_path)

    @pytest.fixture
    def reopen(self, lives: list[Store], tmp_path: Path) -> Reopen:
        async def reopened(store: Store) -> Store:
            return await self.life(lives, tmp_path)

        return reopened

    async def life(self, lives: list[Store], directory: Path) -> Store:
        store = SqliteStore(directory / ".nanobot")
        await store.open()
        lives.append(store)
        return store


class TestSealedSqliteStore(TestSqliteStore):
    @pytest.fixture(autouse=True)
    def sealed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(state_key.VARIABLE, state_key.new_master())
        state_key.begin(tmp_path / ".nanobot")
