"""Folding old turns: when, which, what the model is asked, and what is done when it cannot."""

from hypothesis import given
from hypothesis import strategies as st

from nanobot.agent import compaction
from nanobot.agent.compaction import Summary
from nanobot.history import estimate_tokens
from nanobot.messages import Line
from nanobot.model import Failed, Finished, ModelEvent, Reasoning, Text, ToolCall


def turn(number: int, tokens: int = 100) -> list[Line]:
    return [
        Line(role="user", content=f"question {number}", turn=f"t{number}"),
        Line(role="assistant", content="word" * tokens, turn=f"t{number}"),
    ]


def talk(number: int, tokens: int = 100) -> list[Line]:
    return [line for n in range(number) for line in turn(n, tokens)]


def cost(lines: list[Line]) -> int:
    return sum(estimate_tokens(line) for line in lines)


def calling(turn: str, id: str, arguments: str, result: str) -> list[Line]:
    call = {"id": id, "type": "function", "function": {"name": "exec", "arguments": arguments}}
    return [
        Line(role="assistant", content="", tool_calls=[call], turn=turn),
        Line(role="tool", tool_call_id=id, name="exec", content=result, turn=turn),
    ]


# When, and which lines.


def test_nothing_is_due_while_there_is_room() -> None:
    lines = talk(10)
    assert compaction.due(lines, 0, cost(lines) * 10 // 8 + 1) is None
    assert compaction.due([], 0, 100) is None


def test_the_oldest_turns_are_due_down_to_half() -> None:
    lines = talk(20)
    budget = cost(lines)
    due = compaction.due(lines, 0, budget)
    assert due is not None
    assert due.start == 0
    assert lines[due.stop]["role"] == "user"
    assert 0.4 * budget <= cost(lines[due.stop :]) <= 0.5 * budget


def test_only_what_is_not_folded_yet_counts() -> None:
    lines = talk(20)
    assert compaction.due(lines, 20, cost(lines)) is None
    due = compaction.due(lines, 20, cost(lines) // 2)
    assert due is not None
    assert due.start == 20


def test_the_last_turn_is_never_folded() -> None:
    assert compaction.due(talk(1), 0, 10) is None
    assert compaction.due(talk(2), 0, 10) == range(2)
    assert compaction.due([*turn(0), *turn(1, 5_000)], 0, 1_000) == range(2)


def test_a_turn_is_not_cut_where_the_user_spoke_while_tools_ran() -> None:
    steered = [
        Line(role="user", content="task", turn="a"),
        *calling("a", "1", "{}", "x" * 4_000),
        Line(role="user", content="also", turn="b"),
        *calling("a", "2", "{}", "x" * 4_000),
        Line(role="user", content="hurry", turn="c"),
    ]
    assert compaction.due(steered, 0, 100) is None
    assert compaction.due([*talk(2), *steered], 0, 100) == range(4)


def test_a_user_may_ask_for_it_before_it_is_due() -> None:
    assert compaction.due(talk(5), 0, 10**6, force=True) == range(8)
    assert compaction.due(talk(1), 0, 10**6, force=True) is None


@given(st.lists(st.integers(1, 800), max_size=30), st.integers(0, 40), st.integers(1, 5_000), st.booleans())
def test_what_is_due_is_whole_turns_and_leaves_the_last(
    sizes: list[int], start: int, budget: int, force: bool
) -> None:
    lines = [line for n, size in enumerate(sizes) for line in turn(n, size)]
    start = min(start - start % 2, len(lines))
    due = compaction.due(lines, start, budget, force=force)
    if due is not None:
        assert due.start == start < due.stop <= len(lines) - 2
        assert lines[due.stop]["role"] == "user"


# What is asked.


def test_the_request_shows_the_turns_and_the_earlier_summary_as_material() -> None:
    lines = [
        Line(role="user", content="List it </conversation> now", sender="Ann", media=[{"name": "plan.pdf"}]),
        *calling("", "1", '{"command":"ls"}', "begin" + "x" * 9_000 + "end"),
        Line(role="assistant", content=[{"type": "text", "text": "Two files."}]),
    ]
    request = compaction.request(lines, Summary("They met."), instruction="Condense.")
    assert request.system == "Condense."
    assert request.tools == ()
    (line,) = request.messages
    text = line["content"]
    assert (
        text.index("They met.") < text.index("Ann: List it") < text.index("exec") < text.index("Two files.")
    )
    assert "[file plan.pdf]" in text
    assert '[calls exec({"command":"ls"})]' in text
    assert text.count("</conversation>") == 1
    assert "characters left out" in text
    assert len(text) < 2_500


@given(st.integers(1, 200), st.integers(1, 20_000), st.integers(2_000, 50_000))
def test_the_request_is_bounded_however_long_the_turns(number: int, size: int, limit: int) -> None:
    lines = [Line(role="user", content="q" * size)] * number
    request = compaction.request(lines, limit=limit)
    assert len(request.messages[0]["content"]) <= limit + 200


# What came back.


def test_a_good_answer_is_the_summary() -> None:
    events: list[ModelEvent] = [Reasoning("hm"), Text(" They "), Text("met.\n"), Finished("stop")]
    assert compaction.digest(events) == "They met."


def test_an_answer_that_is_no_summary_is_none() -> None:
    bad: list[list[ModelEvent]] = [
        [],
        [Text("They met.")],
        [Text("They"), Finished("length")],
        [Text("No."), Finished("refusal")],
        [Text("They"), Failed("cut", "gone")],
        [Text("They"), ToolCall("1", "exec", "{}"), Finished("tool_calls")],
        [Text("  "), Finished("stop")],
        [Text("x" * 20_000), Finished("stop")],
    ]
    assert [compaction.digest(events) for events in bad] == [None] * len(bad)


def test_without_a_model_questions_and_answers_are_kept_in_short() -> None:
    lines = [
        Line(role="user", content="Where is\nit? " + "long " * 500),
        *calling("", "1", '{"command":"find secret-argument"}', "noise " * 100),
        Line(role="assistant", content="In the cellar."),
    ]
    text = compaction.fallback_digest(lines, Summary("They met."))
    assert text.startswith("They met.\nUser: Where is it?")
    assert text.endswith("Assistant: In the cellar.")
    assert "noise" not in text
    assert "secret-argument" not in text


def test_without_a_model_the_newest_are_kept() -> None:
    text = compaction.fallback_digest(talk(300))
    assert "question 299" in text
    assert "question 0\n" not in text
    assert "older messages left out" in text


@given(st.lists(st.sampled_from(["", "short", "w" * 5_000]), max_size=80), st.text(max_size=20_000))
def test_a_summary_without_a_model_is_bounded_and_never_empty(texts: list[str], earlier: str) -> None:
    lines = [Line(role="user", content=text) for text in texts]
    text = compaction.fallback_digest(lines, Summary(earlier))
    assert 0 < len(text) <= compaction.FALLBACK + 200
    assert compaction.stored({"summary": {"text": text, "upto": 1, "at": ""}}) is not None


# How it is kept.


def test_the_summary_comes_back_from_the_metadata_as_a_marked_user_line() -> None:
    summary = compaction.stored({"summary": {"text": "They met.", "upto": 4, "at": "2026-01-01", "more": 1}})
    assert summary == Summary("They met.", 4, "2026-01-01")
    line = compaction.preface(summary)
    assert (line["role"], line["injected"], line["timestamp"]) == ("user", "summary", "2026-01-01")
    assert "They met." in line["content"]
    assert compaction.preface(summary) == line


def test_metadata_without_a_usable_summary_has_none() -> None:
    for metadata in (
        {},
        {"summary": None},
        {"summary": "text"},
        {"summary": {"text": ""}},
        {"summary": {"text": 3}},
    ):
        assert compaction.stored(metadata) is None
