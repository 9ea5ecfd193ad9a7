"""A channel's files on the disk, as the gateway offers them; `nanobot.channel` has it for adapters."""

from pathlib import Path
from typing import Protocol


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
