"""What the operating system refused, as a sentence with its remedy."""

import errno
import os
from pathlib import Path

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_RIGHT = frozenset({errno.EACCES, errno.EPERM})
MENDABLE = NO_RIGHT | {
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}

REMEDIES = {
    **dict.fromkeys(NO_ROOM, "Free some space and try again."),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP), "Check the path."),
    errno.EROFS: "Choose a place that can be written.",
    errno.EMFILE: "Raise the limit of open files (ulimit -n).",
    errno.EIO: "Check the disk.",
}


def sentence(error: OSError) -> str:
    """What could not be done to which file, why, and what to do about it."""
    found = error.filename2 or error.filename  # of two, such as of a copy, the one that is written
    path = Path(os.fsdecode(found)) if isinstance(found, str | bytes | Path) else None
    remedy = rights(path) if error.errno in NO_RIGHT else REMEDIES.get(error.errno or 0, "")
    return f"{f'{path}: ' if path else ''}{error.strerror or error}. {remedy}".strip()


def rights(path: Path | None) -> str:
    """What to do where the right to a file is missing: often it is another account's."""
    owner = owner_of(path) if path else ""
    return f"It belongs to {owner}: try sudo -u {owner}." if owner else "Check its permissions."


def owner_of(path: Path) -> str:
    """The account that the file, or the nearest folder above it that can be looked at, belongs to; "" if it is ours."""
    import pwd  # noqa: PLC0415 - absent on Windows

    for place in (path, *path.absolute().parents):
        try:
            owner = place.stat().st_uid
        except OSError:
            continue
        if owner == os.geteuid():
            return ""
        try:
            return pwd.getpwuid(owner).pw_name
        except KeyError:
            return str(owner)
    return ""
