"""Files from Slack: fetched with their message, or said why not."""

from pathlib import Path

from tests.channels.slack_house import house


async def test_files_come_with_their_message(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        file = gateway.slack.upload("../../etc/no tes\n.txt", b"some notes", "text/plain")
        asked = await gateway.asked("DU1", "read this", files=[file])

    [attachment] = asked.media
    assert Path(attachment.path).read_bytes() == b"some notes"
    assert Path(attachment.path).parent == gateway.port.media
    assert (attachment.name, attachment.mime, attachment.size) == ("no tes.txt", "text/plain", 10)


async def test_files_that_cannot_be_had_are_told_to_the_model(tmp_path: Path) -> None:
    async with house(tmp_path, max_file_mb=1) as gateway:
        lies = {**gateway.slack.upload("big.bin", b"x" * (2 << 20), "image/png"), "size": 10}
        honest = gateway.slack.upload("huge.bin", b"x" * (2 << 20), "image/png")
        elsewhere = {
            **gateway.slack.upload("a.txt", b"x", "text/plain"),
            "url_private_download": "https://evil.example/a",
        }
        asked = await gateway.asked("DU1", "", files=[lies, honest, elsewhere])
        gateway.slack.refuses_html = True
        page = gateway.slack.upload("page.pdf", b"%PDF", "application/pdf")
        second = await gateway.asked("DU1", "and this", files=[page])

    assert asked.media == ()
    assert asked.text.count("could not be read") == 3
    assert "not kept by Slack" in asked.text
    assert "files:read" in second.text
    assert list(gateway.port.media.iterdir()) == []


async def test_a_file_is_fetched_although_the_network_fails_once(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.slack.fail("download", lost="before")
        gateway.slack.fail("download", status=503)
        file = gateway.slack.upload("notes.txt", b"some notes", "text/plain")
        [got] = (await gateway.asked("DU1", "read this", files=[file])).media

    assert Path(got.path).read_bytes() == b"some notes"


async def test_a_picture_is_told_by_what_it_holds(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        png, page = b"\x89PNG\r\n\x1a\n and so on", b"<script>"
        files = [
            gateway.slack.upload("a.png", page, "image/png"),
            gateway.slack.upload("b.jpg", png, "image/jpeg"),
            gateway.slack.upload("c.bin", png, "application/octet-stream"),
        ]
        asked = await gateway.asked("DU1", "look", files=files)

    assert [one.mime for one in asked.media] == ["application/octet-stream", "image/png", "image/png"]


async def test_files_of_somebody_who_is_not_let_in_are_removed(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.port.refuses = True
        file = gateway.slack.upload("a.txt", b"x", "text/plain")
        _, [way] = gateway.slack.say("DU1", "U1", "take this", files=[file])
        assert await way.acked()

    assert list(gateway.port.media.iterdir()) == []
