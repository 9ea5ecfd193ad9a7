"""The session file: what is read, what is mended, and that no intact line is ever lost."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.messages import Line
from nanobot.stores.sessions import Session, SessionManager, jsonl
from nanobot.testing import FakeClock

SAMPLES = Path(__file__).parent / "samples" / "sessions"
KEY = "telegram:1"
HEAD = jsonl.metadata_line(
    KEY, "2026-01-01T00:00:00.000+00:00", "2026-01-01T00:00:00.000+00:00", {"title": "T"}, 0
)


def line(text: str, role: str = "user", **more: Any) -> bytes:
    return jsonl.encode({"role": role, "content": text, "timestamp": "2026-01-01T00:00:01.000+00:00", **more})


def put(folder: Path, data: bytes, key: str = KEY) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{SessionManager.safe_key(key)}.jsonl"
    path.write_bytes(data)
    return path


def texts(session: Session) -> list[Any]:
    return [message["content"] for message in session.messages]


def kept_aside(path: Path) -> bytes:
    return b"".join(one.read_bytes() for one in sorted(path.parent.glob(f"{path.name}.corrupt-*")))


class TestReferenceFiles:
    @pytest.fixture
    def sessions(self, tmp_path: Path) -> SessionManager:
        for sample in SAMPLES.glob("*.jsonl"):
            shutil.copy(sample, tmp_path)
        return SessionManager(directory=tmp_path)

    def test_they_are_opened_by_their_keys_and_not_changed(self, sessions: SessionManager) -> None:
        for sample in SAMPLES.glob("*.jsonl"):
            rows = [json.loads(row) for row in sample.read_text().splitlines()]
            session = sessions.get_or_create(rows[0]["key"])
            assert session.messages == [row for row in rows if "role" in row]
            path = next(Path(row["path"]) for row in sessions.list_sessions() if row["key"] == session.key)
            assert path.stem == sessions.safe_key(session.key)
            assert path.read_bytes() == sample.read_bytes()

    def test_their_metadata_is_kept_as_it_was(self, sessions: SessionManager) -> None:
        slack = sessions.get_or_create("slack:C024BE91L:1712345678.000200").metadata
        assert json.loads(slack["goal_state"])["objective"] == "Write the release notes"
        assert slack["title_user_edited"] is True
        died = sessions.get_or_create("cli:direct").metadata
        assert died["runtime_checkpoint"]["phase"] == "awaiting_tools"
        assert died["thread_goal"]["objective"] == "Build it"

    def test_local_times_become_utc(self, sessions: SessionManager) -> None:
        session = sessions.get_or_create("telegram:123456")
        assert session.created_at == datetime.fromisoformat("2026-03-02T09:15:04.120331").astimezone(UTC)
        assert session.last_consolidated == 2

    def test_a_wrong_head_hides_nothing(self, sessions: SessionManager) -> None:
        session = sessions.get_or_create("discord:7")
        assert (session.last_consolidated, session.metadata, len(session.messages)) == (0, {}, 8)
        assert session.updated_at == datetime.fromisoformat("2026-05-01T10:00:06").astimezone(UTC)

    def test_their_history_is_legal(self, sessions: SessionManager) -> None:
        shown = [(m["role"], m["content"]) for m in sessions.get_or_create("discord:7").get_history()]
        assert shown == [
            ("user", "first"),
            ("assistant", None),
            ("tool", "ok"),
            ("user", "second"),
            ("assistant", "working"),
            ("tool", "interrupted: outcome unknown"),
        ]

    def test_commands_and_private_state_are_not_for_the_model(self, sessions: SessionManager) -> None:
        history = sessions.get_or_create("slack:C024BE91L:1712345678.000200").get_history()
        assert [m["content"] for m in history if m["role"] == "user"][1:] == ["Thanks"]
        assert all(set(m) <= {"role", "content", "thinking_blocks"} for m in history)

    def test_provider_state_stays_until_history_is_dropped(
        self, sessions: SessionManager, tmp_path: Path
    ) -> None:
        session = sessions.get_or_create("slack:C024BE91L:1712345678.000200")
        path = tmp_path / f"{sessions.safe_key(session.key)}.jsonl"
        session.add_message("assistant", "ok")
        sessions.save(session)
        assert b"provider_state" in path.read_bytes()
        session.retain_recent_legal_suffix(2)
        sessions.save(session)
        assert b"provider_state" not in path.read_bytes()
        assert texts(SessionManager(directory=tmp_path).get_or_create(session.key)) == ["Thanks", "ok"]

    def test_saving_adds_lines_and_leaves_the_others_byte_for_byte(
        self, sessions: SessionManager, tmp_path: Path
    ) -> None:
        session = sessions.get_or_create("telegram:123456")
        session.add_message("user", "Danke")
        sessions.save(session)
        data = (tmp_path / f"{sessions.safe_key(session.key)}.jsonl").read_bytes()
        assert data.startswith((SAMPLES / "telegram_123456.jsonl").read_bytes())
        assert data.count(b"\n") == 9

    def test_a_key_that_shares_its_former_name_gets_no_foreign_history(
        self, sessions: SessionManager
    ) -> None:
        assert sessions.get_or_create("telegram_123456").messages == []
        assert len(sessions.get_or_create("telegram:123456").messages) == 7


class TestDamage:
    def test_a_torn_tail_is_cut_and_kept_aside(self, tmp_path: Path) -> None:
        path = put(tmp_path, HEAD + line("one") + line("two")[:20])
        sessions = SessionManager(directory=tmp_path)
        session = sessions.get_or_create(KEY)
        assert texts(session) == ["one"]
        assert path.read_bytes() == HEAD + line("one")
        assert kept_aside(path) == line("two")[:20] + b"\n"
        session.add_message("user", "three")
        sessions.save(session)
        assert texts(SessionManager(directory=tmp_path).get_or_create(KEY)) == ["one", "three"]

    def test_a_complete_last_line_without_its_newline_is_kept(self, tmp_path: Path) -> None:
        path = put(tmp_path, HEAD + line("one")[:-1])
        sessions = SessionManager(directory=tmp_path)
        session = sessions.get_or_create(KEY)
        assert texts(session) == ["one"]
        assert path.read_bytes() == HEAD + line("one")[:-1]
        session.add_message("user", "two")
        sessions.save(session)
        assert texts(SessionManager(directory=tmp_path).get_or_create(KEY)) == ["one", "two"]
        assert kept_aside(path) == b""

    @pytest.mark.parametrize(
        "bad",
        [
            b"garbage\n",
            b"[1]\n",
            b'"text"\n',
            b"17\n",
            b'{"role":"user","content":"\xff"}\n',
            b"\0\0\0\0\n",
            b"[" * 5000 + b"\n",
        ],
        ids=["words", "list", "string", "number", "invalid-utf8", "nul", "deep"],
    )
    def test_a_bad_line_is_set_aside_and_the_others_stay(self, tmp_path: Path, bad: bytes) -> None:
        path = put(tmp_path, HEAD + line("one") + bad + line("two"))
        assert texts(SessionManager(directory=tmp_path).get_or_create(KEY)) == ["one", "two"]
        assert kept_aside(path) == bad
        assert path.read_bytes() == HEAD + line("one") + line("two")

    @pytest.mark.parametrize(
        "data",
        [
            b"\xef\xbb\xbf" + HEAD + line("one"),
            (HEAD + line("one")).replace(b"\n", b"\r\n"),
            HEAD + b"\n  \n" + line("one") + b"\n",
            HEAD + b'{"role":"user","content":"one","score":NaN}\n',
            HEAD + b'{"role":"user","content":"one","nick":"\\ud83d"}\n',
            HEAD + b'{"future":1}\n{"_type":"future"}\n' + line("one"),
            line("one"),
        ],
        ids=["bom", "crlf", "blank-lines", "nan", "lone-surrogate", "unknown-lines", "no-head"],
    )
    def test_what_can_be_read_is_not_rewritten(self, tmp_path: Path, data: bytes) -> None:
        path = put(tmp_path, data)
        sessions = SessionManager(directory=tmp_path)
        session = sessions.get_or_create(KEY)
        assert texts(session) == ["one"]
        assert path.read_bytes() == data
        session.add_message("user", "two")
        sessions.save(session)
        assert path.read_bytes().startswith(data)
        again = SessionManager(directory=tmp_path).get_or_create(KEY)
        assert (again.key, texts(again)) == (KEY, ["one", "two"])

    def test_padding_of_zeros_before_a_line_costs_only_the_padding(self, tmp_path: Path) -> None:
        path = put(tmp_path, HEAD + b"\0" * 64 + line("one"))
        assert texts(SessionManager(directory=tmp_path).get_or_create(KEY)) == ["one"]
        assert path.read_bytes() == HEAD + line("one")

    def test_two_lines_that_ran_together_are_both_saved(self, tmp_path: Path) -> None:
        put(tmp_path, HEAD + line("one")[:-1] + line("two") + line("torn")[:15] + line("three"))
        assert texts(SessionManager(directory=tmp_path).get_or_create(KEY)) == ["one", "two", "three"]

    def test_a_message_inside_a_broken_head_is_not_taken_for_one(self, tmp_path: Path) -> None:
        head = jsonl.metadata_line(
            KEY, "", "", {"runtime_checkpoint": {"m": {"role": "assistant", "content": "x"}}}, 0
        )
        for cut in range(len(head)):
            put(tmp_path, head[:cut])
            assert texts(SessionManager(directory=tmp_path).get_or_create(KEY)) == []

    @pytest.mark.parametrize("pointer", [-1, 4, True, 1.0, "2", None, [1]])
    def test_a_wrong_pointer_is_reset(self, tmp_path: Path, pointer: Any) -> None:
        head = msgspec.json.encode({"_type": "metadata", "key": KEY, "last_consolidated": pointer}) + b"\n"
        put(tmp_path, head + line("one") * 3)
        assert SessionManager(directory=tmp_path).get_or_create(KEY).last_consolidated == 0

    def test_a_value_over_several_lines_is_no_line(self, tmp_path: Path) -> None:
        path = put(tmp_path, HEAD + b'{"role": "user",\n"content": "spread"}\n' + line("sound"))
        assert texts(SessionManager(directory=tmp_path).get_or_create(KEY)) == ["sound"]
        assert b"spread" in kept_aside(path)

    def test_the_last_metadata_line_counts(self, tmp_path: Path) -> None:
        later = jsonl.metadata_line(KEY, "", "", {"title": "new"}, 1)
        put(tmp_path, HEAD + line("one") + later + line("two"))
        session = SessionManager(directory=tmp_path).get_or_create(KEY)
        assert (session.metadata, session.last_consolidated) == ({"title": "new"}, 1)

    def test_repair_says_what_it_did(self, tmp_path: Path) -> None:
        path = put(tmp_path, HEAD + b"garbage\n" + line("one") + line("two")[:9])
        sessions = SessionManager(directory=tmp_path, clock=FakeClock())
        report = sessions.repair(KEY)
        assert report is not None
        assert (report.messages, report.removed_lines, report.removed_bytes, report.torn) == (1, 2, 16, True)
        assert report.kept_aside == f"{path.name}.corrupt-20260101T000000"
        again = sessions.repair(KEY)
        assert again is not None
        assert not again.changed
        assert sessions.repair("telegram:none") is None

    def test_removed_bytes_never_take_the_place_of_earlier_ones(self, tmp_path: Path) -> None:
        for bad in (b"first", b"second"):
            path = put(tmp_path, HEAD + bad + b"\n")
            SessionManager(directory=tmp_path, clock=FakeClock()).repair(KEY)
        assert sorted(kept_aside(path).split()) == [b"first", b"second"]

    def test_reading_a_file_does_not_mend_it(self, tmp_path: Path) -> None:
        data = HEAD + b"garbage\n" + line("one")
        path = put(tmp_path, data)
        found = SessionManager(directory=tmp_path).read_session_file(path)
        assert found is not None
        assert (found["key"], [m["content"] for m in found["messages"]]) == (KEY, ["one"])
        assert SessionManager(directory=tmp_path).read_session_file(KEY) == found
        assert path.read_bytes() == data
        assert SessionManager(directory=tmp_path).read_session_file("telegram:2") is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
messages = st.builds(
    lambda role, content, extra: {**extra, "role": role, "content": content},
    st.sampled_from(["user", "assistant", "tool"]),
    st.text() | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}), max_size=2),
    st.dictionaries(
        st.text(min_size=1, max_size=5).filter(lambda name: name != "_type"), json_values, max_size=3
    ),
)
compact = st.sampled_from(
    [jsonl.encode, lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n"]
)


def is_subsequence(wanted: list[bytes], found: list[bytes]) -> bool:
    rest = iter(found)
    return all(any(one == other for other in rest) for one in wanted)


@st.composite
def files(draw: st.DrawFn) -> list[bytes]:
    encode = draw(compact)
    rows = draw(st.lists(messages, min_size=1, max_size=6))
    return [HEAD, *[encode(row) for row in rows]]


def raws(data: bytes) -> list[bytes]:
    return [part.raw for part in jsonl.scan(data).parts or []]


class TestAnyDamage:
    @given(files())
    def test_a_sound_file_reads_the_same_by_both_ways(self, rows: list[bytes]) -> None:
        data = b"".join(rows)
        quick, careful = jsonl.parse(data), jsonl.scan(data)
        assert [dict(m) for m in quick.messages] == [dict(m) for m in careful.messages]
        assert len(quick.messages) == len(rows) - 1
        assert careful.removed == []
        assert raws(data) == [row[:-1] for row in rows]

    @given(files(), st.data())
    def test_every_line_before_a_cut_survives(self, rows: list[bytes], data: st.DataObject) -> None:
        whole = b"".join(rows)
        cut = data.draw(st.integers(0, len(whole)))
        complete = [row[:-1] for end, row in _ends(rows) if end - 1 <= cut]
        assert raws(whole[:cut]) == complete
        parsed = jsonl.scan(whole[:cut])
        assert not parsed.parts or b"".join(parsed.removed) in (whole[:cut].rpartition(b"\n")[2], b"")

    @given(files(), st.data())
    @settings(max_examples=400)
    def test_a_changed_byte_harms_no_other_line(self, rows: list[bytes], data: st.DataObject) -> None:
        whole = bytearray(b"".join(rows))
        position = data.draw(st.integers(0, len(whole) - 1))
        whole[position] = data.draw(st.integers(0, 255))
        intact = [row[:-1] for end, row in _ends(rows) if not end - len(row) <= position < end - 1]
        found = jsonl.scan(bytes(whole))
        assert is_subsequence(intact, [part.raw.strip(b"\r \t") for part in found.parts or []])
        kept = {part.raw for part in found.parts or []}
        lost = [raw for raw in bytes(whole).removeprefix(b"\xef\xbb\xbf").split(b"\n") if raw.strip(b" \t\r")]
        assert all(raw in kept or raw in found.removed for raw in lost), "bytes are gone"

    @given(st.binary(max_size=200))
    def test_any_bytes_are_read_somehow(self, data: bytes) -> None:
        assert jsonl.parse(data).messages == jsonl.scan(data).messages

    @given(json_values)
    def test_any_value_becomes_one_line(self, value: Any) -> None:
        data = jsonl.encode({"role": "user", "content": value})
        assert data.count(b"\n") == 1
        assert jsonl.value(data) is not None


@pytest.mark.parametrize(
    "value", ["\ud83d", float("inf"), Path("x"), {("a", 1): 2}, 10**40, {3, 4}, b"bytes"]
)
def test_what_json_cannot_say_is_written_as_text(value: Any) -> None:
    found = jsonl.value(jsonl.encode(Line(role="user", content="é", odd=value)))
    assert found is not None
    assert found["content"] == "é"


def _ends(rows: list[bytes]) -> list[tuple[int, bytes]]:
    end, found = 0, []
    for row in rows:
        end += len(row)
        found.append((end, row))
    return found
