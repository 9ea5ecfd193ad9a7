"""The rules of goals, without a gateway."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.goal import (
    ENDED,
    TABLE,
    Budget,
    Goal,
    IllegalMove,
    Malformed,
    Move,
    begin,
    move,
    read,
    shown,
    stored,
)
from nanobot.goal_turns import IDLE, Limits, TurnFacts, after_turn, alike, fumbled, normal, refused
from nanobot.messages import Address

NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
MOVES: tuple[Move, ...] = tuple(sorted({name for moves in TABLE.values() for name in moves}))


def goal(**fields: Any) -> Goal:
    made = begin("g", "Write a book", NOW, budget=Budget(10, 1_000, 60), address=Address("fake", "c"))
    return msgspec.structs.replace(made, **fields)


def worked(one: Goal, count: int, **fields: Any) -> Goal:
    for number in range(count):
        facts: dict[str, Any] = {
            "turn": f"t{one.spent.turns}",
            "text": f"chapter {number}",
            "tools": 1,
            "did": f"write {number}",
        }
        one = after_turn(one, TurnFacts(**(facts | fields)), Limits(), NOW)
    return one


def test_the_ends_are_completed_cancelled_and_exhausted() -> None:
    assert sorted(ENDED) == ["cancelled", "completed", "exhausted"]


steps = st.lists(
    st.one_of(
        st.sampled_from(MOVES),
        st.builds(
            TurnFacts,
            turn=st.sampled_from([f"t{n}" for n in range(8)]),
            failed=st.booleans(),
            stopped=st.booleans(),
            text=st.sampled_from(["", "same again", "one thing", "another thing"]),
            tools=st.integers(0, 2),
            tokens=st.integers(0, 400),
            seconds=st.floats(0, 1_200),
        ),
        st.sampled_from(["refused", "fumbled"]),
    ),
    max_size=40,
)


@given(steps)
def test_no_sequence_of_events_leaves_the_table_and_every_end_is_final(events: list[Any]) -> None:
    one = goal()
    for event in events:
        before = one
        try:
            match event:
                case TurnFacts():
                    one = after_turn(one, event, Limits(), NOW)
                case "refused":
                    one = refused(one, "no proof", NOW, turn="x")
                case "fumbled":
                    one = fumbled(one, "no recap", NOW, turn="x")
                case _:
                    one = move(one, event, NOW)
        except IllegalMove:
            one = before
        if one.status != before.status:
            assert one.status in TABLE[before.status].values()
        if before.status in ENDED:
            assert one.status == before.status
            assert one.ended_at
        assert read({"goal_state": msgspec.json.decode(msgspec.json.encode(stored(one)))}) == one
        assert one.spent.turns <= one.budget.turns or before.status != "active"


def test_a_turn_that_is_counted_again_counts_once() -> None:
    once = worked(goal(), 1, turn="t0", tokens=10, seconds=60)
    assert once.spent == msgspec.structs.replace(once.spent, turns=1, tokens=10, minutes=1.0)
    assert worked(once, 1, turn="t0", tokens=10, seconds=60) == once


def test_two_turns_without_a_tool_and_with_the_same_words_block_it() -> None:
    first = worked(goal(), 1, tools=0, text="Which colour would you like?")
    assert first.status == "active"
    second = worked(first, 1, tools=0, text="Which colour would you like?")
    assert (second.status, second.reason, second.by) == ("blocked", IDLE, "t1")


def test_turns_that_use_tools_or_say_something_new_go_on() -> None:
    assert worked(goal(), 5, text="Still at it.").status == "active"
    assert worked(goal(), 5, tools=0).status == "active"


def test_words_alone_are_no_progress_for_ever() -> None:
    one = goal(budget=Budget())
    for number in range(6):
        one = worked(one, 1, tools=0, text=f"Thought {number}: {number * 'x'}", turn=f"t{number}")
    assert one.status == "blocked"


def test_the_same_call_with_the_same_words_is_no_progress_either() -> None:
    one = goal(budget=Budget())
    for number in range(7):
        one = worked(one, 1, did="exec ls", text="Looked.", turn=f"t{number}")
    assert one.status == "blocked"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Which colour?", "Which colour? ", True),
        ("Wrote chapter 3.", "Wrote chapter 4.", False),
        (
            "I am still waiting for you to tell me which colour the house should have, please.",
            "I am still waiting for you to tell me which colour the house should have, thanks.",
            True,
        ),
        ("", "", True),
    ],
)
def test_texts_are_alike_where_they_say_the_same(one: str, other: str, same: bool) -> None:
    assert alike(normal(one), normal(other)) is same


@pytest.mark.parametrize(
    ("budget", "facts", "turns"),
    [
        (Budget(4, 10_000, 60), {}, 4),
        (Budget(50, 1_000, 60), {"tokens": 300}, 5),
        (Budget(50, 10_000, 60), {"seconds": 1_200.0}, 4),
    ],
    ids=["turns", "tokens", "minutes"],
)
def test_the_last_turn_of_a_budget_wraps_up_and_then_it_is_exhausted(
    budget: Budget, facts: dict[str, Any], turns: int
) -> None:
    one = worked(goal(budget=budget), turns - 1, **facts)
    assert (one.status, one.wrapping) == ("active", True)
    one = worked(one, 1, text="This is how far I came.", **facts)
    assert (one.status, one.recap, one.spent.turns) == ("exhausted", "This is how far I came.", turns)


def test_four_fifths_of_the_budget_are_noted() -> None:
    one = worked(goal(), 8)
    assert [entry["event"] for entry in one.history] == ["start", "budget"]
    assert one.history[-1]["text"] == "80% used"


def test_failed_turns_in_a_row_block_it_and_a_good_one_between_counts_anew() -> None:
    one = worked(goal(), 2, failed=True, text="unreachable")
    assert worked(worked(one, 1), 1, failed=True).failures == 1
    blocked = after_turn(one, TurnFacts("t9", failed=True, text="unreachable"), Limits(failures=3), NOW)
    assert blocked.status == "blocked"
    assert "unreachable" in blocked.reason


def test_the_third_refusal_blocks_it_with_all_reasons() -> None:
    one = goal()
    for reason in ("no tests", "tests fail", "no docs"):
        assert one.status == "active"
        one = refused(one, reason, NOW, turn="t")
    assert one.status == "blocked"
    assert "no tests; tests fail; no docs" in one.reason
    assert move(one, "complete", NOW).status == "completed"


def test_resuming_gives_new_trust_and_a_new_run() -> None:
    blocked = refused(refused(refused(goal(), "a", NOW, turn="t"), "b", NOW, turn="t"), "c", NOW, turn="t")
    resumed = move(blocked, "resume", NOW)
    assert (resumed.status, resumed.refusals, resumed.reason, resumed.run) == ("active", (), "", 2)


@pytest.mark.parametrize(
    "metadata",
    [
        {"goal_state": {"status": "active", "objective": "Build it", "started_at": "2026-06-01T08:00:00"}},
        {"goal_state": '{"status": "active", "objective": "Build it", "ended_at": null}'},
        {"thread_goal": {"status": "active", "objective": "Build it", "completed_at": "x", "unknown": [1]}},
    ],
)
def test_goals_of_other_gateways_are_read_and_wait_to_be_resumed(metadata: dict[str, Any]) -> None:
    one = read(metadata)
    assert one is not None
    assert (one.objective, one.status) == ("Build it", "paused")
    assert one.id


@pytest.mark.parametrize(
    "raw",
    [
        "{not json",
        ["a", "list"],
        {"status": "dreaming", "objective": "x"},
        {"status": "active"},
        {"status": "active", "objective": ""},
        {"status": "active", "objective": "x", "spent": {"turns": -1}},
        {"status": "active", "objective": "x", "budget": "much"},
        7,
    ],
)
def test_what_is_no_goal_is_said_to_be_none(raw: Any) -> None:
    with pytest.raises(Malformed):
        read({"goal_state": raw})


def test_no_goal_is_no_error() -> None:
    assert read({}) is None
    assert read({"goal_state": {}}) is None
    assert read({"goal_state": ""}) is None


def test_live_views_get_the_short_form() -> None:
    view = shown(goal(objective="x " * 2_000, recap="y" * 500, step="Halfway", percent=50))
    assert len(view["objective"]) <= 600
    assert len(view["ui_summary"]) <= 120
    assert len(view["recap"]) <= 240
    assert (view["status"], view["active"], view["step"], view["percent"]) == ("active", True, "Halfway", 50)


def test_the_protocols_document_names_every_field_of_the_live_view() -> None:
    text = (Path(__file__).parents[1] / "docs" / "protocol.md").read_text()
    table = text.partition("**`goal_state`** is the same object")[2].partition("Fields with `?`")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    documented = [name for cell in cells for name in re.findall(r"`(\w+\??)`", cell)]
    least = shown(goal())
    most = shown(
        goal(
            step="a", percent=1, question="b", reason="c", evidence="d", checks=("true",), refusals=("no",),
            budget=Budget(turns=5),
        )
    )  # fmt: skip
    assert [name for name in documented if not name.endswith("?")] == list(least)
    assert {name.rstrip("?") for name in documented} == set(most)
