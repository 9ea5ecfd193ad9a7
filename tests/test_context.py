"""What of a history is sent: legal, within the room, never without the running turn's requests."""

import copy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanobot import history
from nanobot.agent import compaction, context
from nanobot.messages import Line


def user(text: str, turn: str = "") -> Line:
    return Line(role="user", content=text, **({"turn": turn} if turn else {}))


def answer(text: str, turn: str = "") -> Line:
    return Line(role="assistant", content=text, **({"turn": turn} if turn else {}))


def step(id: str, result: str, turn: str = "") -> list[Line]:
    extra = {"turn": turn} if turn else {}
    call = {"id": id, "type": "function", "function": {"name": "read_file", "arguments": '{"path":"x"}'}}
    return [
        Line(role="assistant", content="", tool_calls=[call], **extra),
        Line(role="tool", tool_call_id=id, name="read_file", content=result, **extra),
    ]


def fit(lines: list[Line], budget: int) -> context.Window:
    return context.fit(
        lines, system_tokens=1_000, tool_tokens=500, context_window=budget + 3_524, max_output=1_000
    )


def turns(number: int, size: int = 400) -> list[Line]:
    """So many turns of about `size` tokens, then a question."""
    lines = []
    for n in range(number):
        lines += [user(f"q{n}", f"t{n}"), answer("word " * (size * 4 // 5), f"t{n}")]
    return [*lines, user("last", "now")]


def test_a_history_that_fits_is_sent_as_it_is() -> None:
    lines = turns(5)
    window = fit(lines, 4_000)
    assert all(sent is line for sent, line in zip(window.lines, lines, strict=True))
    assert window.dropped == 0
    assert window.tokens == context.tokens(lines)


def test_the_oldest_whole_turns_go_first() -> None:
    window = fit(turns(20), 4_000)
    assert window.tokens <= 4_000
    assert window.lines[0]["role"] == "user"
    assert window.lines[-1]["content"] == "last"
    assert window.dropped == 41 - len(window.lines)
    assert len(window.lines) > 12  # about as much as fits, not less


def test_the_beginning_stays_the_same_for_several_turns() -> None:
    beginnings = [fit(turns(number, 100), 4_000).lines[0]["content"] for number in range(60, 72)]
    assert len(set(beginnings)) <= 4, "each change costs the provider's cache"


def test_the_summary_stays_when_turns_go() -> None:
    summary = compaction.preface(compaction.Summary("They planned a trip.", 10, "2026-01-01T00:00:00+00:00"))
    window = fit([summary, *turns(20)], 4_000)
    assert window.lines[0] is summary
    assert window.lines[1]["role"] == "user"
    assert context.shrink(window).lines[0] is summary


def test_results_of_older_turns_are_shortened_before_turns_are_dropped() -> None:
    long = "begin " + "x" * 8_000 + " end"
    lines = [
        user("a", "t0"),
        *step("1", long, "t0"),
        answer("done", "t0"),
        user("b", "t1"),
        *step("2", long, "t1"),
    ]
    before = copy.deepcopy(lines)
    whole = context.tokens(lines)
    window = fit(lines, whole)
    assert window.dropped == 0
    older, running = window.lines[2]["content"], window.lines[6]["content"]
    assert older.startswith("begin")
    assert older.endswith("end")
    assert "characters left out" in older
    assert len(older) < 1_600
    assert running == long
    assert lines == before
    # A fresh line, so nothing derived from the long text is left on it.
    assert window.lines[2] is not lines[2]
    assert not hasattr(window.lines[2], "wire")
    assert history.estimate_tokens(window.lines[2]) < 500


def test_a_shortened_line_does_not_carry_the_bytes_of_the_long_one() -> None:
    lines = [user("a"), *step("1", "x" * 9_000), answer("done"), user("b")]
    for line in lines:
        line.wire = ("openai", b"stale")
    window = fit(lines, 1_500)
    (result,) = [line for line in window.lines if line["role"] == "tool"]
    assert not hasattr(result, "wire")
    assert lines[2].wire == ("openai", b"stale")


def test_a_long_running_turn_keeps_its_question_and_its_last_step() -> None:
    lines = [user("the task", "t0")]
    for n in range(100):
        lines += step(str(n), f"{n} " + "y" * 4_000, "t0")
    lines.insert(101, user("also this", "t1"))
    window = fit(lines, 5_000)
    assert window.tokens <= 5_000
    texts = [line["content"] for line in window.lines if line["role"] == "user"]
    assert texts == ["the task", "also this"]
    assert window.lines[-1]["tool_call_id"] == "99"
    assert window.lines[-1]["content"] == lines[-1]["content"]
    assert history.legal(window.lines) == window.lines


def test_a_message_heard_while_tools_run_does_not_make_the_task_an_older_turn() -> None:
    lines = [*turns(20)[:-1], user("the task", "t"), *step("1", "found", "t"), user("and quickly", "u")]
    texts = [line["content"] for line in fit(lines, 3_000).lines if line["role"] == "user"]
    assert texts[-2:] == ["the task", "and quickly"]


def test_a_window_smaller_than_what_is_around_it_still_asks() -> None:
    window = context.fit(
        turns(20), system_tokens=5_000, tool_tokens=4_000, context_window=2_048, max_output=32_000
    )
    assert [line["content"] for line in window.lines] == ["last"]


def test_shrink_halves_by_turns() -> None:
    window = fit(turns(10), 100_000)
    smaller = context.shrink(window)
    assert 0 < smaller.tokens <= window.tokens // 2
    assert smaller.lines[-1]["content"] == "last"
    assert smaller.dropped == len(window.lines) - len(smaller.lines)


def test_shrink_cuts_results_where_there_is_one_turn_only() -> None:
    window = fit([user("task", "t"), *step("1", "z" * 40_000, "t")], 100_000)
    smaller = context.shrink(window)
    assert smaller.tokens <= window.tokens // 2
    assert [line["role"] for line in smaller.lines] == ["user", "assistant", "tool"]
    assert len(window.lines[2]["content"]) == 40_000


# What a session's history becomes before it is fitted.


def test_without_a_summary_the_whole_history_is_spoken_whatever_the_pointer_says() -> None:
    lines = turns(3)
    assert context.spoken(lines, 4, {}) == lines
    assert context.spoken(lines, 4, {"summary": {"text": " "}}) == lines
    assert context.spoken(lines, 4, {"summary": "nonsense"}) == lines


def test_a_summary_stands_for_what_was_folded_away() -> None:
    lines = turns(3)
    spoken = context.spoken(lines, 4, {"summary": {"text": "Two questions.", "upto": 4, "at": "2026-01-01"}})
    assert "Two questions." in spoken[0]["content"]
    assert spoken[1:] == lines[4:]


# Whatever the history holds.

texts = st.sampled_from(["a", "word " * 20, "y" * 900, "z" * 9_000])
ids = st.sampled_from(["1", "2", "3"])
turn_ids = st.sampled_from(["t0", "t1", "t2", ""])


@st.composite
def histories(draw: Any) -> list[Line]:
    lines: list[Line] = []
    for _ in range(draw(st.integers(0, 25))):
        turn, text = draw(turn_ids), draw(texts)
        match draw(st.sampled_from(["user", "answer", "step", "call", "result"])):
            case "user":
                lines.append(user(text, turn))
            case "answer":
                lines.append(answer(text, turn))
            case "step":
                lines += step(draw(ids), text, turn)
            case "call":
                lines += step(draw(ids), text, turn)[:1]
            case _:
                lines += step(draw(ids), text, turn)[1:]
    return lines


@given(histories(), st.integers(-3_000, 20_000), st.booleans())
@example([user("x" * 9_000)], 10, False)
def test_a_window_is_legal_has_the_last_request_and_fits_if_it_can(
    lines: list[Line], budget: int, summarised: bool
) -> None:
    if summarised:
        lines = [compaction.preface(compaction.Summary("Earlier.")), *lines]
    before = copy.deepcopy(lines)
    window = fit(lines, budget)
    smaller = context.shrink(window)
    assert lines == before
    asked = [line for line in lines if line["role"] == "user"]
    for made in (window, smaller):
        assert history.legal(made.lines) == made.lines
        assert made.tokens == context.tokens(made.lines)
        if asked:
            assert any(line is asked[-1] for line in made.lines)
        if summarised:
            assert made.lines[0] is lines[0]
        for line in made.lines:
            if line["role"] != "tool":
                assert any(line is original for original in lines) or line["role"] == "assistant"
    room = context.room(
        system_tokens=1_000, tool_tokens=500, context_window=max(budget, 0) + 3_524, max_output=1_000
    )
    if budget >= 0 and window.tokens > room:
        # Too long only by what must stay: one turn, with its last step at most.
        assert len(compaction.starts(window.lines[1 if summarised else 0 :])) <= 1
        assert sum(bool(line.get("tool_calls")) for line in window.lines) <= 1
    assert smaller.tokens <= window.tokens


@pytest.mark.parametrize("window", [1, 100, 8_192, 200_000])
def test_there_is_always_some_room(window: int) -> None:
    assert context.room(system_tokens=10**6, tool_tokens=0, context_window=window, max_output=10**6) >= 1
