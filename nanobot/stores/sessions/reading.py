"""Reading what is stored: pages, excerpts and every line. Runs in the pool, over files and archive."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nanobot.channel import Page
from nanobot.messages import Line
from nanobot.stores.sessions import archive, jsonl
from nanobot.stores.sessions.folder import Folder

EXCERPT = 160  # characters
BEGINS = "begins_at"  # metadata: the position of the first message after the last /new


def page(
    folder: Folder,
    stem: str,
    messages: Sequence[Line],
    archived: int,
    before: int | None,
    limit: int,
    floor: int,
) -> Page:
    """The `limit` messages before a position, none below the floor. Positions count from the session's very first
    message, so they stay the same when messages move to the archive.
    """
    total = archived + len(messages)
    end = total if before is None else max(0, min(before, total))
    start = max(floor, end - max(0, limit))
    found = between(folder, stem, messages, archived, start, end)
    return Page(found, start if start > floor else None, total)


def between(
    folder: Folder, stem: str, messages: Sequence[Line], archived: int, start: int, end: int
) -> list[Line]:
    """The lines from one position to another, also those in the archive."""
    found = list(messages[max(0, start - archived) : max(0, end - archived)])
    if start < archived and start < end:
        found = _archived(folder, stem, archived, start, min(end, archived)) + found
    return found


def begins(metadata: Mapping[str, Any], total: int) -> int:
    """Where the conversation begins that people see; the file may have been written by anybody."""
    position = metadata.get(BEGINS)
    return position if isinstance(position, int) and 0 <= position <= total else 0


def text_of(line: Line) -> str:
    content = line.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (block.get("text") for block in content if isinstance(block, dict))
        return "\n".join(text for text in texts if isinstance(text, str))
    return ""


def excerpt(text: str, position: int) -> str:
    start = max(0, position - EXCERPT // 3)
    piece = " ".join(text[start : start + EXCERPT].split())
    return f"{'…' if start else ''}{piece}{'…' if start + EXCERPT < len(text) else ''}"


def every_line(folder: Folder, stem: str, *, with_archive: bool) -> Iterator[bytes]:
    """A session's message lines in their own bytes, without newlines, oldest first."""
    if with_archive:
        for number in archive.segments(folder, stem):
            yield from archive.read(folder, stem, number)
    for part in jsonl.scan(folder.read(f"{stem}.jsonl") or b"").parts or []:
        if part.is_message:
            yield part.raw


def every_byte(folder: Folder, stem: str) -> bytes:
    """A session's messages as one JSONL text, the archive included."""
    return b"".join(line + b"\n" for line in every_line(folder, stem, with_archive=True))


def _archived(folder: Folder, stem: str, count: int, start: int, end: int) -> list[Line]:
    """The archived messages from `start` to `end`, reading no more segments than needed."""
    found: list[Line] = []
    upper = count
    for lines in archive.backwards(folder, stem):
        lower = upper - len(lines)
        found[:0] = lines[max(0, start - lower) : max(0, end - lower)]
        upper = lower
        if lower <= start:
            break
    return found
