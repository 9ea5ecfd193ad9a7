"""Delivery: one ordered lane per chat, so that a flood wait in one chat delays no other, and nothing is dropped.

A reply leaves a lane as delivered or dead. What becomes of a failed one is decided in `mailbox`; here it is done.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import timedelta

from loguru import logger

from nanobot import mailbox, metrics
from nanobot.channel import Channel, Receipt
from nanobot.clock import Clock, deadline, sleep_until
from nanobot.errors import ChannelError, DeadlineExceeded, RetryLater, Undeliverable, Unreachable
from nanobot.messages import Address
from nanobot.store import Delivery, Outbox

SEND_SECONDS = 60.0  # one call of a channel's deliver
SWEEP_SECONDS = 30.0  # how often the outbox is read for what came from elsewhere, and for what is too old


class Lane:
    """The replies of one address, in order."""

    def __init__(self) -> None:
        self.queue: deque[Delivery] = deque()
        self.task: asyncio.Task[None] | None = None
        self.parked = False  # nobody is there; waits for `reachable`
        self.stale = False  # the store failed: what is in memory may not be what is written
        self.hurry = asyncio.Event()  # somebody is there again: what is left of the wait is not waited for
        self.told = False  # the platform said itself how long to wait
        self.due = 0.0  # when the first one is tried again; monotonic, so that a wall clock may jump


class Deliverer:
    """Takes committed replies to their channels."""

    def __init__(
        self,
        outbox: Outbox,
        channels: Mapping[str, Channel],
        clock: Clock,
        *,
        max_age: timedelta,
        unknown_send: Mapping[str, str] | None = None,
    ) -> None:
        self._outbox = outbox
        self._channels = channels
        self._clock = clock
        self._max_age = max_age
        self._unknown_send = unknown_send or {}
        self._lanes: dict[Address, Lane] = {}
        self._known: set[int] = set()
        self._done: set[int] = set()  # delivered lately: who committed them may hand them in only now
        self._settled: set[int] = set()  # left their lanes since the sweep began to read
        # How a send ended that could not be written yet, on a full disk say: its receipt, None where nothing was sent.
        self._outcomes: dict[int, Receipt | None] = {}
        self._draining = False

    async def start(self) -> None:
        """Take up what an earlier life left."""
        self.submit(await self._outbox.undelivered())

    def submit(self, deliveries: Iterable[Delivery]) -> None:
        """Queue committed replies. Cheap; what is queued already is left alone."""
        for one in deliveries:
            if one.id in self._known or one.id in self._done:
                continue
            self._known.add(one.id)
            lane = self._lanes.setdefault(one.message.address, Lane())
            lane.queue.append(one)
            self._kick(one.message.address, lane)

    def reachable(self, address: Address) -> None:
        """Somebody is there again."""
        lane = self._lanes.get(address)
        if lane is not None and not lane.told:
            lane.hurry.set()
        if lane is not None and lane.parked:
            lane.parked = False
            self._kick(address, lane)

    def parked(self, address: Address) -> bool:
        """Whether replies wait here for somebody to come."""
        lane = self._lanes.get(address)
        return lane is not None and lane.parked

    async def sweep(self) -> None:
        """Pick up rows made by the command line, let go of those it dropped, and bury what is too old."""
        self._settled.clear()
        self._done.clear()
        known = set(self._known)
        rows = await self._outbox.undelivered()
        # What was committed since the reading began is not among the rows either, and is not gone.
        self._forget(known - {row.id for row in rows})
        for address, lane in list(self._lanes.items()):
            await self._bury_old(address, lane)
        self.submit(row for row in rows if row.id not in self._settled)

    async def drain(self, seconds: float) -> None:
        """Wait so long for what is being sent. What is put off stays for the next life."""
        self._draining = True
        for lane in self._lanes.values():
            lane.hurry.set()
        tasks = [lane.task for lane in self._lanes.values() if lane.task]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    async def close(self) -> None:
        tasks = [lane.task for lane in self._lanes.values() if lane.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _kick(self, address: Address, lane: Lane) -> None:
        if lane.task is None and not lane.parked and lane.queue:
            lane.task = asyncio.create_task(self._work(address, lane))

    async def _work(self, address: Address, lane: Lane) -> None:
        failures = 0
        try:
            while lane.queue and not lane.parked:
                try:
                    if lane.stale:
                        await self._reload(address, lane)
                    elif await self._one(lane, row := lane.queue[0]):
                        self._leave(lane, row)
                        failures = 0
                except Exception as error:  # noqa: BLE001 - a worker's edge: the store failed; it is tried again
                    logger.bind(session=address.key).error("delivery waits: {}", error)
                    failures += 1
                    lane.stale = True
                    await self._clock.sleep(mailbox.backoff(failures, longest=SWEEP_SECONDS))
        finally:
            lane.task = None
            if not lane.queue and self._lanes.get(address) is lane:
                del self._lanes[address]

    def _forget(self, gone: set[int]) -> None:
        """Take dropped rows out of their lanes; a lane at work looks for itself before it tries the next one."""
        for lane in self._lanes.values():
            if not any(row.id in gone for row in lane.queue):
                continue
            if lane.task is not None:
                lane.stale = True
                continue
            self._known -= gone.intersection(row.id for row in lane.queue)
            lane.queue = deque(row for row in lane.queue if row.id not in gone)

    async def _reload(self, address: Address, lane: Lane) -> None:
        """Read a lane anew, since nobody knows what of the last step was written."""
        held = {row.id for row in lane.queue}
        rows = [row for row in await self._outbox.undelivered() if row.message.address == address]
        there = {row.id for row in rows}
        # Committed while we read: it follows what was there.
        rows += [row for row in lane.queue if row.id not in held | there]
        self._known.difference_update(held - there)
        for gone in held - there:
            self._outcomes.pop(gone, None)
        self._known.update(there)
        lane.queue = deque(rows)
        lane.due = 0.0
        lane.stale = False

    def _leave(self, lane: Lane, row: Delivery) -> None:
        """A row is done with; where two found it too old at once, the second changes nothing."""
        if not lane.queue or lane.queue[0] is not row:
            return
        lane.queue.popleft()
        lane.due = 0.0
        self._known.discard(row.id)
        self._settled.add(row.id)

    async def _one(self, lane: Lane, row: Delivery) -> bool:
        """Try one reply; True when it has left the lane."""
        message = row.message
        channel = self._channels.get(message.address.channel)
        if channel is None:
            lane.parked = True  # the channel is not enabled now; it may be after the next start
            return False
        if await self._too_old(row):
            return True
        wait = self._wait(lane, row)
        if wait > 0:
            if not self._draining:
                await self._pause(lane, wait)
            if self._draining:
                lane.parked = True
                return False
            if lane.stale:  # it may have been dropped meanwhile
                return False
        if receipt := self._outcomes.get(row.id):
            await self._delivered(row, receipt)
            return True
        if row.status == "unknown" and row.id not in self._outcomes:
            try:
                settled = await self._settle(channel, row)
            except (ChannelError, DeadlineExceeded, OSError) as error:  # it cannot be looked up now
                seconds = error.seconds if isinstance(error, RetryLater) else None
                return await self._again(lane, row, str(error), seconds=seconds, status="unknown")
            if settled is not None:
                return settled
        repeatable = channel.capabilities.repeatable
        if not repeatable and not await self._outbox.sending(row.id):
            return True
        self._outcomes.pop(row.id, None)
        if row.attempts:
            metrics.REDELIVERED.labels(message.address.channel).inc()
        try:
            async with deadline(SEND_SECONDS, f"{channel.name}.deliver"):
                receipt = await channel.deliver(message)
        except Unreachable:
            self._outcomes[row.id] = None
            lane.parked = True
            if not repeatable:
                await self._outbox.retry(row.id, row.next_at, "nobody is there")
            del self._outcomes[row.id]
            return False
        except RetryLater as error:
            self._outcomes[row.id] = None
            await self._again(lane, row, str(error), seconds=error.seconds)
            del self._outcomes[row.id]
            return False
        except Undeliverable as error:
            await self._bury(row, str(error))
            return True
        except Exception as error:  # noqa: BLE001 - late, cut off or an adapter's fault: it is recorded, and the lane goes on
            return await self._uncertain(lane, row, error, repeatable=repeatable)
        await self._delivered(row, receipt)
        return True

    async def _pause(self, lane: Lane, seconds: float) -> None:
        """Wait so long, or until somebody is there again."""
        lane.hurry.clear()
        await sleep_until(lane.hurry, self._clock, seconds)

    def _wait(self, lane: Lane, row: Delivery) -> float:
        """Seconds until a row may be tried. The wall clock counts only for what an earlier life put off, and not far.

        It may have jumped since then; to ask too early costs one call, which the platform answers with its own wait.
        """
        if lane.due:
            return round(lane.due - self._clock.monotonic(), 3)
        if not row.attempts:
            return 0.0
        return min((row.next_at - self._clock.now()).total_seconds(), SWEEP_SECONDS)

    async def _delivered(self, row: Delivery, receipt: Receipt) -> None:
        self._outcomes[row.id] = receipt
        await self._outbox.delivered(row.id, receipt.ref)
        del self._outcomes[row.id]
        metrics.DELIVERED.labels(row.message.address.channel).inc()
        self._done.add(row.id)

    async def _settle(self, channel: Channel, row: Delivery) -> bool | None:
        """Find out what became of a send whose outcome is unknown. None: send it (again)."""
        if channel.capabilities.repeatable or row.message.ref:
            return None  # sending again, or editing, changes nothing that is there
        if channel.capabilities.reconcile:
            async with deadline(SEND_SECONDS, f"{channel.name}.find"):
                receipt = await channel.find(row.message)
            if receipt is not None:
                await self._delivered(row, receipt)
                return True
            return None
        if self._unknown_send.get(channel.name, "resend") == "resend":
            return None
        await self._bury(row, "outcome of the send is unknown; see unknown_send")
        return True

    async def _uncertain(self, lane: Lane, row: Delivery, error: Exception, *, repeatable: bool) -> bool:
        reason = f"{type(error).__name__}: {error}"
        logger.bind(session=row.message.address.key, turn=row.message.turn).warning(
            "delivery failed: {}", reason
        )
        if not repeatable:
            await self._outbox.unknown(row.id, reason)
        return await self._again(lane, row, reason, status="pending" if repeatable else "unknown")

    async def _again(
        self, lane: Lane, row: Delivery, reason: str, *, seconds: float | None = None, status: str = "pending"
    ) -> bool:
        delay = mailbox.backoff(row.attempts + 1) if seconds is None else seconds
        at = self._clock.now() + timedelta(seconds=delay)
        lane.due = self._clock.monotonic() + delay
        lane.told = seconds is not None
        if status == "pending":
            await self._outbox.retry(row.id, at, reason)
        lane.queue[0] = Delivery(
            id=row.id,
            message=row.message,
            status="unknown" if status == "unknown" else "pending",
            attempts=row.attempts + 1,
            created_at=row.created_at,
            next_at=at,
            error=reason,
        )
        return False

    async def _too_old(self, row: Delivery) -> bool:
        if not mailbox.too_old(row.created_at, self._clock.now(), self._max_age):
            return False
        await self._bury(row, f"not delivered within {self._max_age}")
        return True

    async def _bury_old(self, address: Address, lane: Lane) -> None:
        """For a lane that nobody works on; somebody may begin to while this waits for the disk."""
        while lane.queue and lane.task is None and await self._too_old(row := lane.queue[0]):
            self._leave(lane, row)
        if not lane.queue and self._lanes.get(address) is lane:
            del self._lanes[address]

    async def _bury(self, row: Delivery, reason: str) -> None:
        logger.bind(session=row.message.address.key, turn=row.message.turn).error("dead letter: {}", reason)
        metrics.DEAD.labels(row.message.address.channel, "outbox").inc()
        await self._outbox.dead(row.id, reason)
