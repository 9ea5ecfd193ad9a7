"""Files that came in, `media/<channel>/…`: written whole, encrypted where the state is, removed when nobody took them."""

import asyncio
import os
from collections.abc import Set as AbstractSet
from datetime import timedelta
from pathlib import Path

from loguru import logger

from nanobot.clock import Clock
from nanobot.errors import StoreError
from nanobot.security.sealing import Sealer, Unsealable
from nanobot.store import Inbox

KEPT = 0o400  # the mode of a file that stays although no accepted message names it
NOTE = ".json"  # a small file beside another, which goes with it
DAY = 86_400.0  # seconds
YOUNGEST, OLDEST = 2 * DAY, 28 * DAY  # of what `sweep` looks at; older names the inbox has forgotten


class MediaFiles:
    """Implements `channel.Files` for the media folder of a state directory. Every method blocks for the disk."""

    def __init__(self, state: Path, sealer: Sealer | None = None) -> None:
        self.state = state
        self.folder = state / "media"
        self.sealed = sealer is not None
        self._sealer = sealer

    def write(self, path: Path, data: bytes, *, keep: bool = False) -> None:
        """Put a file in place whole, 0600; `keep` makes it read-only, which the sweep leaves alone."""
        for folder in (self.state, self.folder, path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._sealer is not None:
            data = self._sealer.seal(data, *self._place(path))
        part = path.with_name(f".{path.name[:120]}.{os.urandom(6).hex()}.part")
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                if keep:
                    os.fchmod(fd, KEPT)
                file.flush()
                os.fsync(fd)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def read(self, path: Path) -> bytes:
        """What was written; a file outside of the media folder as it is. Raises OSError."""
        data = path.read_bytes()
        if self._sealer is None or not path.is_relative_to(self.folder):
            return data
        try:
            return self._sealer.open(data, *self._place(path))
        except Unsealable as error:
            raise OSError(f"{path.name} cannot be opened: {error}") from error

    def is_current(self, path: Path) -> bool:
        """Whether a file is sealed as it would be now."""
        with path.open("rb") as file:
            head = file.read(16)
        return self._sealer is None or self._sealer.is_current(head)

    def candidates(self, now: float) -> list[Path]:
        """Files of an age at which they must belong to an accepted message, or to none."""
        found = []
        for path in self.folder.glob("*/*"):
            if path.name.endswith(NOTE):
                continue
            try:
                stat = path.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if YOUNGEST <= now - stat.st_mtime < OLDEST and stat.st_mode & 0o777 != KEPT:
                found.append(path)
        return found

    def remove(self, files: list[Path], taken: AbstractSet[str]) -> int:
        """Remove those of the files whose paths no message names, with their notes; returns how many."""
        count = 0
        for path in files:
            if str(path) not in taken:
                path.unlink(missing_ok=True)
                path.with_name(path.name + NOTE).unlink(missing_ok=True)
                count += 1
        return count

    def _place(self, path: Path) -> tuple[str, ...]:
        try:
            return path.relative_to(self.state).parts
        except ValueError as error:
            raise StoreError(f"{path} is no file of {self.folder}") from error


async def sweep(files: MediaFiles, inbox: Inbox, clock: Clock) -> None:
    """Remove what came in with messages that were refused or never arrived whole; a failure is only said."""
    now = clock.now()
    try:
        found = await asyncio.to_thread(files.candidates, now.timestamp())
        if not found:
            return
        taken = await inbox.media(now - timedelta(seconds=OLDEST + DAY))
        count = await asyncio.to_thread(files.remove, found, taken)
    except (OSError, StoreError) as error:
        logger.warning("files that nobody needs were not removed: {}", error)
        return
    if count:
        logger.info("{} files of messages that were not accepted removed", count)
