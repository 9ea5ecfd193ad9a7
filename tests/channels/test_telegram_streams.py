"""Live previews: drafts in private chats, one edited message elsewhere; the final is never lost and never twice."""

import asyncio
from pathlib import Path
from typing import Any

from channels.telegram import create
from nanobot.events import TextDelta, TurnEnded, TurnStarted, Usage
from nanobot.messages import Inbound
from tests.channels.telegram_house import ANN, GROUP, House, house
from tests.emulators.telegram import drop_after, flood, hang, refuse

FAST: dict[str, Any] = {"patience": 0.2, "edit_interval": 0.1, "draft_interval": 0.1}


async def addressed(gateway: House, text: str = "hello") -> Inbound:
    return await gateway.asked(GROUP, f"@helper_bot {text}")


async def test_a_private_answer_grows_as_a_draft_and_ends_as_one_message(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        message = await gateway.asked()
        gateway.start(message)
        gateway.delta(message, "Hel")
        chat = gateway.server.chat(ANN)
        await gateway.server.until(lambda: "Hel" in chat.drafts)
        gateway.delta(message, "lo **there**")
        await gateway.server.until(lambda: "Hello there" in chat.drafts)
        gateway.end(message, "Hello **there**, Ann")
        await gateway.port.settle()

        assert gateway.server.texts(ANN) == ["Hello there, Ann"]
        assert gateway.server.methods.draft(chat) == ""
        assert chat.actions[0] == "typing"
        assert {one.params["draft_id"] for one in gateway.server.made("sendMessageDraft")} != {"0"}


async def test_a_quick_turn_shows_typing_and_nothing_else_before_its_answer(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        message = await gateway.asked()
        gateway.start(message)
        gateway.delta(message, "done")
        await gateway.server.until(lambda: gateway.server.chat(ANN).actions)
        gateway.end(message, "done")
        await gateway.port.settle()

        assert gateway.server.texts(ANN) == ["done"]
        assert gateway.server.made("sendMessageDraft") == []


async def test_a_groups_answer_is_one_message_from_preview_to_final(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        message = await addressed(gateway)
        gateway.start(message)
        gateway.delta(message, "Hel")
        await gateway.server.until(lambda: gateway.server.texts(GROUP) == ["Hel"])
        [preview] = gateway.server.posts(GROUP)
        gateway.delta(message, "lo")
        await gateway.server.until(lambda: gateway.server.texts(GROUP) == ["Hello"])
        gateway.end(message, "Hello everybody")
        await gateway.port.settle()
        [final] = gateway.server.posts(GROUP)

        assert (final.id, final.text) == (preview.id, "Hello everybody")
        assert final.reply_to == message.meta["reply_to"]
        assert [one.ref for one in gateway.port.receipts.values()] == [str(final.id)]


async def test_work_is_shown_in_one_message_that_the_answer_replaces(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        message = await addressed(gateway)
        gateway.start(message)
        gateway.tool(message, "exec", command="ls -la")
        await gateway.server.until(lambda: gateway.server.texts(GROUP))
        [working] = gateway.server.texts(GROUP)
        gateway.tool_ended(message, "exec")
        gateway.end(message, "Three files")
        await gateway.port.settle()

        assert "exec" in working
        assert "ls -la" in working
        assert gateway.server.texts(GROUP) == ["Three files"]


async def test_a_turn_that_says_nothing_takes_its_preview_back(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        message = await addressed(gateway)
        gateway.start(message)
        gateway.delta(message, "half a")
        await gateway.server.until(lambda: gateway.server.texts(GROUP))
        gateway.end(message)
        await gateway.server.until(lambda: not gateway.server.texts(GROUP))


async def test_a_flood_of_edits_pauses_the_preview_and_the_final_comes_when_it_may(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        message = await addressed(gateway)
        gateway.start(message)
        gateway.delta(message, "Hel")
        await gateway.server.until(lambda: gateway.server.texts(GROUP) == ["Hel"])
        gateway.server.fail("editMessageText", flood(1))
        gateway.delta(message, "lo")
        await gateway.server.until(lambda: len(gateway.server.made("editMessageText")) == 1)
        calls = len(gateway.server.made("editMessageText"))
        gateway.delta(message, " wor")
        gateway.delta(message, "ld")
        await gateway.server.until(lambda: gateway.server.texts(GROUP) == ["Hello world"])
        edits = gateway.server.made("editMessageText")[calls - 1 :]

        assert edits[1].at - edits[0].at >= 1.0
        gateway.end(message, "Hello world!")
        await gateway.port.settle()
        assert gateway.server.texts(GROUP) == ["Hello world!"]


async def test_a_draft_that_is_refused_once_is_tried_again_and_edits_do_not_take_over(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        gateway.server.fail("sendMessageDraft", flood(1))
        message = await gateway.asked()
        gateway.start(message)
        gateway.delta(message, "Hel")
        await gateway.server.until(lambda: gateway.server.chat(ANN).drafts)
        gateway.end(message, "Hello")
        await gateway.port.settle()

        assert gateway.server.made("editMessageText") == []
        assert gateway.server.texts(ANN) == ["Hello"]


async def test_where_drafts_are_not_allowed_a_message_is_edited(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        gateway.server.fail("sendMessageDraft", refuse("TEXTDRAFT_PEER_INVALID"))
        message = await gateway.asked()
        gateway.start(message)
        gateway.delta(message, "Hel")
        await gateway.server.until(lambda: gateway.server.texts(ANN) == ["Hel"])
        gateway.end(message, "Hello")
        await gateway.port.settle()

        assert gateway.server.texts(ANN) == ["Hello"]


async def test_the_final_waits_for_a_preview_that_is_on_its_way(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        message = await addressed(gateway)
        gateway.server.fail("sendMessage", hang(0.5))
        gateway.start(message)
        gateway.delta(message, "Hel")
        await gateway.server.until(lambda: True)
        while not gateway.server.made("sendMessage"):
            await asyncio.sleep(0.01)
        gateway.end(message, "Hello")
        await gateway.port.settle()

        assert gateway.server.texts(GROUP) == ["Hello"]


async def test_a_preview_whose_reply_was_lost_is_not_posted_again(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        message = await addressed(gateway)
        gateway.server.fail("sendMessage", drop_after())
        gateway.start(message)
        gateway.delta(message, "Hel")
        await gateway.server.until(lambda: gateway.server.texts(GROUP) == ["Hel"])
        gateway.delta(message, "lo")
        gateway.end(message, "Hello")
        await gateway.port.settle()

        assert len(gateway.server.made("sendMessage")) == 2, "one preview, one answer"


async def test_a_turn_that_goes_on_after_a_restart_posts_no_second_preview(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        message = await addressed(gateway)
        turn = gateway.port.inbox_id(message)
        started = TurnStarted(message.key, turn, message.address, (turn,), 1.0, resumed=True)
        gateway.channel.show(started)
        gateway.delta(message, "again")
        await gateway.server.until(lambda: gateway.server.chat(GROUP).actions)

        assert gateway.server.texts(GROUP) == []


async def test_a_turn_that_goes_on_after_a_restart_goes_on_in_the_message_that_stands_there(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, **FAST) as gateway:
        message = await addressed(gateway)
        gateway.start(message)
        gateway.delta(message, "half an ans")
        await gateway.server.until(lambda: gateway.server.texts(GROUP) == ["half an ans"])
        await gateway.channel.stop()
        again = create(gateway.port)  # the next life, which knows what the store knows
        gateway.port.connect(again)
        await again.start()
        turn = gateway.port.inbox_id(message)
        again.show(TurnStarted(message.key, turn, message.address, (turn,), 1.0, resumed=True))
        again.show(TextDelta(message.key, turn, message.address, "half an answer", "s2"))
        await gateway.server.until(lambda: gateway.server.texts(GROUP) == ["half an answer"])
        await again.stop()


async def test_a_turn_nobody_asked_for_shows_typing_only(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        message = await gateway.asked()
        gateway.channel.show(TurnStarted(message.key, "t-goal", message.address, ("t-goal",), 1.0))
        gateway.channel.show(TextDelta(message.key, "t-goal", message.address, "to itself", "s"))
        await gateway.server.until(lambda: gateway.server.chat(ANN).actions)
        await asyncio.sleep(0.4)  # twice the time after which it would be shown

        assert gateway.server.chat(ANN).drafts == []


async def test_two_topics_of_one_forum_stream_side_by_side(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        gateway.server.world.forum(GROUP, 7, 9)
        first = await gateway.asked(GROUP, "@helper_bot one", topic=7)
        second = await gateway.asked(GROUP, "@helper_bot two", topic=9)
        for message in (first, second):
            gateway.start(message)
            gateway.delta(message, f"to {message.thread}")
        await gateway.server.until(lambda: len(gateway.server.texts(GROUP)) == 2)
        for message in (first, second):
            gateway.end(message, f"answer {message.thread}")
        await gateway.port.settle()

        assert gateway.server.texts(GROUP, 7) == ["answer topic:7"]
        assert gateway.server.texts(GROUP, 9) == ["answer topic:9"]


async def test_previews_leave_a_groups_answers_room(tmp_path: Path) -> None:
    async with house(tmp_path, patience=0.1, edit_interval=60) as gateway:
        gateway.server.world.forum(GROUP, 7, 9)
        first = await gateway.asked(GROUP, "@helper_bot one", topic=7)
        second = await gateway.asked(GROUP, "@helper_bot two", topic=9)
        gateway.start(first)
        gateway.delta(first, "to one")
        await gateway.server.until(lambda: gateway.server.texts(GROUP, 7))
        gateway.start(second)
        gateway.delta(second, "to two")
        await gateway.server.until(lambda: len(gateway.server.made("sendChatAction")) == 2)
        await asyncio.sleep(0.3)  # after which it would be shown
        assert gateway.server.texts(GROUP, 9) == [], "the group's share of previews is spent"
        for message in (first, second):
            gateway.end(message, f"answer {message.thread}")
        await gateway.port.settle()

        assert gateway.server.texts(GROUP) == ["answer topic:7", "answer topic:9"]


async def test_a_group_message_is_marked_while_it_is_worked_on(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        message = await addressed(gateway)
        mark = gateway.server.chat(GROUP).messages[message.meta["reply_to"]]
        gateway.start(message)
        await gateway.server.until(lambda: mark.reaction == "👀")
        gateway.end(message, "done")
        await gateway.server.until(lambda: mark.reaction == "")
        await gateway.port.settle()


async def test_a_failed_turn_leaves_its_mark(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        message = await addressed(gateway)
        mark = gateway.server.chat(GROUP).messages[message.meta["reply_to"]]
        turn = gateway.start(message)
        gateway.channel.show(
            TurnEnded(message.key, turn, message.address, "failed", (turn,), (), "", 5, Usage())
        )
        await gateway.server.until(lambda: mark.reaction == "👎")


async def test_a_very_long_answer_streams_its_newest_part_and_arrives_whole(tmp_path: Path) -> None:
    async with house(tmp_path, **FAST) as gateway:
        message = await addressed(gateway)
        words = [f"word{n}" for n in range(2_000)]
        gateway.start(message)
        gateway.delta(message, " ".join(words))
        await gateway.server.until(lambda: gateway.server.texts(GROUP))
        [preview] = gateway.server.posts(GROUP)
        assert preview.text.endswith("word1999")
        gateway.end(message, " ".join(words))
        await gateway.port.settle()

        posts = gateway.server.posts(GROUP)
        assert posts[0].id == preview.id
        assert " ".join(one.text for one in posts).split() == words
