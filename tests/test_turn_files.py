"""The files of outside agents' turns: sealed once they are written, read as before, bound to their place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nanobot.errors import StoreError
from nanobot.executors.reader import LineReader
from nanobot.security import state_key, tree
from nanobot.stores.turn_files import BLOCK, TurnFiles, marker_of

WORDS = b'{"type":"x","text":"plaintext-marker"}\n'


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(state_key.VARIABLE, state_key.new_master())


@pytest.fixture
def files(tmp_path: Path) -> TurnFiles:
    return TurnFiles(tmp_path, state_key.begin(tmp_path))


def written(files: TurnFiles, name: str, data: bytes = WORDS) -> Path:
    """A file as an agent leaves it."""
    path = files.folder / "c1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def content(files: TurnFiles, path: Path) -> bytes:
    with files.open(path, live=False) as file:
        return b"".join(iter(lambda: file.read(1000) or b"", b""))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        WORDS,
        WORDS * 3 + b'{"torn',
        b"\0\xff\xfe" * 1000,
        b"x" * (BLOCK * 2 + 7),
        os.urandom(BLOCK) + b"\n\n\n",
    ],
)
def test_a_sealed_file_reads_as_what_was_written_byte_for_byte(files: TurnFiles, data: bytes) -> None:
    path = written(files, "turn_1.jsonl", data)
    files.seal_turn(path.parent, 1)
    assert content(files, path) == data
    assert files.tail(path, 5) == data[-5:]
    assert b"plaintext-marker" not in path.read_bytes()
    assert not data or (path.stat().st_mode & 0o777, files.is_plain(path)) == (0o600, False)
    assert path.stat().st_size < len(data) * 1.4 + 200, "many short lines must not grow a hundredfold"


def test_the_reader_of_events_reads_a_sealed_file_like_a_plain_one(files: TurnFiles) -> None:
    path = written(files, "turn_1.jsonl", b"".join(b'{"n":%d}\n' % n for n in range(100_000)) + b'{"last":1}')
    files.seal_turn(path.parent, 1)
    events = [one for group in LineReader(path, opened=files.open).read(final=True) for one in group]
    assert [one["n"] for one in events[:-1]] == list(range(100_000))
    assert events[-1] == {"last": 1}
    later = LineReader(path, len(b'{"n":0}\n') * 2, opened=files.open)
    assert next(later.read())[0] == {"n": 2}


def test_a_file_opens_under_its_own_name_only(files: TurnFiles) -> None:
    path = written(files, "turn_1.jsonl")
    files.seal_turn(path.parent, 1)
    for other in (path.with_name("turn_2.jsonl"), files.folder / "c2" / "turn_1.jsonl"):
        other.parent.mkdir(exist_ok=True)
        other.write_bytes(path.read_bytes())
        assert content(files, other) == b"\n"
        with pytest.raises(StoreError, match="changed, cut or moved"):
            files.move(other, other.with_name("turn_9.jsonl"))
        assert other.exists()
    new = path.with_name("turn_1.try1.jsonl")
    files.move(path, new)
    assert (content(files, new), path.exists()) == (WORDS, False)


def test_pieces_that_were_changed_exchanged_or_repeated_are_left_out(files: TurnFiles) -> None:
    data = b"a" * BLOCK + b"b" * BLOCK + b"c" * BLOCK
    path = written(files, "turn_1.stderr", data)
    files.seal_turn(path.parent, 1)
    one, two, three = path.read_bytes().splitlines(keepends=True)
    for bad, left in (
        (one + three + two, b"a" * BLOCK + b"\n\n"),
        (one + one + two + three, b"a" * BLOCK + b"\n\n\n"),
        (one + two[:2000] + b"!" + two[2001:] + three, b"a" * BLOCK + b"\n" + b"c" * BLOCK),
        (two + three, b"\n\n"),
    ):
        path.write_bytes(bad)
        assert content(files, path) == left


def test_a_plain_file_counts_only_while_its_turn_may_run(files: TurnFiles) -> None:
    path = written(files, "turn_1.jsonl")
    with files.open(path, live=True) as file:
        assert file.read() == WORDS
    with pytest.raises(StoreError, match="it is not sealed"):
        files.open(path, live=False)


def test_a_file_that_an_agent_still_writes_is_left_as_it_is(files: TurnFiles) -> None:
    path = written(files, "turn_3.jsonl")
    earlier = written(files, "turn_2.jsonl")
    environment = {**os.environ, tree.MARKER: marker_of("c1", 3)}
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as agent:
        assert agent.stdout
        agent.stdout.readline()
        assert files.used() == [path]
        assert list(files.all()) == [earlier]
        agent.terminate()
    assert files.used() == []


@pytest.fixture
def littered(files: TurnFiles) -> Path:
    path = written(files, "turn_1.jsonl")
    written(files, ".turn_1.jsonl.0123.part")
    written(files, "turn_1.exit", b"0\n")
    return path


def test_what_a_kill_left_half_written_goes_with_the_next_sealing(files: TurnFiles, littered: Path) -> None:
    files.seal_turn(littered.parent, 1)
    assert {one.name for one in littered.parent.iterdir()} == {"turn_1.jsonl", "turn_1.exit"}
    assert littered.with_name("turn_1.exit").read_bytes() == b"0\n"
