"""Goals that begin later: what people write, which moments follow, and that each is taken once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nanobot.model import ModelRequest, ToolCall
from nanobot.schedule import BadSchedule, When, following, missed, split
from nanobot.testing import FakeClock, ScriptedModel
from tests.gateway_in_memory import InMemory, World, life

NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
BERLIN = "Europe/Berlin"


def zoned(text: str) -> tuple[str, When | None]:
    return split(text, NOW, zone=BERLIN)


@pytest.mark.parametrize(
    ("text", "objective", "when"),
    [
        ("read the news every 0 9 * * 1-5", "read the news", When(BERLIN, "0 9 * * 1-5")),
        ("read the news every 0 9 * * 1-5 UTC", "read the news", When("UTC", "0 9 * * 1-5")),
        ('a\nb every "*/5 * * * *" in America/New_York', "a\nb", When("America/New_York", "*/5 * * * *")),
        ("tidy up every @daily", "tidy up", When(BERLIN, "@daily")),
        ("tidy up at 18:30", "tidy up", When(BERLIN, at=datetime(2026, 11, 21, 17, 30, tzinfo=UTC))),
        ("tidy up at 2026-12-24 9:05", "tidy up", When(BERLIN, at=datetime(2026, 12, 24, 8, 5, tzinfo=UTC))),
        (
            "tidy up at 2026-12-24T18:00+05:00",
            "tidy up",
            When(BERLIN, at=datetime(2026, 12, 24, 13, tzinfo=UTC)),
        ),
    ],
)
def test_a_time_behind_a_goal_is_taken_off(text: str, objective: str, when: When) -> None:
    assert zoned(text) == (objective, when)


@pytest.mark.parametrize(
    "text",
    [
        "write a test for every module",
        "look at every one of these five words",
        "meet at noon",
        "fix the crash at start",
        "explain 'every 0 9 * * *' to me, please",
        "every 0 9 * * *",
    ],
)
def test_other_words_stay_a_part_of_the_goal(text: str) -> None:
    assert zoned(text) == (text, None)


@pytest.mark.parametrize(
    "text",
    [
        "x every 99 * * * *",
        "x every 0 0 31 2 *",
        'x every "a b c d e"',
        "x every friday",
        "x every 5 minutes",
        "x at 7:00",
        "x at 25:00",
        "x at 2026-02-31 10:00",
        "x every 0 9 * * * Mars/Olympus",
    ],
)
def test_a_time_that_cannot_be_kept_is_refused(text: str) -> None:
    with pytest.raises(BadSchedule):
        zoned(text)


def test_a_daily_time_keeps_its_hour_when_the_clocks_change() -> None:
    nine = When(BERLIN, "0 9 * * *")
    moments = [datetime(2026, 3, 27, 12, tzinfo=UTC)]
    for _ in range(3):
        found = following(nine, moments[-1])
        assert found is not None
        moments.append(found)
    assert [one.hour for one in moments[1:]] == [8, 7, 7]
    assert moments[2] - moments[1] == timedelta(hours=23)


def test_an_hour_that_happens_twice_is_taken_once_a_day() -> None:
    half_past_two = When(BERLIN, "30 2 * * *")
    first = following(half_past_two, datetime(2026, 10, 24, 12, tzinfo=UTC))
    assert first is not None
    second = following(half_past_two, first)
    assert second is not None
    assert second - first >= timedelta(hours=23)


def test_missed_times_are_counted() -> None:
    hourly = When("UTC", "0 * * * *")
    count, after = missed(hourly, NOW, NOW + timedelta(hours=3, minutes=10))
    assert (count, after) == (4, NOW + timedelta(hours=4))
    assert missed(When("UTC", at=NOW), NOW, NOW) == (1, None)


def worker(request: ModelRequest) -> Any:
    """Completes every goal at once."""
    if "VERDICT" in request.system:
        return "VERDICT: PASS"
    if request.messages[-1]["role"] == "tool":
        return "Finished."
    return [ToolCall("c", "complete_goal", '{"recap": "Swept."}')]


def swept(tmp_path: Path) -> tuple[World, FakeClock]:
    world = World(tmp_path, ScriptedModel(worker))
    clock = FakeClock(NOW)
    world.clock = clock
    return world, clock


async def ended(gateway: InMemory, count: int) -> list[str]:
    """The goals that were completed, once there are so many."""

    def completed(channel: Any) -> list[str]:
        return [message.text for message in channel.delivered if "Goal completed" in message.text]

    await gateway.channel.until(lambda channel: len(completed(channel)) >= count)
    return completed(gateway.channel)


async def test_a_scheduled_goal_begins_at_each_of_its_times(tmp_path: Path) -> None:
    world, clock = swept(tmp_path)
    async with life(world) as gateway:
        await gateway.say("/goal sweep the yard every 30 8 * * * UTC")
        [told] = await gateway.answers(1)
        assert told == "Scheduled: sweep the yard\nIt begins 2026-11-21 08:30 UTC, then every `30 8 * * *`."
        assert "goal_state" not in (await gateway.transcripts.open("fake:c")).metadata
        clock._elapsed += 31 * 60
        await gateway.scheduler.tick()
        assert len(await ended(gateway, 1)) == 1
        clock._elapsed += 86_400
        await gateway.scheduler.tick()
        assert len(await ended(gateway, 2)) == 2
        await gateway.say("/goal schedule")
        assert "1. sweep the yard: 2026-11-23 08:30 UTC" in (await gateway.answers(6))[-1]
        await gateway.say("/goal unschedule 1")
        await gateway.answers(7)
        assert list(await world_schedules(gateway)) == []


async def world_schedules(gateway: InMemory) -> Any:
    return await gateway.store.schedules.list()


async def test_a_goal_for_one_time_begins_once(tmp_path: Path) -> None:
    world, clock = swept(tmp_path)
    async with life(world) as gateway:
        await gateway.say("/goal sweep at 2026-11-21 09:00 UTC")
        await gateway.answers(1)
        clock._elapsed += 3_601
        await gateway.scheduler.tick()
        await gateway.scheduler.tick()
        await ended(gateway, 1)
        assert list(await world_schedules(gateway)) == []


async def test_a_crash_between_handing_in_and_claiming_begins_a_goal_once(tmp_path: Path) -> None:
    world, clock = swept(tmp_path)
    async with life(world) as gateway:
        await gateway.say("/goal sweep every 30 8 * * * UTC")
        await gateway.answers(1)
        [due] = await world_schedules(gateway)
        clock._elapsed += 31 * 60
        await gateway.scheduler.tick()
        await ended(gateway, 1)
        await gateway.store.schedules.put(due)  # as if the claim had been lost
        await gateway.scheduler.tick()
        await gateway.say("/status")
        await gateway.answers(4)
        assert len(await ended(gateway, 1)) == 1


async def test_times_that_passed_while_nobody_was_there_are_told_once(tmp_path: Path) -> None:
    world, clock = swept(tmp_path)
    async with life(world) as gateway:
        await gateway.say("/goal sweep every 30 * * * * UTC")
        await gateway.answers(1)
    clock._elapsed += 4 * 3_600 + 3_000
    async with life(world) as gateway:
        await gateway.scheduler.tick()
        told = (await gateway.answers(2))[1]
        assert "did not run then (5 times, first 2026-11-21 08:30 UTC): sweep" in told
        assert "Next: 2026-11-21 13:30 UTC" in told
        clock._elapsed += 41 * 60
        await gateway.scheduler.tick()
        await ended(gateway, 1)


async def test_a_schedule_that_cannot_be_read_keeps_no_other_back(tmp_path: Path) -> None:
    world, clock = swept(tmp_path)
    async with life(world) as gateway:
        await gateway.say("/goal sweep every 30 8 * * * UTC")
        await gateway.answers(1)
        [due] = await world_schedules(gateway)
        for number, spec in enumerate(("{", '{"zone": "Mars/Base", "cron": "30 8 * * *"}')):
            broken = msgspec.structs.replace(due, id=f"0-{number}", next_at=NOW, spec=spec)
            await gateway.store.schedules.put(broken)
        clock._elapsed += 31 * 60
        assert await gateway.scheduler.tick() == 60
        await ended(gateway, 1)
