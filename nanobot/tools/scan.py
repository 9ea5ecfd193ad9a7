"""What find_files and grep do, in a child process (`worker`): only the standard library and its like are imported."""

import fnmatch
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nanobot.errors import Refused, ToolError
from nanobot.security.paths import Boundary, Entry

SKIPPED = (".git", "node_modules", "__pycache__", ".venv")
MATCHES = 200
FILES = 500
CHARACTERS = 15_000
LINE_CHARACTERS = 500
FILE_BYTES = 20 << 20


def answer(request: dict[str, Any]) -> dict[str, str]:
    """{"text"}, or {"error"}, {"refused"}, or {"bad"} for arguments that cannot be used."""
    boundary = Boundary(Path(request["root"]), [Path(place) for place in request["hidden"]], bare=True)
    search: Callable[[Boundary, dict[str, Any]], str] = {"find": find, "grep": grep}[request["what"]]
    try:
        text = search(boundary, request)
        return {"text": text.encode("utf-8", "replace").decode()}  # names that are not UTF-8
    except re.error as error:
        return {"bad": f"the regular expression is wrong: {error}"}
    except Refused as error:
        return {"refused": str(error)}
    except ToolError as error:
        return {"error": str(error)}


def find(boundary: Boundary, request: dict[str, Any]) -> str:
    matches = _matcher(request["pattern"])
    start = len(boundary.locate(request["path"]))
    found = [
        (entry.modified, "/".join(parts))
        for parts, entry in _files(boundary, request["path"])
        if matches("/".join(parts[start:]))
    ]
    found.sort(reverse=True)
    rows, room = [], CHARACTERS
    for _, path in found[:FILES]:
        room -= len(path) + 1
        if room < 0:
            break
        rows.append(path)
    if len(found) > len(rows):
        rows.append(f"[{len(found) - len(rows):,} more, all older]")
    return "\n".join(rows) or "no file matches"


def grep(boundary: Boundary, request: dict[str, Any]) -> str:
    expression = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    rows: list[str] = []
    matched = files = shown = room = 0
    for parts in _searched(boundary, request):
        try:
            lines = _lines(boundary, parts)
        except ToolError:
            continue  # hidden by a hard link, unreadable or gone
        hits = [number for number, line in enumerate(lines) if expression.search(line)]
        files += bool(hits)
        matched += len(hits)
        if shown < MATCHES and room < CHARACTERS:
            hits = hits[: MATCHES - shown]
            for row in _shown("/".join(parts), lines, hits, request["context"]):
                room += len(row) + 1
                if room < CHARACTERS:
                    rows.append(row)
            shown += len(hits)
    if not matched:
        return "no match"
    note = f"[{matched:,} matching lines in {files:,} files" + (
        "]" if room < CHARACTERS and shown == matched else "; not all are shown]"
    )
    return "\n".join([*rows, note])


def _searched(boundary: Boundary, request: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    parts = boundary.locate(request["path"])
    try:
        with boundary.file_at(parts):
            pass
    except Refused:
        raise
    except ToolError:
        matches = _matcher(request["files"])
        start = len(parts)
        for found, entry in _files(boundary, request["path"]):
            if entry.size <= FILE_BYTES and matches("/".join(found[start:])):
                yield found
    else:
        yield parts


def _files(boundary: Boundary, path: str) -> Iterator[tuple[tuple[str, ...], Entry]]:
    for parts, entries in boundary.walk(path, SKIPPED):
        for entry in entries:
            if entry.kind == "file":
                yield (*parts, entry.name), entry


def _lines(boundary: Boundary, parts: tuple[str, ...]) -> list[str]:
    with boundary.file_at(parts) as (opened, _), os.fdopen(os.dup(opened), "rb") as stream:
        data = stream.read(FILE_BYTES)
    return [] if b"\0" in data[:8_192] else data.decode("utf-8", "replace").splitlines()


def _shown(path: str, lines: list[str], hits: list[int], around: int) -> Iterator[str]:
    """Rows as grep writes them: `path:line:text` for a match, `path-line-text` around it, `--` between groups."""
    matching, last = set(hits), -1
    for hit in hits:
        for at in range(max(hit - around, last + 1), min(hit + around + 1, len(lines))):
            if around and last >= 0 and at > last + 1:
                yield "--"
            mark = ":" if at in matching else "-"
            yield f"{path}{mark}{at + 1}{mark}{lines[at][:LINE_CHARACTERS]}"
            last = at


def _matcher(pattern: str) -> Callable[[str], bool]:
    """A glob over relative paths: a pattern without a slash means the name, `**` any number of folders."""
    if "/" not in pattern.strip("/"):
        name = re.compile(fnmatch.translate(pattern.strip("/")))
        return lambda path: name.match(path.rpartition("/")[2]) is not None
    wanted = [part for part in pattern.split("/") if part not in ("", ".")]
    compiled = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in wanted]

    def matches(path: str) -> bool:
        places = {0}  # positions in the pattern that what was read so far may have reached
        for part in path.split("/"):
            following = set()
            for at in _skipping(compiled, places):
                if at < len(compiled):
                    step = compiled[at]
                    if step is None:
                        following.add(at)
                    elif step.match(part):
                        following.add(at + 1)
            places = following
        return len(compiled) in _skipping(compiled, places)

    return matches


def _skipping(compiled: list[re.Pattern[str] | None], places: set[int]) -> set[int]:
    """The positions, and those behind a `**` that stands for no folder."""
    reached = set(places)
    for at in sorted(places):
        following = at
        while following < len(compiled) and compiled[following] is None:
            following += 1
            reached.add(following)
    return reached
