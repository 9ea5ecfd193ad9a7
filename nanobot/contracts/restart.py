"""What every Store keeps over the end of a process."""

import pytest

from nanobot.contracts.words import CHAT, Reopen, accept, reply, said, take
from nanobot.errors import LeaseLost
from nanobot.store import Store


class RestartContract:
    async def test_an_interrupted_turn_comes_first_with_all_its_rows(
        self, store: Store, reopen: Reopen
    ) -> None:
        [goal] = await accept(store, "goal", kind="goal")
        claim = await take(store)
        steered = await accept(store, "a", "b")
        await store.inbox.steer(claim)
        await accept(store, "later")
        store = await reopen(store)
        assert list(await store.inbox.waiting()) == [CHAT.key]
        again = await take(store)
        assert [row.id for row in again.rows] == [goal, *steered]
        assert {row.status for row in again.rows} == {"running"}
        assert (again.turn, again.attempt, again.epoch) == (goal, 2, store.epoch)

    async def test_every_interruption_counts(self, store: Store, reopen: Reopen) -> None:
        await accept(store, "a")
        for attempt in (1, 2, 3, 4):
            assert (await take(store)).attempt == attempt
            store = await reopen(store)

    async def test_an_earlier_life_can_commit_nothing_any_more(self, store: Store, reopen: Reopen) -> None:
        [first] = await accept(store, "a")
        old = await take(store)
        store = await reopen(store)
        new = await take(store)
        with pytest.raises(LeaseLost):
            await store.inbox.commit(old, [first], [reply(first)])
        assert len(await store.inbox.commit(new, [first], [reply(first)])) == 1

    async def test_a_stop_also_ends_a_turn_that_waits_to_be_resumed(
        self, store: Store, reopen: Reopen
    ) -> None:
        [first] = await accept(store, "a")
        await take(store)
        store = await reopen(store)
        assert list(await store.inbox.cancel(CHAT.key)) == [first]
        assert await store.inbox.claim(CHAT.key) is None

    async def test_a_send_that_was_interrupted_is_unknown(self, store: Store, reopen: Reopen) -> None:
        made = [await store.outbox.add(reply("t", part)) for part in range(2)]
        assert made[0] is not None
        await store.outbox.sending(made[0].id)
        store = await reopen(store)
        first, second = await store.outbox.undelivered()
        assert (first.id, first.status, first.error) == (made[0].id, "unknown", "interrupted while sending")
        assert second == made[1]
        assert (await store.outbox.list(["unknown"]))[0].id == made[0].id

    async def test_everything_else_is_as_it_was(self, store: Store, reopen: Reopen) -> None:
        [first] = await accept(store, "a")
        [made] = await store.inbox.commit(await take(store), [first], [reply(first)])
        [second] = await accept(store, "b")
        await store.keys("slack").set("k", "v")
        epoch = store.epoch
        store = await reopen(store)
        assert store.epoch != epoch
        assert list(await store.outbox.undelivered()) == [made]
        assert [row.id for row in await store.inbox.pending(CHAT.key)] == [second]
        assert await store.keys("slack").get("k") == "v"
        assert (await store.inbox.accept(said("user-a"))).id == first
