"""A budget of calls a minute."""

from nanobot.budget import Budget
from nanobot.testing import FakeClock


async def test_no_minute_has_more_than_a_minutes_calls_and_a_quarter() -> None:
    clock = FakeClock(auto=True)
    budget = Budget(12, clock)
    taken = []
    for _ in range(3_000):
        if budget.take():
            taken.append(clock.monotonic())
        await clock.sleep(0.2)

    assert max(sum(at <= one < at + 60 for one in taken) for at in taken) in (14, 15)
    assert 120 <= len(taken) <= 123, "a minute's calls each minute, and the first quarter"


async def test_what_is_said_in_any_case_counts_and_is_paid_back_within_the_minute() -> None:
    clock = FakeClock(auto=True)
    budget = Budget(60, clock)
    for _ in range(100):
        budget.spend()
    assert not budget.take()
    await clock.sleep(17)

    assert budget.take()
