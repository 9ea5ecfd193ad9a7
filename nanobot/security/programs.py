"""Which programs may be started: known by the file a name resolves to, never by the name."""

import os
import shutil
import stat
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from nanobot.errors import Refused, ToolError
from nanobot.security import environment

# They change who one is, or what is mounted. In the sandbox they could do nothing; they need not be tried there.
RIGHTS = (
    "su", "sudo", "sudoedit", "doas", "pkexec", "run0", "runuser", "newgrp", "sg", "passwd", "gpasswd", "chsh", "chfn",
    "chage", "expiry", "newuidmap", "newgidmap", "mount", "umount", "fusermount", "fusermount3", "chroot", "nsenter",
    "setpriv", "capsh",
)  # fmt: skip
_PLACES = (*environment.PATH.split(":"), "/usr/sbin", "/sbin")

Identity = tuple[int, int]  # device, inode


@cache
def of_rights() -> tuple[Path, ...]:
    """The programs of RIGHTS that this machine has, resolved."""
    there = (os.path.realpath(Path(place, name)) for name in RIGHTS for place in _PLACES)
    return tuple(dict.fromkeys(Path(path) for path in there if os.access(path, os.X_OK)))


def resolve(name: str, path: str | None = None) -> Path:
    """The file that a name on PATH, or a path, really is. ToolError where there is none that can be run."""
    found = os.path.expanduser(name) if os.sep in name else shutil.which(name, path=path)  # noqa: PTH111 - a text stays one
    real = Path(os.path.realpath(found)) if found else None
    if real is None or not real.is_file() or not os.access(real, os.X_OK):
        raise ToolError(f"{name} was not found or cannot be executed")
    return real


def refuse_rights(program: Path) -> None:
    """Refused where the file is one of RIGHTS, under whatever name."""
    if _identity(program) in {_identity(one) for one in of_rights()}:
        raise Refused(f"{program} changes rights and is not started at this security level")


def refuse_planted(program: Path, writable: Iterable[Path]) -> None:
    """Refused where the agent's tools, or anybody, could have put the file there or changed it."""
    if any(program.is_relative_to(place) for place in writable):
        raise Refused(
            f"{program} lies where tools can write, so it is not started at this security level",
            "install it outside the workspace",
        )
    if os.stat(program).st_mode & stat.S_IWOTH:  # noqa: PTH116 - the mode of the file itself, resolved before
        raise Refused(f"{program} can be changed by anybody, so it is not started at this security level")


def _identity(program: Path) -> Identity | None:
    try:
        facts = program.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
