"""The emulated Bot API refuses what Telegram refuses; asked by the real library."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
)

from channels.telegram.api import seconds_of
from tests.emulators.telegram import TelegramServer, drop_after, updates

ANN, GROUP = 11, -100_500


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        server.chat(ANN)
        server.chat(GROUP)
        yield server


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncIterator[Bot]:
    async with Bot(server.token, f"{server.url}/bot", f"{server.url}/file/bot") as bot:
        yield bot


async def test_unconfirmed_updates_come_again_and_an_offset_confirms(
    server: TelegramServer, bot: Bot
) -> None:
    for number in range(3):
        server.say(ANN, f"m{number}")
    first = await bot.get_updates(timeout=0)
    again = await bot.get_updates(offset=first[0].update_id + 1, timeout=0)

    assert [one.update_id for one in again] == [one.update_id for one in first[1:]]
    assert [one.update_id for one in await bot.get_updates(offset=-1, timeout=0)] == [first[2].update_id]


async def test_the_older_of_two_pollers_is_told_to_go(server: TelegramServer, bot: Bot) -> None:
    older = asyncio.create_task(bot.get_updates(timeout=5))
    await server.until(lambda: server.updates.pollers == 1)
    async with Bot(server.token, f"{server.url}/bot") as other:
        newer = asyncio.create_task(other.get_updates(timeout=5))
        with pytest.raises(Conflict):
            await older
        server.say(ANN, "hi")

        assert len(await newer) == 1


async def test_a_webhook_and_polling_exclude_each_other(server: TelegramServer, bot: Bot) -> None:
    await bot.set_webhook("http://127.0.0.1:9/hook", secret_token="s")
    with pytest.raises(Conflict):
        await bot.get_updates(timeout=0)
    with pytest.raises(RetryAfter):
        await bot.set_webhook("https://example.org/hook")


@pytest.mark.parametrize(
    ("url", "reason"), [("http://example.org/hook", "https"), ("https://example.org:8080/", "ports 80, 88")]
)
async def test_a_webhook_has_its_scheme_and_its_ports(bot: Bot, url: str, reason: str) -> None:
    with pytest.raises(BadRequest, match=rf"(?i){reason}"):
        await bot.set_webhook(url)


async def test_a_poll_that_is_repeated_waits_where_there_is_nothing(
    server: TelegramServer, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "REPEAT_SECONDS", 0.3)
    clock = asyncio.get_running_loop().time
    began = clock()
    await bot.get_updates(offset=1, timeout=0)
    first = clock() - began
    await bot.get_updates(offset=1, timeout=0)
    second = clock() - began - first
    server.say(ANN, "x")
    await bot.get_updates(offset=1, timeout=0)
    third = clock() - began - first - second

    assert (first < 0.3, second >= 0.3, third < 0.3) == (True, True, True)


async def test_by_webhook_a_chat_waits_for_its_answer_and_no_other_does(
    server: TelegramServer, bot: Bot
) -> None:
    got: list[str] = []
    release = asyncio.Event()

    async def take(request: web.Request) -> web.Response:
        got.append((await request.json())["message"]["text"])
        if got[-1] == "slow":
            await release.wait()
        return web.Response()

    app = web.Application()
    app.router.add_post("/hook", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await bot.set_webhook(f"http://127.0.0.1:{runner.addresses[0][1]}/hook")
    for chat, text in ((ANN, "slow"), (ANN, "behind"), (GROUP, "beside")):
        server.say(chat, text)
    await server.until(lambda: len(server.world.updates) == 2)
    before = list(got)
    release.set()
    await server.until(lambda: not server.world.updates)
    await runner.cleanup()

    assert (sorted(before), got[-1]) == (["beside", "slow"], "behind")


async def test_a_press_is_answered_once_and_others_messages_stay(server: TelegramServer, bot: Bot) -> None:
    posted = await bot.send_message(GROUP, "x")
    query = server.press(GROUP, posted.message_id, "yes")
    await bot.answer_callback_query(query)
    with pytest.raises(BadRequest, match=r"(?i)too old"):
        await bot.answer_callback_query(query)
    with pytest.raises(BadRequest, match=r"(?i)can't be deleted"):
        await bot.delete_message(GROUP, server.say(GROUP, "mine")["message_id"])


async def test_its_limits_count_edits_and_grow_for_who_does_not_wait() -> None:
    async with TelegramServer(limited=True) as server:
        server.chat(ANN)
        server.chat(GROUP)
        async with Bot(server.token, f"{server.url}/bot") as bot:
            posted = await bot.send_message(GROUP, "x")
            for number in range(4):
                await bot.edit_message_text(str(number), GROUP, posted.message_id)
            waits = []
            for _ in range(2):
                with pytest.raises(RetryAfter) as raised:
                    await bot.edit_message_text("y", GROUP, posted.message_id)
                waits.append(seconds_of(raised.value))
            await bot.send_message(ANN, "no other chat is concerned")

    assert waits[0] == 1
    assert waits[1] > 5


async def test_privacy_mode_hides_what_is_not_for_the_bot(server: TelegramServer, bot: Bot) -> None:
    server.world.reads_all = False
    for text in ("chatter", "/start", "hey @helper_bot"):
        server.say(GROUP, text)
    seen = [one.message.text for one in await bot.get_updates(timeout=0) if one.message]

    assert seen == ["/start", "hey @helper_bot"]


@pytest.mark.parametrize(
    "html",
    ["<b>open", "</b>", "<p>x</p>", "<br>", "<b><i>x</b></i>", "a < b", '<span class="x">y</span>'],
)
async def test_html_that_is_not_telegrams_is_refused(bot: Bot, html: str) -> None:
    with pytest.raises(BadRequest, match=r"(?i)can't parse entities"):
        await bot.send_message(ANN, html, parse_mode="HTML")


async def test_html_becomes_entities(server: TelegramServer, bot: Bot) -> None:
    html = (
        '👋 <b>bold</b> &lt;x&gt; <a href="https://e.org">l</a> <pre><code class="language-py">x</code></pre>'
    )
    await bot.send_message(ANN, html, parse_mode="HTML")
    [posted] = server.posts(ANN)

    assert posted.text == "👋 bold <x> l x"
    assert posted.entities[0] == {"type": "bold", "offset": 3, "length": 4}


@pytest.mark.parametrize(
    ("text", "offset", "length"), [("abc", 2, 5), ("abc", -1, 1), ("abc", 0, 0), ("👋a", 1, 1), ("a👋", 0, 2)]
)
async def test_entities_out_of_range_or_within_a_character_are_refused(
    bot: Bot, text: str, offset: int, length: int
) -> None:
    with pytest.raises(BadRequest):
        await bot.send_message(ANN, text, entities=[MessageEntity("bold", offset, length)])


@pytest.mark.parametrize(
    ("chat", "text", "options", "reason"),
    [
        (ANN, "x" * 4_097, {}, "too long"),
        (ANN, " \n ", {}, "text is empty"),
        (999, "x", {}, "chat not found"),
        (ANN, "x", {"message_thread_id": 5}, "thread not found"),
        (ANN, "x", {"reply_to_message_id": 5}, "replied not found"),
        (ANN, "x", {"reply_markup": InlineKeyboardMarkup([[InlineKeyboardButton("a", callback_data="é" * 33)]])}, "button_data_invalid"),
    ],
)  # fmt: skip
async def test_messages_beyond_the_rules_are_refused(
    bot: Bot, chat: int, text: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadRequest, match=f"(?i){reason}"):
        await bot.send_message(chat, text, **options)


async def test_an_edit_that_changes_nothing_is_refused_and_one_without_a_keyboard_removes_it(
    server: TelegramServer, bot: Bot
) -> None:
    keyboard = InlineKeyboardMarkup([[InlineKeyboardButton("a", callback_data="a")]])
    message = await bot.send_message(ANN, "one", reply_markup=keyboard)
    with pytest.raises(BadRequest, match="not modified"):
        await bot.edit_message_text("one", ANN, message.message_id, reply_markup=keyboard)
    await bot.edit_message_text("two", ANN, message.message_id)

    assert server.posts(ANN)[0].keyboard is None


async def test_general_is_no_thread_and_topics_are(server: TelegramServer, bot: Bot) -> None:
    server.world.forum(GROUP, 7)
    await bot.send_message(GROUP, "in the topic", message_thread_id=7)
    with pytest.raises(BadRequest, match=r"(?i)thread not found"):
        await bot.send_message(GROUP, "General", message_thread_id=1)


async def test_drafts_are_for_private_chats_and_end_with_the_message(
    server: TelegramServer, bot: Bot
) -> None:
    with pytest.raises(BadRequest, match=r"(?i)textdraft_peer_invalid"):
        await bot.send_message_draft(GROUP, 1, "x")
    await bot.send_message_draft(ANN, 1, "wri")
    assert server.methods.draft(server.chat(ANN)) == "wri"
    await bot.send_message(ANN, "written")

    assert server.methods.draft(server.chat(ANN)) == ""


async def test_blocked_moved_and_revoked_are_told_apart(server: TelegramServer, bot: Bot) -> None:
    server.chat(ANN).blocked = "bot was blocked by the user"
    with pytest.raises(Forbidden):
        await bot.send_message(ANN, "x")
    server.chat(GROUP).migrated_to = -200
    with pytest.raises(ChatMigrated) as moved:
        await bot.send_message(GROUP, "x")
    assert moved.value.new_chat_id == -200
    server.revoked = True
    with pytest.raises(InvalidToken):
        await bot.send_message(ANN, "x")


async def test_a_lost_reply_leaves_the_message_there(server: TelegramServer, bot: Bot) -> None:
    server.fail("sendMessage", drop_after())
    with pytest.raises(NetworkError):
        await bot.send_message(ANN, "there")

    assert server.texts(ANN) == ["there"]


async def test_files_have_their_limits(server: TelegramServer, bot: Bot) -> None:
    big = server.world.file("big", b"x" * ((20 << 20) + 1))
    with pytest.raises(BadRequest, match=r"(?i)too big"):
        await bot.get_file(big)
    with pytest.raises(BadRequest, match=r"(?i)image_process_failed"):
        await bot.send_photo(ANN, b"no picture")
    small = await bot.get_file(server.world.file("a.txt", b"text"))

    assert bytes(await small.download_as_bytearray()) == b"text"
