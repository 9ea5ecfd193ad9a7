"""The agent loop alone: a script for a model, and a conversation that keeps what it is given."""

from collections.abc import Sequence

import msgspec
import pytest

from nanobot.agent import loop
from nanobot.events import Event, TextDelta, TextEnded, TextReset, Usage
from nanobot.messages import Address, Line
from nanobot.model import Failed, Finished, ModelRequest, Restarted, Text, ToolCall
from nanobot.testing import FakeClock, ScriptedModel

CUT = Finished("length")


class Asked(msgspec.Struct):
    """A model call as the loop wanted it."""

    extra: list[str]
    tools: bool
    shrink: bool


class Talk:
    """A conversation in memory. `objections` are said to the answers in turn; `happened` is the order of it all."""

    def __init__(self, objections: Sequence[str] = ()) -> None:
        self.lines: list[Line] = []
        self.asked: list[Asked] = []
        self.used: list[str] = []
        self.happened: list[str] = []
        self._objections = list(objections)

    def request(self, extra: Sequence[Line], *, tools: bool, shrink: bool) -> ModelRequest:
        self.happened.append("ask")
        self.asked.append(Asked([line["content"] for line in extra], tools, shrink))
        return ModelRequest(system="", messages=[*self.lines, *extra])

    async def append(self, *lines: Line) -> None:
        self.lines += lines

    async def steer(self) -> bool:
        self.happened.append("steer")
        return False

    def objection(self, answer: str) -> str:
        del answer
        return self._objections.pop(0) if self._objections else ""

    async def use(self, call: ToolCall) -> Line:
        self.used.append(call.id)
        return Line(role="tool", content=f"did {call.name}", tool_call_id=call.id)


class Seat:
    """A turn with its events."""

    def __init__(self, *script: object, objections: Sequence[str] = ()) -> None:
        self.events: list[Event] = []
        self.turn = loop.Turn("fake:c", "t", Address("fake", "c"), self.events.append, "t.1", 0.0)
        self.talk = Talk(objections)
        self.model = ScriptedModel(script)  # type: ignore[arg-type]

    async def run(self, max_steps: int = 20, *, again: bool = False) -> loop.Outcome:
        return await loop.run(self.turn, self.talk, self.model, FakeClock(), max_steps=max_steps, again=again)

    def shown(self) -> str:
        """What somebody has on the screen who saw every event."""
        text = ""
        for event in self.events:
            if isinstance(event, TextDelta):
                text += event.text
            elif isinstance(event, TextReset | TextEnded):
                text = ""
        return text


def call(id: str = "c1") -> ToolCall:
    return ToolCall(id, "look", "{}")


async def test_an_answer_that_the_output_limit_cut_is_continued_and_is_one_answer() -> None:
    seat = Seat([Text("one "), CUT], [Text("two "), CUT], "three")
    assert (await seat.run()).text == seat.shown() == seat.turn.text == "one two three"
    assert [one.extra for one in seat.talk.asked] == [
        [],
        ["one ", loop.CONTINUE],
        ["one ", loop.CONTINUE, "two ", loop.CONTINUE],
    ]


async def test_an_answer_without_end_is_continued_three_times() -> None:
    seat = Seat(*[[Text(f"{number} "), CUT] for number in range(9)])
    assert (await seat.run()).text == "0 1 2 3 "


async def test_the_words_before_a_call_are_those_of_all_pieces() -> None:
    seat = Seat([Text("I will "), CUT], [Text("look."), call()], "Seen.")
    assert (await seat.run()).text == "Seen."
    assert seat.talk.lines[0]["content"] == "I will look."


async def test_an_empty_answer_is_asked_again_at_last_without_tools_and_then_told() -> None:
    seat = Seat([Finished("stop")], [Text(" ")], [Finished("stop")], "never asked for")
    outcome = await seat.run()
    assert (outcome.status, outcome.text) == ("failed", "scripted/test gave an empty answer 3 times.")
    assert [(one.tools, len(one.extra)) for one in seat.talk.asked] == [(True, 0), (True, 1), (False, 2)]


async def test_messages_that_do_not_fit_are_asked_once_more_with_less() -> None:
    overflow = [Text("I "), Failed("context_overflow", "too long")]
    seat = Seat(overflow, "Shorter.")
    assert (await seat.run()).text == seat.shown() == "Shorter."
    assert [one.shrink for one in seat.talk.asked] == [False, True]
    seat = Seat(overflow, overflow, "never asked for")
    assert (await seat.run()).text == "too long"
    assert len(seat.talk.asked) == 2


async def test_what_a_restarted_call_had_said_and_called_does_not_count() -> None:
    seat = Seat([Text("wrong "), call(), Restarted("again"), Text("right")])
    outcome = await seat.run()
    assert (outcome.text, seat.shown(), seat.talk.used) == ("right", "right", [])


async def test_a_failed_call_takes_back_what_it_had_shown() -> None:
    seat = Seat([Text("half a sen"), Failed("auth", "the key was refused")])
    outcome = await seat.run()
    assert (outcome.status, outcome.text) == ("failed", "the key was refused")
    assert (seat.shown(), seat.turn.text) == ("", "")


async def test_the_tokens_of_all_calls_are_the_turns() -> None:
    seat = Seat(
        [call(), Finished("tool_calls", Usage(10, 1))], [Text("Seen."), Finished("stop", Usage(20, 2))]
    )
    await seat.run()
    assert seat.turn.usage == Usage(30, 3)


async def test_the_last_step_offers_no_tools_and_says_so() -> None:
    seat = Seat([call()], "All I have.", "never asked for")
    assert (await seat.run(max_steps=1)).text == "All I have."
    assert [(one.tools, one.extra) for one in seat.talk.asked] == [(True, []), (False, [loop.LAST_STEP])]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("Half of it.", "completed", "Half of it."),
        ("", "failed", "I used all 1 steps without reaching an answer."),
    ],
)
async def test_a_tool_that_is_called_at_the_last_step_is_not_run(words: str, status: str, told: str) -> None:
    seat = Seat([call("c1")], [Text(words), call("c2")])
    outcome = await seat.run(max_steps=1)
    assert (outcome.status, outcome.text, seat.talk.used) == (status, told, ["c1"])


async def test_people_are_heard_after_each_step_and_not_before_the_first() -> None:
    seat = Seat([call("c1")], [call("c2"), call("c3")], "Seen.")
    await seat.run()
    assert seat.talk.happened == ["ask", "steer", "ask", "steer", "ask"]
    assert [line["role"] for line in seat.talk.lines] == ["assistant", "tool", "assistant", "tool", "tool"]


async def test_a_call_that_was_broken_off_is_taken_back_and_people_are_heard_before_it_is_made_again() -> (
    None
):
    seat = Seat("A new answer.")
    seat.events.append(TextDelta("fake:c", "t", Address("fake", "c"), "An old ans", "t.1.0"))
    seat.turn.text = "An old ans"
    assert (await seat.run(again=True)).text == seat.shown() == "A new answer."
    assert seat.talk.happened == ["steer", "ask"]


async def test_an_objection_is_answered_before_the_turn_ends() -> None:
    seat = Seat("Done.", "Now it is.", objections=["The tests were not run."])
    assert (await seat.run()).text == seat.shown() == "Now it is."
    assert [(line["role"], line["content"]) for line in seat.talk.lines] == [
        ("assistant", "Done."),
        ("user", "The tests were not run."),
    ]
    assert "latency_ms" not in seat.talk.lines[0]
