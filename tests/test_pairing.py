import asyncio
from pathlib import Path

from nanobot.clock import SystemClock
from nanobot.messages import Inbound
from nanobot.pairing import PairingDesk
from nanobot.stores.sqlite import SqliteStore


async def test_two_messages_of_a_stranger_at_once_are_one_request(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    desk = PairingDesk(store.pairings, SystemClock())
    codes = await asyncio.gather(
        *[desk.request(Inbound("telegram", text, "7", text, sender="7")) for text in ("Hi", "Are you there?")]
    )
    [code] = [one for one in codes if one is not None]
    assert await desk.find(code) is not None
    await store.close()
