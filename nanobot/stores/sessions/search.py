"""Full-text search over the session files: an index beside them, brought up to date before it is asked.

`search.db` is only a cache: made when it is absent, made anew when it is damaged. Where SQLite lacks full-text search
with trigrams the files themselves are read instead.
"""

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from loguru import logger

from nanobot.messages import Line
from nanobot.stores.sessions import jsonl, reading
from nanobot.stores.sessions.folder import Folder
from nanobot.stores.sessions.index import Entry

NAME = "search.db"
VERSION = 1
SPAN = 1 << 32  # rowids of one file: no session has so many messages
SHORTEST = 3  # characters of a word that trigrams can find
BATCH = 200  # files between commits
BUSY_SECONDS = 5.0

SCHEMA = f"""
CREATE TABLE files (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, inode INTEGER NOT NULL, size INTEGER NOT NULL,
    mtime INTEGER NOT NULL, created TEXT NOT NULL, archived INTEGER NOT NULL, next INTEGER NOT NULL
);
CREATE VIRTUAL TABLE lines USING fts5(text, role UNINDEXED, timestamp UNINDEXED, tokenize = 'trigram');
PRAGMA user_version = {VERSION};
"""


class Search:
    """Safe to use from any thread; one query at a time."""

    def __init__(self, folder: Folder, path: Path | None) -> None:
        self._folder = folder
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._usable = path is not None

    def find(self, files: Mapping[str, Entry], query: str, limit: int) -> list[dict[str, Any]]:
        """Messages in which every word of the query stands, in any case; those of the newest session first."""
        newest = sorted(files.items(), key=lambda item: item[1].updated_at, reverse=True)
        words = words_of(query)
        if not any(len(word) >= SHORTEST for word in words):
            return reading.search(self._folder, newest, query, limit)
        with self._lock:
            for _ in range(2):
                if not self._usable:
                    break
                try:
                    db = self._open()
                    self._follow(db, files)
                    return self._ask(db, dict(newest), words, limit)
                except sqlite3.OperationalError as error:
                    if "no such" in str(error):
                        self._usable = False
                    logger.warning("the search index cannot be used: {}", error)
                    self._close()
                    break
                except sqlite3.DatabaseError as error:
                    logger.warning("the search index is damaged and made anew: {}", error)
                    self._discard()
        return reading.search(self._folder, newest, query, limit)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            assert self._path is not None
            self._path.parent.mkdir(parents=True, exist_ok=True)
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
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    # Keeping step.

    def _follow(self, db: sqlite3.Connection, files: Mapping[str, Entry]) -> None:
        """Read what changed since the last query."""
        rows = db.execute("SELECT name, id, inode, size, mtime, created, archived, next FROM files")
        known = {row[0]: row[1:] for row in rows}
        with db:
            for name in known.keys() - files.keys():
                _forget(db, known[name][0], 0)
                db.execute("DELETE FROM files WHERE id = ?", (known[name][0],))
        changed = [
            (name, entry)
            for name, entry in files.items()
            if name not in known or known[name][1:4] != (entry.inode, entry.size, entry.mtime)
        ]
        for at in range(0, len(changed), BATCH):
            with db:
                for name, entry in changed[at : at + BATCH]:
                    self._take(db, name, entry, known.get(name))

    def _take(self, db: sqlite3.Connection, name: str, entry: Entry, known: Sequence[Any] | None) -> None:
        data = self._folder.read(name)
        if data is None:
            return
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
            file, inode, _, _, created, archived, start = known
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
        lines = reading.between(
            self._folder, name.removesuffix(".jsonl"), parsed.messages, offset, start, end
        )
        db.executemany(
            "INSERT INTO lines (rowid, text, role, timestamp) VALUES (?, ?, ?, ?)", _rows(file, start, lines)
        )
        db.execute(
            "UPDATE files SET inode = ?, size = ?, mtime = ?, created = ?, archived = ?, next = ? WHERE id = ?",
            (entry.inode, entry.size, entry.mtime, entry.created_at, offset, end, file),
        )

    # Asking.

    def _ask(
        self, db: sqlite3.Connection, files: Mapping[str, Entry], words: Sequence[str], limit: int
    ) -> list[dict[str, Any]]:
        names = dict(db.execute("SELECT id, name FROM files"))
        order = {name: at for at, name in enumerate(files)}
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
                folded = text.casefold()
                if not all(word in folded for word in words):
                    continue
                entry = files[names[rowid // SPAN]]
                hits.append(
                    {
                        "key": entry.key,
                        "title": entry.title or entry.preview,
                        "index": rowid % SPAN,
                        "role": role,
                        "excerpt": reading.excerpt(text, folded.find(words[0])),
                        "timestamp": timestamp,
                    }
                )
                if len(hits) >= limit:
                    break
        return hits


def place(directory: Path | None) -> Path | None:
    """Beside the workspace's `sessions/`; inside a folder that somebody else chose."""
    if directory is None:
        return None
    return (directory.parent if directory.name == "sessions" else directory) / NAME


def words_of(query: str) -> list[str]:
    """The words to look for, in lower case; what stands in double quotes is one."""
    parts = query.casefold().split('"')
    if len(parts) % 2 == 0:  # a quote without its other half is a character like others
        return query.casefold().split()
    words: list[str] = []
    for at, part in enumerate(parts):
        words += [" ".join(part.split())] if at % 2 else part.split()
    return [word for word in words if word]


def _forget(db: sqlite3.Connection, id: int, start: int) -> None:
    db.execute("DELETE FROM lines WHERE rowid >= ? AND rowid < ?", (id * SPAN + start, (id + 1) * SPAN))


def _rows(id: int, start: int, lines: Sequence[Line]) -> Iterator[tuple[int, str, str, str]]:
    for at, line in enumerate(lines, id * SPAN + start):
        if line.get("role") in {"user", "assistant"} and (text := reading.text_of(line)):
            yield at, text, str(line["role"]), str(line.get("timestamp", ""))
