"""Text of strangers where it is shown: in a table, a log, JSON, an error."""

import json
from pathlib import Path

import pytest

from nanobot.clock import SystemClock
from nanobot.plain import clean, in_json, one_line, printable
from nanobot.store import Pairing
from nanobot.stores.sqlite import SqliteStore
from tests.security.house import command

HOSTILE = "Ann\x1b[2J\x9b31m\u202egnp\u2028all is well\x00\x7f\ud800\nnext"


def test_nothing_is_obeyed_and_everything_stays_told_apart() -> None:
    assert clean(HOSTILE).isprintable()
    assert printable(HOSTILE).replace("\n", "").isprintable()
    assert one_line(HOSTILE).isprintable()
    assert one_line("a\nb") != one_line("a\\nb")
    assert one_line("März, 東京 🙂") == "März, 東京 🙂"


@pytest.mark.parametrize("indent", [None, 2])
def test_json_says_the_same_and_shows_what_it_says(indent: int | None) -> None:
    value = {"name": HOSTILE.replace("\ud800", ""), "city": "東京", "far": "\U000e0041 🙂"}
    shown = in_json(json.dumps(value, ensure_ascii=False, indent=indent))
    assert shown.replace("\n", "").isprintable()
    assert "東京" in shown
    assert json.loads(shown) == value


@pytest.mark.parametrize("form", [[], ["--json"]])
async def test_a_strangers_name_rules_no_terminal(tmp_path: Path, form: list[str]) -> None:
    store = SqliteStore(tmp_path / ".nanobot")
    await store.open()
    now = SystemClock().now()
    name = HOSTILE.replace("\ud800", "")
    await store.pairings.put(Pairing("telegram", "7", name, "7", "", "approved", now, now))
    await store.close()
    shown = command(tmp_path, "pairing", "list", *form).stdout
    assert "Ann" in shown
    assert shown.replace("\n", "").isprintable()


def test_an_error_that_repeats_an_odd_name_rules_no_terminal(tmp_path: Path) -> None:
    refused = command(tmp_path / "x\x1b]0;mine\x07\u202e", "pairing", "list")
    assert refused.returncode == 2
    assert refused.stderr.replace("\n", "").isprintable()
    assert "mine" in refused.stderr
