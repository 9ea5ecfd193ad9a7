"""What every Outbox keeps: no reply twice, none forgotten."""

from datetime import UTC, datetime

from nanobot.contracts.words import CHAT, SOON, accept, reply, take
from nanobot.messages import Address
from nanobot.store import Store


class OutboxContract:
    async def test_a_reply_is_queued_once(self, store: Store) -> None:
        made = await store.outbox.add(reply("t", 0, "first"))
        assert await store.outbox.add(reply("t", 0, "second")) is None
        assert await store.outbox.undelivered() == [made]

    async def test_undelivered_replies_come_in_the_order_they_were_queued(self, store: Store) -> None:
        made = [await store.outbox.add(reply(f"t{9 - n}", n % 3)) for n in range(9)]
        assert list(await store.outbox.undelivered()) == made

    async def test_a_delivered_reply_keeps_the_platforms_id(self, store: Store) -> None:
        made = await store.outbox.add(reply("t"))
        assert made is not None
        await store.outbox.sending(made.id)
        await store.outbox.delivered(made.id, "99")
        assert await store.outbox.undelivered() == []
        [row] = await store.outbox.list(["delivered"])
        assert row.message == reply("t", ref="99")

    async def test_the_commit_completes_what_was_shown_before(self, store: Store) -> None:
        [first] = await accept(store, "a")
        claim = await take(store)
        await store.outbox.posted(first, 0, CHAT, "41")
        await store.outbox.posted(first, 0, CHAT, "42")
        assert await store.outbox.undelivered() == []
        assert [row.status for row in await store.outbox.list(["posted"])] == ["posted"]
        made = await store.inbox.commit(claim, [first], [reply(first), reply(first, 1)])
        assert [one.message for one in made] == [reply(first, ref="42"), reply(first, 1)]
        assert await store.outbox.undelivered() == list(made)

    async def test_a_preview_of_a_reply_that_is_on_its_way_changes_only_a_missing_id(
        self, store: Store
    ) -> None:
        made = await store.outbox.add(reply("t"))
        assert made is not None
        await store.outbox.posted("t", 0, CHAT, "41")
        await store.outbox.posted("t", 0, CHAT, "42")
        [row] = await store.outbox.undelivered()
        assert (row.status, row.message) == ("pending", reply("t", ref="41"))

    async def test_a_failed_send_waits_and_counts(self, store: Store) -> None:
        made = await store.outbox.add(reply("t"))
        assert made is not None
        later = made.next_at + SOON
        await store.outbox.sending(made.id)
        await store.outbox.retry(made.id, later, "flood")
        [row] = await store.outbox.undelivered()
        assert (row.status, row.attempts, row.next_at, row.error) == ("pending", 1, later, "flood")
        assert (row.created_at, row.message) == (made.created_at, made.message)

    async def test_a_send_of_unknown_outcome_stays_until_it_is_settled(self, store: Store) -> None:
        made = await store.outbox.add(reply("t"))
        assert made is not None
        await store.outbox.sending(made.id)
        await store.outbox.unknown(made.id, "reset by peer")
        [row] = await store.outbox.undelivered()
        assert (row.status, row.attempts, row.error) == ("unknown", 1, "reset by peer")
        assert row.next_at == made.next_at

    async def test_a_lane_that_died_while_sending_leaves_an_unknown_outcome(self, store: Store) -> None:
        made = await store.outbox.add(reply("t"))
        assert made is not None
        await store.outbox.sending(made.id)
        [row] = await store.outbox.undelivered()
        assert (row.status, row.error) == ("unknown", "interrupted while sending")

    async def test_a_dead_letter_is_listed_and_can_be_sent_again(self, store: Store) -> None:
        made = await store.outbox.add(reply("t"))
        assert made is not None
        await store.outbox.retry(made.id, made.next_at + SOON, "flood")
        await store.outbox.dead(made.id, "chat not found")
        assert await store.outbox.undelivered() == []
        [row] = await store.outbox.list(["dead"])
        assert (row.id, row.error, row.attempts) == (made.id, "chat not found", 1)
        again = await store.outbox.resend(made.id)
        assert again is not None
        assert (again.status, again.attempts, again.error, again.message) == ("pending", 0, "", made.message)
        assert again.next_at == again.created_at >= made.created_at
        assert await store.outbox.undelivered() == [again]

    async def test_only_what_failed_is_sent_again(self, store: Store) -> None:
        made = await store.outbox.add(reply("t"))
        assert made is not None
        assert await store.outbox.resend(made.id) is None
        await store.outbox.delivered(made.id)
        assert await store.outbox.resend(made.id) is None
        assert await store.outbox.resend(made.id + 1) is None

    async def test_a_dropped_reply_is_gone_for_good(self, store: Store) -> None:
        made = await store.outbox.add(reply("t"))
        assert made is not None
        assert await store.outbox.drop(made.id)
        assert not await store.outbox.drop(made.id)
        assert await store.outbox.undelivered() == []
        assert await store.outbox.list() == []
        assert await store.outbox.add(reply("t")) is None
        other = await store.outbox.add(reply("t", 1))
        assert other is not None
        assert other.id > made.id

    async def test_a_reply_that_was_dropped_is_not_sent_any_more(self, store: Store) -> None:
        made = await store.outbox.add(reply("t"))
        assert made is not None
        assert await store.outbox.sending(made.id)
        await store.outbox.drop(made.id)
        await store.outbox.retry(made.id, made.next_at, "nobody is there")
        await store.outbox.dead(made.id, "too old")
        assert not await store.outbox.sending(made.id)
        assert await store.outbox.list() == []

    async def test_a_delivered_reply_cannot_be_dropped(self, store: Store) -> None:
        made = await store.outbox.add(reply("t"))
        assert made is not None
        await store.outbox.delivered(made.id)
        assert not await store.outbox.drop(made.id)

    async def test_waiting_sees_one_address(self, store: Store) -> None:
        thread = Address("telegram", "7", "topic:1")
        made = [await store.outbox.add(reply("t", part)) for part in range(3)]
        other = await store.outbox.add(reply("t", 3, chat=thread))
        assert made[1] is not None
        await store.outbox.delivered(made[1].id)
        assert list(await store.outbox.waiting(CHAT)) == [made[0], made[2]]
        assert list(await store.outbox.waiting(thread)) == [other]
        assert list(await store.outbox.waiting(Address("slack", "7"))) == []

    async def test_the_list_is_newest_first_and_bounded(self, store: Store) -> None:
        made = [await store.outbox.add(reply("t", part)) for part in range(5)]
        assert list(await store.outbox.list(limit=2)) == [made[4], made[3]]
        assert list(await store.outbox.list(["dead", "unknown"])) == []
        assert len(await store.outbox.list(["dead", "pending"])) == 5

    async def test_pruning_removes_what_was_delivered_and_nothing_that_waits(self, store: Store) -> None:
        made = [await store.outbox.add(reply("t", part)) for part in range(4)]
        first, dead, waits, last = (one.id for one in made if one)
        await store.outbox.delivered(first)
        await store.outbox.dead(dead, "no")
        assert await store.outbox.prune(datetime.now(UTC) - SOON) == 0
        assert await store.outbox.prune(datetime.now(UTC) + SOON) == 1
        assert [row.id for row in await store.outbox.list()] == [last, waits, dead]

    async def test_no_number_is_given_twice_whatever_was_pruned(self, store: Store) -> None:
        made = await store.outbox.add(reply("t"))
        assert made is not None
        await store.outbox.delivered(made.id)
        await store.outbox.prune(datetime.now(UTC) + SOON)
        other = await store.outbox.add(reply("u"))
        assert other is not None
        assert other.id > made.id

    async def test_a_preview_is_kept_as_long_as_its_turn_is_open(self, store: Store) -> None:
        [first] = await accept(store, "a")
        claim = await take(store)
        await store.outbox.posted(first, 0, CHAT, "41")
        await store.outbox.prune(datetime.now(UTC) + SOON)
        [made] = await store.inbox.commit(claim, [first], [reply(first)])
        assert made.message.ref == "41"
