"""Telegram with the whole gateway behind it: exactly one answer, in order, through what the platform does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

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
        telegram.say(ANN, "now")
        await telegram.until(lambda: telegram.texts(ANN)[-1] == "echo: now")

        assert len(telegram.texts(ANN)) == 2
        assert telegram.texts(GROUP) == []


async def test_commands_work_as_in_any_chat(life: Life, telegram: TelegramServer) -> None:
    async with life():
        telegram.say(ANN, "/status")
        await telegram.until(lambda: len(telegram.texts(ANN)) == 1)
        telegram.say(ANN, "/staus")
        await telegram.until(lambda: len(telegram.texts(ANN)) == 2)
        telegram.say(GROUP, "/version@helper_bot")
        await telegram.until(lambda: telegram.texts(GROUP))
        telegram.say(GROUP, "/version@other_bot")
        telegram.say(GROUP, "/unknown_in_a_group")
        telegram.say(ANN, "end")
        await telegram.until(lambda: telegram.texts(ANN)[-1] == "echo: end")

        assert "/status" in telegram.texts(ANN)[1]
        assert len(telegram.texts(GROUP)) == 1
        assert {"help", "new", "stop", "status"} <= {one["command"] for one in telegram.world.commands}


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
        telegram.replay = list(telegram.world.updates)
        telegram.again(message)
        telegram.say(ANN, "end")
        await telegram.until(lambda: "end" in words(telegram, ANN))

        assert words(telegram, ANN) == ["once", "end"]


async def test_an_outage_delays_answers_and_loses_and_doubles_none(
    life: Life, telegram: TelegramServer
) -> None:
    async with life():
        telegram.say(ANN, "DELAY 0.5\nbefore")
        await telegram.until(lambda: not telegram.world.updates)
        port = telegram.port
        await telegram.stop()
        await asyncio.sleep(1.5)  # the outage; a connection refused is known not to have sent anything
        telegram.say(BOB, "during")
        await telegram.start(port)
        await telegram.until(lambda: telegram.texts(ANN) and telegram.texts(BOB), 20)

        assert telegram.texts(ANN) == ["echo: before"]
        assert telegram.texts(BOB) == ["echo: during"]


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
    life: Life, telegram: TelegramServer
) -> None:
    async with life():
        telegram.say(ANN, 'TOOL exec {"command": "sleep 0.7"}\nwork')
        await telegram.until(lambda: telegram.chat(ANN).actions)
        await asyncio.sleep(0.2)  # the tool runs
        said = telegram.say(ANN, "and this")
        heard = telegram.chat(ANN).messages[said["message_id"]]
        await telegram.until(lambda: heard.reaction == "👀")
        await telegram.until(lambda: telegram.texts(ANN))
