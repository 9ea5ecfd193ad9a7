"""Telegram out of order for longer, with the whole gateway behind it: outages, a dead connection, a revoked token."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from loguru import logger

from channels.telegram import polling
from nanobot.app import App, running
from nanobot.config import load
from tests.channels.telegram_house import house
from tests.channels.test_telegram_text import long_answer
from tests.emulators.openai import OpenAIServer
from tests.emulators.telegram import TelegramServer, hang

ANN, BOB, GROUP = 11, 12, -100_500
Life = Callable[..., AbstractAsyncContextManager[App]]


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def life(tmp_path: Path, telegram: TelegramServer) -> AsyncIterator[Life]:
    async with OpenAIServer() as model:

        @asynccontextmanager
        async def begin(port: int = 0, *lines: str) -> AsyncIterator[App]:
            (tmp_path / "config.toml").write_text(
                f'[agent]\nmodel = "test/echo"\n[models.test]\nkind = "openai"\napi_key = "none"\n'
                f'base_url = "{model.url}"\n[http]\nport = {port}\n[security]\nallow_unsandboxed = true\n'
                f'[channels.telegram]\nenabled = true\ntoken = "{telegram.token}"\napi_url = "{telegram.url}"\n'
                'allow_from = ["*"]\n' + "\n".join(lines)
            )
            async with running(load(tmp_path)) as app:
                yield app

        yield begin


async def channels(app: App) -> dict[str, str]:
    """What /healthz says of them."""
    async with aiohttp.ClientSession() as session, session.get(f"{app.url}/healthz") as answer:
        found: dict[str, str] = (await answer.json())["channels"]
        return found


@pytest.mark.parametrize("how", ["refused", "cut"])
@pytest.mark.parametrize("seconds", [1.5, pytest.param(30.0, marks=pytest.mark.slow)])
async def test_an_outage_delays_answers_and_loses_and_doubles_none(
    life: Life, telegram: TelegramServer, how: str, seconds: float
) -> None:
    async with life():
        telegram.say(ANN, "DELAY 0.5\nbefore")
        await telegram.until(lambda: not telegram.world.updates)
        port = telegram.port
        if how == "refused":
            await telegram.stop()
        else:
            telegram.down = True
            await telegram.stop_polls()
        telegram.say(BOB, "during")
        await asyncio.sleep(seconds)  # the outage
        if how == "refused":
            await telegram.start(port)
        telegram.down = False
        telegram.say(BOB, "after")
        await telegram.until(lambda: telegram.texts(ANN) and len(telegram.texts(BOB)) == 2, 60)
        telegram.say(ANN, "end")
        await telegram.until(lambda: "echo: end" in telegram.texts(ANN), 30)

        assert telegram.texts(ANN) == ["echo: before", "echo: end"]
        assert telegram.texts(BOB) == ["echo: during", "echo: after"]


@pytest.mark.parametrize(
    "silence", [1.0, pytest.param(polling.REBUILD_SECONDS, marks=pytest.mark.slow)], ids=["short", "real"]
)
async def test_polls_that_are_never_answered_are_told_and_the_connection_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silence: float
) -> None:
    monkeypatch.setattr(polling, "REBUILD_SECONDS", silence)
    monkeypatch.setattr(polling, "SILENT_SECONDS", silence / 2)
    async with house(tmp_path, poll_timeout=1) as gateway:
        await gateway.asked(ANN, "before")
        old = gateway.channel._api._polls
        lost = 1 if silence < 5 else 100
        # Half-open: it connects and says nothing.
        gateway.server.fail("getUpdates", hang(3_600.0, times=lost))
        began = asyncio.get_running_loop().time()
        await gateway.server.until(lambda: gateway.channel._api._polls is not old, silence + 30.0)
        assert asyncio.get_running_loop().time() - began >= silence
        assert "no connection to Telegram" in gateway.port.problem
        gateway.server._faults.clear()
        gateway.server.say(ANN, "after")
        async with asyncio.timeout(30):
            arrived = await gateway.port.arrivals.get()
        await gateway.server.until(lambda: not gateway.server.world.updates)

        assert (arrived.text, gateway.port.problem) == ("after", "")


async def test_a_token_revoked_while_it_runs_stops_this_channel_alone_with_a_remedy(
    life: Life, telegram: TelegramServer
) -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, level="WARNING", format="{message}")
    try:
        async with life() as app:
            telegram.say(ANN, "hello")
            await telegram.until(lambda: telegram.texts(ANN))
            telegram.revoked = True
            await telegram.stop_polls()
            async with asyncio.timeout(10):
                while (await channels(app))["telegram"] == "ok":
                    await telegram.until(lambda: True)
            found = await channels(app)
    finally:
        logger.remove(sink)

    assert "@BotFather" in found["telegram"]
    assert found["websocket"] == "ok"
    assert len([line for line in lines if "@BotFather" in line]) == 1, "said once, not with every try"
    assert telegram.token not in "".join(lines) + str(found)


async def test_by_webhook_too_what_came_while_it_was_down_is_answered_once_and_in_order(
    life: Life, telegram: TelegramServer
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]  # Telegram must be told the address before there is one
    lines = (f'webhook_url = "http://127.0.0.1:{port}"', 'webhook_secret = "a-secret"')
    async with life(port, *lines):
        telegram.say(ANN, "one")
        await telegram.until(lambda: telegram.texts(ANN))
    for number in range(5):
        telegram.say(ANN, f"m{number}")
    async with life(port, *lines):
        await telegram.until(lambda: len(telegram.texts(ANN)) == 6, 30)
        telegram.say(ANN, "end")
        await telegram.until(lambda: "echo: end" in telegram.texts(ANN))

    assert telegram.texts(ANN) == ["echo: one", *(f"echo: m{number}" for number in range(5)), "echo: end"]
    assert telegram.made("getUpdates") == []


@pytest.mark.parametrize("chat", [ANN, GROUP], ids=["private", "group"])
@pytest.mark.parametrize("size", [5_000, 13_000, 45_000])
async def test_a_long_answer_arrives_whole_and_in_order_without_a_refusal(
    tmp_path: Path, size: int, chat: int
) -> None:
    document = long_answer(size)
    async with house(tmp_path, patience=0.1, draft_interval=0.05, edit_interval=0.05) as gateway:
        message = await gateway.asked(chat, "@helper_bot tell me")
        gateway.start(message)
        for start in range(0, size, 2_000):
            gateway.delta(message, document[start : start + 2_000])
        shown = gateway.server.chat(chat)
        await gateway.server.until(lambda: shown.drafts or gateway.server.texts(chat))
        gateway.end(message, document)
        await gateway.port.settle()
        joined = "\n".join(gateway.server.texts(chat))
        refused = [(one.method, one.params) for one in gateway.server.calls if not one.ok and one.chat]

    marks = [int(word[4:]) for word in joined.replace("\n", " ").split() if word.startswith("mark")]
    assert marks == list(range(document.count("mark")))
    assert refused == []
