"""What people read about a goal: the progress message, what `/goal` shows, and the message at a halt or an end."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from nanobot import content
from nanobot.goal import Budget, Goal, Spent, begin, move
from nanobot.goal_texts import announcement, context, details, progress
from nanobot.goal_turns import Limits, TurnFacts, after_turn
from nanobot.messages import Address
from nanobot.prompts import Prompts
from nanobot.skills import Skills

NOW = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)


def goal(channel: str = "telegram", **fields: object) -> Goal:
    begun = begin("g", "Proofread the book", NOW, budget=Budget(), address=Address(channel, "7"))
    return msgspec.structs.replace(begun, **fields)


def later(minutes: int) -> datetime:
    return NOW + timedelta(minutes=minutes)


def test_at_its_begin_the_progress_message_says_what_it_may_take() -> None:
    assert progress(goal(), NOW) == (
        "**Goal**: Proofread the book\nWorking, may take 50 turns, 2M tokens and 8 h"
    )


def test_while_it_works_the_message_says_what_it_took_and_the_last_step() -> None:
    worked = goal(spent=Spent(3, 39_400, 1.5), step="Chapter 2 is proofread", percent=50)
    assert progress(worked, later(125)) == (
        "**Goal**: Proofread the book\n"
        "Working, 3 of 50 turns, 39k tokens, 2 h 5 min\n"
        "Last step: 50 %, Chapter 2 is proofread"
    )


def test_what_it_cost_is_told_as_far_as_prices_are_known() -> None:
    known = Spent().paying(30_000, 0.4).paying(9_000, 0.02)
    assert "39k tokens, $0.42, " in progress(goal(spent=msgspec.structs.replace(known, turns=3)), NOW)
    part = Spent(3).paying(30_000, 0.0004).paying(9_000, None)
    assert "39k tokens, at least $0.0004, " in progress(goal(spent=part), NOW)
    assert "$" not in progress(goal(spent=Spent(3).paying(9_000, None)), NOW)


def test_a_failed_turn_is_told_in_the_message_until_one_succeeds() -> None:
    failed = after_turn(goal(), TurnFacts("t1", failed=True, text="the provider is down"), Limits(), NOW)
    assert "The last turn failed and is tried again by itself: the provider is down" in progress(failed, NOW)
    assert "Reason" not in details(failed, NOW)
    mended = after_turn(failed, TurnFacts("t2", text="Done.", tools=1), Limits(), NOW)
    assert "failed" not in progress(mended, NOW)
    blocked = move(goal(), "block", NOW, reason="It was refused.")
    ended = after_turn(blocked, TurnFacts("t3", failed=True, text="the turn was ended"), Limits(), NOW)
    assert ended.reason == "It was refused."


def test_four_fifths_of_the_budget_are_told_with_the_way_to_more() -> None:
    worked = goal(spent=Spent(40))
    assert "80% of the budget is used; `/goal budget" in progress(worked, NOW)
    assert "Most of the budget is used" in context(worked)
    assert "Most of the budget is used" not in context(goal(spent=Spent(39)))


def test_the_final_message_has_recap_evidence_and_what_it_took() -> None:
    ended = move(
        goal(spent=Spent(6, 80_000, 4.0)), "complete", later(12), recap="It is done.", evidence="CHANGES.md"
    )
    assert announcement(ended, "Finished.", later(12)) == (
        "**Goal completed**: Proofread the book\n\nIt is done.\n\nEvidence: CHANGES.md\n\n"
        "It took 6 of 50 turns, 80k tokens, 12 min."
    )


@pytest.mark.parametrize(("channel", "sign"), [("telegram", "/"), ("websocket", "/"), ("slack", "!")])
def test_commands_are_named_as_they_are_written_in_the_chat(channel: str, sign: str) -> None:
    blocked = move(goal(channel, spent=Spent(6)), "block", NOW, reason="It stands still.")
    told = announcement(blocked, "I do not know; see `/usr/bin`.", NOW)
    assert f"`{sign}goal resume`" in told
    assert f"`{sign}goal cancel`" in told
    assert "`/usr/bin`" in told


def test_the_skill_that_a_goals_first_turn_names_is_shipped_and_can_be_read(tmp_path: Path) -> None:
    skills = Skills(tmp_path, content.roots("skills", tmp_path))
    prompts = Prompts(tmp_path, skills, content.roots("templates", tmp_path))
    first = prompts.text("goal_start.md.j2", objective="Proofread the book", checks=("true",), wrapping=False)
    assert "`long-goal`" in first
    assert "- `true`" in first
    assert "long-goal" in prompts.system(small=False)
    skill = skills.get("long-goal")
    assert skill is not None
    assert "complete_goal" in skills.body(skill)
