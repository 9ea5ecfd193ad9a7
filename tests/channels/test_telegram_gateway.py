"""Telegram with the whole gateway behind it: exactly one answer, in order, through what the platform does."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from nanobot import doctor
from nanobot.app import App, running
from nanobot.config import load
from tests.emulators.openai import OpenAIServer
from tests.emulators.telegram import TelegramServer, drop_after, drop_before, flood

ANN, BOB, GROUP = 11, 12, -100_500
Life = Callable[..., AbstractAsyncContextManager[App]]


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def life(tmp_path: Path, telegram: TelegramServer) -> AsyncIterator[Life]:
    """A gateway's life on one workspace; call it again for the next."""
    async with OpenAIServer() as model:

        @asynccontextmanager
        async def begin(allow: str = '["*"]', **settings: str) -> AsyncIterator[App]:
            lines = [f"{key} = {value}" for key, value in settings.items()]
            (tmp_path / "config.toml").write_text(
                f'[agent]\nmodel = "test/echo"\n[models.test]\nkind = "openai"\napi_key = "none"\n'
                f'base_url = "{model.url}"\n[http]\nport = 0\n[security]\nallow_unsandboxed = true\n'
                f'[channels.telegram]\nenabled = true\ntoken = "{telegram.token}"\napi_url = "{telegram.url}"\n'
                f"allow_from = {allow}\npoll_timeout = 5\n" + "\n".join(lines)
            )
            async with running(load(tmp_path)) as app:
                yield app

        yield begin


def words(telegram: TelegramServer, chat: int) -> list[str]:
    """What was echoed in a chat, in order."""
    return [word for text in telegram.texts(chat) for word in text.removeprefix("echo: ").split()]


async def test_a_person_is_answered(life: Life, telegram: TelegramServer) -> None:
    async with life() as app:
        assert "telegram" in app.ready_line().split("channels=")[1]
        telegram.say(ANN, "hello")
        await telegram.until(lambda: telegram.texts(ANN) == ["echo: hello"])


async def test_a_stranger_gets_a_pairing_code_once_and_a_group_of_strangers_silence(
    life: Life, telegram: TelegramServer
) -> None:
    async with life('["99"]'):
        telegram.say(ANN, "let me in")
        await telegram.until(lambda: telegram.texts(ANN))
        code = telegram.texts(ANN)[0].split("code is ")[1].split(",")[0]
        telegram.say(ANN, "hello?")
        telegram.say(GROUP, "@helper_bot hello?")
        telegram.say(99, f"/pairing approve {code}")
        await telegram.until(lambda: telegram.texts(99))
        await telegram.until(lambda: telegram.texts(ANN)[-1].startswith("You are let in."))
        telegram.say(ANN, "now")
        await telegram.until(lambda: telegram.texts(ANN)[-1] == "echo: now")

        assert len(telegram.texts(ANN)) == 3  # the code, the welcome, the answer
        assert telegram.texts(GROUP) == []


async def test_commands_work_as_in_any_chat(life: Life, telegram: TelegramServer) -> None:
    async with life():
        telegram.say(ANN, "/status")
        await telegram.until(lambda: len(telegram.texts(ANN)) == 1)
        telegram.say(ANN, "/staus")
        await telegram.until(lambda: len(telegram.texts(ANN)) == 2)
        telegram.say(BOB, "/start")
        await telegram.until(lambda: telegram.texts(BOB))
        telegram.say(GROUP, "/version@helper_bot")
        await telegram.until(lambda: telegram.texts(GROUP))
        telegram.say(GROUP, "/version@other_bot")
        telegram.say(GROUP, "/unknown_in_a_group")
        telegram.say(ANN, "end")
        await telegram.until(lambda: telegram.texts(ANN)[-1] == "echo: end")

        assert "/status" in telegram.texts(ANN)[1]
        assert telegram.texts(BOB)[0].startswith("/help")
        assert len(telegram.texts(GROUP)) == 1
        assert {"help", "new", "stop", "status"} <= {one["command"] for one in telegram.world.commands}


async def test_a_message_changed_while_it_is_answered_has_one_answer_to_what_it_says_now(
    life: Life, telegram: TelegramServer
) -> None:
    async with life():
        asked = telegram.say(ANN, "HANG\nwhat is 1+1")
        await telegram.until(lambda: telegram.chat(ANN).actions)
        telegram.edit(ANN, asked["message_id"], "what is 1+2")
        await telegram.until(lambda: telegram.texts(ANN))
        telegram.edit(ANN, asked["message_id"], "what is 1+3")
        telegram.say(ANN, "end")
        await telegram.until(lambda: "echo: end" in telegram.texts(ANN))

        first, end = telegram.texts(ANN)
        assert (first.endswith("what is 1+2"), end) == (True, "echo: end")


async def test_a_message_changed_while_it_waits_is_answered_as_it_says_now(
    life: Life, telegram: TelegramServer
) -> None:
    async with life():
        telegram.say(ANN, "DELAY 0.5\nfirst")
        await telegram.until(lambda: telegram.chat(ANN).actions)
        asked = telegram.say(ANN, "secnod")
        telegram.edit(ANN, asked["message_id"], "second")
        await telegram.until(lambda: len(telegram.texts(ANN)) == 2)

        assert telegram.texts(ANN) == ["echo: first", "echo: second"]


async def test_in_a_group_a_mention_that_is_put_in_afterwards_counts_once(
    life: Life, telegram: TelegramServer
) -> None:
    async with life():
        asked = telegram.say(GROUP, "hello?")
        telegram.edit(GROUP, asked["message_id"], "@helper_bot hello?")
        await telegram.until(lambda: telegram.texts(GROUP))
        telegram.edit(GROUP, asked["message_id"], "@helper_bot hello!")
        telegram.say(GROUP, "@helper_bot end")
        await telegram.until(lambda: len(telegram.texts(GROUP)) > 1)

        assert telegram.texts(GROUP) == ["echo: [Person 42] hello?", "echo: [Person 42] end"]


async def test_doctor_lists_a_chat_that_refuses_the_bot_until_its_person_writes_again(
    life: Life, telegram: TelegramServer, tmp_path: Path
) -> None:
    async def told() -> list[str]:
        [channel] = [one for one in load(tmp_path).enabled() if one.name == "telegram"]
        return [check.text for check in await doctor.remembered(channel, tmp_path)]

    async with life():
        telegram.chat(ANN).blocked = "bot was blocked by the user"
        telegram.say(ANN, "first")
        telegram.say(BOB, "hi")
        await telegram.until(lambda: telegram.made("sendMessage", ANN) and telegram.texts(BOB))
        async with asyncio.timeout(10):
            while not await told():
                await telegram.until(lambda: True)
        [line] = await told()
        assert line.startswith(f"chat {ANN} refuses the bot (")
        assert line.endswith("blocked by the user); 1 reply waits there")
    async with life():  # known in the next life too
        assert len(await told()) == 1
        telegram.chat(ANN).blocked = ""
        telegram.say(ANN, "second")
        await telegram.until(lambda: len(telegram.texts(ANN)) == 2)

        assert telegram.texts(ANN) == ["echo: first", "echo: second"]
        assert await told() == []


async def test_a_voice_message_is_answered_and_the_model_knows_that_it_did_not_hear_it(
    life: Life, telegram: TelegramServer
) -> None:
    async with life():
        file_id = telegram.world.file("voice.ogg", b"OggS and so on")
        voice = {"file_id": file_id, "file_unique_id": "v1", "mime_type": "audio/ogg", "duration": 3}
        telegram.say(ANN, voice=voice)
        await telegram.until(lambda: telegram.texts(ANN))
        [echoed] = telegram.texts(ANN)

        assert echoed.startswith("echo: [voice message]")
        assert "(audio/ogg); you cannot hear it" in echoed
        assert "ask for text" in echoed


async def test_a_document_can_be_opened_by_the_agent(life: Life, telegram: TelegramServer) -> None:
    async with life():
        file_id = telegram.world.file("notes.txt", b"buy milk")
        document = {
            "file_id": file_id,
            "file_unique_id": "u",
            "file_name": "notes.txt",
            "mime_type": "text/plain",
        }
        telegram.say(ANN, document=document, caption='TOOL find_files {"pattern": "received/*"}')
        await telegram.until(lambda: telegram.texts(ANN))
        [found] = telegram.texts(ANN)
        name = re.search(r"received/[0-9a-f]{8}-notes\.txt", found)
        assert name is not None, found
        telegram.say(ANN, f'TOOL read_file {{"path": "{name[0]}"}}\nread it')
        await telegram.until(lambda: len(telegram.texts(ANN)) == 2)

        assert "buy milk" in telegram.texts(ANN)[1]


async def test_stop_acts_at_once(life: Life, telegram: TelegramServer) -> None:
    async with life():
        telegram.say(ANN, "HANG\nnever")
        await telegram.until(lambda: telegram.chat(ANN).actions)
        telegram.say(ANN, "/stop")
        await telegram.until(lambda: telegram.texts(ANN), 2)


async def test_a_burst_of_two_hundred_messages_is_answered_in_order(
    life: Life, telegram: TelegramServer
) -> None:
    async with life():
        for number in range(200):
            telegram.say(ANN, f"m{number}")
        await telegram.until(lambda: len(words(telegram, ANN)) >= 200, 60)

        assert words(telegram, ANN) == [f"m{number}" for number in range(200)]


async def test_fifty_chats_are_answered_while_one_is_flooded(life: Life, telegram: TelegramServer) -> None:
    async with life():
        telegram.fail("sendMessage", flood(3, chat=ANN))
        telegram.say(ANN, "slow")
        await telegram.until(lambda: telegram.made("sendMessage", ANN))
        for chat in range(1_000, 1_050):
            telegram.say(chat, "hi")
        await telegram.until(lambda: all(telegram.texts(chat) for chat in range(1_000, 1_050)))
        assert telegram.texts(ANN) == [], "the flooded chat was served before its time"
        await telegram.until(lambda: telegram.texts(ANN) == ["echo: slow"])

        assert all(telegram.texts(chat) == ["echo: hi"] for chat in range(1_000, 1_050))


async def test_the_same_message_twice_has_one_answer(life: Life, telegram: TelegramServer) -> None:
    async with life():
        message = telegram.say(ANN, "once")
        telegram.updates.replay = list(telegram.world.updates)
        telegram.again(message)
        telegram.say(ANN, "end")
        await telegram.until(lambda: "end" in words(telegram, ANN))

        assert words(telegram, ANN) == ["once", "end"]


@pytest.mark.parametrize("faults", [1, 3])
async def test_lost_polls_lose_nothing(life: Life, telegram: TelegramServer, faults: int) -> None:
    async with life():
        telegram.fail("getUpdates", drop_after(times=faults), drop_before())
        for number in range(10):
            telegram.say(ANN, f"m{number}")
        await telegram.until(lambda: len(words(telegram, ANN)) >= 10, 20)

        assert words(telegram, ANN) == [f"m{number}" for number in range(10)]


@pytest.mark.parametrize(("policy", "count"), [("resend", 2), ("hold", 1)])
async def test_a_reply_lost_after_the_send_is_decided_by_unknown_send(
    life: Life, telegram: TelegramServer, policy: str, count: int
) -> None:
    async with life(unknown_send=f'"{policy}"'):
        telegram.fail("sendMessage", drop_after())
        telegram.say(ANN, "first")
        await telegram.until(lambda: telegram.texts(ANN) == ["echo: first"])
        telegram.say(ANN, "second")
        await telegram.until(lambda: "echo: second" in telegram.texts(ANN), 20)

        assert telegram.texts(ANN) == ["echo: first"] * count + ["echo: second"]


@pytest.mark.parametrize(
    ("method", "interval"),
    [("sendMessage", "30"), ("editMessageText", "0.1"), ("editMessageText", "30")],
    ids=["first post", "edits", "final"],
)
async def test_a_flood_wait_anywhere_leaves_one_whole_answer(
    life: Life, telegram: TelegramServer, method: str, interval: str
) -> None:
    async with life(patience="0.1", edit_interval=interval):
        telegram.fail(method, flood(1))
        telegram.say(GROUP, "@helper_bot hi\nSLOW 20\none two three four five six seven eight nine ten")
        await telegram.until(lambda: any(text.endswith("ten") for text in telegram.texts(GROUP)), 20)

        assert len(telegram.texts(GROUP)) == 1


async def test_a_groups_final_whose_reply_was_lost_is_edited_again(
    life: Life, telegram: TelegramServer
) -> None:
    async with life(patience="0.1", edit_interval="30"):
        telegram.fail("editMessageText", drop_after())
        telegram.say(GROUP, "@helper_bot hi\nSLOW 20\none two three four five six seven eight nine ten")
        await telegram.until(lambda: telegram.made("editMessageText"), 20)
        await telegram.until(lambda: len(telegram.made("editMessageText")) == 2, 20)

        assert len(telegram.texts(GROUP)) == 1
        assert telegram.texts(GROUP)[0].endswith("ten")


async def test_a_restart_answers_what_waited_and_repeats_nothing(
    life: Life, telegram: TelegramServer
) -> None:
    async with life():
        telegram.say(ANN, "one")
        await telegram.until(lambda: telegram.texts(ANN))
    for number in range(5):
        telegram.say(ANN, f"m{number}")
    async with life():
        await telegram.until(lambda: len(words(telegram, ANN)) >= 6, 20)
        telegram.say(ANN, "end")
        await telegram.until(lambda: "end" in words(telegram, ANN))

    assert words(telegram, ANN) == ["one", *(f"m{number}" for number in range(5)), "end"]


async def test_a_revoked_token_stops_this_channel_alone(life: Life, telegram: TelegramServer) -> None:
    telegram.revoked = True
    async with life() as app:
        health = await app.gateway.health()

        assert "failed=telegram" in app.ready_line()
        assert "@BotFather" in health["channels"]["telegram"]
        assert health["channels"]["websocket"] == "ok"


async def test_a_message_sent_while_tools_run_is_seen_to_be_heard(
    life: Life, telegram: TelegramServer, tmp_path: Path
) -> None:
    async with life():
        telegram.say(ANN, 'TOOL exec {"command": "touch on; while [ ! -e off ]; do sleep 0.05; done"}\nwork')
        async with asyncio.timeout(10):
            while not (tmp_path / "on").exists():
                await asyncio.sleep(0.02)
        said = telegram.say(ANN, "and this")
        heard = telegram.chat(ANN).messages[said["message_id"]]
        await telegram.until(lambda: not telegram.world.updates)
        (tmp_path / "off").touch()
        await telegram.until(lambda: heard.reaction == "👀")
        await telegram.until(lambda: telegram.texts(ANN))
