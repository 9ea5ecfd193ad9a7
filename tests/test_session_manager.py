"""Sessions as a script uses them: open, add, save, clear, cap, forget."""

import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.messages import Line
from nanobot.stores.sessions import Session, SessionManager
from nanobot.testing import FakeClock
from tests.session_support import KEY, file_of, texts, turn


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[SessionManager]:
    manager = SessionManager(directory=tmp_path / "sessions", max_messages=20)
    yield manager
    await manager.close()


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
        sessions = SessionManager(directory=tmp_path / "state" / "sessions")
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
        sessions = SessionManager(directory=tmp_path, clock=FakeClock())
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
        sessions = SessionManager(directory=tmp_path, cache_size=2)
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
        kept = session.retain_recent_legal_suffix(max_messages=5)
        assert texts(session.messages) == ["question 3", "answer 3", "question 4", "answer 4"]
        assert (len(kept.dropped), kept.already_consolidated_count, session.last_consolidated) == (6, 3, 0)

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
