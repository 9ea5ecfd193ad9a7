"""The mailbox's decisions."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot import mailbox
from nanobot.messages import Inbound, InboundKind
from nanobot.store import InboxStatus, Row

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def row(seq: int, status: InboxStatus = "pending", kind: InboundKind = "user", turn: str = "") -> Row:
    return Row(f"r{seq}", seq, Inbound("t", str(seq), "1", "hi", kind=kind), status, NOON, turn=turn)


def ids(rows: tuple[Row, ...]) -> list[str]:
    return [one.id for one in rows]


def test_nothing_waits_in_an_empty_mailbox() -> None:
    assert mailbox.next_turn([]) == ()


def test_the_oldest_message_of_a_person_goes_first() -> None:
    rows = [row(4), row(2, kind="goal"), row(1, kind="schedule"), row(3)]
    assert ids(mailbox.next_turn(rows)) == ["r3"]
    assert ids(mailbox.next_turn(rows[1:3])) == ["r1"]


def test_an_interrupted_turn_goes_before_everything_with_its_leader_first() -> None:
    rows = [
        row(1),
        row(2, "running", turn="r5"),
        row(5, "running", "goal", turn="r5"),
        row(6, "running", turn="r5"),
    ]
    assert ids(mailbox.next_turn(rows)) == ["r5", "r2", "r6"]


def test_what_another_turn_had_taken_is_no_part_of_the_one_that_was_interrupted() -> None:
    rows = [row(2, "running", turn="r2"), row(3, "running", turn="r1")]
    assert ids(mailbox.next_turn(rows)) == ["r2"]
    assert ids(mailbox.next_turn(rows[1:])) == ["r3"]


def test_ended_rows_are_no_turn() -> None:
    assert mailbox.next_turn([row(1, "done"), row(2, "dead")]) == ()


def test_only_waiting_words_of_people_and_results_may_steer() -> None:
    assert mailbox.may_steer(row(1))
    assert mailbox.may_steer(row(1, kind="child_result"))
    assert not mailbox.may_steer(row(1, "running"))
    for kind in ("goal", "schedule", "task"):
        assert not mailbox.may_steer(row(1, kind=kind))


def test_a_turn_runs_three_times_at_most() -> None:
    assert [mailbox.exhausted(attempt) for attempt in (1, 2, 3, 4)] == [False, False, False, True]


@given(st.integers(min_value=-5, max_value=10_000))
def test_a_pause_is_never_short_and_never_endless(attempts: int) -> None:
    full = min(mailbox.LONGEST_DELAY, mailbox.FIRST_DELAY * 2.0 ** min(max(0, attempts - 1), 32))
    assert full / 2 <= mailbox.backoff(attempts) <= full


def test_a_reply_is_half_a_minute_late_at_most_once_its_platform_works_again() -> None:
    assert max(mailbox.backoff(attempts) for attempts in range(1, 60)) <= 30


def test_what_failed_together_is_not_tried_again_together() -> None:
    assert len({mailbox.backoff(5) for _ in range(20)}) > 15


@pytest.mark.parametrize(("hours", "old"), [(23.9, False), (24, True), (48, True)])
def test_a_reply_grows_too_old_at_its_limit(hours: float, old: bool) -> None:
    assert mailbox.too_old(NOON, NOON + timedelta(hours=hours), timedelta(hours=24)) is old
