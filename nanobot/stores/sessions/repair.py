"""Reading a session file into a session, mending it where it is damaged: nothing that can be read is lost."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from nanobot.clock import Clock, stamp
from nanobot.stores.sessions import archive, jsonl
from nanobot.stores.sessions.folder import Folder
from nanobot.stores.sessions.jsonl import Parsed
from nanobot.stores.sessions.session import Session


class Report(msgspec.Struct, frozen=True):
    """What a file was found to hold, and what was done. `kept_aside` names the file with the removed bytes."""

    name: str
    messages: int
    removed_lines: int
    removed_bytes: int
    torn: bool
    kept_aside: str = ""
    archive_finished: bool = False  # a move to the archive that a crash had interrupted

    @property
    def changed(self) -> bool:
        return bool(self.kept_aside) or self.archive_finished


def load(folder: Folder, stem: str, key: str, clock: Clock) -> tuple[Session, Parsed] | None:
    """The session and what its file says, mended on the disk where needed; None where there is none."""
    data = folder.read(f"{stem}.jsonl")
    if data is None:
        return None
    parsed, _ = mend(folder, stem, data, clock)
    return session(parsed, key, folder_time(folder, stem), clock), parsed


def mend(folder: Folder, stem: str, data: bytes, clock: Clock) -> tuple[Parsed, Report]:
    """Parse a file; rewrite it only if bytes had to be removed, or lines are in the archive already."""
    name = f"{stem}.jsonl"
    parsed = jsonl.parse(data)
    aside = ""
    if parsed.removed and parsed.parts is not None:
        aside = _aside(folder, name, clock)
        folder.replace(aside, b"".join(raw + b"\n" for raw in parsed.removed))
        folder.replace(name, _joined(parsed.parts), keep_time=True)
    finished = _finish_archive(folder, stem, parsed)
    report = Report(
        name,
        len(parsed.messages),
        len(parsed.removed),
        sum(len(raw) for raw in parsed.removed),
        parsed.torn,
        aside,
        finished,
    )
    return parsed, report


def session(parsed: Parsed, key: str, changed_at: datetime, clock: Clock) -> Session:
    """A session of what a file says; wrong values in its head become harmless ones."""
    head, messages = parsed.metadata, parsed.messages
    metadata = head.get("metadata")
    last = jsonl.moment(messages[-1].get("timestamp")) if messages else None
    updated_at = max(filter(None, (jsonl.moment(head.get("updated_at")), last)), default=changed_at)
    loaded = Session(
        key,
        messages,
        metadata if isinstance(metadata, dict) else {},
        created_at=jsonl.moment(head.get("created_at")) or updated_at,
        updated_at=updated_at,
        last_consolidated=jsonl.consolidated(head, len(messages)),
        clock=clock,
    )
    loaded.archived = jsonl.archived(head)
    loaded.mark_saved(len(messages))
    return loaded


def folder_time(folder: Folder, stem: str) -> datetime:
    stat = folder.stat(f"{stem}.jsonl")
    return datetime.fromtimestamp((stat.mtime if stat else 0) / 1e9, UTC)


def head_of(session: Session, drop: int = 0, archived: tuple[int, int] | None = None) -> bytes:
    """The metadata line that says what the session is now, or will be without its first `drop` messages."""
    return jsonl.metadata_line(
        session.key,
        stamp(session.created_at),
        stamp(session.updated_at),
        session.metadata,
        max(0, session.last_consolidated - drop),
        archived or session.archived,
    )


def compacted(head: bytes, parts: list[jsonl.Part], drop: int) -> tuple[bytes, list[bytes]]:
    """A file's new bytes without its first `drop` messages and with one head, and the lines that were dropped.

    Lines keep their bytes. The reference's private provider state is about the whole history, so it goes with any
    part of it.
    """
    dropped: list[bytes] = []
    kept = [head]
    for part in parts:
        kind = part.value.get("_type")
        if kind == "metadata" or (kind == "provider_state" and drop):
            continue
        if part.is_message and len(dropped) < drop:
            dropped.append(part.raw)
        else:
            kept.append(part.raw + b"\n")
    return b"".join(kept), dropped


def _finish_archive(folder: Folder, stem: str, parsed: Parsed) -> bool:
    """Drop the lines that a crash left both in the archive and in the file; whether there were any."""
    known, before = jsonl.archived(parsed.metadata)
    if max(archive.segments(folder, stem), default=0) <= known:
        return False
    scanned = jsonl.scan(folder.read(f"{stem}.jsonl") or b"")
    parts = scanned.parts or []
    last, count = archive.half_moved(folder, stem, known, [part.raw for part in parts if part.is_message])
    head = {**parsed.metadata, "_type": "metadata"}
    if not count:
        # The file's head is lost or old: count anew, so that no segment is ever written over.
        last, before = archive.counted(folder, stem)
    head["last_consolidated"] = max(0, jsonl.consolidated(head, len(parsed.messages)) - count)
    head["archived"] = {"segments": last, "messages": before + count}
    text, _ = compacted(jsonl.encode(head), parts, count)
    folder.replace(f"{stem}.jsonl", text, keep_time=True)
    del parsed.messages[:count]
    parsed.metadata = head
    parsed.lines = text.count(b"\n")
    return True


def _joined(parts: list[jsonl.Part]) -> bytes:
    return b"".join(part.raw + b"\n" for part in parts)


def _aside(folder: Folder, name: str, clock: Clock) -> str:
    """A free name for the removed bytes: `<name>.corrupt-<time>`."""
    base = f"{name}.corrupt-{clock.now():%Y%m%dT%H%M%S}"
    free, number = base, 1
    while folder.stat(free) is not None:
        number += 1
        free = f"{base}-{number}"
    return free


def plain(parsed: Parsed, key: str) -> dict[str, Any]:
    """What a file says, for a reader who wants no session."""
    metadata = parsed.metadata.get("metadata")
    return {
        "key": key,
        "created_at": parsed.metadata.get("created_at"),
        "updated_at": parsed.metadata.get("updated_at"),
        "metadata": metadata if isinstance(metadata, dict) else {},
        "last_consolidated": jsonl.consolidated(parsed.metadata, len(parsed.messages)),
        "messages": parsed.messages,
    }
