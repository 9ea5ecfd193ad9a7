"""The list of all sessions, kept so that listing thousands reads only the files that changed.

Entries are known by inode, size and time. They live in memory and in `index.json` beside the files, which is only a
cache: it is made anew when it is missing, old or wrong.
"""

import re
import threading
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from loguru import logger

from nanobot.clock import stamp
from nanobot.errors import StoreError
from nanobot.stores.sessions import jsonl
from nanobot.stores.sessions.folder import Folder, Stat

NAME = "index.json"
VERSION = 1
PREVIEW = 120  # characters
LOOK = 200  # messages that are searched for a preview
COMMAND = re.compile(r"[/!][a-z]+(\s|@|$)", re.IGNORECASE)
GOAL = re.compile(r"[/!]goal(@\S+)?\s+(?!(pause|resume|cancel|done|edit|budget)\b)", re.IGNORECASE)
SMALL = 1_024  # bytes of a metadata value that the index still holds
MARK = 64  # bytes before a file's end that tell whether it only grew


class Entry(msgspec.Struct, array_like=True):
    """What the list shows of one file."""

    inode: int
    size: int
    mtime: int
    mark: int
    key: str
    title: str
    preview: str
    created_at: str
    updated_at: str
    messages: int
    metadata: dict[str, Any]


class _Sidecar(msgspec.Struct):
    version: int
    entries: dict[str, Entry]


class Index:
    """Safe to use from any thread."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._entries: dict[str, Entry] | None = None
        self._unsaved = 0
        self._lock = threading.Lock()

    def entries(self) -> dict[str, Entry]:
        """All session files by name, brought up to date."""
        with self._lock:
            old = self._entries if self._entries is not None else self._read()
            new: dict[str, Entry] = {}
            changes = 0
            for name, stat in self._folder.list():
                if not name.endswith(".jsonl"):
                    continue
                entry = old.get(name)
                if entry is None or (entry.mtime, entry.size, entry.inode) != (
                    stat.mtime,
                    stat.size,
                    stat.inode,
                ):
                    entry = self._fresh(name, stat, entry)
                    changes += 1
                    if entry is None:
                        continue
                new[name] = entry
            self._unsaved += changes + len(old.keys() - new.keys())
            self._entries = new
            # Rewriting it costs as much as reading some dozens of files: a few changes can wait.
            if self._unsaved > 32 + len(new) // 50:
                self._save()
            return new

    def forget(self, name: str) -> None:
        """A deleted session leaves no trace here either."""
        with self._lock:
            if self._entries is None:
                self._entries = self._read()
            if self._entries.pop(name, None) is not None:
                self._save()

    def save(self) -> None:
        with self._lock:
            if self._unsaved:
                self._save()

    def _read(self) -> dict[str, Entry]:
        try:
            data = self._folder.read(NAME)
            if data is None:
                return {}
            sidecar = msgspec.json.decode(data, type=_Sidecar)
        except (StoreError, ValueError, RecursionError):
            return {}
        return sidecar.entries if sidecar.version == VERSION else {}

    def _save(self) -> None:
        try:
            self._folder.replace(NAME, msgspec.json.encode(_Sidecar(VERSION, self._entries or {})))
        except (StoreError, ValueError) as error:
            logger.debug("the session index was not saved: {}", error)
        else:
            self._unsaved = 0

    def _fresh(self, name: str, stat: Stat, old: Entry | None) -> Entry | None:
        try:
            grown = old is not None and old.inode == stat.inode and stat.size > old.size >= MARK
            if old is not None and grown and not self._folder.sealed:
                data = self._folder.read(name, old.size - MARK)
                if (
                    data is not None
                    and zlib.crc32(data[:MARK]) == old.mark
                    and data[MARK - 1 : MARK] == b"\n"
                ):
                    return _entry(name, stat, data[MARK:], old)
            data = self._folder.read(name)
        except StoreError as error:
            logger.warning("{}", error)
            return None
        return None if data is None else _entry(name, stat, data, None)


def _entry(name: str, stat: Stat, data: bytes, base: Entry | None) -> Entry:
    """Read a whole file, or with `base` what was appended since."""
    head, typed = _last_head(data)
    metadata = head.get("metadata") if head else None
    if not isinstance(metadata, dict):
        metadata = {}
    count = data.count(b"\n") + (not data.endswith(b"\n") and bool(data)) - typed
    last = _last_time(data)
    small = {key: value for key, value in metadata.items() if len(jsonl.encode({"": value})) <= SMALL}
    # Files made by another hand may end without a newline: then the next reading starts from the beginning.
    mark = zlib.crc32(data[-MARK:]) if len(data) >= MARK or base is None else 0
    if base is not None and head is None:
        return msgspec.structs.replace(
            base,
            size=stat.size,
            mtime=stat.mtime,
            mark=mark,
            preview=base.preview or _preview(data),
            updated_at=last or base.updated_at,
            messages=base.messages + count,
        )
    head = head or {}
    changed = datetime.fromtimestamp(stat.mtime / 1e9, UTC)
    told = [moment for moment in (jsonl.moment(head.get("updated_at")),) if moment is not None]
    updated = max([last or "", *map(stamp, told)]) or stamp(changed)
    created = jsonl.moment(head.get("created_at"))
    title = metadata.get("title")
    key = head.get("key")
    return Entry(
        stat.inode,
        stat.size,
        stat.mtime,
        mark,
        key if isinstance(key, str) and key else name.removesuffix(".jsonl").replace("_", ":", 1),
        title if isinstance(title, str) else "",
        (base.preview if base else "") or _preview(data),
        stamp(created) if created else updated,
        updated,
        (base.messages if base else 0) + count,
        small,
    )


def _last_head(data: bytes) -> tuple[dict[str, Any] | None, int]:
    """The last metadata line, and how many lines are no messages. A raw newline is never inside a JSON text."""
    found: dict[str, Any] | None = None
    count = 0
    position = 0 if data.startswith(b'{"_type"') else data.find(b'\n{"_type"') + 1
    while position or (count == 0 and data.startswith(b'{"_type"')):
        end = data.find(b"\n", position)
        count += 1
        head = jsonl.value(data[position : end if end >= 0 else None])
        if head is not None and head.get("_type") == "metadata":
            found = head
        position = data.find(b'\n{"_type"', position) + 1
    return found, count


def _last_time(data: bytes) -> str:
    """The time of the last message, looked for in the last few lines."""
    pieces = data.rsplit(b"\n", 4)
    for raw in reversed(pieces if len(pieces) < 5 else pieces[1:]):
        line = jsonl.value(raw) if raw else None
        if line is not None and jsonl.is_message(line):
            moment = jsonl.moment(line.get("timestamp"))
            if moment is not None:
                return stamp(moment)
    return ""


def _preview(data: bytes) -> str:
    """What the first user said, else the first answer; of commands only a goal's objective says what a chat is about."""
    answer = ""
    commanded = False
    position = 0
    for _ in range(LOOK):
        end = data.find(b"\n", position)
        line = jsonl.value(data[position : end if end >= 0 else None])
        if line is not None and jsonl.is_message(line):
            text = shown(line)
            if text and line["role"] == "user":
                text = GOAL.sub("", text)
                if not COMMAND.match(text):
                    return text
                commanded = True
            elif line["role"] == "assistant" and not commanded:
                answer = answer or text
        if end < 0:
            break
        position = end + 1
    return answer


def shown(line: Mapping[str, Any]) -> str:
    """The begin of a message's text on one line."""
    content = line.get("content")
    if isinstance(content, list):
        texts = [block.get("text") for block in content if isinstance(block, dict)]
        content = " ".join(text for text in texts if isinstance(text, str))
    return " ".join(content[: 8 * PREVIEW].split())[:PREVIEW] if isinstance(content, str) else ""
