"""The file's cap: whole turns move to the archive, and nothing is lost or doubled on the way."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nanobot.errors import StoreError
from nanobot.messages import Line
from nanobot.stores.sessions import SessionManager, archive, jsonl
from tests.session_support import KEY, archive_of, file_of, grow, run_child, texts, turn


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[SessionManager]:
    manager = SessionManager(directory=tmp_path / "sessions", max_messages=20)
    yield manager
    await manager.close()


class TestArchive:
    async def test_what_the_cap_drops_into_nobodys_hands_is_archived_by_the_next_save(
        self, tmp_path: Path
    ) -> None:
        sessions = SessionManager(directory=tmp_path / "sessions")
        session = sessions.get_or_create(KEY)
        session.messages += [line for number in range(10) for line in turn(number)]
        sessions.save(session)
        session.messages += [line for number in range(10, 13) for line in turn(number)]
        whole = list(session.messages)
        session.enforce_file_cap(limit=0)
        assert session.messages == whole

        session.enforce_file_cap(limit=4)
        sessions.save(session)
        session.add_message("user", "more")
        sessions.save(session)

        assert archive_of(sessions) == [[jsonl.encode(line)[:-1] for line in whole[:-4]]]
        again = sessions.restarted()
        assert again.get_or_create(KEY).messages == session.messages
        assert again.export(KEY).splitlines()[1:] == [
            jsonl.encode(line)[:-1] for line in [*whole, session.messages[-1]]
        ]

    async def test_the_gateways_export_is_one_that_import_takes(
        self, sessions: SessionManager, tmp_path: Path
    ) -> None:
        await grow(sessions, 30)
        await sessions.update(KEY, {"title": "Long"})
        (await sessions.open(KEY)).last_consolidated = 3
        data = await sessions.exported(KEY) or b""
        elsewhere = SessionManager(directory=tmp_path / "other").import_session(data)

        assert data == sessions.export(KEY)
        assert (elsewhere.key, elsewhere.metadata["title"], len(elsewhere.messages)) == (KEY, "Long", 60)
        assert elsewhere.last_consolidated == 3 + len([row for one in archive_of(sessions) for row in one])

    async def test_the_oldest_whole_turns_move_when_the_file_is_too_long(
        self, sessions: SessionManager
    ) -> None:
        session = await sessions.open(KEY)
        lines = [line for number in range(30) for line in turn(number)]
        most = 0
        for number in range(30):
            await sessions.append(KEY, turn(number))
            most = max(most, file_of(sessions).read_bytes().count(b"\n"))
        assert most <= 26
        segments = archive_of(sessions)
        kept = file_of(sessions).read_bytes().splitlines()
        whole = [row for segment in segments for row in segment] + [
            row for row in kept if b'"_type"' not in row
        ]
        assert whole == [jsonl.encode(line)[:-1] for line in lines]
        assert session.messages == lines[-len(session.messages) :]
        assert session.messages[0]["role"] == "user"
        assert sum(map(len, segments)) + len(session.messages) == 60

    async def test_a_turn_is_never_cut_in_two(self, sessions: SessionManager) -> None:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        steps = [
            Line(role="user", content="go", turn="t0"),
            *[
                line
                for _ in range(15)
                for line in (
                    Line(role="assistant", content="", tool_calls=[call], turn="t0"),
                    Line(role="tool", content="ok", tool_call_id="c", turn="t0"),
                )
            ],
        ]
        for step in steps:
            await sessions.append(KEY, [step])
        session = await sessions.open(KEY)
        assert session.messages == steps
        await sessions.append(KEY, [Line(role="assistant", content="done", turn="t0", latency_ms=1)])
        await sessions.append(KEY, turn(1))
        assert session.messages == turn(1)

    async def test_the_pointer_moves_with_the_lines(self, sessions: SessionManager) -> None:
        await grow(sessions, 12)
        session = await sessions.open(KEY)
        session.last_consolidated = 10
        await sessions.update(KEY, {"summary": {"text": "s"}})
        await grow(sessions, 1, 12)
        assert session.messages[session.last_consolidated]["content"] == "question 5"
        again = await sessions.restarted().open(KEY)
        assert (again.last_consolidated, again.messages) == (session.last_consolidated, session.messages)

    async def test_the_pointer_moves_with_lines_that_a_kill_left_in_both_places(
        self, sessions: SessionManager
    ) -> None:
        await grow(sessions, 9)
        session = await sessions.open(KEY)
        session.last_consolidated = 10
        await sessions.update(KEY, {"summary": {"text": "s"}})
        raws = [jsonl.encode(one).rstrip() for one in session.messages[:8]]
        archive.write(sessions._folder, sessions.safe_key(KEY), 1, raws)
        again = await sessions.restarted().open(KEY)
        assert (again.last_consolidated, again.archived) == (2, (1, 8))
        assert again.messages == session.messages[8:]

    async def test_folding_metadata_lines_keeps_what_only_another_gateway_reads(
        self, sessions: SessionManager
    ) -> None:
        await grow(sessions, 1)
        private = jsonl.encode({"_type": "provider_state", "state": "theirs"})
        with file_of(sessions).open("ab") as file:
            file.write(private)
        again = sessions.restarted()
        for number in range(40):
            await again.update(KEY, {"n": number})
        data = file_of(sessions).read_bytes()
        assert data.count(b"\n") <= 27
        assert private in data
        await again.close()

    async def test_metadata_lines_are_folded_into_the_first(self, sessions: SessionManager) -> None:
        await grow(sessions, 1)
        for number in range(40):
            await sessions.update(KEY, {"n": number})
        data = file_of(sessions).read_bytes()
        assert data.count(b"\n") <= 26
        assert data.startswith(b'{"_type":"metadata"')
        assert archive_of(sessions) == []
        again = await sessions.restarted().open(KEY)
        assert (again.metadata, again.messages) == ({"n": 39}, turn(0))

    async def test_new_moves_everything_to_the_archive(self, sessions: SessionManager) -> None:
        await grow(sessions, 2)
        await sessions.update(KEY, {"title": "T", "summary": {"text": "s"}})
        await sessions.clear(KEY)
        session = await sessions.open(KEY)
        assert (session.messages, session.metadata) == ([], {"title": "T", "begins_at": 4})
        await grow(sessions, 1, 2)
        again = await sessions.restarted().open(KEY)
        assert (again.messages, again.metadata) == (turn(2), {"title": "T", "begins_at": 4})
        page = await sessions.page(KEY)
        assert (texts(page.messages), page.before, page.total) == (texts(turn(2)), None, 6)

    async def test_an_archive_that_cannot_be_written_costs_no_message(self, sessions: SessionManager) -> None:
        assert sessions.directory is not None
        sessions.directory.mkdir()
        (sessions.directory / "archive").write_bytes(b"in the way")
        await grow(sessions, 15)
        with pytest.raises(StoreError, match="archive"):
            await sessions.clear(KEY)
        session = await sessions.open(KEY)
        assert session.messages == [line for number in range(15) for line in turn(number)]
        (sessions.directory / "archive").unlink()
        await grow(sessions, 15, 15)
        assert len(session.messages) <= 25
        rows = [row for segment in archive_of(sessions) for row in segment]
        assert len(rows) + len(session.messages) == 60

    @pytest.mark.parametrize("moment", ["archived", "compacted"])
    def test_a_kill_between_archive_and_file_loses_and_doubles_nothing(
        self, tmp_path: Path, moment: str
    ) -> None:
        killed = run_child(KILLED_IN_COMPACTION, str(tmp_path), moment)
        assert killed.returncode == -signal.SIGKILL
        written = int(killed.stdout.split()[-1])
        sessions = SessionManager(directory=tmp_path, max_messages=20)
        assert sum(map(len, archive_of(sessions))) > 0
        for _ in range(2):
            session = sessions.get_or_create(KEY)
            rows = [row for segment in archive_of(sessions) for row in segment]
            everything = [jsonl.value(row) for row in rows] + session.messages
            assert texts(everything)[: 2 * written] == texts(line for n in range(written) for line in turn(n))
            assert len(everything) in {2 * written, 2 * written + 2}
            assert session.archived == (1, len(rows))
            sessions = SessionManager(directory=tmp_path, max_messages=20)

    async def test_a_lost_head_does_not_cost_an_archive_segment(self, sessions: SessionManager) -> None:
        await grow(sessions, 20)
        before = archive_of(sessions)
        assert before
        path = file_of(sessions)
        path.write_bytes(b"broken\n" + path.read_bytes().split(b"\n", 1)[1])
        again = sessions.restarted()
        for number in range(20, 40):
            await again.append(KEY, turn(number))
        assert archive_of(sessions)[: len(before)] == before
        assert len(archive_of(sessions)) > len(before)
        await again.close()

    async def test_pages_go_back_into_the_archive_with_lasting_positions(
        self, sessions: SessionManager
    ) -> None:
        await grow(sessions, 30)
        wanted = texts(line for number in range(30) for line in turn(number))
        found: list[Any] = []
        before: int | None = None
        while True:
            page = await sessions.page(KEY, before, 7)
            assert page.total == 60
            found[:0] = texts(page.messages)
            before = page.before
            if before is None:
                break
        assert found == wanted
        live = await sessions.page(KEY, None, 100, with_archive=False)
        assert live.before is None
        assert texts(live.messages) == wanted[-len(live.messages) :]
        assert (await sessions.page("none")).total == 0

    async def test_a_damaged_segment_hides_only_itself(self, sessions: SessionManager) -> None:
        await grow(sessions, 40)
        assert sessions.directory is not None
        first, *others = sorted((sessions.directory / "archive" / sessions.safe_key(KEY)).iterdir())
        assert others
        first.write_bytes(b"not gzip")
        assert len((await sessions.page(KEY, None, 1000)).messages) >= 40


KILLED_IN_COMPACTION = """
import asyncio, os, signal, sys
from tests.session_support import turn
from pathlib import Path
from nanobot.stores.sessions import SessionManager
from nanobot.stores.sessions.folder import DiskFolder
class Dying(DiskFolder):
    def replace(self, name, data, *, keep_time=False):
        if not name.startswith("archive/") and sys.argv[2] == "archived":
            os.kill(os.getpid(), signal.SIGKILL)
        super().replace(name, data, keep_time=keep_time)
        if not name.startswith("archive/"):
            os.kill(os.getpid(), signal.SIGKILL)
async def main():
    sessions = SessionManager(directory=sys.argv[1], max_messages=20)
    sessions._folder = Dying(Path(sys.argv[1]))
    for number in range(100):
        await sessions.append("websocket:1", turn(number))
        os.write(1, f"{number + 1}\\n".encode())
asyncio.run(main())
"""
