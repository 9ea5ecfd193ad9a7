"""What goes out: every reply once, in order, through refusals, floods, lost replies and moved chats."""

import asyncio
from pathlib import Path

import pytest

from nanobot.errors import RetryLater, StoreFull, Undeliverable, Unreachable
from nanobot.messages import Attachment
from nanobot.testing_port import FakeKeys
from tests.channels.telegram_house import ANN, BOB, GROUP, House, house
from tests.emulators.telegram import drop_after, drop_before, flood, forbidden, hang, refuse, status

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def ready(gateway: House) -> None:
    """The chats exist: somebody wrote in them."""
    for chat in (ANN, BOB):
        await gateway.asked(chat)


async def test_a_groups_reply_answers_the_message_and_stays_in_its_topic(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.server.world.forum(GROUP, 7)
        message = await gateway.asked(GROUP, "@helper_bot hi", topic=7)
        await gateway.channel.deliver(gateway.reply(message, "hello"))
        [posted] = gateway.server.posts(GROUP)

        assert (posted.thread, posted.reply_to) == (7, message.meta["reply_to"])


async def test_general_is_written_to_without_a_thread(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.server.world.forum(GROUP, 7)
        message = await gateway.asked(GROUP, "@helper_bot hi", topic=1)
        await gateway.channel.deliver(gateway.reply(message, "hello"))

        assert gateway.server.texts(GROUP, 0) == ["hello"]


async def test_a_reply_to_a_deleted_message_is_still_sent(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        message = await gateway.asked(GROUP, "@helper_bot hi")
        del gateway.server.chat(GROUP).messages[message.meta["reply_to"]]
        await gateway.channel.deliver(gateway.reply(message, "hello"))

        assert gateway.server.texts(GROUP) == ["hello"]


async def test_a_flood_wait_is_given_to_the_outbox_and_kept_without_asking_again(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        gateway.server.fail("sendMessage", flood(7, chat=ANN))
        with pytest.raises(RetryLater) as asked:
            await gateway.channel.deliver(gateway.push(ANN, "one"))
        with pytest.raises(RetryLater):
            await gateway.channel.deliver(gateway.push(ANN, "two"))
        await gateway.channel.deliver(gateway.push(BOB, "other chats are not held up"))

        assert asked.value.seconds == 7
        assert len(gateway.server.made("sendMessage", ANN)) == 1
        assert gateway.server.texts(BOB) == ["other chats are not held up"]


async def test_a_flood_in_the_middle_of_a_long_reply_repeats_no_part(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        words = [f"word{n}" for n in range(3_000)]
        gateway.server.fail("sendMessage", flood(1, skip=2))
        reply = gateway.push(ANN, " ".join(words))
        with pytest.raises(RetryLater):
            await gateway.channel.deliver(reply)
        assert len(gateway.server.texts(ANN)) == 2
        await asyncio.sleep(1.05)  # what Telegram asked for
        receipt = await gateway.channel.deliver(reply)
        texts = gateway.server.texts(ANN)

        assert " ".join(texts).split() == words
        assert receipt.ref == ",".join(str(one.id) for one in gateway.server.posts(ANN))


class FullDisk(FakeKeys):
    """Keys that cannot be written for a while."""

    full = False

    async def set(self, key: str, value: str) -> None:
        if self.full:
            raise StoreFull("disk full")
        await super().set(key, value)


async def test_a_full_disk_in_the_middle_of_a_long_reply_repeats_no_part(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.server.chat(ANN)
        gateway.port.keys = disk = FullDisk()
        reply = gateway.push(ANN, "\n".join(f"line {number}" for number in range(1_500)))
        disk.full = True
        for _ in range(2):
            with pytest.raises(RetryLater):
                await gateway.channel.deliver(reply)
        disk.full = False
        await gateway.channel.deliver(reply)
        texts = gateway.server.texts(ANN)

    assert "\n".join(texts).split("\n") == reply.text.split("\n")


async def test_a_whole_reply_that_is_delivered_again_is_seen_once(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        reply = gateway.push(ANN, " ".join(f"word{n}" for n in range(3_000)))
        receipt = await gateway.channel.deliver(reply)
        before = gateway.server.texts(ANN)
        await gateway.channel.deliver(reply)  # the mark was lost
        again = gateway.push(ANN, reply.text, ref=receipt.ref)
        await gateway.channel.deliver(again)

        assert gateway.server.texts(ANN) == before


async def test_a_shorter_edit_of_a_long_reply_removes_what_is_too_many(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        receipt = await gateway.channel.deliver(gateway.push(ANN, "x " * 6_000))
        await gateway.channel.deliver(gateway.push(ANN, "short", turn="t2", ref=receipt.ref))

        assert gateway.server.texts(ANN) == ["short"]


async def test_a_lost_reply_is_an_unknown_outcome_and_no_connection_is_not(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        gateway.server.fail("sendMessage", drop_after())
        with pytest.raises(Exception) as lost:
            await gateway.channel.deliver(gateway.push(ANN, "one"))
        assert not isinstance(lost.value, RetryLater | Undeliverable | Unreachable)
        assert gateway.server.texts(ANN) == ["one"]
        await gateway.server.stop()
        with pytest.raises(RetryLater):
            await gateway.channel.deliver(gateway.push(ANN, "two"))


@pytest.mark.parametrize("fault", [drop_before(), status(502)])
async def test_a_broken_answer_is_an_unknown_outcome(tmp_path: Path, fault: object) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        gateway.server.fail("sendMessage", fault)  # type: ignore[arg-type]
        with pytest.raises(Exception) as lost:
            await gateway.channel.deliver(gateway.push(ANN, "one"))

        assert not isinstance(lost.value, RetryLater | Undeliverable | Unreachable)


async def test_a_blocked_chat_is_parked_until_its_person_is_back(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        gateway.server.chat(ANN).blocked = "bot was blocked by the user"
        gateway.port.send(gateway.push(ANN, "are you there"))
        await gateway.port.settle()
        assert len(gateway.port.outbox) == 1
        assert await gateway.port.keys.items("blocked:")
        gateway.server.chat(ANN).blocked = ""
        gateway.server.world.update(
            my_chat_member={
                "chat": {"id": ANN, "type": "private"},
                "from": {"id": ANN},
                "new_chat_member": {"status": "member", "user": {"id": 1}},
            }
        )
        gateway.server.touch()
        await gateway.server.until(lambda: gateway.server.texts(ANN) == ["are you there"])
        await gateway.port.settle()

        assert not await gateway.port.keys.items("blocked:")


async def test_a_blocked_chat_is_served_again_when_somebody_writes(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        gateway.server.fail("sendMessage", forbidden("bot was kicked from the group chat"))
        gateway.port.send(gateway.push(ANN, "one"))
        await gateway.port.settle()
        assert gateway.server.texts(ANN) == []
        await gateway.asked(ANN, "back")
        await gateway.server.until(lambda: gateway.server.texts(ANN) == ["one"])
        await gateway.port.settle()


@pytest.mark.parametrize("reason", ["chat not found", "message thread not found", "PEER_ID_INVALID"])
async def test_what_can_never_arrive_is_said_to_be_undeliverable(tmp_path: Path, reason: str) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        gateway.server.fail("sendMessage", refuse(reason))
        with pytest.raises(Undeliverable):
            await gateway.channel.deliver(gateway.push(ANN, "one"))


async def test_formatting_that_is_refused_costs_only_the_formatting(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        gateway.server.fail("sendMessage", refuse("can't parse entities: character '.' is reserved"))
        await gateway.channel.deliver(gateway.push(ANN, "some **bold** words"))
        [posted] = gateway.server.posts(ANN)

        assert (posted.text, posted.entities) == ("some bold words", [])


async def test_an_edit_of_what_is_gone_becomes_a_new_message(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        receipt = await gateway.channel.deliver(gateway.push(ANN, "one", ref="999999"))

        assert gateway.server.texts(ANN) == ["one"]
        assert receipt.ref == str(gateway.server.posts(ANN)[0].id)


async def test_an_empty_reply_is_undeliverable(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        with pytest.raises(Undeliverable):
            await gateway.channel.deliver(gateway.push(ANN, " \n"))


async def test_a_revoked_token_keeps_replies_waiting(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        gateway.server.revoked = True
        with pytest.raises(RetryLater):
            await gateway.channel.deliver(gateway.push(ANN, "one"))


async def test_fifty_chats_are_served_while_one_is_flooded(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        chats = range(1_000, 1_050)
        for chat in (ANN, *chats):
            gateway.server.chat(chat)
        gateway.server.fail("sendMessage", flood(30, chat=ANN, times=100))
        lane = asyncio.create_task(gateway.channel.deliver(gateway.push(ANN, "late")))
        async with asyncio.timeout(5):
            await asyncio.gather(
                *(gateway.channel.deliver(gateway.push(chat, "hi", turn=f"t{chat}")) for chat in chats)
            )
        with pytest.raises(RetryLater):
            await lane

        assert all(gateway.server.texts(chat) == ["hi"] for chat in chats)


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mime", "data", "kind"),
    [
        ("a.png", "image/png", PNG, "photo"),
        ("a.pdf", "application/pdf", b"%PDF-1", "document"),
        ("a.ogg", "audio/ogg", b"OggS1", "voice"),
        ("a.mp3", "audio/mpeg", b"ID3x", "audio"),
        ("a.mp4", "video/mp4", b"0000ftyp", "video"),
        ("liar.png", "image/png", b"not a picture", "document"),
    ],
)
async def test_files_go_out_by_their_type(
    tmp_path: Path, name: str, mime: str, data: bytes, kind: str
) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        (tmp_path / name).write_bytes(data)
        media = (Attachment(name, name, mime, len(data)),)
        await gateway.channel.deliver(gateway.push(ANN, "here", media=media))
        text, file = gateway.server.posts(ANN)

        assert text.text == "here"
        assert (file.kind, file.file, file.file_name) == (kind, data, name)


async def test_a_file_that_is_gone_is_said_and_the_rest_arrives(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        (tmp_path / "b.txt").write_text("b")
        media = (
            Attachment("gone.txt", "gone.txt"),
            Attachment(str(tmp_path / "b.txt"), "b.txt", "text/plain"),
        )
        await gateway.channel.deliver(gateway.push(ANN, "", media=media))
        missing, sent = gateway.server.posts(ANN)

        assert "gone.txt" in missing.text
        assert sent.file == b"b"


async def test_a_file_after_a_flood_is_sent_and_the_text_is_not_repeated(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        await ready(gateway)
        (tmp_path / "b.txt").write_text("b")
        reply = gateway.push(ANN, "text", media=(Attachment("b.txt", "b.txt", "text/plain"),))
        gateway.server.fail("sendDocument", flood(1))
        with pytest.raises(RetryLater):
            await gateway.channel.deliver(reply)
        await asyncio.sleep(1.05)  # what Telegram asked for
        await gateway.channel.deliver(reply)

        assert [one.kind for one in gateway.server.posts(ANN)] == ["text", "document"]


async def test_files_come_in_with_their_real_type_and_a_safe_name(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        file_id = gateway.server.world.file("x", PNG)
        document = {
            "file_id": file_id,
            "file_unique_id": "../u",
            "file_name": "../../etc/pass wd\u202egnp.exe",
            "mime_type": "application/x-evil",
            "file_size": len(PNG),
        }
        message = await gateway.asked(ANN, "", document=document, caption="look at this")
        [file] = message.media

        assert message.text == "look at this"
        assert file.mime == "image/png"
        assert Path(file.path).parent == gateway.port.media
        assert Path(file.path).read_bytes() == PNG
        assert "/" not in file.name
        assert "\u202e" not in file.name


async def test_a_file_that_claims_to_be_an_image_is_not_believed(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        file_id = gateway.server.world.file("x", b"<script>")
        document = {"file_id": file_id, "file_unique_id": "u", "file_name": "a.png", "mime_type": "image/png"}
        message = await gateway.asked(ANN, "", document=document)

        assert message.media[0].mime == "application/octet-stream"


@pytest.mark.parametrize("told", [True, False])
async def test_a_file_that_is_too_large_is_said_in_the_message(tmp_path: Path, told: bool) -> None:
    async with house(tmp_path) as gateway:
        file_id = gateway.server.world.file("big.zip", b"x" * ((20 << 20) + 1))
        size = {"file_size": (20 << 20) + 1} if told else {"file_size": 5}
        document = {"file_id": file_id, "file_unique_id": "u", "file_name": "big.zip", **size}
        message = await gateway.asked(ANN, "", document=document, caption="unpack")

        assert message.media == ()
        assert "unpack\n[The file big.zip was not fetched" in message.text
        assert "20 MB" in message.text


async def test_a_slow_download_holds_up_no_other_chat(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.server.fail("getFile", hang(1.0))
        file_id = gateway.server.world.file("a.txt", b"text")
        gateway.server.say(ANN, document={"file_id": file_id, "file_unique_id": "u", "file_name": "a.txt"})
        gateway.server.say(ANN, "after the file")
        gateway.server.say(BOB, "quick")
        got = [await gateway.arrival() for _ in range(3)]

        assert [one.text for one in got] == ["quick", "", "after the file"]
