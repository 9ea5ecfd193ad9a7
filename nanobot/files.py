"""A channel's files: the way to the disk, and whether one is what it claims. `nanobot.channel` has them for adapters."""

from pathlib import Path
from typing import Protocol

_PICTURES = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class Files(Protocol):
    """A channel's files on the disk, encrypted there where the state is. Both methods block: call them in a thread."""

    sealed: bool  # what lies on the disk can be read by `read` alone

    def write(self, path: Path, data: bytes, *, keep: bool = False) -> None:
        """Put a file of `Port.media` in place whole. One that no accepted message names is removed after two days,
        unless `keep` says that it has another reason. Raises OSError.
        """
        ...

    def read(self, path: Path) -> bytes:
        """A file of `Port.media`, or of the workspace. Raises OSError."""
        ...


def believed(claimed: str, data: bytes) -> str:
    """A file's type as its sender claims it, but for pictures, which are told by their first bytes.

    A model provider refuses the whole request where a picture is none.
    """
    for magic, mime in _PICTURES:
        if data.startswith(magic):
            return mime
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return "" if claimed in ("image/jpeg", "image/png", "image/gif", "image/webp") else claimed
