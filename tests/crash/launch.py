"""Runs a real gateway that kills itself, with SIGKILL, at a named moment: `python launch.py WORKSPACE MOMENT`.

The moments lie between two durable steps of a turn, where a kill from outside hits only by luck. Everything else is
the product as it is. `-` is no moment: the gateway runs until it is killed from outside. In front of a moment,
`forgetful` keeps no id of a preview, as a full disk does.
"""

import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nanobot.app import run
from nanobot.conversation import SessionConversation
from nanobot.errors import StoreFull
from nanobot.stores.sessions import SessionManager
from nanobot.stores.sqlite.inbox import SqliteInbox
from nanobot.stores.sqlite.outbox import SqliteOutbox

FORGETFUL = "forgetful "
# moment → the method it is about, and whether the kill comes before or after it
MOMENTS: dict[str, tuple[type, str, str]] = {
    "before-accept": (SqliteInbox, "accept", "before"),
    "after-accept": (SqliteInbox, "accept", "after"),
    "after-claim": (SqliteInbox, "claim", "after"),
    "before-history": (SessionManager, "append", "before"),
    "after-history": (SessionManager, "append", "after"),
    "before-tool": (SessionConversation, "use", "before"),
    "after-tool": (SessionConversation, "use", "after"),
    "before-commit": (SqliteInbox, "commit", "before"),
    "after-commit": (SqliteInbox, "commit", "after"),
    "before-delivered": (SqliteOutbox, "delivered", "before"),
    "after-delivered": (SqliteOutbox, "delivered", "after"),
}


async def unkept(*_: Any) -> None:
    raise StoreFull("no space left on device")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def deadly(method: Callable[..., Any], when: str) -> Callable[..., Any]:
    @functools.wraps(method)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            die()
        result = await method(*args, **kwargs)
        if when == "after" and result is not False and not (method.__name__ == "claim" and result is None):
            die()
        return result

    return wrapper


if __name__ == "__main__":
    workspace, moment = Path(sys.argv[1]), sys.argv[2]
    if moment.startswith(FORGETFUL):
        moment = moment.removeprefix(FORGETFUL)
        SqliteOutbox.posted = unkept  # type: ignore[method-assign,assignment]
    if moment != "-":
        owner, name, when = MOMENTS[moment]
        setattr(owner, name, deadly(getattr(owner, name), when))
    sys.exit(run(workspace))
