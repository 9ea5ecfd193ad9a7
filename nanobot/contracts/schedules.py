"""What every store keeps of what is to happen later."""

from datetime import UTC, datetime, timedelta

import msgspec

from nanobot.contracts.words import Reopen
from nanobot.messages import Address
from nanobot.store import Schedule, Store

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def daily(id: str, hours: float = 0.0, session: str = "fake:c") -> Schedule:
    at = NOON + timedelta(hours=hours)
    return Schedule(id, session, Address("fake", "c"), "goal", "0 12 * * *", "Europe/Berlin", "/goal x", at)


class SchedulesContract:
    async def test_a_schedule_is_kept_replaced_and_removed(self, store: Store) -> None:
        await store.schedules.put(daily("a"))
        changed = msgspec.structs.replace(daily("a"), payload="/goal y")
        await store.schedules.put(changed)
        assert list(await store.schedules.list()) == [changed]
        assert await store.schedules.delete("a")
        assert not await store.schedules.delete("a")
        assert await store.schedules.next_at() is None

    async def test_schedules_are_listed_by_session_the_next_one_first(self, store: Store) -> None:
        for one in (daily("late", 2), daily("early"), daily("other", 1, "fake:d")):
            await store.schedules.put(one)
        assert [one.id for one in await store.schedules.list()] == ["early", "other", "late"]
        assert [one.id for one in await store.schedules.list("fake:d")] == ["other"]
        assert await store.schedules.next_at() == NOON

    async def test_what_is_due_is_claimed_once(self, store: Store) -> None:
        await store.schedules.put(daily("a"))
        await store.schedules.put(daily("b", 1))
        [due] = await store.schedules.due(NOON)
        tomorrow = NOON + timedelta(days=1)
        assert await store.schedules.claim(due, NOON, tomorrow)
        assert not await store.schedules.claim(due, NOON, tomorrow)
        [_, claimed] = await store.schedules.list()
        assert (claimed.id, claimed.next_at, claimed.last_claimed) == ("a", tomorrow, NOON)
        assert list(await store.schedules.due(NOON)) == []

    async def test_a_claim_without_a_next_time_ends_it(self, store: Store) -> None:
        await store.schedules.put(daily("a"))
        [due] = await store.schedules.due(NOON)
        assert await store.schedules.claim(due, NOON, None)
        assert list(await store.schedules.list()) == []

    async def test_schedules_survive_a_crash(self, store: Store, reopen: Reopen) -> None:
        await store.schedules.put(daily("a"))
        later = await reopen(store)
        assert list(await later.schedules.list()) == [daily("a")]
