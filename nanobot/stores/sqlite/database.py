"""Opening gateway.db: made where there is none, checked where there is, never repaired behind anyone's back."""

import errno
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from nanobot.errors import StateDamaged, StoreError, StoreFull
from nanobot.os_errors import NO_RIGHT, NO_ROOM
from nanobot.stores.sqlite.sql import schema

VERSION = 1  # PRAGMA user_version of the schema this code reads and writes
BUSY_MS = 5_000  # the command line may hold the database for a moment
NEEDED = 64 << 10  # bytes free on the disk; the memory that SQLite shares between processes takes half of it
CHECKED_BYTES = 64 << 20  # a bigger file is only checked by `nanobot doctor`: start time counts


def connect(path: Path) -> sqlite3.Connection:
    """The writing connection, in autocommit mode.

    Raises StateDamaged with the remedy, StoreFull and StoreError where the database is sound, and PermissionError.
    """
    try:
        prepare(path)
        check(path)
        return writable(path)
    except OSError as error:
        if error.errno in NO_RIGHT:
            raise
        raise hindered(path, error) or damaged(path, str(error)) from error
    except sqlite3.Error as error:
        raise hindered(path, error) or damaged(path, str(error)) from error


def hindered(path: Path, error: OSError | sqlite3.Error) -> Exception | None:
    """What stands in the way where the database itself may well be sound: nobody should throw that one away."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return None
    if code == sqlite3.SQLITE_BUSY:
        return StoreError(
            f"{path} is held by another program. Nothing was changed. Try again when it has ended."
        )
    full = isinstance(error, OSError) and error.errno in NO_ROOM
    if full or code == sqlite3.SQLITE_FULL or shutil.disk_usage(path.parent).free < NEEDED:
        return StoreFull(
            f"{path} cannot be opened: its disk is full. Nothing was changed. Free some space and try again."
        )
    for one in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        if one.exists() and not os.access(one, os.R_OK | os.W_OK):
            return PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(one))
    return None


def prepare(path: Path) -> None:
    """A private directory and an empty private file; SQLite gives its other files the same mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    wal = path.with_name(path.name + "-wal")
    if wal.exists() and wal.stat().st_size and not (path.exists() and path.stat().st_size):
        # SQLite would take the database for a new one and delete the log.
        raise damaged(path, f"it is empty, but its log {wal.name} is not")
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    path.chmod(0o600)


def check(path: Path) -> None:
    """Look before anything is written: a read-only connection folds no log into a damaged file when it closes."""
    if path.stat().st_size == 0:
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        [version] = db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StateDamaged(
                f"{path} was written by a newer nanobot (format {version}, this one knows {VERSION}). "
                "Upgrade nanobot, or point it at another workspace."
            )
        if path.stat().st_size <= CHECKED_BYTES:
            [verdict] = db.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise damaged(path, verdict)


def writable(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        [mode] = db.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            reason = f"its disk allows no write-ahead log (journal mode {mode}); use a local disk"
            raise damaged(path, reason)  # noqa: TRY301 - the connection is closed below
        # The writer syncs the log itself, once for many commits, and folds it; SQLite syncs before and after that.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("PRAGMA temp_store = MEMORY")
        migrate(db)
        db.execute("PRAGMA busy_timeout = 0")  # the writer waits without blocking the event loop
    except BaseException:
        db.close()
        raise
    return db


def migrate(db: sqlite3.Connection) -> None:
    """Bring the schema to VERSION, in one transaction. Two processes may try at once; the second finds it done."""
    db.execute("BEGIN IMMEDIATE")
    [version] = db.execute("PRAGMA user_version").fetchone()
    if version < VERSION:
        # executescript would commit first, so the statements are run one by one.
        for statement in statements(schema()):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {VERSION}")
    db.execute("COMMIT")


def statements(script: str) -> list[str]:
    """The statements of a script; a semicolon ends one where SQLite says that it is complete."""
    found: list[str] = []
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            found.append(pending)
            pending = ""
    return found


def damaged(path: Path, reason: str) -> StateDamaged:
    return StateDamaged(
        f"{path} cannot be opened: {reason}. Nothing was changed. Restore it from a backup, or rescue what is left: "
        f"`sqlite3 {path} .recover | sqlite3 {path}.rescued`; or move {path.name}* aside to start with an empty mailbox."
    )
