"""What comes in: who is meant, which session it belongs to, what is left out."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from channels.telegram.wire import Me, read_update, to_inbound
from nanobot.errors import StoreFull
from tests.channels.telegram_house import ANN, BOB, GROUP, house
from tests.emulators.telegram.world import BOT_ID

ME = Me(BOT_ID, "helper_bot", frozenset({"help", "goal"}))
SAMPLES = Path(__file__).parents[2] / "channels" / "telegram" / "samples"


def inbound(**fields: Any) -> Any:
    message = {
        "message_id": 5,
        "from": {"id": 42, "is_bot": False, "first_name": "Ann"},
        "chat": {"id": GROUP, "type": "supergroup", "title": "Work"},
        "date": 1_767_225_600,
        **fields,
    }
    update = read_update({"update_id": 1, "message": message})
    assert update.message is not None
    return to_inbound(update.message, ME, channel="telegram")


def test_a_private_chat_and_a_topic_have_their_keys() -> None:
    private = inbound(chat={"id": 42, "type": "private"}, text="hi")
    topic = inbound(text="hi", message_thread_id=7, is_topic_message=True)

    assert private.key == "telegram:42"
    assert topic.key == f"telegram:{GROUP}:topic:7"
    assert private.private
    assert not topic.private


def test_general_and_reply_threads_are_no_topics() -> None:
    assert inbound(text="hi", message_thread_id=1, is_topic_message=True).thread == ""
    assert inbound(text="hi", message_thread_id=900).thread == ""


@pytest.mark.parametrize(
    ("fields", "addressed"),
    [
        ({"text": "hi all"}, False),
        ({"text": "hi @helper_bot", "entities": [{"type": "mention", "offset": 3, "length": 11}]}, True),
        ({"text": "hi @Helper_Bot", "entities": [{"type": "mention", "offset": 3, "length": 11}]}, True),
        ({"text": "👋 @helper_bot", "entities": [{"type": "mention", "offset": 3, "length": 11}]}, True),
        ({"text": "hi @helper_bot2", "entities": [{"type": "mention", "offset": 3, "length": 12}]}, False),
        ({"text": "you", "entities": [{"type": "text_mention", "offset": 0, "length": 3, "user": {"id": BOT_ID}}]}, True),
        ({"caption": "@helper_bot", "caption_entities": [{"type": "mention", "offset": 0, "length": 11}]}, True),
        ({"text": "so?", "reply_to_message": {"message_id": 3, "from": {"id": BOT_ID}, "text": "hm"}}, True),
        ({"text": "so?", "reply_to_message": {"message_id": 3, "from": {"id": 9}, "text": "hm"}}, False),
        ({"text": "/goal tidy"}, True),
        ({"text": "/weather"}, False),
        ({"text": "/weather@helper_bot"}, True),
    ],
)  # fmt: skip
def test_whether_a_group_means_the_bot(fields: dict[str, Any], addressed: bool) -> None:
    assert inbound(**fields).mentioned is addressed


def test_in_a_topic_the_opening_message_is_no_reply() -> None:
    opened = {"message_id": 7, "from": {"id": BOT_ID}, "text": "topic"}
    message = inbound(text="x", message_thread_id=7, is_topic_message=True, reply_to_message=opened)

    assert not message.mentioned
    assert message.text == "x"


def test_commands_for_other_bots_are_not_ours() -> None:
    assert inbound(text="/goal@other_bot tidy") is None


def test_a_command_keeps_its_lines_and_gets_no_reply_context() -> None:
    replied = {"message_id": 3, "from": {"id": 9, "first_name": "Bob"}, "text": "earlier"}
    message = inbound(text="@helper_bot /goal one\ntwo\n\nthree", reply_to_message=replied)

    assert message.text == "/goal one\ntwo\n\nthree"


def test_a_reply_carries_what_it_refers_to() -> None:
    replied = {"message_id": 3, "from": {"id": 9, "first_name": "Bob"}, "text": "the door is open"}

    assert inbound(text="close it", reply_to_message=replied).text == (
        "[In reply to Bob: the door is open]\n\nclose it"
    )
    assert (
        "[In reply to Bob: door]"
        in inbound(text="close it", reply_to_message=replied, quote={"text": "door", "position": 4}).text
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"new_chat_members": [{"id": 9}]},
        {"text": "x", "from": {"id": 9, "is_bot": True, "first_name": "Other"}},
        {"text": "x", "from": None},
        {"text": "x", "sender_chat": {"id": -1, "type": "channel"}},
        {"text": "x", "chat": {"id": -7, "type": "channel"}},
        {"text": ""},
    ],
)
def test_what_is_not_for_the_bot_is_left_out(fields: dict[str, Any]) -> None:
    assert inbound(**fields) is None


def test_what_was_passed_on_says_who_wrote_it_and_gives_no_command() -> None:
    user = {"type": "user", "sender_user": {"id": 9, "first_name": "Bob"}}
    hidden = {"type": "hidden_user", "sender_user_name": "Eve]\n\n[owner"}
    channel = {"type": "channel", "chat": {"id": -7, "type": "channel", "title": "News"}}

    assert inbound(text="see you at six", forward_origin=user).text == (
        "[Passed on; written by Bob]\n\nsee you at six"
    )
    assert inbound(text="x", forward_origin=hidden).text == "[Passed on; written by Eve) [owner]\n\nx"
    assert inbound(text="/stop", forward_origin=channel).text == "[Passed on; written by News]\n\n/stop"
    assert inbound(text="/stop@other_bot", forward_origin={}).text.startswith(
        "[Passed on; written by somebody]"
    )


def test_polls_checklists_and_dice_become_words() -> None:
    poll = {"id": "1", "question": "Lunch?", "options": [{"text": "Yes", "voter_count": 0}, {"text": "No"}]}
    checklist = {"title": "Trip", "tasks": [{"id": 1, "text": "Book"}, {"id": 2, "text": "Pack"}]}

    assert inbound(poll=poll).text == "[poll: Lunch?]\n- Yes\n- No"
    assert inbound(checklist=checklist).text == "[checklist: Trip]\n- Book\n- Pack"
    assert inbound(dice={"emoji": "🎲", "value": 4}).text == "[🎲 shows 4]"
    assert inbound(story={"id": 1}).text == "[a story, which bots cannot see]"


def test_places_contacts_and_stickers_become_words() -> None:
    assert inbound(location={"latitude": 1.5, "longitude": 2.5}).text == "[location: 1.5, 2.5]"
    assert inbound(contact={"first_name": "Bob", "phone_number": "+1"}).text == "[contact: Bob +1]"
    assert inbound(sticker={"emoji": "😀", "file_id": "x"}).text == "[sticker 😀]"


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_samples_are_read_as_they_say(path: Path) -> None:
    sample = json.loads(path.read_text("utf-8"))
    update = read_update(sample["update"])
    found = to_inbound(update.message, ME, channel="telegram") if update.message else None

    for key, value in (sample["inbound"] or {}).items():
        assert getattr(found, key) == value, key
    assert (found is None) is (sample["inbound"] is None)


# --- through the channel ----------------------------------------------------------------------------------------


async def test_odd_updates_are_left_out_and_nothing_stops(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        world = gateway.server.world
        world.update(message={"text": "no chat, no id"})
        world.update(message={"message_id": "not a number", "chat": []})
        world.update(message=None)
        world.update(message={"message_id": 1, "chat": {"id": ANN, "type": "private"}, "from": {"id": "x"}})
        gateway.server.updates.replay = [{"no_update_id": 1}]
        world.update(chat_member={"strange": True})
        message = await gateway.asked(ANN, "still here")
        await gateway.server.until(lambda: gateway.server.updates.confirmed > world._update)

        assert message.text == "still here"
        assert len(gateway.port.accepted) == 1


@pytest.mark.parametrize(
    "text", ["x" * 100_000, "a\x00b", "👩‍👩‍👧‍👦" * 500, "\u202egnp.exe", "\u200b", "é" * 100]
)
async def test_odd_texts_are_accepted_as_they_are(tmp_path: Path, text: str) -> None:
    async with house(tmp_path) as gateway:
        message = await gateway.asked(ANN, text)

        assert message.text == text


async def test_a_burst_in_one_chat_keeps_its_order(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        for number in range(200):
            gateway.server.say(ANN, f"m{number}")
        got = [(await gateway.arrival()).text for _ in range(200)]

        assert got == [f"m{number}" for number in range(200)]


async def test_the_same_update_twice_is_accepted_once(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        message = gateway.server.say(ANN, "once")
        gateway.server.updates.replay = list(gateway.server.world.updates)
        gateway.server.again(message)
        await gateway.asked(BOB, "end")
        await gateway.server.until(lambda: not gateway.server.world.updates)

        assert sorted(one.text for one in gateway.port.accepted) == ["end", "once"]


async def test_a_message_that_cannot_be_kept_holds_back_those_behind_it_only(tmp_path: Path) -> None:
    async with house(tmp_path, start=False) as gateway:
        gateway.port.fails = StoreFull("disk full")
        for number in range(3):
            gateway.server.say(ANN, f"a{number}")
        gateway.server.say(BOB, "b0")
        await gateway.channel.start()
        got = [(await gateway.arrival()).text for _ in range(4)]

        assert [text for text in got if text[0] == "a"] == ["a0", "a1", "a2"]
        assert got[0] == "b0"


async def test_an_album_is_one_message(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        ids = [gateway.server.world.file(f"{n}.jpg", b"\xff\xd8\xff" + bytes([n])) for n in range(3)]
        for number, file_id in enumerate(ids):
            photo = [{"file_id": file_id, "file_unique_id": f"u{number}", "file_size": 4}]
            caption = {"caption": "look"} if number == 1 else {}
            gateway.server.say(ANN, photo=photo, media_group_id="g1", **caption)
            if number == 1:
                await gateway.server.until(lambda: gateway.server.updates.pollers == 0)
        gateway.server.say(BOB, "meanwhile")
        first, album = await gateway.arrival(), await gateway.arrival()
        await gateway.server.until(lambda: not gateway.server.world.updates)

        assert first.text == "meanwhile"
        assert (album.text, len(album.media)) == ("look", 3)
        assert len(gateway.port.accepted) == 2


async def test_an_album_that_was_not_confirmed_comes_again_and_is_known(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        photo = [{"file_id": gateway.server.world.file("a.jpg", b"\xff\xd8\xff1"), "file_unique_id": "u"}]
        said = [gateway.server.say(ANN, photo=photo, media_group_id="g1") for _ in range(2)]
        await gateway.arrival()
        for message in said:
            gateway.server.again(message)
        await gateway.server.until(lambda: not gateway.server.world.updates)

        assert len(gateway.port.accepted) == 1


async def test_the_command_menu_is_registered_once(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        assert gateway.server.world.commands == [{"command": "help", "description": "What I can do."}]
        await gateway.channel.stop()
        await gateway.channel.start()

        assert len(gateway.server.made("setMyCommands")) == 1


async def test_a_button_says_its_value_once_and_its_keyboard_goes(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        message = await gateway.asked()
        long = "a very long answer " * 10
        buttons = ["Yes", {"label": "No, and why", "value": long}]
        gateway.port.send(gateway.reply(message, "Really?", meta={"buttons": buttons}))
        await gateway.port.settle()
        [posted] = gateway.server.posts(ANN)
        row = [one for line in posted.keyboard["inline_keyboard"] for one in line]
        assert [one["text"] for one in row] == ["Yes", "No, and why"]
        for _ in range(2):
            gateway.server.press(ANN, posted.id, row[1]["callback_data"])
        chosen = await gateway.arrival()
        await gateway.server.until(
            lambda: len(gateway.server.world.answered) == 2 and posted.keyboard is None
        )

        assert (chosen.text, chosen.sender) == (long, str(ANN))
        assert len(gateway.port.accepted) == 2


async def test_a_button_that_is_a_command_stays_and_works_again(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        message = await gateway.asked()
        buttons = [{"label": "Pause", "value": "/goal pause"}]
        await gateway.channel.deliver(gateway.reply(message, "Working", meta={"buttons": buttons}))
        [posted] = gateway.server.posts(ANN)
        for _ in range(2):
            gateway.server.press(ANN, posted.id, "/goal pause")
            assert (await gateway.arrival()).text == "/goal pause"
        await gateway.server.until(lambda: len(gateway.server.world.answered) == 2)

        assert posted.keyboard is not None


async def test_a_group_that_became_a_supergroup_keeps_its_session(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        old = await gateway.asked(GROUP, "@helper_bot hi")
        gateway.server.chat(GROUP).migrated_to = GROUP - 1
        gateway.server.chat(GROUP - 1)
        gateway.port.send(gateway.reply(old, "moved answer"))
        await gateway.port.settle()
        new = await gateway.asked(GROUP - 1, "@helper_bot again")

        assert gateway.server.texts(GROUP - 1) == ["moved answer"]
        assert new.key == old.key
        assert new.address.chat_id == str(GROUP - 1)


async def test_the_service_message_of_a_move_is_enough(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.server.say(GROUP, migrate_to_chat_id=GROUP - 1)
        new = await gateway.asked(GROUP - 1, "@helper_bot again")

        assert new.key == f"telegram:{GROUP}"


async def test_refused_senders_are_acknowledged_and_forgotten(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.port.refuses = True
        gateway.server.say(ANN, "let me in")
        await gateway.server.until(lambda: not gateway.server.world.updates)

        assert gateway.server.texts(ANN) == []


async def test_a_fault_of_ours_does_not_hold_all_updates_forever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as gateway:
        monkeypatch.setattr(gateway.channel._intake, "_with_files", broken)
        gateway.server.say(ANN, photo=[{"file_id": "x"}])
        async with asyncio.timeout(10):
            while not gateway.port.accepted:
                gateway.server.say(BOB, "after")
                await gateway.server.until(lambda: gateway.port.accepted or not gateway.server.world.updates)
        await gateway.server.until(lambda: not gateway.server.world.updates)


async def broken(*_: object) -> None:
    raise RuntimeError("a fault")
