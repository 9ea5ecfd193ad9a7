from pathlib import Path
from typing import Any

from nanobot import metrics
from nanobot.errors import StoreError
from nanobot.messages import Address, Inbound, Outbound
from nanobot.store import Inbox, Outbox
from nanobot.testing import FakeClock, ScriptedModel
from tests.gateway_in_memory import World, life


class Broken:
    """One side of a store, which fails at whatever it is asked while `down`."""

    def __init__(self, real: Inbox | Outbox) -> None:
        self._real = real
        self.down = False
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if not self.down:
            return getattr(self._real, name)
        self.asked.add(name)
        return self._fail

    async def _fail(self, *_: Any) -> None:
        raise StoreError("no disk")


async def test_a_store_that_fails_for_an_hour_ends_none_of_the_gateways_own_work(tmp_path: Path) -> None:
    world = World(tmp_path, ScriptedModel())
    world.clock = clock = FakeClock()
    async with life(world) as gateway:
        inbox, outbox = Broken(gateway.store.inbox), Broken(gateway.store.outbox)
        gateway.store.inbox, gateway.deliverer._outbox = inbox, outbox
        inbox.down = outbox.down = True
        await clock.advance(3_601)
        assert (inbox.asked, outbox.asked) == ({"prune", "depth"}, {"undelivered"})
        inbox.down = outbox.down = False
        await inbox.accept(Inbound("fake", "1", "c", "from another process"))
        await outbox.add(Outbound("t", 0, Address("fake", "c"), "from the terminal"))
        await clock.advance(31)
        await gateway.answers(1)
        assert metrics.REGISTRY.get_sample_value("nanobot_queue_depth") == 1
        await clock.advance(3_600)
        assert set(await gateway.answers(2)) == {"from the terminal", "echo: from another process"}
