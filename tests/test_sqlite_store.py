"""What only the SQLite store can show: files, kills, damage and a disk that is full."""

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.clock import deadline
from nanobot.errors import StateDamaged, StoreError, StoreFull
from nanobot.messages import Accepted, Address, Inbound, Outbound
from nanobot.stores.sqlite import SqliteStore, writer
from nanobot.stores.sqlite.sql import queries, schema

CHAT = Address("telegram", "7")


def said(number: int, text: str = "hello") -> Inbound:
    return Inbound("telegram", str(number), "7", text)


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(directory)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def accepted(directory: Path, count: int) -> list[str]:
    async with opened(directory) as store:
        return [(await store.inbox.accept(said(number))).id for number in range(count)]


async def refusal(directory: Path) -> str:
    """Why a directory cannot be opened; its bytes must be the same afterwards."""
    names = ("gateway.db", "gateway.db-wal")
    before = {name: (directory / name).read_bytes() for name in names if (directory / name).exists()}
    with pytest.raises(StateDamaged) as caught:
        await SqliteStore(directory).open()
    after = {name: (directory / name).read_bytes() for name in before}
    assert after == before
    return str(caught.value)


# --- files ---------------------------------------------------------------------------------------------------


async def test_only_the_owner_can_read_the_state(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / ".nanobot"
    async with opened(directory) as store:
        await store.inbox.accept(said(1))
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in directory.iterdir()}
    assert modes == {"gateway.db": "0o600", "gateway.db-wal": "0o600", "gateway.db-shm": "0o600"}
    assert directory.stat().st_mode & 0o777 == 0o700


async def test_a_closed_store_takes_nothing_and_leaves_one_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        last = asyncio.ensure_future(store.inbox.accept(said(1)))
        await asyncio.sleep(0)
    assert isinstance(await last, Accepted)
    with pytest.raises(StoreError, match="not open"):
        await store.inbox.accept(said(2))
    assert [path.name for path in tmp_path.iterdir()] == ["gateway.db"]


async def test_the_log_is_folded_while_the_gateway_runs(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        sizes = []
        for round_number in range(8):
            first = round_number * 1_000
            await asyncio.gather(*[store.inbox.accept(said(first + n, "x" * 500)) for n in range(1_000)])
            sizes.append((tmp_path / "gateway.db-wal").stat().st_size)
        count, _ = await store.inbox.depth()
    assert count == 8_000
    assert sizes[-1] < 2 * sizes[0] + 1_000_000  # without folding it would be eight times as long


def test_every_statement_is_one_that_sqlite_understands() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema())
        for name, statement in queries().items():
            db.execute(f"EXPLAIN {statement}", [None] * statement.count("?")), name


@pytest.mark.parametrize("name", ["next_row", "running_rows", "steerable", "open_rows", "return_rows"])
def test_a_sessions_rows_are_found_by_index_however_many_are_done(name: str) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema())
        statement = queries()[name]
        plan = db.execute(f"EXPLAIN QUERY PLAN {statement}", [""] * statement.count("?")).fetchall()
    details = [step[3] for step in plan]
    assert any("inbox_open" in detail for detail in details), details
    # Those two sort what is open in one session across its kinds, which is little.
    assert name in {"open_rows", "steerable"} or not any("TEMP B-TREE" in detail for detail in details), (
        details
    )


# --- damage --------------------------------------------------------------------------------------------------


async def test_garbage_is_refused_with_its_path_and_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").write_bytes(random.Random(1).randbytes(50_000))
    message = await refusal(tmp_path)
    assert str(tmp_path / "gateway.db") in message
    assert ".recover" in message


async def test_a_truncated_database_is_refused(tmp_path: Path) -> None:
    await accepted(tmp_path, 200)
    os.truncate(tmp_path / "gateway.db", (tmp_path / "gateway.db").stat().st_size // 2)
    assert "malformed" in await refusal(tmp_path)


async def test_overwritten_pages_are_refused(tmp_path: Path) -> None:
    await accepted(tmp_path, 200)
    with (tmp_path / "gateway.db").open("r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xff" * 4096 * 6)
    await refusal(tmp_path)


async def test_an_emptied_database_keeps_its_log(tmp_path: Path) -> None:
    async with opened(tmp_path / "live") as store:
        await store.inbox.accept(said(1))
        shutil.copytree(tmp_path / "live", tmp_path / "copy")
    os.truncate(tmp_path / "copy" / "gateway.db", 0)
    assert "gateway.db-wal" in await refusal(tmp_path / "copy")


async def test_a_database_of_a_newer_nanobot_is_left_alone(tmp_path: Path) -> None:
    await accepted(tmp_path, 1)
    with closing(sqlite3.connect(tmp_path / "gateway.db")) as db:
        db.execute("PRAGMA user_version = 99")
    assert "Upgrade nanobot" in await refusal(tmp_path)


async def test_a_directory_in_the_databases_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").mkdir()
    with pytest.raises(StateDamaged, match=r"gateway\.db cannot be opened"):
        await SqliteStore(tmp_path).open()


async def test_a_log_cut_anywhere_gives_an_exact_prefix_of_the_commits(tmp_path: Path) -> None:
    async with opened(tmp_path / "live") as store:
        ids = [(await store.inbox.accept(said(number, "x" * 300))).id for number in range(60)]
        shutil.copytree(tmp_path / "live", tmp_path / "copy")
    (tmp_path / "copy" / "gateway.db-shm").unlink()
    log = (tmp_path / "copy" / "gateway.db-wal").read_bytes()
    chance = random.Random(7)
    cuts = sorted(chance.randrange(len(log)) for _ in range(40))
    lengths = []
    for number, cut in enumerate([*cuts, len(log)]):
        directory = tmp_path / str(number)
        shutil.copytree(tmp_path / "copy", directory)
        os.truncate(directory / "gateway.db-wal", cut)
        async with opened(directory) as store:
            kept = [row.id for row in await store.inbox.pending(CHAT.key)]
        assert kept == ids[: len(kept)]
        lengths.append(len(kept))
    assert lengths == sorted(lengths)
    assert lengths[-1] == 60
    assert len(set(lengths)) > 20


# --- kills ---------------------------------------------------------------------------------------------------

CHILD = """
import asyncio, sys
from pathlib import Path
from nanobot.messages import Inbound
from nanobot.stores.sqlite import SqliteStore

async def main(directory, life):
    store = SqliteStore(Path(directory))
    await store.open()
    async def produce(number):
        count = 0
        while True:
            count += 1
            receipt = await store.inbox.accept(Inbound("telegram", f"{life}-{number}-{count}", str(number), "x" * 200))
            sys.stdout.write(receipt.id + "\\n")
            sys.stdout.flush()
    await asyncio.gather(*[produce(number) for number in range(8)])

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


async def test_what_was_accepted_survives_a_kill(tmp_path: Path) -> None:
    seen: list[str] = []
    for life in range(4):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHILD, str(tmp_path), str(life), stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        async with deadline(30, "the child"):
            lines = [await child.stdout.readline() for _ in range(random.Random(life).randrange(50, 400))]
            seen.extend(line.decode().strip() for line in lines)
            child.send_signal(signal.SIGKILL)
            *rest, _ = (await child.stdout.read()).decode().split("\n")  # the last line may be torn
            seen.extend(rest)
            await child.wait()
    async with opened(tmp_path) as store:
        there = {row.id for number in range(8) for row in await store.inbox.pending(f"telegram:{number}")}
    assert len(seen) > 200
    assert set(seen) <= there


# --- failures ------------------------------------------------------------------------------------------------


async def test_a_full_disk_accepts_nothing_and_loses_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.inbox.accept(said(0))

        def fill(db: sqlite3.Connection) -> None:
            [pages] = db.execute("PRAGMA page_count").fetchone()
            db.execute(f"PRAGMA max_page_count = {pages}")

        await store._writer.submit(fill)
        large = [said(number, "x" * 50_000) for number in range(1, 5)]
        results = await asyncio.gather(*map(store.inbox.accept, large), return_exceptions=True)
        assert [type(result) for result in results] == [StoreFull] * 4
        assert len(await store.inbox.pending(CHAT.key)) == 1
        await store._writer.submit(lambda db: db.execute("PRAGMA max_page_count = 100000").fetchall())
        assert not (await store.inbox.accept(large[0])).duplicate


async def test_a_bad_job_fails_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        good = [asyncio.ensure_future(store.inbox.accept(said(number))) for number in range(10)]
        await asyncio.sleep(0)
        bad = store._writer.submit(lambda db: db.execute("INSERT INTO nowhere VALUES (1)").rowcount)
        good += [asyncio.ensure_future(store.inbox.accept(said(number))) for number in range(10, 20)]
        with pytest.raises(StoreError, match="nowhere"):
            await bad
        receipts = await asyncio.gather(*good)
        assert [row.id for row in await store.inbox.pending(CHAT.key)] == [one.id for one in receipts]


async def test_a_disk_that_takes_no_sync_is_never_believed_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        disk = store._writer._disk
        assert disk is not None
        log, (_, pipe) = disk._log, os.pipe()
        disk._log = pipe  # a pipe cannot be synced
        with pytest.raises(StoreError, match="did not take the log"):
            await store.inbox.accept(said(1))
        disk._log = log
        os.close(pipe)
        with pytest.raises(StoreError, match="start the gateway again"):
            await store.inbox.accept(said(2))


async def test_a_claim_whose_caller_was_cancelled_holds_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.inbox.accept(said(1))
        for rounds in range(4):
            task = asyncio.ensure_future(store.inbox.claim(CHAT.key))
            for _ in range(rounds):
                await asyncio.sleep(0)
            if task.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await task
                claim = await store.inbox.claim(CHAT.key)
            else:
                claim = await task
            assert claim is not None
            assert claim.attempt == 1
            await store.inbox.release(claim)


async def test_a_cancelled_claim_takes_nobody_elses_lease(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        receipt = await store.inbox.accept(said(1))
        claim = await store.inbox.claim(CHAT.key)
        other = asyncio.ensure_future(store.inbox.claim(CHAT.key))
        await asyncio.sleep(0)
        other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other
        assert claim is not None
        assert await store.inbox.commit(claim, [receipt.id], [Outbound(receipt.id, 0, CHAT, "hi")])


# --- beside another process ----------------------------------------------------------------------------------


async def test_the_command_line_works_beside_a_gateway(tmp_path: Path) -> None:
    async with opened(tmp_path) as gateway, opened(tmp_path) as terminal:
        made = await gateway.outbox.add(Outbound("t", 0, CHAT, "hi"))
        assert made is not None
        await gateway.outbox.sending(made.id)
        assert [row.status for row in await terminal.outbox.list()] == ["sending"]
        await gateway.outbox.dead(made.id, "no such chat")
        assert await terminal.outbox.resend(made.id) is not None
        assert [row.status for row in await gateway.outbox.undelivered()] == ["pending"]


async def test_another_writer_delays_the_store_but_never_the_event_loop(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        with closing(sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.ensure_future(store.inbox.accept(said(1)))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not waiting.done()
            other.execute("ROLLBACK")
        async with deadline(5, "the accept"):
            assert not (await waiting).duplicate


async def test_what_waits_behind_another_writer_keeps_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH", 2)
    async with opened(tmp_path) as store:
        with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = [asyncio.ensure_future(store.inbox.accept(said(number))) for number in range(5)]
            for _ in range(100):
                await asyncio.sleep(0)
            other.execute("ROLLBACK")
        await asyncio.gather(*waiting)
        rows = await store.inbox.pending(CHAT.key)
        assert [row.inbound.message_id for row in rows] == ["0", "1", "2", "3", "4"]


async def test_what_nobody_waits_for_is_on_the_disk_soon_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as store:
        made = await store.outbox.add(Outbound("t", 0, CHAT, "hi"))
        assert made is not None
        loop, synced = asyncio.get_running_loop(), asyncio.Event()
        monkeypatch.setattr(os, "fdatasync", lambda _: loop.call_soon_threadsafe(synced.set))
        await store.outbox.delivered(made.id)
        async with deadline(5, "the disk"):
            await synced.wait()


async def test_times_are_kept_to_the_microsecond(tmp_path: Path) -> None:
    moment = datetime(2026, 11, 21, 7, 30, 15, 123457, UTC)
    async with opened(tmp_path) as store:
        made = await store.outbox.add(Outbound("t", 0, CHAT, "hi"))
        assert made is not None
        await store.outbox.retry(made.id, moment.replace(year=2030), "later")
        [row] = await store.outbox.undelivered()
    assert row.next_at == moment.replace(year=2030)
    assert row.created_at == made.created_at
