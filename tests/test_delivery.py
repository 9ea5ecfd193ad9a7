import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from nanobot.channel import Capabilities, Receipt
from nanobot.clock import SystemClock
from nanobot.delivery import Deliverer
from nanobot.errors import RetryLater, StoreFull, Undeliverable
from nanobot.messages import Address, Outbound
from nanobot.store import Store
from nanobot.stores.memory import MemoryStore, State
from nanobot.testing import FakeChannel, FakeClock, settle

CHAT = Address("fake", "c")
OTHER = Address("fake", "d")
POSTING = Capabilities()  # what is posted twice is there twice


@asynccontextmanager
async def delivering(
    store: Store, channel: FakeChannel, clock: FakeClock | SystemClock, **settings: str
) -> AsyncIterator[Deliverer]:
    deliverer = Deliverer(
        store.outbox, {"fake": channel}, clock, max_age=timedelta(hours=24), unknown_send=settings
    )
    try:
        yield deliverer
    finally:
        await deliverer.close()


async def put(store: Store, deliverer: Deliverer | None, text: str, address: Address = CHAT) -> None:
    delivery = await store.outbox.add(Outbound(text, 0, address, text))
    assert delivery
    if deliverer is not None:
        deliverer.submit([delivery])


def texts(channel: FakeChannel) -> list[str]:
    return [message.text for message in channel.delivered]


async def test_replies_of_a_chat_arrive_in_order() -> None:
    store, channel = MemoryStore(), FakeChannel()
    async with delivering(store, channel, FakeClock(auto=True)) as deliverer:
        for n in range(50):
            await put(store, deliverer, str(n))
        await channel.until(lambda one: len(one.delivered) == 50)
        assert texts(channel) == [str(n) for n in range(50)]
        assert await store.outbox.undelivered() == []


async def test_a_flood_wait_in_one_chat_delays_no_other_and_keeps_its_own_order() -> None:
    clock = FakeClock()
    store, channel = MemoryStore(clock), FakeChannel(capabilities=POSTING)
    channel.failures = [RetryLater(90)]
    async with delivering(store, channel, clock) as deliverer:
        await put(store, deliverer, "first")
        await clock.wait_for_sleepers()
        await put(store, deliverer, "second")
        await put(store, deliverer, "elsewhere", OTHER)
        await channel.until(lambda one: texts(one) == ["elsewhere"])
        await clock.advance(89)
        assert texts(channel) == ["elsewhere"]
        await clock.advance(2)
        await channel.until(lambda one: texts(one) == ["elsewhere", "first", "second"])


async def test_what_is_put_off_holds_no_shutdown_up_and_stays_for_the_next_life() -> None:
    clock = FakeClock()
    store, channel = MemoryStore(clock), FakeChannel(capabilities=POSTING)
    channel.failures = [RetryLater(30)]
    async with delivering(store, channel, clock) as deliverer:
        await put(store, deliverer, "first")
        await clock.wait_for_sleepers()
        async with asyncio.timeout(5):
            await deliverer.drain(60)
        assert texts(channel) == []
    [waits] = await store.outbox.undelivered()
    assert waits.message.text == "first"


class JumpingClock(FakeClock):
    """A wall clock that somebody sets, while the monotonic one goes on."""

    off = timedelta()

    def now(self) -> datetime:
        return super().now() + self.off


async def test_a_wall_clock_that_is_set_back_delays_no_reply() -> None:
    clock = JumpingClock(auto=True)
    store, channel = MemoryStore(clock), FakeChannel(capabilities=POSTING)
    channel.failures = [RetryLater(5)]
    clock.off = timedelta(hours=1)
    await put(store, None, "made while it was an hour fast")
    rows = await store.outbox.undelivered()
    clock.off = timedelta()
    async with delivering(store, channel, clock) as deliverer:
        deliverer.submit(rows)
        await channel.until(lambda one: len(one.delivered) == 1)
        assert clock.slept == [5]


async def test_what_an_earlier_life_put_off_waits_half_a_minute_at_most() -> None:
    clock = JumpingClock(auto=True)
    store, channel = MemoryStore(clock), FakeChannel(capabilities=POSTING)
    await put(store, None, "put off while the clock was a day fast")
    [row] = await store.outbox.undelivered()
    await store.outbox.retry(row.id, clock.now() + timedelta(days=1), "not now")
    async with delivering(store, channel, clock) as deliverer:
        await deliverer.start()
        await channel.until(lambda one: len(one.delivered) == 1)
        assert clock.slept == [30]


class FullDisk:
    """An outbox whose writes fail while `full` names them."""

    def __init__(self, outbox: Any) -> None:
        self._outbox = outbox
        self.full: set[str] = set()
        self.refused = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        if name in self.full:
            return self._refuse
        return getattr(self._outbox, name)

    async def _refuse(self, *_: Any) -> None:
        self.refused.set()
        raise StoreFull("disk full")


class Slow:
    """An outbox that keeps the first answer of one method to itself until it is told to go on."""

    def __init__(self, outbox: Any, name: str) -> None:
        self._outbox = outbox
        self._name = name
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return self._late if name == self._name and not self.asked.is_set() else getattr(self._outbox, name)

    async def _late(self, *values: Any) -> Any:
        self.asked.set()
        answer = await getattr(self._outbox, self._name)(*values)
        await self.go_on.wait()
        return answer


@pytest.mark.parametrize("step", ["sending", "delivered"])
async def test_a_full_disk_delays_replies_but_changes_neither_their_order_nor_their_number(step: str) -> None:
    clock = FakeClock()
    store, channel = MemoryStore(clock), FakeChannel(capabilities=Capabilities(reconcile=True))
    store.outbox = disk = FullDisk(store.outbox)
    async with delivering(store, channel, clock) as deliverer:
        disk.full = {step, "undelivered"}
        await put(store, deliverer, "first")
        await disk.refused.wait()
        channel.found = {message.id: Receipt("found") for message in channel.delivered}
        await put(store, deliverer, "second")
        await clock.wait_for_sleepers()
        await clock.advance(2)
        disk.full = set()
        await clock.wait_for_sleepers()
        await clock.advance(5)
        await channel.until(lambda one: texts(one) == ["first", "second"])
    assert await store.outbox.undelivered() == []


async def test_what_was_delivered_is_not_sent_again_because_a_full_disk_kept_its_mark() -> None:
    clock = FakeClock(auto=True)
    store, channel = MemoryStore(clock), FakeChannel(capabilities=POSTING)
    store.outbox = disk = FullDisk(store.outbox)
    async with delivering(store, channel, clock, fake="resend") as deliverer:
        disk.full = {"delivered"}
        await put(store, deliverer, "first")
        await disk.refused.wait()
        await put(store, deliverer, "second")
        await settle()
        disk.full = set()
        await channel.until(lambda one: texts(one) == ["first", "second"])
        await settle()
    assert texts(channel) == ["first", "second"]
    assert await store.outbox.undelivered() == []


async def test_what_was_not_sent_is_not_given_up_because_a_full_disk_kept_that_from_being_written() -> None:
    clock = FakeClock(auto=True)
    store, channel = MemoryStore(clock), FakeChannel(capabilities=POSTING)
    store.outbox = disk = FullDisk(store.outbox)
    channel.failures = [RetryLater(1)]
    async with delivering(store, channel, clock, fake="hold") as deliverer:
        disk.full = {"retry"}
        await put(store, deliverer, "first")
        await disk.refused.wait()
        disk.full = set()
        await channel.until(lambda one: texts(one) == ["first"])
        await settle()
    assert await store.outbox.list(["dead"]) == []


async def test_an_undeliverable_reply_becomes_a_dead_letter_and_blocks_nothing() -> None:
    store, channel = MemoryStore(), FakeChannel()
    channel.failures = [Undeliverable("the bot was blocked")]
    async with delivering(store, channel, FakeClock(auto=True)) as deliverer:
        await put(store, deliverer, "lost")
        await put(store, deliverer, "next")
        await channel.until(lambda one: texts(one) == ["next"])
        (dead,) = await store.outbox.list(["dead"])
        assert (dead.message.text, dead.error) == ("lost", "the bot was blocked")


async def test_a_dead_letter_can_be_sent_again() -> None:
    store, channel = MemoryStore(), FakeChannel()
    channel.failures = [Undeliverable("blocked")]
    async with delivering(store, channel, FakeClock(auto=True)) as deliverer:
        await put(store, deliverer, "lost")
        await put(store, deliverer, "next")
        await channel.until(lambda one: texts(one) == ["next"])
        (dead,) = await store.outbox.list(["dead"])
        again = await store.outbox.resend(dead.id)
        assert again
        deliverer.submit([again])
        await channel.until(lambda one: texts(one) == ["next", "lost"])


async def test_a_reply_for_nobody_waits_until_somebody_is_there() -> None:
    store, channel = MemoryStore(), FakeChannel()
    channel.reachable = False
    async with delivering(store, channel, FakeClock(auto=True)) as deliverer:
        await put(store, deliverer, "patience")
        async with asyncio.timeout(5):
            while not deliverer.parked(CHAT):
                await asyncio.sleep(0)
        channel.reachable = True
        deliverer.reachable(CHAT)
        await channel.until(lambda one: texts(one) == ["patience"])


async def test_what_an_earlier_life_left_is_delivered_at_the_start() -> None:
    state = State()
    await put(MemoryStore(state=state), None, "left over")
    store, channel = MemoryStore(state=state), FakeChannel()
    async with delivering(store, channel, FakeClock(auto=True)) as deliverer:
        await deliverer.start()
        await channel.until(lambda one: texts(one) == ["left over"])


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_send_that_a_crash_cut_off_is_looked_up_where_the_platform_allows(arrived: bool) -> None:
    state = State()
    earlier = MemoryStore(state=state)
    await put(earlier, None, "cut off")
    ((row),) = await earlier.outbox.undelivered()
    await earlier.outbox.sending(row.id)
    store = MemoryStore(state=state)
    channel = FakeChannel(capabilities=Capabilities(reconcile=True))
    if arrived:
        channel.found[row.message.id] = Receipt("ref-9")
    async with delivering(store, channel, FakeClock(auto=True)) as deliverer:
        await deliverer.start()
        await put(store, deliverer, "next")
        await channel.until(lambda one: "next" in texts(one))
        assert texts(channel) == (["next"] if arrived else ["cut off", "next"])
        assert await store.outbox.undelivered() == []


@pytest.mark.parametrize(("choice", "sent"), [("resend", ["cut off", "next"]), ("dead", ["next"])])
async def test_where_it_cannot_be_looked_up_the_configuration_decides(choice: str, sent: list[str]) -> None:
    state = State()
    earlier = MemoryStore(state=state)
    await put(earlier, None, "cut off")
    ((row),) = await earlier.outbox.undelivered()
    await earlier.outbox.sending(row.id)
    store, channel = MemoryStore(state=state), FakeChannel(capabilities=POSTING)
    async with delivering(store, channel, FakeClock(auto=True), fake=choice) as deliverer:
        await deliverer.start()
        await put(store, deliverer, "next")
        await channel.until(lambda one: "next" in texts(one))
        assert texts(channel) == sent


async def test_an_edit_that_a_crash_cut_off_is_made_again_whatever_is_configured() -> None:
    state = State()
    earlier = MemoryStore(state=state)
    made = await earlier.outbox.add(Outbound("t", 0, CHAT, "the final text", ref="41"))
    assert made
    await earlier.outbox.sending(made.id)
    store, channel = MemoryStore(state=state), FakeChannel(capabilities=POSTING)
    async with delivering(store, channel, FakeClock(auto=True), fake="dead") as deliverer:
        await deliverer.start()
        await channel.until(lambda one: texts(one) == ["the final text"])


async def test_a_reply_that_the_sweep_found_before_it_was_handed_in_is_sent_once() -> None:
    store, channel = MemoryStore(), FakeChannel()
    async with delivering(store, channel, FakeClock(auto=True)) as deliverer:
        made = await store.outbox.add(Outbound("t", 0, CHAT, "once"))
        assert made
        await deliverer.sweep()
        await channel.until(lambda one: texts(one) == ["once"])
        await settle()
        deliverer.submit([made])
        await put(store, deliverer, "next")
        await channel.until(lambda one: texts(one) == ["once", "next"])


async def test_an_error_of_unknown_outcome_is_tried_again() -> None:
    store, channel = MemoryStore(), FakeChannel(capabilities=POSTING)
    channel.failures = [ConnectionResetError("cut"), RuntimeError("a bug")]
    async with delivering(store, channel, FakeClock(auto=True)) as deliverer:
        await put(store, deliverer, "stubborn")
        await channel.until(lambda one: texts(one) == ["stubborn"])


async def test_a_reply_that_nobody_took_for_a_day_is_a_dead_letter() -> None:
    clock = FakeClock()
    store, channel = MemoryStore(clock), FakeChannel()
    await put(store, None, "too late")
    await clock.advance(25 * 3600)
    async with delivering(store, channel, clock) as deliverer:
        await deliverer.start()
        await put(store, deliverer, "fresh")
        await channel.until(lambda one: texts(one) == ["fresh"])
        (dead,) = await store.outbox.list(["dead"])
        assert dead.message.text == "too late"


async def test_a_row_made_by_another_process_is_found_by_the_sweep_and_sent_once() -> None:
    store, channel = MemoryStore(), FakeChannel()
    async with delivering(store, channel, FakeClock()) as deliverer:
        await put(store, None, "from the terminal")
        for _ in range(3):
            await deliverer.sweep()
        await channel.until(lambda one: bool(one.delivered))
        assert texts(channel) == ["from the terminal"]


@pytest.mark.parametrize("known", [Capabilities(repeatable=True), POSTING])
async def test_a_reply_that_the_terminal_dropped_while_it_waited_is_not_sent(known: Capabilities) -> None:
    clock = FakeClock()
    store, channel = MemoryStore(clock), FakeChannel(capabilities=known)
    channel.failures = [RetryLater(60)]
    async with delivering(store, channel, clock) as deliverer:
        await put(store, deliverer, "dropped")
        await put(store, deliverer, "kept")
        await clock.wait_for_sleepers()
        [row, _] = await store.outbox.undelivered()
        await store.outbox.drop(row.id)
        if known.repeatable:  # else it is asked before each send
            await deliverer.sweep()
        await clock.advance(61)
        await channel.until(lambda one: texts(one) == ["kept"])


async def test_a_reply_that_is_committed_while_the_sweep_reads_is_there_when_somebody_comes() -> None:
    store, channel = MemoryStore(), FakeChannel()
    store.outbox = slow = Slow(store.outbox, "undelivered")
    channel.reachable = False
    async with delivering(store, channel, FakeClock()) as deliverer:
        await put(store, deliverer, "first")
        await settle(lambda: deliverer.parked(CHAT))
        sweep = asyncio.create_task(deliverer.sweep())
        await slow.asked.wait()
        await put(store, deliverer, "second")
        slow.go_on.set()
        await sweep
        channel.reachable = True
        deliverer.reachable(CHAT)
        await channel.until(lambda one: texts(one) == ["first", "second"])


async def test_somebody_who_comes_while_an_old_reply_is_buried_gets_the_one_behind_it() -> None:
    clock = FakeClock()
    store, channel = MemoryStore(clock), FakeChannel()
    store.outbox = slow = Slow(store.outbox, "dead")
    channel.reachable = False
    async with delivering(store, channel, clock) as deliverer:
        await put(store, deliverer, "too late")
        await settle(lambda: deliverer.parked(CHAT))
        await clock.advance(25 * 3600)
        await put(store, deliverer, "fresh")
        sweep = asyncio.create_task(deliverer.sweep())
        await slow.asked.wait()
        channel.reachable = True
        deliverer.reachable(CHAT)
        await settle()
        slow.go_on.set()
        await sweep
        await channel.until(lambda one: texts(one) == ["fresh"])


async def test_a_reply_that_is_given_up_while_the_sweep_is_at_work_stays_given_up() -> None:
    clock = FakeClock()
    store, channel = MemoryStore(clock), FakeChannel()
    store.outbox = slow = Slow(store.outbox, "dead")
    channel.reachable = False
    async with delivering(store, channel, clock) as deliverer:
        await put(store, deliverer, "too late")
        await settle(lambda: deliverer.parked(CHAT))
        await clock.advance(25 * 3600)
        channel.reachable = True
        channel.failures = [ConnectionError("away"), Undeliverable("the bot was blocked")]
        await put(store, deliverer, "refused", OTHER)
        await clock.wait_for_sleepers()
        sweep = asyncio.create_task(deliverer.sweep())
        await slow.asked.wait()
        await clock.advance(2)
        slow.go_on.set()
        await sweep
        await settle()
        assert {row.message.text for row in await store.outbox.list(["dead"])} == {"too late", "refused"}
        assert texts(channel) == []


async def test_a_reply_that_is_committed_while_a_lane_reads_what_is_left_follows_it() -> None:
    clock = FakeClock()
    store, channel = MemoryStore(clock), FakeChannel(capabilities=POSTING)
    disk = FullDisk(store.outbox)
    store.outbox = slow = Slow(disk, "undelivered")
    async with delivering(store, channel, clock) as deliverer:
        disk.full = {"sending"}
        await put(store, deliverer, "first")
        await clock.wait_for_sleepers()
        disk.full = set()
        await clock.advance(2)
        await slow.asked.wait()
        await put(store, deliverer, "second")
        slow.go_on.set()
        await channel.until(lambda one: texts(one) == ["first", "second"])


class Unsearchable(FakeChannel):
    """A platform that cannot be asked the first times."""

    refusals = 2

    async def find(self, message: Outbound) -> Receipt | None:
        if self.refusals:
            self.refusals -= 1
            raise RetryLater(3)
        return await super().find(message)


async def test_a_look_up_that_fails_is_repeated_before_anything_is_sent_again() -> None:
    clock = FakeClock(auto=True)
    store, channel = MemoryStore(clock), Unsearchable(capabilities=Capabilities(reconcile=True))
    channel.failures = [OSError("the answer was lost")]
    channel.found["once.0"] = Receipt("there")
    async with delivering(store, channel, clock) as deliverer:
        await put(store, deliverer, "once")
        async with asyncio.timeout(5):
            while await store.outbox.undelivered():
                await asyncio.sleep(0)

    assert channel.delivered == []
    assert clock.slept[-2:] == pytest.approx([3, 3])


@pytest.mark.parametrize("told", [False, True])
async def test_where_somebody_is_again_a_failure_is_not_waited_out_but_a_limit_is(told: bool) -> None:
    clock = FakeClock()
    store, channel = MemoryStore(clock), FakeChannel(capabilities=POSTING)
    channel.failures = [RetryLater(30) if told else ConnectionError("away")]
    async with delivering(store, channel, clock, fake="resend") as deliverer:
        await put(store, deliverer, "late")
        await clock.wait_for_sleepers()
        deliverer.reachable(CHAT)
        if told:
            await clock.advance(29)
            assert texts(channel) == []
            await clock.advance(2)
        await channel.until(lambda one: texts(one) == ["late"])
