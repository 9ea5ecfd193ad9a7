"""Finding sessions again: list, search, export and import."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nanobot.errors import StoreError, UsageError
from nanobot.messages import Line
from nanobot.stores.sessions import SessionManager, jsonl
from nanobot.testing import FakeClock
from tests.session_support import KEY, file_of, grow, texts, turn


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[SessionManager]:
    manager = SessionManager(directory=tmp_path / "sessions", max_messages=20)
    yield manager
    await manager.close()


class TestListing:
    def test_a_folder_that_cannot_be_looked_into_is_an_error_with_a_name(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="File name too long"):
            SessionManager(directory=tmp_path / ("x" * 300)).list_sessions()

    async def test_the_newest_comes_first_with_title_and_preview(self, tmp_path: Path) -> None:
        clock = FakeClock()
        sessions = SessionManager(directory=tmp_path, clock=clock)
        for key in ("a", "b", "c"):
            session = sessions.get_or_create(key)
            session.add_message("assistant", "Welcome.")
            session.add_message("user", f"  hello\n from {key} " + "x" * 200)
            sessions.save(session)
            await clock.advance(60)
        await sessions.update("a", {"title": "Apples", "big": "x" * 5_000})
        rows = sessions.list_sessions()
        assert [row["key"] for row in rows] == ["a", "c", "b"]
        assert (rows[0]["title"], rows[1]["title"]) == ("Apples", "")
        assert rows[1]["preview"].startswith("hello from c xx")
        assert len(rows[1]["preview"]) == 120
        assert rows[0]["messages"] == 2
        assert rows[0]["metadata"] == {"title": "Apples"}
        assert rows[0]["updated_at"] == "2026-01-01T00:03:00.000+00:00"
        assert rows[0]["created_at"] == "2026-01-01T00:00:00.000+00:00"
        assert Path(rows[0]["path"]).exists()
        assert [(one.key, one.title[:6]) for one in await sessions.summaries()][:2] == [
            ("a", "Apples"),
            ("c", "hello "),
        ]
        await sessions.close()

    async def test_the_list_follows_every_change(self, sessions: SessionManager) -> None:
        def listed(manager: SessionManager) -> list[Any]:
            return [(row["key"], row["messages"], row["title"]) for row in manager.list_sessions()]

        assert listed(sessions) == []
        for number in range(40):
            await sessions.append(KEY, turn(number))
            if number % 7 == 0:
                await sessions.update(KEY, {"title": str(number)})
            title = str(number // 7 * 7)
            expected = [(KEY, len((await sessions.open(KEY)).messages), title)]
            assert listed(sessions) == expected
        sessions.flush_all()
        assert listed(sessions.restarted()) == expected
        sessions.delete_session(KEY)
        assert listed(sessions) == []
        assert listed(sessions.restarted()) == []

    @pytest.mark.parametrize(
        "wrong",
        [b"", b"{", b"[]", b'{"version":99,"entries":{}}', b'{"version":1,"entries":{"x.jsonl":[1]}}'],
    )
    async def test_a_wrong_index_is_made_anew(self, sessions: SessionManager, wrong: bytes) -> None:
        await grow(sessions, 1)
        assert sessions.directory is not None
        (sessions.directory / "index.json").write_bytes(wrong)
        assert [row["key"] for row in sessions.restarted().list_sessions()] == [KEY]

    async def test_a_file_written_anew_in_place_is_read_anew(self, sessions: SessionManager) -> None:
        await grow(sessions, 2)
        assert sessions.list_sessions()[0]["messages"] == 4
        path = file_of(sessions)
        inode = path.stat().st_ino
        size = path.stat().st_size
        fill = size - len(jsonl.encode(turn(9, "other ")[0]))
        first = jsonl.encode(turn(9, "other " + "x" * fill)[0])
        assert len(first) == size, "so that a line ends where the file ended before"
        path.write_bytes(first + first + first)
        assert path.stat().st_ino == inode
        row = sessions.list_sessions()[0]
        assert (row["messages"], row["preview"][:11]) == (3, "other xxxxx")

    async def test_commands_are_no_preview_but_a_goals_objective_is(self, sessions: SessionManager) -> None:
        for key, said in {"a": ["/status", "Ships?"], "b": ["/help"], "c": ["/goal Build a boat"]}.items():
            for text in said:
                await sessions.append(
                    key, [Line(role="user", content=text), Line(role="assistant", content="x")]
                )
        assert {row["key"]: row["preview"] for row in sessions.list_sessions()} == {
            "a": "Ships?",
            "b": "",
            "c": "Build a boat",
        }
        await sessions.append("b", [Line(role="user", content="/etc/hosts is what?")])
        rows = {row["key"]: row["preview"] for row in sessions.list_sessions()}
        assert rows["b"] == "/etc/hosts is what?"

    async def test_a_session_without_its_head_is_still_listed(self, sessions: SessionManager) -> None:
        assert sessions.directory is not None
        sessions.directory.mkdir()
        (sessions.directory / "telegram_5.jsonl").write_bytes(jsonl.encode(turn(0)[0]))
        assert [(row["key"], row["preview"]) for row in sessions.list_sessions()] == [
            ("telegram:5", "question 0")
        ]


class TestSearch:
    async def test_text_is_found_in_any_case(self, sessions: SessionManager) -> None:
        await sessions.append("a", turn(0, 'The "Blue" Whale\nsings'))
        await sessions.append("b", turn(1, "Größe und ÜBERMUT"))
        await sessions.append("b", [Line(role="tool", content="whale", tool_call_id="c")])
        hits = await sessions.search("whale")
        assert [(hit["key"], hit["index"], hit["role"]) for hit in hits] == [("a", 0, "user")]
        assert hits[0]["excerpt"] == 'The "Blue" Whale sings'
        assert [hit["key"] for hit in await sessions.search('"blue"')] == ["a"]
        assert [hit["key"] for hit in await sessions.search("übermut")] == ["b"]
        assert await sessions.search("  ") == []
        assert len(await sessions.search("answer", limit=1)) == 1


class TestMoving:
    async def test_an_export_holds_the_archive_too_and_imports_elsewhere(
        self, sessions: SessionManager, tmp_path: Path
    ) -> None:
        await grow(sessions, 30)
        await sessions.update(KEY, {"title": "T"})
        data = sessions.export(KEY)
        other = SessionManager(directory=tmp_path / "other")
        session = other.import_session(data)
        assert texts(session.messages) == texts(line for number in range(30) for line in turn(number))
        assert (session.key, session.metadata) == (KEY, {"title": "T"})
        assert other.export(KEY) == data
        assert other.import_session(data, "copy").key == "copy"

    async def test_an_import_takes_no_sessions_place_unasked(self, sessions: SessionManager) -> None:
        await grow(sessions, 1)
        data = sessions.export(KEY)
        with pytest.raises(UsageError, match="already"):
            sessions.import_session(data)
        await grow(sessions, 1, 1)
        assert len(sessions.import_session(data, overwrite=True).messages) == 2
        for wrong in (b"", b"junk"):
            with pytest.raises(UsageError):
                sessions.import_session(wrong)
        with pytest.raises(UsageError, match="no session"):
            sessions.export("none")
