"""What can go wrong with a call: a fault is used up by the calls it hits."""

from typing import Any

import msgspec


class Fault(msgspec.Struct):
    """`kind`: flood, status, drop_before (not done, no answer), drop_after (done, no answer), hang, error."""

    kind: str
    code: int = 0
    text: str = ""
    seconds: float = 0.0
    parameters: dict[str, Any] = {}
    times: int = 1
    chat: int | None = None  # only calls about this chat
    skip: int = 0  # so many calls pass first


def flood(retry_after: int, *, times: int = 1, chat: int | None = None, skip: int = 0) -> Fault:
    """429 with retry_after."""
    text = f"Too Many Requests: retry after {retry_after}"
    return Fault(
        "error", 429, text, parameters={"retry_after": retry_after}, times=times, chat=chat, skip=skip
    )


def drop_before(*, times: int = 1, chat: int | None = None, skip: int = 0) -> Fault:
    """The connection breaks before anything is done."""
    return Fault("drop_before", times=times, chat=chat, skip=skip)


def drop_after(*, times: int = 1, chat: int | None = None, skip: int = 0) -> Fault:
    """It is done, and the reply is lost."""
    return Fault("drop_after", times=times, chat=chat, skip=skip)


def hang(seconds: float, *, times: int = 1, chat: int | None = None) -> Fault:
    """The answer takes this long."""
    return Fault("hang", seconds=seconds, times=times, chat=chat)


def status(code: int, *, times: int = 1) -> Fault:
    """A proxy's error page."""
    return Fault("status", code, times=times)


def refuse(text: str, *, times: int = 1, chat: int | None = None) -> Fault:
    """400."""
    return Fault("error", 400, f"Bad Request: {text}", times=times, chat=chat)


def forbidden(text: str = "bot was blocked by the user", *, times: int = 1, chat: int | None = None) -> Fault:
    """403."""
    return Fault("error", 403, f"Forbidden: {text}", times=times, chat=chat)
