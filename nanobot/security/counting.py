"""How many files a working tree holds, so that an agent in a loop cannot fill it with files."""

import os
import threading
import time

from nanobot.errors import ToolError
from nanobot.security.paths import Boundary

FRESH_SECONDS = 60.0  # a count holds this long, with what was created since added to it


class FileCount:
    """Counts at most once a minute for each tree, and never further than the limit; 0 = no limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._counted: dict[str, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def admit(self, boundary: Boundary, path: str) -> None:
        """Before a write: ToolError where the file is new and the tree holds too many already. Blocks."""
        if not self.limit or boundary.exists(path):
            return
        root, now = str(boundary.root), time.monotonic()
        with self._lock:
            when, count = self._counted.get(root, (0.0, -1))
            if count < 0 or now - when > FRESH_SECONDS or count >= self.limit:
                when, count = now, files_below(root, self.limit)
            if count >= self.limit:
                self._counted.pop(root, None)
                raise ToolError(
                    f"{boundary.root} holds {self.limit:,} files or more, so no new one is created",
                    "remove some first, or put several things into one file",
                )
            self._counted[root] = (when, count + 1)


def files_below(root: str, limit: int) -> int:
    """Names that are no directories, links not followed; counting ends at the limit."""
    found, pending = 0, [root]
    while pending and found < limit:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        found += 1
        except OSError:
            continue  # gone since its parent was read, or closed to us
    return min(found, limit)
