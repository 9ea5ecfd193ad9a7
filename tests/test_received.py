"""Files that people send: the agent's tools can open them, and nothing else comes of them."""

from pathlib import Path

import pytest

from nanobot.messages import Attachment, Inbound
from nanobot.received import safe
from nanobot.security.paths import Boundary
from nanobot.stores.media import MediaFiles
from nanobot.testing import ScriptedModel
from tests.gateway_in_memory import InMemory, World, life


def sent(
    workspace: Path, data: bytes = b"buy milk", name: str = "notes.txt", mime: str = "text/plain"
) -> Attachment:
    """A file as a channel has stored it."""
    path = workspace / ".nanobot" / "media" / "fake" / f"unique-{safe(name)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return Attachment(str(path), name, mime, len(data))


async def accepted(gateway: InMemory, *media: Attachment, id: str = "m1") -> Inbound:
    await gateway.say("look", id=id, media=media)
    row = await gateway.store.inbox.find("fake", id)
    assert row is not None
    return row.inbound


async def test_a_document_lies_where_tools_read_it_and_the_model_is_told_where(tmp_path: Path) -> None:
    model = ScriptedModel(["Seen."])
    async with life(World(tmp_path, model)) as gateway:
        message = await accepted(gateway, sent(tmp_path))
        await gateway.answers(1)
        [one] = message.media
        [line] = (await gateway.history())[:1]

    assert one.copy.startswith("received/")
    assert one.copy.endswith("-notes.txt")
    assert Boundary(tmp_path).read(one.copy, 1_000) == b"buy milk"
    assert line["media"][0]["copy"] == one.copy


async def test_two_files_of_one_name_stay_apart_and_one_that_comes_twice_is_one(tmp_path: Path) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        first = sent(tmp_path)
        other = Attachment(
            str(tmp_path / ".nanobot/media/fake/other-notes.txt"), "notes.txt", "text/plain", 1
        )
        Path(other.path).write_bytes(b"!")
        one, two = (await accepted(gateway, first, other)).media
        await gateway.answers(1)
        [again] = (await accepted(gateway, first, id="m2")).media

    assert one.copy == again.copy != two.copy
    assert len(list((tmp_path / "received").iterdir())) == 2


async def test_pictures_are_shown_to_the_model_and_not_copied(tmp_path: Path) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        [picture] = (await accepted(gateway, sent(tmp_path, name="a.png", mime="image/png"))).media

    assert picture.copy == ""
    assert not (tmp_path / "received").exists()


async def test_a_link_in_its_place_is_not_followed_and_the_message_is_answered_all_the_same(
    tmp_path: Path,
) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    (workspace / "received").symlink_to(outside)
    async with life(World(workspace, ScriptedModel())) as gateway:
        [one] = (await accepted(gateway, sent(workspace))).media
        await gateway.answers(1)

    assert one.copy == ""
    assert list(outside.iterdir()) == []


async def test_with_an_encrypted_state_nothing_of_it_lies_in_the_open(tmp_path: Path) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        files = MediaFiles(tmp_path / ".nanobot")
        files.sealed = True
        gateway.port.files = files
        [one] = (await accepted(gateway, sent(tmp_path))).media

    assert one.copy == ""
    assert not (tmp_path / "received").exists()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        (".bashrc", "bashrc"),
        ("Bericht für März.docx", "Bericht_für_März.docx"),
        ("x" * 300 + ".txt", "x" * 100 + ".txt"),
        ("\u202egnp.exe", "gnp.exe"),
        ("...", "file"),
        ("", "file"),
    ],
)
def test_a_name_becomes_a_plain_file_name_that_keeps_its_ending(name: str, expected: str) -> None:
    assert safe(name) == expected
