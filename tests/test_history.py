"""Legal sequences, windows, turns, and what is known of an interrupted turn."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot import history
from nanobot.messages import Line
from nanobot.model import ToolCall


def user(text: str = "hi", turn: str = "t1", **more: Any) -> Line:
    return Line(role="user", content=text, turn=turn, **more)


def answer(text: str = "yes", turn: str = "t1", **more: Any) -> Line:
    return Line(role="assistant", content=text, turn=turn, **more)


def calls(*ids: str, turn: str = "t1", text: str = "") -> Line:
    made = [{"id": one, "type": "function", "function": {"name": "grep", "arguments": "{}"}} for one in ids]
    return Line(role="assistant", content=text, turn=turn, tool_calls=made)


def result(id: str, text: str = "found", turn: str = "t1") -> Line:
    return Line(role="tool", content=text, tool_call_id=id, name="grep", turn=turn)


def lost(id: str, turn: str = "t1") -> Line:
    return result(id, history.INTERRUPTED, turn)


def assert_legal(lines: list[Line]) -> None:
    """What providers demand, written apart from how `legal` does it."""
    waiting: list[str] = []
    for line in lines:
        if line["role"] == "tool":
            assert line["tool_call_id"] in waiting, "a result without its call"
            waiting.remove(line["tool_call_id"])
            continue
        assert not waiting, "a call without its result"
        if line["role"] == "assistant":
            made = line.get("tool_calls")
            assert made or (line.get("content") and str(line["content"]).strip()), "an empty answer"
            assert made is None or made, "an empty list of calls"
            waiting = [call["id"] for call in made or ()]
            assert len(set(waiting)) == len(waiting)
            for call in made or ():
                assert call["function"]["name"]
                assert isinstance(call["function"]["arguments"], str)
    assert not waiting


class TestLegal:
    def test_a_legal_history_stays_the_same_objects(self) -> None:
        lines = [
            user(),
            calls("a", "b"),
            result("b"),
            result("a"),
            answer(),
            user(turn="t2"),
            answer(turn="t2"),
        ]
        assert all(one is other for one, other in zip(history.legal(lines), lines, strict=True))

    @pytest.mark.parametrize("position", [0, 1, 4, 5])
    def test_an_orphan_result_is_left_out_wherever_it_is(self, position: int) -> None:
        lines = [user(), calls("a"), result("a"), answer(), user()]
        assert history.legal([*lines[:position], result("zz"), *lines[position:]]) == lines

    @pytest.mark.parametrize("position", [3, 4, 5])
    def test_a_second_result_is_left_out_wherever_it_is(self, position: int) -> None:
        lines = [user(), calls("a"), result("a", "first"), answer(), user()]
        assert history.legal([*lines[:position], result("a", "second"), *lines[position:]]) == lines

    def test_a_missing_result_comes_after_the_others_of_its_group(self) -> None:
        lines = [user(), calls("a", "b", "c"), result("b"), answer()]
        assert history.legal(lines) == [
            user(),
            calls("a", "b", "c"),
            result("b"),
            lost("a"),
            lost("c"),
            answer(),
        ]

    def test_a_call_at_the_end_gets_a_result(self) -> None:
        assert history.legal([user(), calls("a")]) == [user(), calls("a"), lost("a")]

    def test_a_line_between_a_call_and_its_result_moves_behind_it(self) -> None:
        lines = [user(), calls("a", "b"), result("a"), user("also", "t2"), result("b"), answer()]
        assert history.legal(lines) == [
            user(),
            calls("a", "b"),
            result("a"),
            result("b"),
            user("also", "t2"),
            answer(),
        ]

    def test_a_line_between_two_results_moves_behind_both(self) -> None:
        lines = [calls("a", "b"), user("wait"), result("a"), user("no, go on"), result("b"), answer()]
        assert history.legal(lines) == [lines[0], lines[2], lines[4], lines[1], lines[3], lines[5]]

    def test_a_line_behind_a_call_that_never_came_back_follows_what_says_so(self) -> None:
        lines = [calls("a"), user("are you there?")]
        assert history.legal(lines) == [lines[0], lost("a"), lines[1]]
        assert history.legal([*lines, answer()]) == [lines[0], lost("a"), lines[1], answer()]

    def test_an_id_may_be_used_again_by_a_later_call(self) -> None:
        lines = [
            user(),
            calls("call_0"),
            result("call_0", "1"),
            calls("call_0"),
            result("call_0", "2"),
            answer(),
        ]
        assert history.legal(lines) == lines

    @pytest.mark.parametrize("empty", ["", None, " \n", []])
    def test_an_empty_answer_is_left_out(self, empty: Any) -> None:
        assert history.legal([user(), answer(empty, reasoning="hm"), answer()]) == [user(), answer()]

    @pytest.mark.parametrize(
        "bad",
        [
            None,
            "text",
            {"id": "b"},
            {"id": "b", "function": None},
            {"id": "b", "function": {"name": None, "arguments": "{}"}},
            {"id": "", "function": {"name": "f", "arguments": "{}"}},
            {"id": ["b"], "function": {"name": "f", "arguments": "{}"}},
            {"id": "a", "function": {"name": "twice", "arguments": "{}"}},
        ],
    )
    def test_a_malformed_call_is_stripped_and_the_line_itself_is_not_changed(self, bad: Any) -> None:
        line = calls("a")
        line["tool_calls"].append(bad)
        before = json.dumps(line)
        assert history.legal([user(), line, result("a"), answer()]) == [
            user(),
            calls("a"),
            result("a"),
            answer(),
        ]
        assert json.dumps(line) == before

    @pytest.mark.parametrize("all_bad", [[], {}, "x", 7, [None], [{"id": "a"}]])
    def test_a_line_without_a_sound_call_keeps_its_text_alone(self, all_bad: Any) -> None:
        assert history.legal([user(), answer(tool_calls=all_bad), result("a")]) == [user(), answer()]

    def test_arguments_that_are_no_text_become_it(self) -> None:
        line = calls("a")
        line["tool_calls"][0]["function"]["arguments"] = {"q": 1}
        mended = history.legal([line])[0]
        assert mended["tool_calls"][0]["function"]["arguments"] == '{"q":1}'

    def test_what_has_no_known_role_is_left_out(self) -> None:
        odd = [Line(), Line(role="developer"), Line(role=3), Line(role=["user"])]
        assert history.legal([*odd, user(), *odd]) == [user()]


ids = st.sampled_from(["a", "b", "c"])
texts = st.sampled_from(["", "x", " "])
call_lists = st.one_of(
    st.none(),
    st.just("junk"),
    st.lists(
        st.one_of(
            st.builds(lambda one: {"id": one, "function": {"name": "f", "arguments": "{}"}}, ids),
            st.builds(lambda one: {"id": one, "function": {"name": "f", "arguments": {"q": 1}}}, ids),
            st.sampled_from([None, {}, {"id": 3, "function": {"name": "f"}}, {"id": "a", "function": {}}]),
        ),
        max_size=3,
    ),
)
any_line = st.one_of(
    st.builds(user, texts),
    st.builds(result, ids),
    st.builds(answer, texts),
    st.builds(lambda text, made: answer(text, tool_calls=made), texts, call_lists),
    st.builds(lambda text: Line(role="system", content=text), texts),
    st.sampled_from([Line(), Line(role="tool"), Line(role=None), Line(role="assistant")]),
)
any_history = st.lists(any_line, max_size=25)


class TestAnyHistory:
    @given(any_history)
    def test_becomes_legal_and_then_stays(self, lines: list[Line]) -> None:
        legal = history.legal(lines)
        assert_legal(legal)
        assert history.legal(legal) == legal

    @given(any_history)
    def test_keeps_every_user_line_in_order(self, lines: list[Line]) -> None:
        asked = [id(line) for line in lines if line.get("role") == "user"]
        assert [id(line) for line in history.legal(lines) if line["role"] == "user"] == asked

    @given(any_history, st.integers(0, 30), st.integers(0, 10), st.integers(0, 60))
    def test_has_a_legal_window_with_its_last_question(
        self, lines: list[Line], start: int, messages: int, budget: int
    ) -> None:
        window = history.window(lines, start, messages, budget)
        assert_legal(window)
        assert not window or window[0]["role"] != "tool"
        asked = [line for line in lines if line.get("role") == "user"]
        assert not asked or any(line is asked[-1] for line in window)

    @given(any_history)
    def test_is_covered_by_its_turns(self, lines: list[Line]) -> None:
        ranges = history.turns(lines)
        assert [n for start, end in ranges for n in range(start, end)] == list(range(len(lines)))
        assert all(lines[start].get("role") == "user" for start, _ in ranges[1:])


class TestWindow:
    def test_without_limits_it_is_the_whole_history(self) -> None:
        lines = [answer("good morning"), user(), answer()]
        assert history.window(lines) == lines

    def test_it_begins_with_a_user_line(self) -> None:
        lines = [user("1"), answer("1"), user("2"), answer("2"), user("3"), answer("3")]
        assert history.window(lines, max_messages=5) == lines[2:]
        assert history.window(lines, start=1) == lines[2:]

    def test_it_costs_no_more_than_the_budget(self) -> None:
        lines = [line for n in range(50) for line in (user("x" * 400, f"t{n}"), answer("y" * 400, f"t{n}"))]
        window = history.window(lines, max_tokens=1_000)
        assert 800 <= sum(map(history.estimate_tokens, window)) <= 1_000
        assert window == lines[-len(window) :]

    def test_the_last_question_is_kept_above_the_budget(self) -> None:
        lines = [user("1"), answer("1"), user("x" * 4_000)]
        assert history.window(lines, max_tokens=10) == lines[-1:]

    def test_a_long_run_of_tools_keeps_its_question_and_its_end(self) -> None:
        run = [line for n in range(100) for line in (calls(f"c{n}"), result(f"c{n}", "z" * 400))]
        window = history.window(
            [user("old", "t0"), answer("old", "t0"), user("do it"), *run], max_tokens=1_000
        )
        assert window[0] == user("do it")
        assert window[-1] is run[-1]
        assert 3 < len(window) < 20

    def test_a_steered_line_does_not_displace_the_question_of_its_turn(self) -> None:
        run = [line for n in range(20) for line in (calls(f"c{n}"), result(f"c{n}", "z" * 400))]
        lines = [user("do it"), *run, user("in metres", "t2"), calls("last"), result("last")]
        window = history.window(lines, max_tokens=200)
        assert window == [user("do it"), user("in metres", "t2"), calls("last"), result("last")]


class TestTokens:
    @pytest.mark.parametrize(
        ("text", "low", "high"),
        [("word " * 100, 100, 150), ("你好世界" * 25, 95, 110), ("привет " * 20, 50, 100), ("", 0, 2)],
    )
    def test_the_estimate_is_near_what_tokenizers_give(self, text: str, low: int, high: int) -> None:
        assert low <= history.text_tokens(text) <= high

    def test_calls_media_and_blocks_count_but_a_picture_not_by_its_bytes(self) -> None:
        line = calls("a")
        line["tool_calls"][0]["function"]["arguments"] = "x" * 4_000
        assert history.estimate_tokens(line) > 1_000
        picture = user()
        picture["content"] = [
            {"type": "image_url", "image_url": {"url": "data:" + "A" * 90_000}},
            {"type": "text", "text": "?"},
        ]
        assert 1_000 <= history.estimate_tokens(picture) < 2_000

    def test_the_estimate_is_remembered_on_the_line(self) -> None:
        line = user("x" * 400)
        assert history.estimate_tokens(line) == line.tokens
        line.tokens = 7
        assert history.estimate_tokens(line) == 7

    def test_a_lone_surrogate_is_no_obstacle(self) -> None:
        assert history.estimate_tokens(user("\ud83d")) > 0


class TestTurns:
    def test_a_turn_begins_with_its_question(self) -> None:
        lines = [
            user(),
            answer(),
            user(turn="t2"),
            calls("a", turn="t2"),
            result("a", turn="t2"),
            answer(turn="t2"),
        ]
        assert history.turns(lines) == [(0, 2), (2, 6)]

    def test_a_steered_line_belongs_to_the_running_turn(self) -> None:
        lines = [
            user(),
            calls("a"),
            result("a"),
            user("also", "t2"),
            answer(),
            user("new", "t3"),
            answer(turn="t3"),
        ]
        assert history.turns(lines) == [(0, 5), (5, 7)]

    def test_questions_taken_together_are_one_turn(self) -> None:
        lines = [user(), user("and", "t2"), answer(), user("new", "t3")]
        assert history.turns(lines) == [(0, 3), (3, 4)]

    def test_histories_without_turn_ids_begin_one_at_each_question(self) -> None:
        bare = [
            Line(role=role, content="x")
            for role in ("user", "assistant", "user", "assistant", "tool", "user")
        ]
        assert history.turns(bare) == [(0, 2), (2, 5), (5, 6)]


class TestInterrupted:
    def test_a_final_line_is_the_one_with_its_latency(self) -> None:
        final = answer(latency_ms=12)
        assert history.interrupted([user(), answer("so far"), final], "t1").final is final
        assert history.interrupted([user(), answer("so far")], "t1").final is None
        assert history.interrupted([user(), final], "t2").final is None

    def test_the_messages_a_turn_heard_are_known_by_their_inbox_ids(self) -> None:
        lines = [
            user(turn="t0"),
            answer(turn="t0", latency_ms=1),
            user(),
            calls("a"),
            result("a"),
            user("also", "t2"),
        ]
        assert history.interrupted(lines, "t1").heard == {"t1", "t2"}

    def test_open_calls_are_listed_in_their_order(self) -> None:
        lines = [user(), calls("a"), result("a"), calls("b", "c", "d"), result("c")]
        assert history.unfinished(lines, "t1") == [ToolCall("b", "grep", "{}"), ToolCall("d", "grep", "{}")]

    def test_an_id_used_again_is_open_again(self) -> None:
        assert history.unfinished([user(), calls("a"), result("a"), calls("a")], "t1") == [
            ToolCall("a", "grep", "{}")
        ]
        assert history.unfinished([user(), calls("a"), result("a"), calls("a"), result("a")], "t1") == []

    def test_an_id_used_again_and_answered_twice_is_open_nowhere(self) -> None:
        lines = [user(), calls("a"), calls("a"), result("a")]
        assert [call.id for call in history.interrupted(lines, "t1").unfinished] == ["a"]
        lines = [user(), calls("a"), result("a"), calls("a"), result("a")]
        assert history.interrupted(lines, "t1").unfinished == []

    def test_other_turns_calls_are_not_its_own(self) -> None:
        assert history.unfinished([user(turn="t0"), calls("x", turn="t0"), user()], "t1") == []
