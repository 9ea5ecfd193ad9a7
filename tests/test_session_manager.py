"""Sessions as their users see them: open, append, save, cap and archive, list, page, search, move, delete."""

import asyncio
import gzip
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.errors import StoreError, StoreFull, UsageError
from nanobot.messages import Line
from nanobot.stores.sessions import Session, SessionManager, jsonl
from nanobot.testing import FakeClock

KEY = "websocket:1"


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[SessionManager]:
    manager = SessionManager(tmp_path / "sessions", max_messages=20)
    yield manager
    await manager.close()


def file_of(sessions: SessionManager, key: str = KEY) -> Path:
    assert sessions.directory is not None
    return sessions.directory / f"{sessions.safe_key(key)}.jsonl"


def archive_of(sessions: SessionManager, key: str = KEY) -> list[list[bytes]]:
    assert sessions.directory is not None
    folder = sessions.directory / "archive" / sessions.safe_key(key)
    return [gzip.decompress(one.read_bytes()).splitlines() for one in sorted(folder.glob("*"))]


def turn(number: int, text: str = "") -> list[Line]:
    return [
        Line(role="user", content=text or f"question {number}", turn=f"t{number}"),
        Line(role="assistant", content=f"answer {number}", turn=f"t{number}", latency_ms=1),
    ]


def texts(lines: Any) -> list[Any]:
    return [line["content"] for line in lines]


async def grow(sessions: SessionManager, turns: int, first: int = 0) -> None:
    for number in range(first, first + turns):
        await sessions.append(KEY, turn(number))


class TestKeys:
    @given(st.text(), st.text())
    def test_every_key_has_a_safe_stem_of_its_own(self, one: str, other: str) -> None:
        stem = SessionManager.safe_key(one)
        assert len(stem) <= 97
        assert set(stem) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
        assert stem[0] not in ".-"
        assert (stem == SessionManager.safe_key(other)) == (one == other)

    def test_stems_are_readable_and_stay_the_same(self) -> None:
        # Fixed: files are found by it.
        assert SessionManager.safe_key("telegram:-100:topic:7") == "telegram_-100_topic_7-cb129b8cfe8816af"

    def test_files_and_folders_are_private(self, tmp_path: Path) -> None:
        sessions = SessionManager(tmp_path / "state" / "sessions")
        session = sessions.get_or_create(KEY)
        session.add_message("user", "hi")
        sessions.save(session)
        path = file_of(sessions)
        modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, path.parent.parent)]
        assert modes == [0o600, 0o700, 0o700]


class TestSaving:
    def test_nothing_is_on_the_disk_before_the_first_save(self, sessions: SessionManager) -> None:
        session = sessions.get_or_create(KEY)
        session.add_message("user", "hi")
        assert not file_of(sessions).exists()
        sessions.save(session)
        assert file_of(sessions).read_bytes().count(b"\n") == 2
        assert texts(sessions.restarted().get_or_create(KEY).messages) == ["hi"]

    def test_a_message_has_its_time_and_its_fields(self, tmp_path: Path) -> None:
        sessions = SessionManager(tmp_path, clock=FakeClock())
        line = sessions.get_or_create(KEY).add_message("tool", "ok", tool_call_id="c", name="f")
        assert line == {
            "role": "tool",
            "content": "ok",
            "timestamp": "2026-01-01T00:00:00.000+00:00",
            "tool_call_id": "c",
            "name": "f",
        }

    def test_saving_twice_writes_once(self, sessions: SessionManager) -> None:
        session = sessions.get_or_create(KEY)
        session.add_message("user", "hi")
        sessions.save(session)
        size = file_of(sessions).stat().st_size
        sessions.save(session)
        assert file_of(sessions).stat().st_size == size
        session.metadata["title"] = "T"
        sessions.save(session, fsync=False)
        assert file_of(sessions).stat().st_size > size
        assert sessions.restarted().get_or_create(KEY).metadata == {"title": "T"}

    def test_a_session_made_by_hand_takes_the_files_place(self, sessions: SessionManager) -> None:
        old = sessions.get_or_create(KEY)
        old.add_message("user", "old")
        sessions.save(old)
        made = Session(KEY, [Line(role="user", content="new")], {"title": "T"})
        sessions.save(made)
        assert sessions.get_or_create(KEY) is made
        assert texts(sessions.restarted().get_or_create(KEY).messages) == ["new"]

    def test_changes_to_the_list_itself_are_written(self, sessions: SessionManager) -> None:
        session = sessions.get_or_create(KEY)
        for number in range(4):
            session.add_message("user", str(number))
        sessions.save(session)
        session.messages.pop()
        sessions.save(session)
        assert texts(sessions.restarted().get_or_create(KEY).messages) == ["0", "1", "2"]
        session.messages[0]["content"] = "changed"
        session.rewrite()
        sessions.save(session)
        assert texts(sessions.restarted().get_or_create(KEY).messages) == ["changed", "1", "2"]

    def test_clear_forgets_messages_and_summary_and_keeps_the_rest(self, sessions: SessionManager) -> None:
        session = sessions.get_or_create(KEY)
        session.metadata.update(title="T", summary={"text": "s"}, _last_summary={"text": "s"})
        session.add_message("user", "hi")
        session.last_consolidated = 1
        sessions.save(session)
        session.clear()
        session.add_message("user", "again")
        sessions.save(session)
        again = sessions.restarted().get_or_create(KEY)
        assert (texts(again.messages), again.metadata, again.last_consolidated) == (
            ["again"],
            {"title": "T"},
            0,
        )

    def test_flush_all_saves_every_session_and_one_failure_keeps_none_back(
        self, sessions: SessionManager
    ) -> None:
        held = [sessions.get_or_create(f"k{number}") for number in range(3)]
        for session in held:
            session.add_message("user", "hi")
        file_of(sessions, "k1").mkdir(parents=True)
        assert sessions.flush_all() == 2
        again = sessions.restarted()
        assert [len(again.get_or_create(key).messages) for key in ("k0", "k2")] == [1, 1]
        file_of(sessions, "k1").rmdir()
        assert sessions.flush_all() == 3

    def test_the_cache_lets_go_of_saved_sessions_only(self, tmp_path: Path) -> None:
        sessions = SessionManager(tmp_path, cache_size=2)
        sessions.get_or_create("unsaved").add_message("user", "hi")
        held = sessions.get_or_create("held")
        for number in range(10):
            sessions.get_or_create(str(number))
        assert texts(sessions.get_or_create("unsaved").messages) == ["hi"]
        assert sessions.get_or_create("held") is held

    def test_invalidate_reads_the_file_again(self, sessions: SessionManager) -> None:
        session = sessions.get_or_create(KEY)
        session.add_message("user", "hi")
        sessions.invalidate(KEY)
        assert sessions.get_or_create(KEY).messages == []


class TestHistory:
    def test_what_is_consolidated_is_left_out_but_for_the_recent_turns(self) -> None:
        session = Session(KEY, [line for number in range(20) for line in turn(number)], last_consolidated=10)
        assert session.get_history()[0]["content"] == "question 5"
        session.last_consolidated = 40
        assert texts(session.get_history())[0] == "question 16"

    def test_limits_and_times(self) -> None:
        session = Session(KEY, [line for number in range(20) for line in turn(number)], clock=FakeClock())
        assert texts(session.get_history(max_messages=3)) == ["question 19", "answer 19"]
        assert 2 <= len(session.get_history(max_tokens=50)) <= 10
        session.add_message("user", "now", media=["/m/a.png"])
        last = session.get_history(include_timestamps=True)[-1]
        assert last == {"role": "user", "content": "[2026-01-01T00:00:00.000+00:00] [image: /m/a.png]\nnow"}

    def test_retaining_says_how_much_of_it_was_consolidated(self) -> None:
        session = Session(KEY, [line for number in range(5) for line in turn(number)], last_consolidated=3)
        kept = session.retain_recent_legal_suffix(5)
        assert texts(session.messages) == ["question 3", "answer 3", "question 4", "answer 4"]
        assert (len(kept.dropped), kept.consolidated, session.last_consolidated) == (6, 3, 0)

    def test_the_pointer_keeps_its_place_when_less_is_dropped(self) -> None:
        session = Session(KEY, [line for number in range(5) for line in turn(number)], last_consolidated=8)
        session.retain_recent_legal_suffix(6)
        assert session.messages[session.last_consolidated]["content"] == "question 4"

    def test_a_turn_longer_than_what_is_kept_keeps_its_question(self) -> None:
        session = Session(KEY, [*turn(0), turn(1)[0], *[turn(1)[1] for _ in range(9)]])
        session.retain_recent_legal_suffix(4)
        assert texts(session.messages) == ["question 1", "answer 1", "answer 1", "answer 1"]

    def test_the_file_cap_hands_over_what_is_not_consolidated_first(self, sessions: SessionManager) -> None:
        session = sessions.get_or_create(KEY)
        session.messages += [line for number in range(10) for line in turn(number)]
        session.last_consolidated = 4
        sessions.save(session)
        before = list(session.messages)

        def refuses(lines: list[Line]) -> None:
            raise OSError("no room")

        with pytest.raises(OSError, match="no room"):
            session.enforce_file_cap(refuses, 10)
        assert session.messages == before
        archived: list[Line] = []
        session.enforce_file_cap(archived.extend, 10)
        assert archived == before[4:10]
        session.add_message("user", "more")
        lines = file_of(sessions).read_bytes().splitlines()
        sessions.save(session)
        assert file_of(sessions).read_bytes().splitlines()[1:11] == lines[11:]
        assert sessions.restarted().get_or_create(KEY).messages == [*before[10:], session.messages[-1]]
        assert session.enforce_file_cap(archived.extend, 11).dropped == ()

    def test_the_suffix_of_a_loaded_session_keeps_its_bytes(self, sessions: SessionManager) -> None:
        rows = [b'{"role": "user",  "content": "odd spacing %d", "future": 1.0}\n' % n for n in range(6)]
        path = file_of(sessions)
        path.parent.mkdir(parents=True)
        path.write_bytes(b"".join(rows))
        session = sessions.get_or_create(KEY)
        session.retain_recent_legal_suffix(4)
        session.retain_recent_legal_suffix(2)
        sessions.save(session)
        assert path.read_bytes().splitlines(keepends=True)[1:] == rows[4:]


class TestAppending:
    async def test_a_turn_is_one_write_at_the_end_of_the_file(self, sessions: SessionManager) -> None:
        await grow(sessions, 1)
        before = file_of(sessions).read_bytes()
        await sessions.append(KEY, turn(1))
        after = file_of(sessions).read_bytes()
        assert after == before + b"".join(map(jsonl.encode, turn(1)))

    async def test_a_session_held_by_a_turn_stays_the_same_object(self, tmp_path: Path) -> None:
        sessions = SessionManager(tmp_path, cache_size=1)
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


class TestArchive:
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
        assert (session.messages, session.metadata) == ([], {"title": "T"})
        await grow(sessions, 1, 2)
        again = await sessions.restarted().open(KEY)
        assert (again.messages, again.metadata) == (turn(2), {"title": "T"})
        page = await sessions.page(KEY)
        assert texts(page.messages) == texts([*turn(0), *turn(1), *turn(2)])

    @pytest.mark.parametrize("moment", ["archived", "compacted"])
    def test_a_kill_between_archive_and_file_loses_and_doubles_nothing(
        self, tmp_path: Path, moment: str
    ) -> None:
        killed = run_child(KILLED_IN_COMPACTION, str(tmp_path), moment)
        assert killed.returncode == -signal.SIGKILL
        written = int(killed.stdout.split()[-1])
        sessions = SessionManager(tmp_path, max_messages=20)
        assert sum(map(len, archive_of(sessions))) > 0
        for _ in range(2):
            session = sessions.get_or_create(KEY)
            rows = [row for segment in archive_of(sessions) for row in segment]
            everything = [jsonl.value(row) for row in rows] + session.messages
            assert texts(everything)[: 2 * written] == texts(line for n in range(written) for line in turn(n))
            assert len(everything) in {2 * written, 2 * written + 2}
            assert session.archived == (1, len(rows))
            sessions = SessionManager(tmp_path, max_messages=20)

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


class TestCrash:
    def test_every_acknowledged_line_survives_kill_9(self, tmp_path: Path) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", APPENDS_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            acknowledged = [child.stdout.readline().split() for _ in range(120)]
            child.send_signal(signal.SIGKILL)
            acknowledged += [row.split() for row in child.stdout if row.endswith("\n")]
        sessions = SessionManager(tmp_path)
        for chat in "abc":
            mine = [int(number) for key, number in acknowledged if key == chat]
            assert mine == list(range(len(mine)))
            found = texts(sessions.get_or_create(chat).messages)
            assert found[: 2 * len(mine)] == texts(line for number in mine for line in turn(number))
            assert len(found) <= 2 * len(mine) + 2


class TestListing:
    async def test_the_newest_comes_first_with_title_and_preview(self, tmp_path: Path) -> None:
        clock = FakeClock()
        sessions = SessionManager(tmp_path, clock=clock)
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
        path.write_bytes(b"".join(jsonl.encode(turn(9, "other " * 200)[0]) for _ in range(3)))
        assert path.stat().st_ino == inode
        row = sessions.list_sessions()[0]
        assert (row["messages"], row["preview"][:11]) == (3, "other other")

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
        other = SessionManager(tmp_path / "other")
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


def run_child(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )


TURN = """
from nanobot.messages import Line
def turn(n):
    return [Line(role="user", content=f"question {n}", turn=f"t{n}"),
            Line(role="assistant", content=f"answer {n}", turn=f"t{n}", latency_ms=1)]
"""

APPENDS_FOR_EVER = (
    TURN
    + """
import asyncio, os, sys
from nanobot.stores.sessions import SessionManager
async def chat(sessions, key):
    number = 0
    while True:
        await sessions.append(key, turn(number))
        os.write(1, f"{key} {number}\\n".encode())
        number += 1
async def main():
    sessions = SessionManager(sys.argv[1])
    await asyncio.gather(*[chat(sessions, key) for key in "abc"])
asyncio.run(main())
"""
)

KILLED_IN_COMPACTION = (
    TURN
    + """
import asyncio, os, signal, sys
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
    sessions = SessionManager(sys.argv[1], max_messages=20)
    sessions._folder = Dying(Path(sys.argv[1]))
    for number in range(100):
        await sessions.append("websocket:1", turn(number))
        os.write(1, f"{number + 1}\\n".encode())
asyncio.run(main())
"""
)
