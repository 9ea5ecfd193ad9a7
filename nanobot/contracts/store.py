"""What every Store keeps, as tests. A store's own test module runs them:

pytest.register_assert_rewrite("nanobot.contracts")

class TestMyStore(StoreContract):
    @pytest.fixture
    async def store(self): ...      # open, empty
    @pytest.fixture
    def reopen(self): ...           # async callable: that store as the next life finds it after a crash
"""

from datetime import UTC, datetime

import msgspec

from nanobot.contracts.inbox import InboxContract
from nanobot.contracts.outbox import OutboxContract
from nanobot.contracts.restart import RestartContract
from nanobot.contracts.schedules import SchedulesContract
from nanobot.contracts.words import SOON, Reopen
from nanobot.store import Pairing, Store

__all__ = ["Reopen", "StoreContract"]


class PairingsContract:
    async def test_a_pairing_is_kept_and_replaced(self, store: Store) -> None:
        now = datetime.now(UTC)
        asked = Pairing("telegram", "5", "Eve", "5", "ABCDEFGH", "pending", now, now + SOON)
        await store.pairings.put(asked)
        assert await store.pairings.get("telegram", "5") == asked
        assert await store.pairings.get("slack", "5") is None
        approved = msgspec.structs.replace(asked, status="approved", code="")
        await store.pairings.put(approved)
        assert list(await store.pairings.list()) == [approved]

    async def test_pairings_are_listed_by_channel_and_can_be_revoked(self, store: Store) -> None:
        now = datetime.now(UTC)
        for channel, sender in (("telegram", "1"), ("slack", "U1"), ("telegram", "2")):
            await store.pairings.put(Pairing(channel, sender, "", "c", "", "approved", now, now))
        assert [one.sender for one in await store.pairings.list("telegram")] == ["1", "2"]
        assert await store.pairings.delete("telegram", "1")
        assert not await store.pairings.delete("telegram", "1")
        assert [one.sender for one in await store.pairings.list()] == ["U1", "2"]


class KeysContract:
    async def test_owners_have_name_spaces_of_their_own(self, store: Store) -> None:
        slack, telegram = store.keys("slack"), store.keys("telegram")
        await slack.set("offset", "1")
        await slack.set("offset", "2")
        assert await slack.get("offset") == "2"
        assert await telegram.get("offset") is None
        await telegram.delete("offset")
        assert await store.keys("slack").get("offset") == "2"
        await slack.delete("offset")
        assert await slack.get("offset") is None

    async def test_items_are_found_by_their_exact_prefix(self, store: Store) -> None:
        keys = store.keys("websocket")
        for key in ("a_2", "ab1", "a_1", "A_3", "%", ""):
            await keys.set(key, f"<{key}>")
        assert await keys.items("a_") == [("a_1", "<a_1>"), ("a_2", "<a_2>")]
        assert await keys.items("%") == [("%", "<%>")]
        assert [key for key, _ in await keys.items()] == ["", "%", "A_3", "a_1", "a_2", "ab1"]


class StoreContract(
    InboxContract, RestartContract, OutboxContract, PairingsContract, SchedulesContract, KeysContract
):
    """The whole port. A subclass gives the fixtures `store` and `reopen`."""
