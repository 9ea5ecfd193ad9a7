"""The contract of histories over files and memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanobot.contracts.transcripts import Reopen, TranscriptsContract
from nanobot.security import state_key
from nanobot.store import Transcripts
from nanobot.stores.sessions import SessionManager


class _Sessions(TranscriptsContract):
    @pytest.fixture
    async def lives(self) -> AsyncIterator[list[SessionManager]]:
        opened: list[SessionManager] = []
        yield opened
        for manager in opened:
            await manager.close()

    @pytest.fixture
    def reopen(self, lives: list[SessionManager]) -> Reopen:
        def reopened(transcripts: Transcripts) -> Transcripts:
            assert isinstance(transcripts, SessionManager)
            lives.append(transcripts.restarted())
            return lives[-1]

        return reopened


class TestSessionFiles(_Sessions):
    @pytest.fixture
    def transcripts(self, lives: list[SessionManager], tmp_path: Path) -> Transcripts:
        lives.append(SessionManager(directory=tmp_path / "sessions"))
        return lives[-1]


class TestSealedSessionFiles(_Sessions):
    @pytest.fixture
    def transcripts(
        self, lives: list[SessionManager], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Transcripts:
        monkeypatch.setenv(state_key.VARIABLE, state_key.new_master())
        state_key.begin(tmp_path)
        lives.append(SessionManager(directory=tmp_path / "sessions"))
        return lives[-1]


class TestSessionsInMemory(_Sessions):
    @pytest.fixture
    def transcripts(self, lives: list[SessionManager]) -> Transcripts:
        lives.append(SessionManager())
        return lives[-1]
