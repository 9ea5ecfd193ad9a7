"""Long tool results: kept whole in a file of the workspace, shown to the model as head and tail.

With an encrypted state there is no such file: what lies in the workspace is plain, and a result may hold what was said.
"""

import hashlib
import re
import time
from contextlib import suppress
from pathlib import Path

from nanobot.errors import ToolError
from nanobot.security.context import SecurityContext
from nanobot.security.paths import Boundary

LIMIT = 16_000  # characters a result may have in the history
HEAD, TAIL = 3_000, 1_500  # characters shown of a longer one
KEEP_FILES, KEEP_SECONDS = 200, 7 * 86_400.0
FOLDER = "tool-results"
UNKEPT = "the state is encrypted, so the rest is kept nowhere: ask again for the part you need"


def safe_name(text: str) -> str:
    """A file name for any text: readable, and distinct by the hash of the whole."""
    slug = re.sub(r"[^a-z0-9._-]+", "_", text.lower()).strip("._")[:80]
    return f"{slug or 'x'}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def spill(
    security: SecurityContext, workspace: Path, session: str, call: str, text: str, *, keep: bool = True
) -> str:
    """The text as the model gets it; blocks on the disk. Where the file cannot be written, the preview says so."""
    if len(text) <= LIMIT:
        return text
    note = UNKEPT if not keep else _kept(security, workspace, session, call, text)
    left_out = len(text) - HEAD - TAIL
    return (
        f"[{len(text):,} characters; {note}]\n{text[:HEAD]}\n"
        f"[… {left_out:,} characters left out …]\n{text[-TAIL:]}"
    )


def _kept(security: SecurityContext, workspace: Path, session: str, call: str, text: str) -> str:
    """Write the file; returns what the model is told about it."""
    path = f"{FOLDER}/{safe_name(session)}/{safe_name(call)}.txt"
    try:
        boundary = security.within(workspace).boundary
        boundary.write(path, text.encode(), durable=False)
    except ToolError as error:
        return f"the rest is lost: {error}"
    with suppress(ToolError):  # the folder may go away while it is looked through
        prune(boundary)
    return f"the whole result is in {path}: read_file with offset and limit, or grep"


def prune(boundary: Boundary, now: float | None = None) -> int:
    """Remove all but the newest files, and those older than a week, as far as they can be; returns how many."""
    moment = time.time() if now is None else now
    found = [
        (entry.modified, "/".join((*parts, entry.name)))
        for parts, entries in boundary.walk(FOLDER)
        for entry in entries
        if entry.kind == "file"
    ]
    found.sort(reverse=True)
    old = [path for at, path in found[:KEEP_FILES] if at < moment - KEEP_SECONDS] + [
        p for _, p in found[KEEP_FILES:]
    ]
    removed = 0
    for path in old:
        with suppress(ToolError):  # one that cannot be removed keeps no other
            boundary.remove(path)
            removed += 1
    return removed
