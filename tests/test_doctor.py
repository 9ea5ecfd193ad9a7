from pathlib import Path

from nanobot import doctor
from nanobot.config import load
from nanobot.messages import Address, Outbound
from nanobot.stores.sqlite import SqliteStore


async def test_looking_at_a_gateway_that_runs_changes_none_of_its_replies(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[channels.telegram]\nenabled = true\ntoken = "1:a"\n')
    gateways = SqliteStore(tmp_path / ".nanobot")
    await gateways.open()
    made = await gateways.outbox.add(Outbound("t", 0, Address("telegram", "7"), "on its way"))
    assert made
    await gateways.outbox.sending(made.id)
    await doctor.remembered(load(tmp_path).channels["telegram"], tmp_path)
    assert [row.status for row in await gateways.outbox.list()] == ["sending"]
    await gateways.close()
