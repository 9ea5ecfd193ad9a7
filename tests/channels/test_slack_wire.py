"""Splitting and neutralising a reply, reading payloads: without a network."""

import random
import re
from html import unescape
from pathlib import Path

import msgspec
import pytest

from channels.slack.buttons import Button, button_block, read_buttons, read_click
from channels.slack.markdown import LIMIT, fallback, neutral, settled, split
from channels.slack.posts import markdown, sections, since
from channels.slack.wire import Me, read_message
from nanobot.messages import new_id
from tests.emulators.slack.workspace import PING, UPDATE_TEXT_MAX, check_blocks, check_content

ME = Me("T1", "UBOT", "B1", "nanobot")
SAMPLES = Path(__file__).parents[2] / "channels" / "slack" / "samples"
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)
PIECES = (
    "# Heading {n}\n\n",
    "Some **bold** words, _italic_ ones, `code <!here>` and a [link](https://a.example/(x)?y={n}).\n\n",
    "- one\n  - two\n    - three <@U123>\n      1. four\n\n",
    "| a | b |\n|---|---|\n| {n} | `x|y` |\n| <!channel> | ~~gone~~ |\n\n",
    "```python\ndef f(x):\n    return x < 3 and x > {n}  # <!channel>\n\n\nprint(f({n}))\n```\n\n",
    "~~~\n``` not a fence\n~~~\n\n",
    "> quoted <!everyone>\n> ```\n> in a quote\n> ```\n\n",
    "数学 $x^2$ 👩‍👩‍👧 e\u0301 \u202e rtl \u202c <#C1> & <b>\n",
    "- [ ] task\n- [x] done\n\n---\n\n",
    "word " * 60 + "\n",
    "unbalanced ** _ ` [ ( ``` {n}\n\n",
)


def documents(count: int, seed: int = 7) -> list[str]:
    chance = random.Random(seed)
    return [
        "".join(piece.replace("{n}", str(n)) for n, piece in enumerate(chance.choices(PIECES, k=8)))
        for _ in range(count)
    ]


def words(text: str) -> list[str]:
    """The words of a text without its fence lines, which splitting adds to."""
    return FENCE.sub("", text).split()


@pytest.mark.parametrize("size", [5_000, 13_000, 45_000])
def test_long_answers_are_complete_in_order_and_within_the_limit(size: int) -> None:
    text = ""
    for number, one in enumerate(documents(500)):
        if len(text) >= size:
            break
        text += f"part {number}\n\n{one}"
    parts = split(text)

    assert all(len(part) <= LIMIT for part in parts)
    assert len(parts) <= size // (LIMIT // 3) + 1
    assert words("\n".join(parts)) == words(neutral(text))
    for part in parts:
        check_blocks([markdown(part)])


def test_a_code_block_that_is_cut_goes_on_with_its_language() -> None:
    code = "\n".join(f"    line_{number} = {number}" for number in range(800))
    parts = split(f"Look:\n\n```python\n{code}\n```\n\nThat was it.")

    assert len(parts) > 1
    for part in parts:
        assert len(FENCE.findall(part)) % 2 == 0
    assert all(part.startswith("```python\n") for part in parts[1:])
    assert words("\n".join(parts)) == words(f"Look:\n{code}\nThat was it.")


@pytest.mark.parametrize(
    "text", ["a" * 30_000, "```\n" + "b" * 30_000 + "\n```", "👩‍👩‍👧‍👦" * 5_000, "x " * 20_000]
)
def test_one_long_line_is_cut_and_nothing_is_lost(text: str) -> None:
    parts = split(text)

    assert all(0 < len(part) <= LIMIT for part in parts)
    assert "".join(words("\n".join(parts))) == "".join(words(text))


@pytest.mark.parametrize("text", ["", " \n ", "\x00\x01", "\ud800"])
def test_an_answer_of_nothing_is_still_a_message(text: str) -> None:
    assert split(text) == ["(empty)"]


def test_every_prefix_of_many_documents_splits_without_a_refusal() -> None:
    for document in documents(200):
        for end in range(1, len(document) + 1):
            prefix = document[:end]
            parts = split(prefix, 500)
            for part in parts:
                assert len(part) <= 500
                check_content({"blocks": [markdown(part)], "text": fallback(part)}, update=True)
                assert not PING.search(part)
            if end % 29 == 0 and neutral(prefix).strip():
                assert words("\n".join(parts)) == words(neutral(prefix))


def test_what_is_shown_of_a_growing_text_only_grows_and_pings_nobody() -> None:
    for document in documents(40, seed=3):
        before = ""
        for end in range(len(document) + 1):
            now = settled(document[:end])
            assert now.startswith(before)
            assert not PING.search(now)
            before = now
        assert neutral(document).startswith(before)


def test_code_that_is_no_mention_stays_as_it_is() -> None:
    text = "<!DOCTYPE html><!-- <b> --><@media> a<b x<!y List<@a>"
    assert neutral(text) == text


def test_plain_sections_hold_everything_a_message_may() -> None:
    blocks = sections("x" * LIMIT)
    check_blocks(blocks)
    assert "".join(block["text"]["text"] for block in blocks) == "x" * LIMIT


@pytest.mark.parametrize("text", ["<p>&amp;</p>" * 400, "&" * 9_000, "x" * 9_000, "x" * 2_999 + "<", "a < b"])
def test_the_text_of_a_notification_fits_an_edit_however_much_of_it_is_escaped(text: str) -> None:
    shown = fallback(text)

    assert len(shown) <= UPDATE_TEXT_MAX
    assert text.startswith(unescape(shown))
    assert len(unescape(shown)) >= min(len(text), 500)


def test_a_look_up_begins_before_the_turn_did() -> None:
    assert since("t", {"ts": "1712.000100"}) == "1712.000100"
    assert 1.7e9 < float(since(new_id(), {})) < 4e9
    assert since("pairing:slack:T1:C1:1.1", {}) == "0"


def test_choices_become_buttons_the_platform_takes() -> None:
    given = ["Yes", {"label": "No " * 60, "value": "no" * 4_000}, "", 7, None, *map(str, range(40))]
    buttons = read_buttons({"buttons": given})
    check_blocks([button_block(buttons)])
    assert buttons[0] == Button("Yes", "Yes")
    assert read_buttons({"buttons": "Yes"}) == []


@pytest.mark.parametrize(
    "body", [{}, {"actions": []}, {"actions": [5]}, {"actions": [{"action_id": "nanobot:1"}]}]
)
def test_presses_without_a_place_are_nothing(body: dict[str, object]) -> None:
    assert read_click(body, ME) is None


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("event_*.json")), ids=lambda path: path.stem)
def test_samples_are_read_as_their_names_say(sample: Path) -> None:
    said = read_message(msgspec.json.decode(sample.read_bytes()), ME)
    assert (said is not None) == ("ignored" not in sample.stem)
