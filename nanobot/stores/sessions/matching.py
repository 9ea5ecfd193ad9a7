"""What a search looks for in a message's text, and how it is told: the words, the place, the excerpt."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from nanobot.messages import Line
from nanobot.stores.sessions import jsonl, reading
from nanobot.stores.sessions.folder import Folder
from nanobot.stores.sessions.index import Entry


def words_of(query: str) -> list[str]:
    """The words to look for, in lower case; what stands in double quotes is one."""
    parts = query.casefold().split('"')
    if len(parts) % 2 == 0:  # a quote without its other half is a character like others
        return query.casefold().split()
    words: list[str] = []
    for at, part in enumerate(parts):
        words += [" ".join(part.split())] if at % 2 else part.split()
    return [word for word in words if word]


def hit(
    entry: Entry, index: int, text: str, role: str, timestamp: str, words: Sequence[str]
) -> dict[str, Any] | None:
    folded = text.casefold()
    if not all(word in folded for word in words):
        return None
    return {
        "key": entry.key,
        "title": entry.title or entry.preview,
        "index": index,
        "role": role,
        "excerpt": reading.excerpt(text, folded.find(words[0])),
        "timestamp": timestamp,
    }


def _may_hold(data: bytes, words: Sequence[str]) -> bool:
    """A quick look without parsing; only plain words are written in JSON as they are."""
    if b"\\u" in data:
        return True
    folded = data.lower()
    return all(msgspec.json.encode(word)[1:-1] in folded for word in words if word.isascii())


def texts(start: int, lines: Sequence[Line]) -> Iterator[tuple[int, str, str, str]]:
    """Position, text, role and time of what people and the model said."""
    for at, line in enumerate(lines, start):
        if line.get("role") in {"user", "assistant"} and (text := reading.text_of(line)):
            yield at, text, str(line["role"]), str(line.get("timestamp", ""))


def look(
    folder: Folder, files: Mapping[str, Entry], names: Sequence[str], words: Sequence[str], limit: int
) -> list[dict[str, Any]]:
    """The messages of some files that hold every word, read from the files; the newest session is last in `names`."""
    hits: list[dict[str, Any]] = []
    for name in reversed(names):
        data = folder.read(name)
        # What is in the archive is compressed, so there is no quick look at it.
        if data is None or not (b'"archived":{' in data or _may_hold(data, words)):
            continue
        parsed = jsonl.parse(data)
        offset = jsonl.archived(parsed.metadata)[1]
        end = offset + len(parsed.messages)
        metadata = parsed.metadata.get("metadata")
        start = reading.begins(metadata if isinstance(metadata, dict) else {}, end)
        lines = reading.between(folder, name.removesuffix(".jsonl"), parsed.messages, offset, start, end)
        for index, text, role, timestamp in reversed(list(texts(start, lines))):
            if found := hit(files[name], index, text, role, timestamp, words):
                hits.append(found)
                if len(hits) >= limit:
                    return hits
    return hits
