"""Appending to sessions: whole, in order, durable, refused on a full disk, gone when deleted."""

import asyncio
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nanobot.errors import StoreError, StoreFull
from nanobot.stores.sessions import SessionManager, jsonl
from tests.session_support import KEY, ROOT, file_of, grow, texts, turn


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[SessionManager]:
    manager = SessionManager(directory=tmp_path / "sessions", max_messages=20)
    yield manager
    await manager.close()


class TestAppending:
    async def test_a_turn_is_one_write_at_the_end_of_the_file(self, sessions: SessionManager) -> None:
        await grow(sessions, 1)
        before = file_of(sessions).read_bytes()
        await sessions.append(KEY, turn(1))
        after = file_of(sessions).read_bytes()
        assert after == before + b"".join(map(jsonl.encode, turn(1)))

    async def test_a_session_held_by_a_turn_stays_the_same_object(self, tmp_path: Path) -> None:
        sessions = SessionManager(directory=tmp_path, cache_size=1)
        held = await sessions.open(KEY)
        for number in range(5):
            await sessions.append(str(number), turn(0))
        await sessions.append(KEY, turn(0))
        assert len(held.messages) == 2
        await sessions.close()

    async def test_a_cancelled_append_is_written_whole(self, sessions: SessionManager) -> None:
        await grow(sessions, 1)
        task = asyncio.create_task(sessions.append(KEY, turn(1)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sessions.append(KEY, turn(2))
        again = await sessions.restarted().open(KEY)
        assert again.messages == (await sessions.open(KEY)).messages
        assert len(again.messages) in {4, 6}

    async def test_a_full_disk_refuses_a_line_and_leaves_the_file_as_it_was(
        self, sessions: SessionManager
    ) -> None:
        await grow(sessions, 1)
        before = file_of(sessions).read_bytes()
        with file_size_limit(len(before) + 100):
            for _ in range(2):
                with pytest.raises(StoreFull, match="full"):
                    await sessions.append(KEY, turn(1, "long " * 100))
            with pytest.raises(StoreFull):
                await sessions.update(KEY, {"title": "x" * 500})
        session = await sessions.open(KEY)
        assert file_of(sessions).read_bytes() == before
        assert (len(session.messages), session.metadata) == (2, {})
        await sessions.append(KEY, turn(2))
        assert (await sessions.restarted().open(KEY)).messages == [*turn(0), *turn(2)]

    async def test_a_file_removed_outside_begins_anew(self, sessions: SessionManager) -> None:
        await grow(sessions, 2)
        file_of(sessions).unlink()
        await sessions.append(KEY, turn(2))
        again = await sessions.restarted().open(KEY)
        assert (again.key, again.messages) == (KEY, turn(2))
        assert [row["key"] for row in sessions.list_sessions()] == [KEY]


class TestCrash:
    def test_every_acknowledged_line_survives_kill_9(self, tmp_path: Path) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", APPENDS_FOR_EVER, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ) as child:
            assert child.stdout is not None
            acknowledged = [child.stdout.readline().split() for _ in range(120)]
            child.send_signal(signal.SIGKILL)
            acknowledged += [row.split() for row in child.stdout if row.endswith("\n")]
        sessions = SessionManager(directory=tmp_path)
        for chat in "abc":
            mine = [int(number) for key, number in acknowledged if key == chat]
            assert mine == list(range(len(mine)))
            found = texts(sessions.get_or_create(chat).messages)
            assert found[: 2 * len(mine)] == texts(line for number in mine for line in turn(number))
            assert len(found) <= 2 * len(mine) + 2


class TestDeleting:
    async def test_nothing_of_a_deleted_session_is_left(self, sessions: SessionManager) -> None:
        await grow(sessions, 30)
        await sessions.append("other", turn(0))
        path = file_of(sessions)
        with path.open("ab") as file:
            file.write(b"garbage\n")
        sessions = sessions.restarted()
        assert len((await sessions.open(KEY)).messages) > 0
        sessions.flush_all()
        assert await sessions.delete(KEY)
        assert not await sessions.delete(KEY)
        assert sessions.directory is not None
        stem = sessions.safe_key(KEY)
        left = [one for one in sessions.directory.rglob("*") if stem in one.name]
        assert left == []
        assert stem.encode() not in (sessions.directory / "index.json").read_bytes()
        assert (await sessions.open(KEY)).messages == []
        assert len((await sessions.open("other")).messages) == 2
        await sessions.close()

    async def test_a_turn_that_still_holds_it_cannot_bring_it_back(self, sessions: SessionManager) -> None:
        await grow(sessions, 1)
        held = await sessions.open(KEY)
        await sessions.delete(KEY)
        held.add_message("user", "late")
        with pytest.raises(StoreError, match="deleted"):
            sessions.save(held)
        assert not file_of(sessions).exists()
        await grow(sessions, 1, 5)
        assert (await sessions.restarted().open(KEY)).messages == turn(5)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Files of this process cannot grow beyond; writes that would are cut short, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


APPENDS_FOR_EVER = """
import asyncio, os, sys
from tests.session_support import turn
from nanobot.stores.sessions import SessionManager
async def chat(sessions, key):
    number = 0
    while True:
        await sessions.append(key, turn(number))
        os.write(1, f"{key} {number}\\n".encode())
        number += 1
async def main():
    sessions = SessionManager(directory=sys.argv[1])
    await asyncio.gather(*[chat(sessions, key) for key in "abc"])
asyncio.run(main())
"""
