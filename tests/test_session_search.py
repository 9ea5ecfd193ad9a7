"""Search over session files, the archive included, with an index that is only a cache."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanobot.stores.sessions import SessionManager, search
from nanobot.stores.sessions.matching import words_of
from nanobot.testing_port import line


@pytest.fixture
def sessions(tmp_path: Path) -> SessionManager:
    return SessionManager(directory=tmp_path / "sessions", max_messages=20)


@pytest.fixture(params=["with an index", "without one"])
def either(request: pytest.FixtureRequest, sessions: SessionManager) -> SessionManager:
    """Sessions in memory have no index, as encrypted ones have none."""
    return sessions if request.param == "with an index" else SessionManager(max_messages=20)


async def found(sessions: SessionManager, query: str) -> list[tuple[str, int]]:
    return [(hit["key"], hit["index"]) for hit in await sessions.search(query)]


async def test_every_word_must_be_there_in_any_order_and_case(either: SessionManager) -> None:
    sessions = either
    await sessions.append("slack:a", [line("user", "The Harbour ferry leaves at nine", "1")])
    later = datetime.now(UTC) + timedelta(hours=1)
    await sessions.append("slack:b", [line("user", "a ferry, but no port", "2", later)])

    assert await found(sessions, "FERRY harbour") == [("slack:a", 0)]
    assert await found(sessions, "ferry") == [("slack:b", 0), ("slack:a", 0)]
    assert await found(sessions, '"ferry leaves"') == [("slack:a", 0)]
    assert await found(sessions, '"leaves ferry"') == []
    assert await found(sessions, "ferry at") == [("slack:a", 0)]
    assert await found(sessions, 'x" OR "ferry') == []
    assert await found(sessions, ' "" ') == []


async def test_a_word_of_two_letters_is_found_without_the_index(sessions: SessionManager) -> None:
    await sessions.append("slack:a", [line("user", "an ox", "1")])

    assert await found(sessions, "ox") == [("slack:a", 0)]


async def test_new_messages_renames_and_deletions_are_known_at_the_next_search(
    sessions: SessionManager,
) -> None:
    await sessions.append("slack:a", [line("user", "first lighthouse", "1")])
    assert await found(sessions, "lighthouse") == [("slack:a", 0)]
    await sessions.append("slack:a", [line("assistant", "second lighthouse", "1")])
    await sessions.update("slack:a", {"title": "Towers"})

    hits = await sessions.search("lighthouse")
    assert [(hit["index"], hit["title"]) for hit in hits] == [(1, "Towers"), (0, "Towers")]
    await sessions.delete("slack:a")
    assert await found(sessions, "lighthouse") == []
    await sessions.append("slack:a", [line("user", "another life", "1")])
    assert await found(sessions, "lighthouse") == []
    assert await found(sessions, "another") == [("slack:a", 0)]


async def test_what_moved_to_the_archive_is_found_under_the_same_number(either: SessionManager) -> None:
    sessions = either
    for number in range(40):
        words = {3: "needle", 38: "needle", 2: "thimble"}.get(number, "hay")
        lines = [line("user", f"{words} {number}", str(number)), line("assistant", "ok", str(number))]
        await sessions.append("slack:a", lines)
        if number == 10:
            assert await found(sessions, "needle") == [("slack:a", 6)]
    session = await sessions.open("slack:a")
    assert session.archived[1] > 6

    assert await found(sessions, "needle") == [("slack:a", 76), ("slack:a", 6)]
    assert await found(sessions, "thimble") == [("slack:a", 4)]
    page = await sessions.page("slack:a", 7, 1)
    assert page.messages[0]["content"] == "needle 3"
    if sessions.directory is not None:
        (sessions.directory.parent / "search.db").unlink()
    again = sessions.restarted()
    assert await found(again, "needle") == [("slack:a", 76), ("slack:a", 6)]
    await again.close()


async def test_a_new_conversation_is_not_found_by_what_was_said_before(either: SessionManager) -> None:
    sessions = either
    await sessions.append("slack:a", [line("user", "old harbour", "1")])
    assert await found(sessions, "harbour") == [("slack:a", 0)]
    await sessions.clear("slack:a")
    await sessions.append("slack:a", [line("user", "new harbour", "2")])

    assert await found(sessions, "harbour") == [("slack:a", 1)]
    page = await sessions.page("slack:a")
    assert ([one["content"] for one in page.messages], page.before) == (["new harbour"], None)


@pytest.mark.parametrize("damage", [b"not a database at all, not even close to one" * 100, b""])
async def test_a_damaged_index_is_made_anew(sessions: SessionManager, damage: bytes) -> None:
    await sessions.append("slack:a", [line("user", "lighthouse", "1")])
    assert await found(sessions, "lighthouse") == [("slack:a", 0)]
    await sessions.close()
    assert sessions.directory is not None
    path = sessions.directory.parent / "search.db"
    path.with_name("search.db-wal").unlink(missing_ok=True)
    path.write_bytes(damage)
    again = sessions.restarted()

    assert await found(again, "lighthouse") == [("slack:a", 0)]
    await again.close()


async def test_an_index_whose_making_was_cut_off_is_made(
    sessions: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sessions.directory is not None
    await sessions.append("slack:a", [line("user", "lighthouse", "1")])
    monkeypatch.setattr(search, "SCHEMA", search.SCHEMA.partition("CREATE VIRTUAL")[0])
    assert await found(sessions, "lighthouse") == [("slack:a", 0)]
    await sessions.close()
    monkeypatch.undo()
    again = sessions.restarted()

    assert await found(again, "lighthouse") == [("slack:a", 0)]
    await again.close()
    with closing(sqlite3.connect(sessions.directory.parent / "search.db")) as db:
        assert db.execute("SELECT text FROM lines").fetchall() == [("lighthouse",)]


def test_words_of_a_query() -> None:
    assert words_of('One  "two three" FOUR') == ["one", "two three", "four"]
    assert words_of('5" disk') == ['5"', "disk"]


async def test_an_answer_is_whole_while_the_index_is_behind(
    sessions: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOMENT", 0)  # one file a batch
    monkeypatch.setattr(search, "MOST", 7)
    for number in range(12):
        said = [line("user", f"harbour {number} {at}", str(at)) for at in range(30)]
        await sessions.append(f"slack:{number}", said)
    hits = await sessions.search("harbour 3", 1_000)
    keys = [hit["key"] for hit in hits]

    assert sessions._search.behind
    assert keys.count("slack:3") == 30
    assert keys.index("slack:11") < keys.index("slack:3") < keys.index("slack:0")
    while sessions._search.behind:
        assert await sessions.search("harbour 3", 1_000) == hits
    assert await sessions.search("harbour 3", 1_000) == hits
    assert await sessions.search("harbour 3", 5) == hits[:5]


async def test_a_turn_is_written_while_searches_wait_for_the_index(tmp_path: Path) -> None:
    sessions = SessionManager(directory=tmp_path / "sessions")
    text = "a word or two about the harbour, the ferry and the lighthouse " * 6
    for number in range(40):
        await sessions.append(f"slack:{number}", [line("user", f"{text} {at}", str(at)) for at in range(100)])
    searches = [asyncio.create_task(sessions.search(f"harbour {number}")) for number in range(6)]
    await asyncio.sleep(0)  # they are in their thread now
    await sessions.append("slack:turn", [line("assistant", "An answer", "1")])

    assert not any(one.done() for one in searches)
    for hits in await asyncio.gather(*searches):
        assert hits
    await sessions.close()
