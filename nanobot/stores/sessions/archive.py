"""What left a session file: `archive/<stem>/NNNN.jsonl.gz`, oldest first, each line as it was in the file."""

import zlib
from collections.abc import Iterator

from loguru import logger

from nanobot.messages import Line
from nanobot.stores.sessions import jsonl
from nanobot.stores.sessions.folder import Folder

SUFFIX = ".jsonl.gz"
GZIP = 31  # zlib's number for the largest window in a gzip frame


def write(folder: Folder, stem: str, number: int, lines: list[bytes]) -> None:
    """Write a segment, durable on return; one of the same number was a failed try and is replaced."""
    pack = zlib.compressobj(wbits=GZIP)
    data = pack.compress(b"".join(line + b"\n" for line in lines)) + pack.flush()
    folder.replace(_name(stem, number), data)


def segments(folder: Folder, stem: str) -> list[int]:
    """The numbers of the segments, in order."""
    names = [name for name, _ in folder.list(f"archive/{stem}") if name.endswith(SUFFIX)]
    return sorted(int(number) for name in names if (number := name.removesuffix(SUFFIX)).isdigit())


def read(folder: Folder, stem: str, number: int) -> list[bytes]:
    """A segment's lines without their newlines; what cannot be read any more is left out, and said."""
    data = folder.read(_name(stem, number))
    if data is None:
        return []
    unpack = zlib.decompressobj(wbits=GZIP)
    try:
        text = unpack.decompress(data)
    except zlib.error as error:
        logger.warning("archive segment {} cannot be read: {}", _name(stem, number), error)
        return []
    return [line for line in text.split(b"\n") if line.strip()]


def messages(folder: Folder, stem: str, number: int) -> list[Line]:
    return jsonl.parse(b"".join(line + b"\n" for line in read(folder, stem, number))).messages


def backwards(folder: Folder, stem: str) -> Iterator[list[Line]]:
    """The segments' messages, the newest segment first."""
    for number in reversed(segments(folder, stem)):
        yield messages(folder, stem, number)


def half_moved(folder: Folder, stem: str, known: int, head: list[bytes]) -> tuple[int, int]:
    """The last segment and the number of lines of a move that a crash cut in two: segments after the `known` one
    whose lines still head the session file.
    """
    last = position = 0
    for number in segments(folder, stem):
        if number <= known:
            continue
        lines = read(folder, stem, number)
        if not lines or head[position : position + len(lines)] != lines:
            break
        position += len(lines)
        last = number
    return last, position


def counted(folder: Folder, stem: str) -> tuple[int, int]:
    """The last segment's number and how many messages there are in all of them."""
    numbers = segments(folder, stem)
    return max(numbers, default=0), sum(len(messages(folder, stem, number)) for number in numbers)


def delete(folder: Folder, stem: str) -> bool:
    return folder.delete(f"archive/{stem}")


def _name(stem: str, number: int) -> str:
    return f"archive/{stem}/{number:04d}{SUFFIX}"
