"""The format of sealed state: what it keeps, and that nothing opens that was changed, cut or put elsewhere."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot import SessionManager
from nanobot.errors import StateSealed, StoreError
from nanobot.messages import Line
from nanobot.security import state_key
from nanobot.security.sealing import ForeignKey, Sealer, Unsealable
from nanobot.stores.sessions.sealed import SealedFolder
from nanobot.stores.sqlite import SqliteStore
from tests.fuzz.mutate import mutated
from tests.session_support import KEY, file_of, texts

ONE, TWO = "0123456789abcdef", "fedcba9876543210"
KEYS = {name: AESGCM(os.urandom(32)) for name in (ONE, TWO)}
SEALER = Sealer(ONE, KEYS, InvalidTag, plain=False)
PLACES = st.lists(st.text(max_size=20), min_size=1, max_size=3).map(tuple)


@given(st.binary(max_size=300), PLACES)
def test_what_is_sealed_comes_back_whole_and_does_not_show(data: bytes, place: tuple[str, ...]) -> None:
    sealed = SEALER.seal(data, *place)
    assert SEALER.open(sealed, *place) == data
    assert len(data) < 8 or data not in sealed
    assert sealed != SEALER.seal(data, *place)


@given(st.binary(max_size=200), st.text(max_size=20), st.integers(0, 2**40))
def test_a_sealed_line_is_one_line_and_comes_back_whole(data: bytes, name: str, position: int) -> None:
    line = SEALER.seal_line(data, name, position)
    assert b"\n" not in line
    assert SEALER.open_line(line, name) == (data, position)


@given(st.binary(min_size=1, max_size=60), st.data())
@settings(max_examples=300)
def test_no_changed_byte_passes(data: bytes, draw: Any) -> None:
    value, line = SEALER.seal(data, "kv", "a"), SEALER.seal_line(data, "a.jsonl", 7)
    at = draw.draw(st.integers(0, len(value) - 1))
    other = draw.draw(st.integers(1, 255))
    with pytest.raises(Unsealable):
        SEALER.open(value[:at] + bytes([value[at] ^ other]) + value[at + 1 :], "kv", "a")
    at = draw.draw(st.integers(0, len(line) - 1))
    with pytest.raises(Unsealable):
        SEALER.open_line(line[:at] + bytes([line[at] ^ other]) + line[at + 1 :], "a.jsonl")


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_no_other_byte_at_any_place_of_a_line_passes(length: int) -> None:
    line = SEALER.seal_line(b"\0" * length, "a.jsonl", 7)
    for at in range(len(line)):
        for other in range(1, 256):
            changed = line[:at] + bytes([line[at] ^ other]) + line[at + 1 :]
            with pytest.raises(Unsealable):
                SEALER.open_line(changed, "a.jsonl")


@given(st.binary(max_size=60), PLACES, PLACES)
def test_nothing_opens_in_another_place(data: bytes, here: tuple[str, ...], there: tuple[str, ...]) -> None:
    if here == there:
        return
    with pytest.raises(Unsealable):
        SEALER.open(SEALER.seal(data, *here), *there)


def test_a_key_that_is_not_there_is_told_from_damage() -> None:
    alone = Sealer(TWO, {TWO: KEYS[TWO]}, InvalidTag, plain=False)
    with pytest.raises(ForeignKey):
        alone.open(SEALER.seal(b"x", "a"), "a")
    with pytest.raises(ForeignKey):
        alone.open_line(SEALER.seal_line(b"x", "a", 0), "a")


def test_plain_values_are_read_only_while_a_state_is_being_converted() -> None:
    converting = Sealer(ONE, KEYS, InvalidTag, plain=True)
    assert converting.open(b"old", "a") == b"old"
    assert converting.opened("old", "a") == "old"
    with pytest.raises(Unsealable):
        SEALER.open(b"old", "a")
    with pytest.raises(Unsealable):
        SEALER.opened("old", "a")


# --- session files ----------------------------------------------------------------------------------------------


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], SessionManager]:
    monkeypatch.setenv(state_key.VARIABLE, state_key.new_master())
    state_key.begin(tmp_path)
    return lambda: SessionManager(directory=tmp_path / "sessions")


def written(manager: SessionManager, key: str = KEY, count: int = 4) -> Path:
    session = manager.get_or_create(key)
    for number in range(count):
        session.add_message("user", f"{key} {number}")
        manager.save(session)
    return file_of(manager, key)


def test_a_file_shows_no_word_and_is_read_again(sessions: Callable[[], SessionManager]) -> None:
    path = written(sessions())
    assert b"websocket:1 2" not in path.read_bytes()
    assert texts(sessions().get_or_create(KEY).messages) == [f"{KEY} {number}" for number in range(4)]


def test_exchanged_repeated_and_foreign_lines_do_not_count_and_are_kept_aside(
    sessions: Callable[[], SessionManager],
) -> None:
    other = written(sessions(), "websocket:2").read_bytes().splitlines(keepends=True)
    path = written(sessions())
    head, one, two, three, four = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(head + two + one + two + other[3] + three + four)
    assert texts(sessions().get_or_create(KEY).messages) == [f"{KEY} {number}" for number in (1, 2, 3)]
    assert list(path.parent.glob("*.corrupt-*"))


def test_plain_lines_put_into_a_sealed_file_are_no_messages(sessions: Callable[[], SessionManager]) -> None:
    path = written(sessions())
    forged = b'{"role":"user","content":"forged","n":1}'
    for tail in (forged + b"\n", forged, b"\0" + forged, b'{"_type":"sealed"} ' + forged):
        whole = path.read_bytes()
        path.write_bytes(whole + tail)
        assert "forged" not in texts(sessions().get_or_create(KEY).messages)
        assert len(sessions().get_or_create(KEY).messages) == 4


@pytest.mark.parametrize("cut", range(1, 200, 13))
def test_a_torn_line_is_taken_out_and_the_file_goes_on(
    sessions: Callable[[], SessionManager], cut: int
) -> None:
    path = written(sessions())
    path.write_bytes(path.read_bytes()[:-cut])
    manager = sessions()
    session = manager.get_or_create(KEY)
    kept = texts(session.messages)
    assert kept == [f"{KEY} {number}" for number in range(len(kept))]
    assert len(kept) == (4 if cut == 1 else 3)
    session.add_message("user", "on")
    manager.save(session)
    assert texts(sessions().get_or_create(KEY).messages) == [*kept, "on"]


def test_no_damage_forges_or_moves_a_message(sessions: Callable[[], SessionManager]) -> None:
    """What can be read after any damage is a part of what was written, in its order."""
    path = written(sessions(), count=8)
    whole, true = path.read_bytes(), [f"{KEY} {number}" for number in range(8)]
    chance = random.Random(5)
    folder = sessions()._folder
    assert isinstance(folder, SealedFolder)
    for number in range(int(os.environ.get("NANOBOT_FUZZ", "10000")) // 20):
        path.write_bytes(mutated(whole, chance))
        try:
            found = texts(sessions().get_or_create(KEY).messages)
        except StoreError:
            continue  # nothing of it opens, and it is left as it is
        rest = iter(true)
        assert all(any(text == other for other in rest) for text in found), f"mutation {number}: {found}"
        for aside in path.parent.glob("*.corrupt-*"):
            aside.unlink()


def test_a_file_that_was_never_sealed_is_refused_and_left_as_it_is(
    sessions: Callable[[], SessionManager], tmp_path: Path
) -> None:
    plain = written(SessionManager(directory=tmp_path / "elsewhere" / "sessions"))
    place = tmp_path / "sessions" / plain.name
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(plain.read_bytes())
    with pytest.raises(StoreError, match="not sealed; `nanobot security rekey` takes in plain files"):
        sessions().get_or_create(KEY)
    assert place.read_bytes() == plain.read_bytes()


async def test_compaction_archive_search_and_export_work_on_sealed_files(
    sessions: Callable[[], SessionManager], tmp_path: Path
) -> None:
    manager = SessionManager(directory=tmp_path / "sessions", max_messages=20)
    for number in range(40):
        question = Line(role="user", content=f"question {number}", turn=f"t{number}")
        answer = Line(role="assistant", content=f"answer {number}", turn=f"t{number}", latency_ms=1)
        await manager.append(KEY, [question, answer])
    session = await manager.open(KEY)
    assert session.archived[1] > 0
    page = await manager.page(KEY, before=4, limit=4)
    assert texts(page.messages) == ["question 0", "answer 0", "question 1", "answer 1"]
    assert [hit["index"] for hit in await manager.search("answer 1")][-1] == 3
    assert [hit["index"] for hit in await manager.search("question 39")] == [78]
    assert (await manager.exported(KEY) or b"").count(b"\n") == 81
    assert [row["preview"] for row in manager.list_sessions()] != [""]
    await manager.close()
    for path in (tmp_path / "sessions").rglob("*"):
        assert path.is_dir() or b"question" not in path.read_bytes(), path
    assert not (tmp_path / "search.db").exists()


# --- keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("", "is encrypted and its key is not here: set NANOBOT_STATE_KEY"),
        ("short", "must hold 32 bytes in base64"),
        (state_key.new_master(), "is not the one that the state in"),
    ],
    ids=["none", "short", "another"],  # a random key would name the test anew in each worker
)
def test_without_the_right_key_nothing_opens_and_nothing_changes(
    sessions: Callable[[], SessionManager],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    value: str,
    sentence: str,
) -> None:
    written(sessions())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setenv(state_key.VARIABLE, value)
    with pytest.raises(StateSealed, match=sentence):
        sessions()
    with pytest.raises(StateSealed, match=sentence):
        SqliteStore(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_sealed_files_without_their_ring_are_not_mended_away(
    sessions: Callable[[], SessionManager], tmp_path: Path
) -> None:
    path = written(sessions())
    before = path.read_bytes()
    (tmp_path / state_key.NAME).rename(tmp_path / "elsewhere.json")
    with pytest.raises(StoreError, match=r"encrypted, and seal\.json is not where"):
        sessions().get_or_create(KEY)
    assert path.read_bytes() == before
