"""Markdown to Telegram messages: complete, in order, within the limits, whatever prefix of it is there."""

import random
import time

import pytest

from channels.telegram.text import MAX_ENTITIES, MAX_UNITS, Part, formatted, plain, preview
from tests.emulators.telegram.markup import read_text, units

FENCE = "```python\n" + "".join(f"line_{n} = {n}  # some words\n" for n in range(700)) + "```"


def shown(part: Part) -> str:
    """The part as the platform would take it; raises what it refuses."""
    assert units(part.text) <= MAX_UNITS
    assert len(part.entities) <= MAX_ENTITIES
    text, _ = read_text(part.text, [one.to_dict() for one in part.entities], "")
    return text


def test_markup_becomes_entities() -> None:
    [part] = formatted("# Title\n\nsome **bold** and `code` and [a link](https://example.org)")

    assert part.text == "Title\n\nsome bold and code and a link"
    kinds = {one.type for one in part.entities}
    assert {"bold", "code", "text_link"} <= kinds


HOSTILE = (
    "> - ",
    "+ ",
    "1. ",
    "- >",
    "$",
    "{$$",
    "```\n",
    "||",
    "`a",
    "\\[",
    "(\\",
    "_~",
    "~__",
    "**a** ",
    "[a](",
    "<",
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_takes_long_or_becomes_many_times_as_long(piece: str) -> None:
    text = piece * (40_000 // len(piece))
    began = time.process_time()
    parts = formatted(text)
    assert time.process_time() - began < 4
    assert sum(len(part.text) for part in parts) <= 2 * len(text) + MAX_UNITS
    assert len(parts) <= 100
    for part in parts:
        shown(part)


def test_what_people_write_is_still_formatted() -> None:
    text = (
        "> - a **bold** word\n" * 20
        + "- - - a\n"
        + "1. **x** costs $5 ~ $6\n" * 100
        + f"{'-' * 60}\n{'>' * 3} ok\n"
    )
    assert any(one.type == "bold" for part in formatted(text) for one in part.entities)


def test_angle_brackets_that_are_no_links_stay() -> None:
    [part] = formatted("a List<int> and <b>this</b> & <https://example.org> and\n```\nx < y <z>\n```")

    assert "List<int> and <b>this</b> & https://example.org" in part.text
    assert "x < y <z>" in part.text


def test_a_long_code_block_goes_on_as_code_in_the_next_message() -> None:
    parts = formatted(f"before\n\n{FENCE}\n\nafter")

    assert len(parts) > 3
    for part in parts[1:-1]:
        assert [(one.type, one.language) for one in part.entities] == [("pre", "python")]
    joined = "".join(part.text for part in parts)
    assert all(f"line_{n} = {n}  " in joined for n in range(700))


def test_one_line_of_twenty_kilobytes_is_cut_at_its_spaces() -> None:
    words = [f"word{n}" for n in range(3_000)]
    parts = formatted(" ".join(words))

    assert " ".join(shown(part) for part in parts).split() == words


def test_a_word_of_twenty_kilobytes_is_cut_where_it_must_be() -> None:
    parts = formatted("x" * 20_000)

    assert [len(part.text) for part in parts] == [4_096] * 4 + [20_000 - 4 * 4_096]


def test_characters_outside_the_basic_plane_count_twice_and_are_not_torn() -> None:
    family = "👩‍👩‍👧‍👦"
    parts = plain(family * 1_500)

    assert "".join(part.text for part in parts) == family * 1_500
    for part in parts:
        assert part.text.startswith("👩"), "a family was torn apart"
        assert units(part.text) <= MAX_UNITS


def test_more_entities_than_a_message_may_have_are_spread() -> None:
    parts = formatted(" ".join(f"**b{n}**" for n in range(450)))

    assert len(parts) >= 5
    assert sum(len(part.entities) for part in parts) == 450
    for part in parts:
        shown(part)


@pytest.mark.parametrize(
    "text",
    [
        "\x00a\x1bb",
        "\ud83d lone",
        "\u202eright to left",
        "a\u200bb",
        "---",
        "<!-- only a comment -->",
        "```",
        "|",
        "[](x)",
        "$$",
    ],
)
def test_odd_texts_are_sent_somehow(text: str) -> None:
    for part in formatted(text):
        shown(part)
    assert formatted(text)


def test_nothing_becomes_no_message() -> None:
    assert formatted(" \n ") == []


def test_the_same_text_gives_the_same_parts() -> None:
    assert formatted(FENCE * 3) == formatted(FENCE * 3)


@pytest.mark.parametrize("size", [5_000, 13_000, 45_000])
def test_long_answers_are_complete_and_in_order(size: int) -> None:
    document = long_answer(size)
    parts = formatted(document)
    joined = "\n".join(shown(part) for part in parts)

    numbers = [int(word[4:]) for word in joined.replace("\n", " ").split() if word.startswith("mark")]
    assert numbers == list(range(document.count("mark")))


def test_a_preview_is_one_message_and_shows_the_newest() -> None:
    part = preview(long_answer(45_000) + "\n\nthe very end")

    assert shown(part).endswith("the very end")


def test_every_prefix_of_many_documents_is_accepted() -> None:
    chance = random.Random(7)
    for _ in range(200):
        document = random_document(chance)
        steps = {len(document), *(chance.randrange(len(document)) for _ in range(12))}
        for end in steps:
            for part in formatted(document[:end]):
                shown(part)


@pytest.mark.parametrize("seed", range(3))
def test_all_prefixes_of_a_document_are_accepted(seed: int) -> None:
    document = random_document(random.Random(seed))[:700]
    for end in range(1, len(document)):
        for part in formatted(document[:end]):
            shown(part)


@pytest.mark.slow
def test_every_single_prefix_of_two_hundred_documents_is_accepted() -> None:
    for seed in range(200):
        document = random_document(random.Random(seed))
        for end in range(1, len(document)):
            for part in formatted(document[:end]):
                shown(part)


def long_answer(size: int) -> str:
    """An answer with nested lists, tables and fences; every block has a numbered word."""
    blocks: list[str] = []
    number = 0
    while sum(map(len, blocks)) < size:
        n = number
        blocks.append(
            f"## Section mark{n}\n\nSome **bold** words mark{n + 1} and `code`.\n\n"
            f"- item mark{n + 2}\n  - nested mark{n + 3}\n    1. deeper mark{n + 4}\n\n"
            f"| a | b |\n|---|---|\n| mark{n + 5} | x |\n\n"
            f"```python\nvalue = 1 # mark{n + 6} \nif value < 2:\n    print(value)\n```\n\n> quote mark{n + 7}\n\n"
        )
        number += 8
    return "".join(blocks)


PIECES = [
    "# Head\n\n", "**bold** ", "*it* ", "_x_y_ ", "`a*b_c` ", "~~gone~~ ", "||spoiler|| ", "- a\n  - b\n    - c\n", "1. x\n2. y\n",
    "```js\nlet a = `x`;\n```\n", "````\n```\n````\n", "| a | b |\n|:-:|--|\n| 漢字 | 👩‍👩‍👧 |\n", "> quote\n> more\n\n", "[l](https://e.org/a_(b)) ",
    "![i](https://e.org/i.png) ", "$E=mc^2$ ", "\\(x\\) ", "<div>html</div> ", "a & b < c > d ", "- [ ] todo\n- [x] done\n", "é́́ ", "\u202eabc\u202c ",
    "😀" * 5, "\n\n", "***", "___\n", "[^1]: note\n", "line  \nbreak ", "http://e.org ", "\\*no\\* ", "\ttab\n", "{}[]()#+-.! ",
]  # fmt: skip


def random_document(chance: random.Random) -> str:
    return "".join(chance.choice(PIECES) for _ in range(chance.randrange(10, 120)))
