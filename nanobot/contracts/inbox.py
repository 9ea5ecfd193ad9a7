"""What every Inbox keeps: acceptance, turns and leases."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from nanobot.contracts.words import CHAT, SOON, accept, reply, said, take
from nanobot.errors import LeaseLost
from nanobot.messages import Address, Attachment, Inbound
from nanobot.store import Store


class InboxContract:
    async def test_a_message_comes_back_as_it_was_accepted(self, store: Store) -> None:
        message = Inbound(
            "slack",
            "171.2",
            "C1",
            "a \u0000 null, an \U0001f600 and\nlines",
            thread="171.1",
            sender="U1",
            sender_name="Ann",
            media=(Attachment("media/x.png", "x.png", "image/png", 12),),
            private=False,
            mentioned=False,
            sent_at=datetime(2026, 1, 2, 3, 4, 5, 678000, UTC),
            meta={"reply_to": "171.2", "deep": [1, {"a": None}]},
        )
        receipt = await store.inbox.accept(message)
        row = await store.inbox.row(receipt.id)
        assert row is not None
        assert (row.inbound, row.status, row.attempts, row.turn) == (message, "pending", 0, "")
        assert timedelta() <= datetime.now(UTC) - row.accepted_at < timedelta(minutes=1)

    async def test_an_unknown_id_has_no_row(self, store: Store) -> None:
        assert await store.inbox.row("nowhere") is None

    async def test_a_repeated_message_gets_the_first_ones_id(self, store: Store) -> None:
        first = await store.inbox.accept(said("1", "first"))
        again = await store.inbox.accept(said("1", "changed"))
        assert (again.id, again.duplicate, first.duplicate) == (first.id, True, False)
        [row] = await store.inbox.pending(CHAT.key)
        assert row.inbound.text == "first"

    async def test_a_message_is_known_after_its_turn_has_ended(self, store: Store) -> None:
        [first] = await accept(store, "a")
        await store.inbox.commit(await take(store), [first])
        assert (await store.inbox.accept(said("user-a"))).duplicate
        assert await store.inbox.pending(CHAT.key) == []

    async def test_the_same_message_id_of_another_channel_is_another_message(self, store: Store) -> None:
        first = await store.inbox.accept(said("1"))
        other = await store.inbox.accept(said("1", chat=Address("slack", "C1")))
        assert not other.duplicate
        assert other.id != first.id

    async def test_many_at_once_are_each_accepted_once_and_in_order(self, store: Store) -> None:
        receipts = await asyncio.gather(*[store.inbox.accept(said(str(n % 50), str(n))) for n in range(150)])
        rows = await store.inbox.pending(CHAT.key)
        assert [row.inbound.text for row in rows] == [str(n) for n in range(50)]
        assert [row.seq for row in rows] == sorted({row.seq for row in rows})
        assert [receipt.id for receipt in receipts] == [row.id for row in rows] * 3
        assert [receipt.duplicate for receipt in receipts] == [False] * 50 + [True] * 100

    async def test_text_that_is_no_valid_unicode_is_accepted_all_the_same(self, store: Store) -> None:
        receipt = await store.inbox.accept(
            said("1", "half an emoji \ud83d", chat=Address("slack", "C\ud83d"))
        )
        assert await store.inbox.row(receipt.id) is not None

    async def test_a_claim_takes_the_oldest_message_alone(self, store: Store) -> None:
        first, _ = await accept(store, "a", "b")
        claim = await take(store)
        assert (claim.turn, claim.attempt, claim.epoch, claim.session) == (first, 1, store.epoch, CHAT.key)
        [row] = claim.rows
        assert (row.status, row.turn, row.attempts) == ("running", first, 1)
        assert await store.inbox.row(first) == row

    async def test_a_session_is_run_by_one_at_a_time(self, store: Store) -> None:
        await accept(store, "a", "b")
        claims = await asyncio.gather(*[store.inbox.claim(CHAT.key) for _ in range(10)])
        assert sum(claim is not None for claim in claims) == 1

    async def test_nothing_waits_in_an_unknown_session(self, store: Store) -> None:
        assert await store.inbox.claim("telegram:nobody") is None

    async def test_sessions_do_not_hold_each_other_up(self, store: Store) -> None:
        other = Address("telegram", "7", "topic:1")
        await accept(store, "a")
        second = await store.inbox.accept(said("b", chat=other))
        await take(store)
        assert (await take(store, other.key)).turn == second.id

    async def test_a_session_key_of_its_own_overrides_the_address(self, store: Store) -> None:
        receipt = await store.inbox.accept(msgspec.structs.replace(said("1"), session="sub:x"))
        assert await store.inbox.claim(CHAT.key) is None
        assert (await take(store, "sub:x")).turn == receipt.id

    async def test_people_go_before_what_continues_by_itself(self, store: Store) -> None:
        goal, child = (
            *await accept(store, "next step", kind="goal"),
            *await accept(store, "x", kind="child_result"),
        )
        first, second = await accept(store, "wait", "stop that")
        order = []
        while claim := await store.inbox.claim(CHAT.key):
            order.append(claim.turn)
            await store.inbox.commit(claim, [claim.turn])
        assert order == [first, second, child, goal]

    async def test_steering_takes_what_people_said_and_children_brought_and_nothing_else(
        self, store: Store
    ) -> None:
        [leader] = await accept(store, "a")
        claim = await take(store)
        assert list(await store.inbox.steer(claim)) == []
        [goal] = await accept(store, "goal", kind="goal")
        ids = [
            *await accept(store, "b"),
            *await accept(store, "r", kind="child_result"),
            *await accept(store, "c"),
        ]
        rows = await store.inbox.steer(claim)
        assert [(row.id, row.status, row.turn) for row in rows] == [(one, "running", leader) for one in ids]
        assert list(await store.inbox.steer(claim)) == []
        row = await store.inbox.row(goal)
        assert row is not None
        assert row.status == "pending"

    async def test_steering_nudges_alone_leaves_what_people_said(self, store: Store) -> None:
        await accept(store, "a")
        claim = await take(store)
        [said] = await accept(store, "b")
        [nudge] = await accept(store, "n", kind="nudge")
        assert [row.id for row in await store.inbox.steer(claim, only_nudges=True)] == [nudge]
        row = await store.inbox.row(said)
        assert row is not None
        assert row.status == "pending"

    async def test_a_commit_ends_the_turn_and_queues_its_answer_in_one(self, store: Store) -> None:
        [first] = await accept(store, "a")
        [made] = await store.inbox.commit(await take(store), [first], [reply(first)])
        assert (made.message, made.status, made.attempts, made.error) == (reply(first), "pending", 0, "")
        assert await store.outbox.undelivered() == [made]
        row = await store.inbox.row(first)
        assert row is not None
        assert row.status == "done"
        assert await store.inbox.pending(CHAT.key) == []
        assert await store.inbox.claim(CHAT.key) is None

    async def test_a_turn_that_was_given_up_is_dead(self, store: Store) -> None:
        [first] = await accept(store, "a")
        await store.inbox.commit(await take(store), [first], [reply(first)], dead="too many attempts")
        row = await store.inbox.row(first)
        assert row is not None
        assert row.status == "dead"
        assert await store.inbox.claim(CHAT.key) is None

    async def test_steered_rows_that_were_not_answered_wait_again_at_their_old_place(
        self, store: Store
    ) -> None:
        [first] = await accept(store, "a")
        claim = await take(store)
        [second] = await accept(store, "b")
        await store.inbox.steer(claim)
        [third] = await accept(store, "c")
        await store.inbox.commit(claim, [first])
        assert [(row.id, row.turn) for row in await store.inbox.pending(CHAT.key)] == [
            (second, ""),
            (third, ""),
        ]
        claim = await take(store)
        assert (claim.turn, claim.attempt) == (second, 1)

    async def test_a_row_that_has_ended_keeps_its_end(self, store: Store) -> None:
        [first] = await accept(store, "a")
        await store.inbox.commit(await take(store), [first], dead="too many attempts")
        [second] = await accept(store, "b")
        await store.inbox.commit(await take(store), [first, second])
        rows = [await store.inbox.row(one) for one in (first, second)]
        assert [row.status for row in rows if row] == ["dead", "done"]

    async def test_follow_ups_are_accepted_with_the_commit_and_only_once(self, store: Store) -> None:
        [first] = await accept(store, "a")
        follow_up = said("goal-1", "go on", "goal")
        await store.inbox.commit(await take(store), [first], enqueue=[follow_up, follow_up])
        claim = await take(store)
        assert claim.rows[0].inbound == follow_up
        await store.inbox.commit(claim, [claim.turn], enqueue=[follow_up])
        assert await store.inbox.claim(CHAT.key) is None

    async def test_only_the_owner_of_the_lease_may_act(self, store: Store) -> None:
        [first] = await accept(store, "a")
        claim = await take(store)
        await accept(store, "b")
        strangers = [
            msgspec.structs.replace(claim, epoch="another life"),
            msgspec.structs.replace(claim, rows=(msgspec.structs.replace(claim.rows[0], id="another turn"),)),
            msgspec.structs.replace(claim, session="telegram:other"),
        ]
        for stranger in strangers:
            with pytest.raises(LeaseLost):
                await store.inbox.commit(
                    stranger, [first], [reply(first)], enqueue=[said("goal", kind="goal")]
                )
            with pytest.raises(LeaseLost):
                await store.inbox.steer(stranger)
            with pytest.raises(LeaseLost):
                await store.inbox.release(stranger)
        assert await store.outbox.list() == []
        assert [row.status for row in await store.inbox.pending(CHAT.key)] == ["running", "pending"]
        await store.inbox.commit(claim, [first], [reply(first)])

    async def test_a_committed_turn_cannot_be_committed_again(self, store: Store) -> None:
        [first] = await accept(store, "a")
        claim = await take(store)
        await store.inbox.commit(claim, [first], [reply(first)])
        with pytest.raises(LeaseLost):
            await store.inbox.commit(claim, [first], [reply(first, 1)])
        assert len(await store.outbox.list()) == 1

    async def test_a_refused_commit_harms_none_that_shares_its_moment(self, store: Store) -> None:
        sessions = [Address("telegram", str(n)) for n in range(8)]
        for chat in sessions:
            await store.inbox.accept(said(f"m{chat.chat_id}", chat=chat))
        claims = [await take(store, chat.key) for chat in sessions]
        claims[3] = msgspec.structs.replace(claims[3], epoch="another life")
        results = await asyncio.gather(
            *[store.inbox.commit(one, [one.turn], [reply(one.turn)]) for one in claims],
            return_exceptions=True,
        )
        assert [isinstance(one, LeaseLost) for one in results] == [n == 3 for n in range(8)]
        assert len(await store.outbox.undelivered()) == 7

    async def test_a_released_turn_comes_back_first_and_uncounted(self, store: Store) -> None:
        first, _ = await accept(store, "a", "b")
        claim = await take(store)
        await store.inbox.release(claim)
        again = await take(store)
        assert (again.turn, again.attempt) == (first, 1)
        await store.inbox.release(again, count=True)
        assert (await take(store)).attempt == 2

    async def test_what_waits_can_be_cancelled_while_a_turn_runs(self, store: Store) -> None:
        [first] = await accept(store, "a")
        claim = await take(store)
        later = [*await accept(store, "b"), *await accept(store, "c", kind="goal")]
        assert list(await store.inbox.cancel(CHAT.key)) == later
        assert [row.id for row in await store.inbox.pending(CHAT.key)] == [first]
        await store.inbox.commit(claim, [first])
        assert await store.inbox.claim(CHAT.key) is None
        assert list(await store.inbox.cancel(CHAT.key)) == []

    async def test_only_what_is_older_can_be_cancelled(self, store: Store) -> None:
        first, second = await accept(store, "a", "b")
        stop = await store.inbox.accept(said("stop", "/stop", chat=Address("telegram", "control")))
        [third] = await accept(store, "c")
        row = await store.inbox.row(stop.id)
        assert row is not None
        assert list(await store.inbox.cancel(CHAT.key, before=row.seq)) == [first, second]
        assert [one.id for one in await store.inbox.pending(CHAT.key)] == [third]

    async def test_a_message_can_be_edited_until_its_turn_begins(self, store: Store) -> None:
        await accept(store, "a")
        assert await store.inbox.edit("telegram", "user-a", "better")
        assert not await store.inbox.edit("telegram", "user-unknown", "better")
        claim = await take(store)
        assert claim.rows[0].inbound == said("user-a", "better")
        assert not await store.inbox.edit("telegram", "user-a", "too late")

    async def test_a_message_is_found_by_its_platforms_id_until_it_is_forgotten(self, store: Store) -> None:
        [first] = await accept(store, "a")
        waiting = await store.inbox.find("telegram", "user-a")
        claim = await take(store)
        running = await store.inbox.find("telegram", "user-a")
        await store.inbox.commit(claim, [first])
        ended = await store.inbox.find("telegram", "user-a")
        assert [(row.id, row.status) for row in (waiting, running, ended) if row] == [
            (first, "pending"),
            (first, "running"),
            (first, "done"),
        ]
        assert await store.inbox.find("slack", "user-a") is None

    async def test_waiting_names_the_sessions_with_something_to_do(self, store: Store) -> None:
        chats = [Address("telegram", name) for name in ("3", "1", "2")]
        for chat in chats:
            await store.inbox.accept(said(f"m{chat.chat_id}", chat=chat))
        assert list(await store.inbox.waiting()) == [chat.key for chat in chats]
        claim = await take(store, chats[0].key)
        assert list(await store.inbox.waiting()) == [chat.key for chat in chats[1:]]
        await store.inbox.release(claim)
        assert list(await store.inbox.waiting()) == [chat.key for chat in chats]

    async def test_the_depth_counts_what_waits(self, store: Store) -> None:
        assert await store.inbox.depth() == (0, 0.0)
        await accept(store, "a", "b", "c")
        await take(store)
        count, age = await store.inbox.depth()
        assert count == 2
        assert 0 <= age < 60

    async def test_pruning_forgets_ended_rows_and_never_open_ones(self, store: Store) -> None:
        for text in ("a", "b"):
            [row_id] = await accept(store, text)
            await store.inbox.commit(await take(store), [row_id])
        [waits] = await accept(store, "c")
        assert await store.inbox.prune(datetime.now(UTC) - SOON) == 0
        assert await store.inbox.prune(datetime.now(UTC) + SOON) == 2
        assert [row.id for row in await store.inbox.pending(CHAT.key)] == [waits]
        before = await store.inbox.row(waits)
        after = await store.inbox.row((await accept(store, "d"))[0])
        assert before is not None
        assert after is not None
        assert after.seq > before.seq

    async def test_the_order_of_acceptance_outlives_all_that_is_pruned(self, store: Store) -> None:
        [first] = await accept(store, "a")
        claim = await take(store)
        await store.inbox.commit(claim, [first])
        await store.inbox.prune(datetime.now(UTC) + SOON)
        row = await store.inbox.row((await accept(store, "b"))[0])
        assert row is not None
        assert row.seq > claim.rows[0].seq

    async def test_the_files_of_accepted_messages_are_known(self, store: Store) -> None:
        start = datetime.now(UTC) - SOON
        picture = Attachment("/media/x.png", "x.png", "image/png", 12)
        for number in range(3):
            one = Inbound("slack", str(number), "C1", "look", media=(picture,) if number == 1 else ())
            await store.inbox.accept(one)
        assert await store.inbox.media(start) == {"/media/x.png"}
        assert await store.inbox.media(start + 2 * SOON) == set()
