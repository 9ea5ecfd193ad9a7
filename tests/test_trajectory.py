"""What our own agent did, read from its history: every step with its turn, its end and what it used."""

from typing import Any

from nanobot.messages import Line
from nanobot.trajectory import joined, of_history


def called(turn: str, id: str, command: str, **spent: int) -> Line:
    arguments = f'{{"command": "{command}"}}'
    function = {"name": "exec", "arguments": arguments}
    calls = [{"id": id, "type": "function", "function": function}]
    return Line(role="assistant", content="", turn=turn, tool_calls=calls, spent=spent)


def result(turn: str, id: str, text: str, **more: Any) -> Line:
    return Line(role="tool", content=text, turn=turn, tool_call_id=id, name="exec", **more)


LINES = [
    Line(role="user", content="do it", turn="a", injected="task"),
    called("a", "c1", "make", input=100, output=10),
    result("a", "c1", "oops\n[exit code 2]", error=True),
    called("a", "c2", "make again", input=250, output=20),
    result("a", "c2", "fine\n[exit code 0]"),
    Line(role="assistant", content="Done.", turn="a", latency_ms=5, usage={"input": 400, "output": 30}),
    Line(role="user", content="once more", turn="b", injected="task"),
    called("b", "c1", "make", input=90, output=10),
    result("b", "c1", "fine\n[exit code 0]"),
    Line(role="assistant", content="Done again.", turn="b", latency_ms=5, usage={"input": 200, "output": 20}),
]


def test_turns_are_told_apart_also_where_a_provider_uses_its_ids_again() -> None:
    steps = joined(of_history(LINES))
    assert [(step.turn, step.text) for step in steps] == [
        (1, "make"),
        (1, "make again"),
        (1, "Done."),
        (2, "make"),
        (2, "Done again."),
    ]


def test_a_command_that_failed_is_told_as_one() -> None:
    first, second, *_ = joined(of_history(LINES))
    assert (first.state, first.exit_code) == ("failed", 2)
    assert (second.state, second.exit_code) == ("completed", 0)


def test_the_tokens_of_the_steps_sum_up_to_what_their_turns_used() -> None:
    steps = joined(of_history(LINES))
    assert [step.tokens for step in steps] == [110, 160, 160, 100, 120]


def test_files_of_others_that_name_no_turns_have_them_counted_by_what_was_asked() -> None:
    lines = [
        Line(role="user", content="one"),
        Line(role="assistant", content="1"),
        Line(role="user", content="two"),
        Line(role="assistant", content="2"),
    ]
    assert [(step.turn, step.text) for step in of_history(lines)] == [(1, "1"), (2, "2")]
