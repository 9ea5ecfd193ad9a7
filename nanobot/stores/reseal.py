"""Sealing a whole state anew: new keys for everything, or none any more. Nobody else may use the state meanwhile.

First the ring learns the new key and writes with it; then every row and file is written again, each at once; last the
old keys go. So a kill at any moment leaves everything readable with what the ring holds, and the next call goes on.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from nanobot.clock import SystemClock
from nanobot.errors import StoreError
from nanobot.security import state_key
from nanobot.security.sealing import Sealer, Unsealable
from nanobot.security.state_key import Ring
from nanobot.stores.media import MediaFiles
from nanobot.stores.sessions import index, repair, search
from nanobot.stores.sessions.sealed import SealedFolder, of_lines
from nanobot.stores.sqlite import database
from nanobot.stores.sqlite.codec import Stored
from nanobot.stores.turn_files import TurnFiles

BATCH = 200  # rows in a transaction
PASSES = 3  # a command that began before may still write with the old keys
CACHES = (index.NAME,)  # in the sessions' folder; made anew by whoever needs them


class Column(NamedTuple):
    """A column that is sealed: in which table, by what its rows are known, and where in it they are bound to."""

    table: str
    column: str
    known_by: tuple[str, ...]
    place: Callable[[Sequence[object]], tuple[str, ...]]


COLUMNS = (
    Column("inbox", "message", ("id",), lambda row: ("inbox", str(row[0]))),
    Column("outbox", "message", ("turn", "part"), lambda row: ("outbox", str(row[0]), str(row[1]))),
    Column(
        "pairing", "name", ("channel", "sender"), lambda row: ("pairing", str(row[0]), str(row[1]), "name")
    ),
    Column(
        "pairing", "code", ("channel", "sender"), lambda row: ("pairing", str(row[0]), str(row[1]), "code")
    ),
    Column("schedule", "payload", ("id",), lambda row: ("schedule", str(row[0]))),
    Column("kv", "value", ("owner", "key"), lambda row: ("kv", str(row[0]), str(row[1]))),
)


class Done(msgspec.Struct):
    """What was written anew, and what could not be opened and stays as it is."""

    rows: int = 0
    files: int = 0
    lost: list[str] = []


def reseal(state: Path, owner: bytes | None, *, plain: bool = False) -> Done:
    """Seal everything with a new key, under this owner's key; or make everything plain. Takes up what was interrupted.

    Raises StateSealed where the state cannot be opened; nothing was changed then.
    """
    ring = state_key.read(state)
    if plain and ring is None:
        return Done()
    ring = _to_plain(state, ring) if plain and ring else _to_new_key(state, ring, owner)
    sealer = state_key.opened(state, ring)
    done = Done()
    for _ in range(PASSES):
        _database(state, sealer, done)
        _sessions(state, sealer, done)
        _media(state, sealer, done)
        _turns(state, sealer, done)
        left = remaining(state, sealer)
        if done.lost or left == (0, 0):
            break
    if done.lost:
        raise StoreError(
            f"{len(done.lost)} pieces of the state do not open and were left as they are, such as {done.lost[0]}; "
            "the old keys were kept. Restore them from a backup or remove them, then run this again."
        )
    if left != (0, 0):
        raise StoreError(
            f"{sum(left)} pieces were written with the old keys meanwhile; the old keys were kept. Run this again."
        )
    if plain:
        (state / state_key.NAME).unlink(missing_ok=True)
    else:
        kept = ring.keys[ring.current]
        state_key.write(state, msgspec.structs.replace(ring, plain=False, keys={ring.current: kept}))
    return done


def remaining(state: Path, sealer: Sealer) -> tuple[int, int]:
    """How many rows and files are not sealed with the current key."""
    rows = 0
    if (state / "gateway.db").is_file():
        with closing(
            sqlite3.connect(f"{(state / 'gateway.db').absolute().as_uri()}?mode=ro", uri=True)
        ) as db:
            for one in COLUMNS:
                values = db.execute(f"SELECT {one.column} FROM {one.table}")  # noqa: S608 - our own names
                rows += sum(not sealer.is_current(value) for (value,) in values)
    folder = SealedFolder(state / "sessions", sealer)
    files = sum(not folder.is_current(name) for name in _names(folder))
    media = MediaFiles(state, sealer)
    files += sum(not media.is_current(path) for path in _files(media))
    turns = TurnFiles(state, sealer)
    return rows, files + sum(not turns.is_current(path) for path in turns.all())


def _to_new_key(state: Path, ring: Ring | None, owner: bytes | None) -> Ring:
    if ring is None:
        state_key.begin(state, owner)
        begun = state_key.read(state)
        assert begun is not None
        return begun
    keys = state_key.unwrapped(state, ring)
    given = state_key.master(ring.master)
    assert given is not None  # or the keys had not opened
    wanted = owner or given[0]
    if not ring.settled and ring.current and state_key.identity(wanted) == ring.master:
        return ring  # go on with what was interrupted, or with what was plain when the first key was made
    changed = state_key.with_new_key(ring, keys, wanted)
    changed.plain = True  # files that were put in by hand are taken in
    state_key.write(state, changed)
    return changed


def _to_plain(state: Path, ring: Ring) -> Ring:
    state_key.unwrapped(state, ring)  # only who can read it may make it readable
    changed = msgspec.structs.replace(ring, current="", plain=True)
    state_key.write(state, changed)
    return changed


def _database(state: Path, sealer: Sealer, done: Done) -> None:
    path = state / "gateway.db"
    if not path.is_file():
        return
    with closing(database.connect(path)) as db:
        db.execute(f"PRAGMA busy_timeout = {database.BUSY_MS}")
        db.execute("PRAGMA secure_delete = ON")
        for one in COLUMNS:
            _column(db, one, sealer, done)
        # What was freed still holds the old bytes, in the file and in its log.
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _column(db: sqlite3.Connection, one: Column, sealer: Sealer, done: Done) -> None:
    known_by = ", ".join(one.known_by)
    read = f"SELECT {known_by}, {one.column} FROM {one.table}"  # noqa: S608 - our own names
    where = " AND ".join(f"{name} = ?" for name in one.known_by)
    write = f"UPDATE {one.table} SET {one.column} = ? WHERE {where}"  # noqa: S608 - our own names
    # All at once: a cursor that reads beside the writing could meet its own rows again.
    stale = [row for row in db.execute(read) if not sealer.is_current(row[-1])]
    for start in range(0, len(stale), BATCH):
        db.execute("BEGIN IMMEDIATE")
        for *names, value in stale[start : start + BATCH]:
            place = one.place(names)
            try:
                fresh: Stored = sealer.text(sealer.opened(value, *place), *place)
            except (Unsealable, ValueError):
                done.lost.append("/".join(place))
                continue
            db.execute(write, (fresh, *names))
            done.rows += 1
        db.execute("COMMIT")


def _sessions(state: Path, sealer: Sealer, done: Done) -> None:
    search.discard(state / search.NAME)
    folder = SealedFolder(state / "sessions", sealer)
    _litter(state / "sessions")
    for name in CACHES:
        folder.delete(name)
    clock = SystemClock()
    for name in list(_names(folder)):
        if folder.is_current(name):
            continue
        try:
            data = folder.read(name)
            if data is None:
                continue
            if name.endswith(".jsonl"):
                repair.mend(folder, name.removesuffix(".jsonl"), data, clock)
                data = folder.read(name) or b""
            elif not of_lines(name) and not data:
                done.lost.append(name)  # an archive segment that does not open
                continue
            folder.replace(name, data, keep_time=True)
            done.files += 1
        except StoreError:
            done.lost.append(name)


def _media(state: Path, sealer: Sealer, done: Done) -> None:
    media = MediaFiles(state, sealer)
    for folder in media.folder.glob("*/"):
        _litter(folder)
    for path in list(_files(media)):
        if media.is_current(path):
            continue
        try:
            found = path.stat()
            media.write(path, media.read(path), keep=not found.st_mode & 0o200)
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
            done.files += 1
        except OSError:
            done.lost.append(str(path.relative_to(state)))


def _turns(state: Path, sealer: Sealer, done: Done) -> None:
    turns = TurnFiles(state, sealer)
    turns.clear()
    for path in turns.all():
        if turns.is_current(path):
            continue
        try:
            turns.seal(path)
            done.files += 1
        except (OSError, StoreError):
            done.lost.append(str(path.relative_to(state)))


def _names(folder: SealedFolder) -> Iterator[str]:
    """The session files, and those of the archive."""
    for name, _ in folder.list():
        if name not in CACHES and of_lines(name):
            yield name
    for stem in sorted(path.name for path in (folder.path / "archive").glob("*/")):
        yield from (f"archive/{stem}/{name}" for name, _ in folder.list(f"archive/{stem}"))


def _files(media: MediaFiles) -> Iterator[Path]:
    return (path for path in media.folder.glob("*/*") if path.is_file() and path.name[0] != ".")


def _litter(folder: Path) -> None:
    """What a kill left half written; it may hold what is being sealed."""
    for path in (*folder.glob(".*.tmp"), *folder.glob(".*.part"), *folder.glob("*.part")):
        path.unlink(missing_ok=True)
