"""Updates that take time: albums and files. They hold up nobody, count once, and are not forgotten."""

from pathlib import Path
from typing import Any

from channels.telegram import create
from tests.channels.telegram_house import ANN, BOB, GROUP, House, house
from tests.channels.test_telegram_updates import hooked
from tests.emulators.telegram import drop_before, flood, hang


def picture(gateway: House, number: int, group: str = "g1", **fields: Any) -> dict[str, Any]:
    file_id = gateway.server.world.file(f"{number}.jpg", b"\xff\xd8\xff" + bytes([number]))
    photo = [{"file_id": file_id, "file_unique_id": f"u{number}", "file_size": 4}]
    return gateway.server.say(ANN, photo=photo, media_group_id=group, **fields)


def document(gateway: House, chat: int = ANN) -> None:
    file_id = gateway.server.world.file("a.txt", b"text")
    gateway.server.say(chat, document={"file_id": file_id, "file_unique_id": "u", "file_name": "a.txt"})


async def test_an_album_is_one_message_by_webhook_too(tmp_path: Path) -> None:
    async with hooked(tmp_path) as (gateway, _):
        for number in range(10):
            picture(gateway, number, caption="look" if number == 1 else "")
        album = await gateway.arrival()
        await gateway.server.until(lambda: not gateway.server.world.updates)

    assert (album.text, len(album.media)) == ("look", 10)
    assert len(gateway.port.accepted) == 1


async def test_what_comes_again_of_an_album_is_known_and_what_is_new_is_not(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        first, second = picture(gateway, 0), picture(gateway, 1)
        album = await gateway.arrival()
        gateway.server.again(second)
        gateway.server.again(first)
        straggler = picture(gateway, 2)
        late = await gateway.arrival()
        await gateway.server.until(lambda: not gateway.server.world.updates)

    assert len(album.media) == 2
    assert (late.message_id, len(late.media)) == (f"{ANN}:{straggler['message_id']}", 1)
    assert len(gateway.port.accepted) == 2


async def test_a_picture_that_comes_while_its_album_is_fetched_is_not_lost(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.server.fail("getFile", hang(1.0))
        picture(gateway, 0)
        picture(gateway, 1)
        await gateway.server.until(lambda: gateway.server.made("getFile"))
        picture(gateway, 2)
        album, straggler = await gateway.arrival(), await gateway.arrival()

    assert (len(album.media), len(straggler.media)) == (2, 1)


async def test_a_caption_that_is_changed_is_the_albums(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        picture(gateway, 0)
        captioned = picture(gateway, 1, caption="lok")
        album = await gateway.arrival()
        gateway.server.world.update(
            edited_message={**captioned, "caption": "look", "edit_date": 1_700_000_000}
        )
        gateway.server.touch()
        await gateway.server.until(lambda: not gateway.server.world.updates)
        [edited] = gateway.port.edited

    assert (edited.message_id, edited.text) == (album.message_id, "look")


async def test_hundreds_of_messages_pass_a_slow_download(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.server.fail("getFile", hang(30.0))
        document(gateway)
        for number in range(250):
            gateway.server.say(1_000 + number, f"m{number}")
        got = [(await gateway.arrival()).text for _ in range(250)]

    assert sorted(got) == sorted(f"m{number}" for number in range(250))


async def test_what_was_confirmed_before_it_was_complete_is_accepted_by_the_next_life_in_its_order(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as gateway:
        gateway.server.fail("getFile", hang(30.0))
        document(gateway)
        gateway.server.say(ANN, "after it")
        gateway.server.say(BOB, "meanwhile")
        assert (await gateway.arrival()).text == "meanwhile"
        await gateway.server.until(lambda: not gateway.server.world.updates)
        await gateway.channel.stop()
        again = create(gateway.port)
        gateway.port.connect(again)
        await again.start()
        file, text = await gateway.arrival(), await gateway.arrival()
        await again.stop()

    assert ([one.name for one in file.media], text.text) == (["a.txt"], "after it")
    assert [key for key in gateway.port.keys.values if key.startswith("late:")] == []  # type: ignore[attr-defined]


async def test_half_an_album_that_an_earlier_life_confirmed_is_joined_by_the_rest(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        picture(gateway, 0)
        await gateway.server.until(lambda: not gateway.server.world.updates)
        await gateway.channel.stop()
        again = create(gateway.port)
        gateway.port.connect(again)
        picture(gateway, 1)
        await again.start()
        album = await gateway.arrival()
        await again.stop()

    assert len(album.media) == 2
    assert len(gateway.port.accepted) == 1


async def test_a_press_in_a_topic_of_a_group_that_moved_belongs_to_the_topics_session(tmp_path: Path) -> None:
    new = GROUP - 1
    async with house(tmp_path) as gateway:
        gateway.server.world.forum(GROUP, 7)
        asked = await gateway.asked(GROUP, "@helper_bot which?", topic=7)
        gateway.server.say(GROUP, migrate_to_chat_id=new)
        gateway.server.world.forum(new, 7)
        await gateway.server.until(lambda: not gateway.server.world.updates)
        reply = gateway.reply(asked, "Tea?", meta={"buttons": ["Yes"]})
        await gateway.channel.deliver(reply)
        [posted] = gateway.server.posts(new)
        gateway.server.press(new, posted.id, "Yes")
        pressed = await gateway.arrival()

    assert pressed.key == asked.key


async def test_a_file_is_fetched_although_the_network_fails_once(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.server.fail("getFile", drop_before(), flood(1))
        document(gateway)
        [file] = (await gateway.arrival()).media

    assert Path(file.path).read_bytes() == b"text"
