"""gateway.db cut and damaged anywhere: refused unchanged, or served; what fails later fails by our names."""

import os
import random
import shutil
from pathlib import Path

import pytest

from nanobot.errors import NanobotError, StateDamaged
from nanobot.messages import Address, Inbound, Outbound
from nanobot.stores.sqlite import SqliteStore
from tests.fuzz.mutate import mutated

CASES = max(20, int(os.environ.get("NANOBOT_FUZZ", "10000")) // 200)


@pytest.fixture
async def filled(tmp_path: Path) -> Path:
    """A database after a clean stop, with work of every kind in it."""
    store = SqliteStore(tmp_path / "whole")
    await store.open()
    for number in range(120):
        chat = str(number % 10)
        accepted = await store.inbox.accept(Inbound("telegram", str(number), chat, "hello " * 20))
        await store.outbox.add(Outbound(accepted.id, 0, Address("telegram", chat), "answer"))
    claim = await store.inbox.claim("telegram:3")
    assert claim
    await store.close()
    return tmp_path / "whole" / "gateway.db"


async def use(path: Path) -> str:
    """Open it and do everything; "refused" or "served". Any error that is not ours goes to the test."""
    store = SqliteStore(path.parent)
    before = path.read_bytes()
    try:
        await store.open()
    except StateDamaged as refusal:
        told = str(refusal)
    else:
        told = ""
    if told:
        assert path.read_bytes() == before, "a damaged database was changed"
        assert str(path) in told
        return "refused"
    try:
        for work in (
            store.inbox.waiting,
            lambda: store.inbox.pending("telegram:3"),
            lambda: store.inbox.claim("telegram:3"),
            lambda: store.inbox.accept(Inbound("telegram", "new", "3", "hello")),
            store.inbox.depth,
            store.outbox.undelivered,
            store.outbox.list,
            store.pairings.list,
        ):
            try:
                await work()
            except NanobotError:
                continue
    finally:
        await store.close()
    return "served"


async def test_a_database_cut_anywhere_is_refused_and_left_as_it_was(filled: Path, tmp_path: Path) -> None:
    whole = filled.read_bytes()
    chance = random.Random(1)
    for number in range(CASES):
        path = tmp_path / f"cut{number}" / "gateway.db"
        path.parent.mkdir()
        path.write_bytes(whole[: chance.randrange(1, len(whole))])
        assert await use(path) == "refused"
        shutil.rmtree(path.parent)


async def test_a_damaged_database_raises_nothing_but_errors_of_our_own(filled: Path, tmp_path: Path) -> None:
    whole = filled.read_bytes()
    chance = random.Random(2)
    outcomes = []
    for number in range(CASES):
        path = tmp_path / f"damaged{number}" / "gateway.db"
        path.parent.mkdir()
        path.write_bytes(mutated(whole, chance))
        outcomes.append(await use(path))
        shutil.rmtree(path.parent)
    assert "refused" in outcomes
