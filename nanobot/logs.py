"""Logging: one line per event with its session and turn, as text or JSON, secrets taken out.

What libraries log by the standard library's `logging` goes the same way, from warnings on.
"""

import logging
import re
import sys
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
from loguru import logger

from nanobot.plain import in_json, one_line

if TYPE_CHECKING:
    from loguru import Message

MIN_SECRET = 4  # characters; a shorter value would blank out ordinary words
HIDDEN = "***"

# What looks like a secret although the configuration does not hold it, such as one that somebody pastes.
_SHAPES = re.compile(
    r"xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}|\bsk-[\w-]{12,}|(?<!\d)\d{6,12}:[\w-]{30,}|(?<=[?&]token=)[^&\s\"']+"
    r"|(?<=Bearer )[\w.~+/-]{8,}"
)


class Scrubber:
    """Takes secrets out of texts: the values given, and what has the shape of a token."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = sorted((one for one in set(secrets) if len(one) >= MIN_SECRET), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        return _SHAPES.sub(HIDDEN, text)


class Sink:
    """Writes each event as one line."""

    def __init__(self, stream: TextIO, scrub: Scrubber, *, as_json: bool) -> None:
        self._stream = stream
        self._scrub = scrub
        self._format = as_json_line if as_json else as_text_line

    def __call__(self, message: "Message") -> None:
        line = self._format(message.record, self._scrub)
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (BrokenPipeError, ValueError):
            return  # nobody reads the log any more; that must not stop the gateway


class Bridge(logging.Handler):
    """Hands the records of libraries to loguru."""

    def emit(self, record: logging.LogRecord) -> None:
        known = record.levelname in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}
        level = record.levelname if known else record.levelno
        bound = logger.bind(library=record.name).opt(exception=record.exc_info)
        bound.log(level, "{}: {}", record.name, record.getMessage())


def setup(
    level: str = "info", *, as_json: bool = False, secrets: Iterable[str] = (), stream: TextIO | None = None
) -> None:
    """Send all logging to `stream` (standard error), replacing what was set up before."""
    sink = Sink(stream or sys.stderr, Scrubber(secrets), as_json=as_json)
    logger.remove()
    # diagnose would print the values of variables, among them secrets.
    logger.add(sink, level=level.upper(), format="{message}", backtrace=False, diagnose=False)
    logging.basicConfig(handlers=[Bridge()], level=logging.WARNING, force=True)


def as_text_line(record: Any, scrub: Scrubber) -> str:
    """2026-03-01T12:00:00.000+00:00 INFO [slack:C1 turn=01j…] text"""
    extra = record["extra"]
    words = [extra.get("session", ""), f"turn={extra['turn']}" if extra.get("turn") else ""]
    place = " ".join(filter(None, words))
    text = record["message"]
    if record["exception"] is not None:
        text = f"{text}\n{trace(record['exception'])}"
    moment = record["time"].isoformat(timespec="milliseconds")
    return f"{moment} {record['level'].name:<7} {one_line(scrub(f'[{place}] {text}' if place else text))}"


def as_json_line(record: Any, scrub: Scrubber) -> str:
    """The same as an object: time, level, message, what was bound (session, turn), and exception."""
    event = {
        "time": record["time"].isoformat(timespec="milliseconds"),
        "level": record["level"].name.lower(),
        "message": scrub(record["message"]),
        "where": f"{record['name']}:{record['line']}",
        **{key: scrub(str(value)) for key, value in record["extra"].items()},
    }
    if record["exception"] is not None:
        event["exception"] = scrub(trace(record["exception"]))
    whole = {key: value.encode("utf-8", "backslashreplace").decode() for key, value in event.items()}
    return in_json(msgspec.json.encode(whole).decode())


def trace(exception: Any) -> str:
    return "".join(traceback.format_exception(exception.value)).strip() if exception.value else ""
