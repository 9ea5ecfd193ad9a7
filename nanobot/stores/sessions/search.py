"""Full-text search over the session files: an index beside them that follows what is written.

`search.db` is only a cache: made when it is absent, made anew when it is damaged. A query brings it up to date for a
moment at most; files that it has not reached by then are read for this query, so that every answer is whole, and the
index catches up afterwards, in small batches. Where SQLite lacks full-text search with trigrams the files themselves
are read instead. All of it happens in a thread of its own: writing a session never waits behind a search.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from loguru import logger

from nanobot.stores.sessions import jsonl, matching, reading
from nanobot.stores.sessions.folder import Folder
from nanobot.stores.sessions.index import Entry

NAME = "search.db"
VERSION = 1
SPAN = 1 << 32  # rowids of one file: no session has so many messages
SHORTEST = 3  # characters of a word that trigrams can find
MOMENT = 0.15  # seconds that a query spends on the index, and that it waits for a batch at most
MOST = 2_000  # messages taken at once
BUSY_SECONDS = 5.0

# At once, or a kill in between would leave an index that can neither be used nor made.
SCHEMA = f"""
BEGIN;
CREATE TABLE files (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, inode INTEGER NOT NULL, size INTEGER NOT NULL,
    mtime INTEGER NOT NULL, created TEXT NOT NULL, archived INTEGER NOT NULL, next INTEGER NOT NULL
);
CREATE VIRTUAL TABLE lines USING fts5(text, role UNINDEXED, timestamp UNINDEXED, tokenize = 'trigram');
PRAGMA user_version = {VERSION};
COMMIT;
"""


T = TypeVar("T")
Entries = Callable[[], Mapping[str, Entry]]


class Search:
    """One query at a time, in the order they came. `entries` gives the session files as they are now."""

    def __init__(self, folder: Folder, path: Path | None) -> None:
        self._folder = folder
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._usable = path is not None
        self._thread: ThreadPoolExecutor | None = None
        self._catching_up = False
        self.behind = 0  # files that the index has not read as they are now

    def submit(self, entries: Entries, query: str, limit: int) -> "Future[list[dict[str, Any]]]":
        """Messages in which every word of the query stands, in any case; those of the newest session first."""
        with self._lock:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "search")
            return self._thread.submit(self._search, entries, query, limit)

    def close(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=True, cancel_futures=True)
        self._close()

    # In the thread.

    def _search(self, entries: Entries, query: str, limit: int) -> list[dict[str, Any]]:
        files = entries()
        newest = sorted(files.items(), key=lambda item: item[1].updated_at, reverse=True)
        words = matching.words_of(query)
        if not words:
            return []
        found: list[dict[str, Any]] | None = None
        if any(len(word) >= SHORTEST for word in words):
            found = self._with_index(lambda db: self._find(db, dict(newest), words, limit))
            if self.behind:
                self._go_on(entries)
        if found is None:
            oldest_first = [name for name, _ in reversed(newest)]
            found = matching.look(self._folder, files, oldest_first, words, limit)
        return found

    def _find(
        self, db: sqlite3.Connection, files: Mapping[str, Entry], words: Sequence[str], limit: int
    ) -> list[dict[str, Any]]:
        behind = self._follow(db, files)
        hits = self._ask(db, files, behind, words, limit)
        if behind:
            hits += matching.look(self._folder, files, behind, words, limit)
            order = {entry.key: at for at, entry in enumerate(files.values())}
            hits.sort(key=lambda hit: (order[hit["key"]], -hit["index"]))
        return hits[:limit]

    def _go_on(self, entries: Entries) -> None:
        with self._lock:
            if self._thread is not None and not self._catching_up:
                self._catching_up = True
                self._thread.submit(self._catch_up, entries)

    def _catch_up(self, entries: Entries) -> None:
        self._catching_up = False
        self._with_index(lambda db: self._follow(db, entries()))
        if self.behind:
            self._go_on(entries)

    def _with_index(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """None where there is no index to work with."""
        for _ in range(2):
            if not self._usable:
                break
            try:
                return work(self._open())
            except sqlite3.OperationalError as error:
                if "no such" in str(error):
                    self._usable = False
                logger.warning("the search index cannot be used: {}", error)
                self._close()
                break
            except sqlite3.DatabaseError as error:
                logger.warning("the search index is damaged and made anew: {}", error)
                self._discard()
        self.behind = 0
        return None

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            assert self._path is not None
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # SQLite gives its other files the same mode.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            db = sqlite3.connect(self._path, timeout=BUSY_SECONDS, check_same_thread=False)
            try:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")
                version = db.execute("PRAGMA user_version").fetchone()[0]
                if version not in (0, VERSION):
                    raise sqlite3.DatabaseError(f"version {version}")
                if not version:
                    db.executescript(SCHEMA)
            except sqlite3.Error:
                db.close()
                raise
            self._db = db
        return self._db

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _discard(self) -> None:
        self._close()
        assert self._path is not None
        discard(self._path)

    # Keeping step.

    def _follow(self, db: sqlite3.Connection, files: Mapping[str, Entry]) -> list[str]:
        """Read for a moment what changed, the newest first; the names of the files that are left."""
        rows = db.execute("SELECT name, id, inode, size, mtime, created, archived, next FROM files")
        known = {row[0]: row[1:] for row in rows}
        changed = [
            name
            for name, entry in files.items()
            if name not in known or known[name][1:4] != (entry.inode, entry.size, entry.mtime)
        ]
        changed.sort(key=lambda name: files[name].updated_at)
        end = monotonic() + MOMENT
        with db:
            for name in known.keys() - files.keys():
                _forget(db, known[name][0], 0)
                db.execute("DELETE FROM files WHERE id = ?", (known[name][0],))
            while changed:
                if self._take(db, changed[-1], files[changed[-1]]):
                    changed.pop()
                if monotonic() >= end:
                    break
        self.behind = len(changed)
        return changed

    def _take(self, db: sqlite3.Connection, name: str, entry: Entry) -> bool:
        """Read a file's new messages, so many at once; whether that was all of them."""
        data = self._folder.read(name)
        if data is None:
            return True
        known = db.execute(
            "SELECT id, inode, created, archived, next FROM files WHERE name = ?", (name,)
        ).fetchone()
        parsed = jsonl.parse(data)
        offset = jsonl.archived(parsed.metadata)[1]
        end = offset + len(parsed.messages)
        metadata = parsed.metadata.get("metadata")
        begins = reading.begins(metadata if isinstance(metadata, dict) else {}, end)
        if known is None:
            row = (name, 0, 0, 0, entry.created_at, 0, 0)
            file = db.execute(
                "INSERT INTO files (name, inode, size, mtime, created, archived, next) VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            ).lastrowid
            inode, created, archived, start = 0, entry.created_at, 0, 0
        else:
            file, inode, created, archived, start = known
        assert file is not None
        if created != entry.created_at:
            archived = start = 0  # another session of the same name
            _forget(db, file, 0)
        elif inode != entry.inode or archived != offset or start > end:
            # Written anew. What moved to the archive has the numbers that it had.
            start = min(start, archived, offset)
            _forget(db, file, start)
        if begins:
            db.execute(
                "DELETE FROM lines WHERE rowid >= ? AND rowid < ?", (file * SPAN, file * SPAN + begins)
            )
        start = max(start, begins)
        upto = min(end, start + MOST)
        lines = reading.between(
            self._folder, name.removesuffix(".jsonl"), parsed.messages, offset, start, upto
        )
        db.executemany(
            "INSERT INTO lines (rowid, text, role, timestamp) VALUES (?, ?, ?, ?)",
            [(file * SPAN + at, *rest) for at, *rest in matching.texts(start, lines)],
        )
        db.execute(
            "UPDATE files SET inode = ?, size = ?, mtime = ?, created = ?, archived = ?, next = ? WHERE id = ?",
            (
                entry.inode,
                entry.size if upto == end else -1,
                entry.mtime,
                entry.created_at,
                offset,
                upto,
                file,
            ),
        )
        return upto == end

    # Asking.

    def _ask(
        self,
        db: sqlite3.Connection,
        files: Mapping[str, Entry],
        behind: Sequence[str],
        words: Sequence[str],
        limit: int,
    ) -> list[dict[str, Any]]:
        names = dict(db.execute("SELECT id, name FROM files"))
        order = {name: at for at, name in enumerate(files)}
        for name in behind:
            del order[name]
        match = " AND ".join('"' + word.replace('"', '""') + '"' for word in words if len(word) >= SHORTEST)
        found = [
            (order[names[rowid // SPAN]], -(rowid % SPAN), rowid)
            for (rowid,) in db.execute("SELECT rowid FROM lines WHERE lines MATCH ?", (match,))
            if names.get(rowid // SPAN) in order
        ]
        hits: list[dict[str, Any]] = []
        with closing(db.cursor()) as cursor:
            for _, _, rowid in sorted(found):
                text, role, timestamp = cursor.execute(
                    "SELECT text, role, timestamp FROM lines WHERE rowid = ?", (rowid,)
                ).fetchone()
                entry = files[names[rowid // SPAN]]
                if hit := matching.hit(entry, rowid % SPAN, text, role, timestamp, words):
                    hits.append(hit)
                    if len(hits) >= limit:
                        break
        return hits


def discard(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def place(directory: Path | None, folder: Folder) -> Path | None:
    """Beside the workspace's `sessions/`; inside a folder that somebody else chose. None for encrypted ones: an index
    of their words would tell them, so the files themselves are read.
    """
    if directory is None or folder.sealed:
        return None
    return (directory.parent if directory.name == "sessions" else directory) / NAME


def _forget(db: sqlite3.Connection, id: int, start: int) -> None:
    db.execute("DELETE FROM lines WHERE rowid >= ? AND rowid < ?", (id * SPAN + start, (id + 1) * SPAN))
