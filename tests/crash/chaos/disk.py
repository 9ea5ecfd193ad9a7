"""A small file system of our own, so that it can be filled without harming anybody."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Self

MEGABYTES = 64


class SmallDisk:
    """A tmpfs at `path`; `available` is False where mounting is not permitted, and `path` a plain folder then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.available = False
        self._filler = path / "filler"

    async def __aenter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        self.available = await _run(
            "mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "none", str(self.path)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.available:
            await _run("umount", str(self.path))

    def fill(self) -> None:
        """Take every byte that is left."""
        descriptor = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while os.write(descriptor, b"\0" * size) == size:
                        pass
        finally:
            os.close(descriptor)

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)


async def _run(*command: str) -> bool:
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError:
        return False
    return await process.wait() == 0
