from pathlib import Path

import pytest

from nanobot.errors import Undeliverable
from nanobot.messages import Address, Attachment
from nanobot.tools.toolbox import standard
from tests.tools_support import Desk, Settings


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_text_goes_to_the_chat_and_thread_it_was_asked_in(desk: Desk) -> None:
    result = await desk.call("message", text="half done")
    assert result.text == "Sent to telegram:7:topic:1 (m1)"
    assert desk.sent == [(Address("telegram", "7", "topic:1"), "half done", ())]


async def test_a_file_goes_as_a_private_copy_with_its_name_and_kind(desk: Desk) -> None:
    (desk.workspace / "out").mkdir()
    (desk.workspace / "out/report.pdf").write_bytes(b"%PDF")
    result = await desk.call("message", files=["out/report.pdf"])
    ((_, text, (sent,)),) = desk.sent
    assert text == ""
    assert (sent.name, sent.mime, sent.size) == ("report.pdf", "application/pdf", 4)
    assert result.media == (sent,)
    (desk.workspace / "out/report.pdf").unlink()
    (desk.workspace / "out/report.pdf").symlink_to(desk.outside)
    assert Path(sent.path).read_bytes() == b"%PDF"
    assert Path(sent.path).is_relative_to(desk.state)


@pytest.mark.parametrize(
    "path", ["../outside.txt", "/etc/passwd", ".nanobot/sessions/a.jsonl", "config.toml", "link"]
)
async def test_no_file_from_outside_or_of_the_state_is_sent(desk: Desk, path: str) -> None:
    (desk.workspace / "link").symlink_to(desk.outside)
    assert (await desk.call("message", text="look", files=[path])).error
    assert desk.sent == []


async def test_a_file_that_is_too_large_is_not_sent(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Settings(max_file_mb=1))
    (desk.workspace / "big").write_bytes(b"x" * ((1 << 20) + 1))
    assert "more than" in (await desk.call("message", files=["big"])).text
    assert desk.sent == []


async def test_another_chat_of_the_same_channel_is_reached_but_not_at_the_highest_level(
    tmp_path: Path,
) -> None:
    low, maximum = Desk(tmp_path / "a"), Desk(tmp_path / "b", Settings(level="maximum"))
    await low.call("message", text="hi", chat_id="8")
    assert [address for address, _, _ in low.sent] == [Address("telegram", "8")]
    for place in ({"chat_id": "8"}, {"thread": "topic:2"}):
        assert (await maximum.call("message", text="hi", **place)).text.startswith("Refused")
    assert not (await maximum.call("message", text="hi", chat_id="7")).error
    assert maximum.sent == [(Address("telegram", "7", "topic:1"), "hi", ())]


async def test_a_chat_of_the_page_writes_to_no_other_since_those_belong_to_other_people(desk: Desk) -> None:
    desk.here = Address("websocket", "mine")
    assert (await desk.call("message", text="hi", chat_id="yours")).text.startswith("Refused")
    assert not (await desk.call("message", text="hi")).error
    assert [address for address, _, _ in desk.sent] == [Address("websocket", "mine")]


async def test_an_empty_message_and_a_failed_one_are_told(desk: Desk) -> None:
    assert "needs text or files" in (await desk.call("message", text="  ")).text

    async def failing(address: Address, text: str, media: tuple[Attachment, ...]) -> str:
        raise Undeliverable("the chat was deleted")

    desk.toolbox = standard(desk.security, desk.state, failing)
    assert (
        await desk.call("message", text="hi")
    ).text == "Error: the message was not sent: the chat was deleted"
