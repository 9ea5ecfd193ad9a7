"""Logging: one line per event, nothing secret."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from loguru import logger

from nanobot import logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = logging.getLogger().handlers[:], logging.getLogger().level
    yield
    logger.remove()
    logging.getLogger().handlers[:], logging.getLogger().level = before


def test_an_event_is_one_line_with_its_session_and_turn() -> None:
    stream = io.StringIO()
    logs.setup(stream=stream)
    logger.bind(session="slack:C1", turn="01j").info("two\nlines")
    logger.debug("not shown")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("INFO    [slack:C1 turn=01j] two\\nlines")


def test_json_holds_the_same_as_an_object() -> None:
    stream = io.StringIO()
    logs.setup("debug", as_json=True, stream=stream)
    logger.bind(session="slack:C1").opt(exception=RuntimeError("torn")).error("failed")
    event = json.loads(stream.getvalue())
    assert (event["level"], event["message"], event["session"]) == ("error", "failed", "slack:C1")
    assert "RuntimeError: torn" in event["exception"]


HOSTILE = {
    "line ends": "a\nb\rc\u2028d\u2029e\x85f\x0bg\x0ch",
    "a terminal's commands": "\x1b[2J\x1b]52;c;ZXZpbA==\x07 \x9b31m \x08\x08\x7f\x00",
    "directions": "\u202egnp.exe\u2066\u200f",
    "half characters": "\ud800 lone \udc9f",
    "an event of its own": "x\n2026-01-01T00:00:00.000+00:00 INFO    all is well",
}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_that_a_stranger_writes_rules_a_log_or_keeps_a_line_out_of_it(
    text: str, as_json: bool
) -> None:
    raw = io.BytesIO()
    logs.setup(as_json=as_json, stream=io.TextIOWrapper(raw, "utf-8", write_through=True))
    logger.bind(session=f"x:{text}", turn=text).opt(exception=RuntimeError(text)).warning("said {}", text)
    shown = raw.getvalue().decode()
    assert shown.endswith("\n")
    assert shown[:-1].isprintable()
    assert "said " in shown
    if as_json and "half" not in text and "lone" not in text:
        assert json.loads(shown)["message"] == f"said {text}"


@pytest.mark.parametrize("as_json", [False, True])
def test_secrets_never_reach_the_log(as_json: bool) -> None:
    stream = io.StringIO()
    logs.setup(as_json=as_json, secrets={"hunter22", 'qu"ote\\22', "", "a"}, stream=stream)
    logger.opt(exception=RuntimeError('rejected qu"ote\\22')).error("login with {}", "hunter22")
    logger.info("POST https://api.telegram.org/bot123456789:{}/getMe", "A" * 35)
    logger.info("xoxb-1234567890-abcdef, GET /ws?token=abc123&x=1, Authorization: Bearer abcdefghij")
    text = stream.getvalue()
    assert "hunter22" not in text
    assert "ote" not in text
    assert not [one for one in ("AAAA", "xoxb-1234", "abc123", "abcdefghij") if one in text]
    assert "rejected" in text
    assert "&x=1" in text


def test_what_libraries_log_goes_the_same_way() -> None:
    stream = io.StringIO()
    logs.setup(secrets={"hunter22"}, stream=stream)
    logging.getLogger("some.library").warning("cannot reach %s", "hunter22")
    logging.getLogger("some.library").info("chatter")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("some.library: cannot reach ***")
