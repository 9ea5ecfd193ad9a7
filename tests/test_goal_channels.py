"""Goals over the WebSocket and Telegram channels, with the whole gateway and a real store behind them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from websockets.asyncio.client import connect

from nanobot import SessionManager, pricing
from nanobot.app import App, running
from nanobot.config import load
from tests.channels.websocket_client import Client
from tests.emulators.model_server import Call, Reply
from tests.emulators.openai import OpenAIServer
from tests.emulators.telegram import TelegramServer
from tests.goal_worker import Scripted, Worker

ANN, GROUP = 11, -100_500


@asynccontextmanager
async def gateway(workspace: Path, worker: OpenAIServer, *lines: str) -> AsyncIterator[App]:
    workspace.mkdir(exist_ok=True)
    more = "\n".join(lines)
    (workspace / "config.toml").write_text(
        f'[agent]\nmodel = "test/worker"\n[models.test]\nkind = "openai"\napi_key = "none"\n'
        f'base_url = "{worker.url}"\n[http]\nport = 0\n[security]\nallow_unsandboxed = true\n{more}\n'
    )
    async with running(load(workspace)) as app:
        yield app


@asynccontextmanager
async def page(app: App) -> AsyncIterator[Client]:
    async with connect(app.url.replace("http", "ws", 1) + "/ws", max_size=None, close_timeout=0.5) as socket:
        yield Client(socket)


async def said(client: Client, text: str) -> str:
    """The text of the next reply to what is said."""
    await client.send(type="message", chat_id="c", content=text, id=text[:20])
    return await reply(client)


async def reply(client: Client) -> str:
    while True:
        frame = await client.read()
        if frame["event"] in ("message", "stream_end") and frame.get("message_id"):
            return str(frame["text"])


async def goal(client: Client, status: str) -> dict[str, Any]:
    while True:
        frame = await client.expect("goal_state")
        if frame["goal_state"]["status"] == status:
            return dict(frame["goal_state"])


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


def telegram_table(server: TelegramServer, allow: str = '["11"]') -> str:
    return (
        f'[channels.telegram]\nenabled = true\ntoken = "{server.token}"\napi_url = "{server.url}"\n'
        f"allow_from = {allow}\npoll_timeout = 5"
    )


async def test_the_page_sees_a_goal_from_its_begin_to_its_end(tmp_path: Path) -> None:
    async with Worker(5) as worker, gateway(tmp_path, worker) as app, page(app) as client:
        assert "Write lines" in await said(client, "/goal Write lines")
        done = await goal(client, "completed")
        assert "Goal completed" in await reply(client)
        assert done["spent"]["turns"] >= 4
        ended = await client.expect("turn_end")
        assert (ended["goal_state"]["status"], ended["goal_state"]["spent"]["turns"]) == ("completed", 5)
        assert [one["number"] for one in spent(client)] == [0, 1, 2, 3, 4, 5]
        await client.send(type="attach", chat_id="c")
        attached = await client.expect("attached")
        async with aiohttp.request("GET", f"{app.url}/api/sessions/websocket:c/about") as answer:
            about = await answer.json()
        assert attached["goal_state"] == about["goal_state"] == ended["goal_state"]
        assert (tmp_path / "lines.txt").read_text().split("\n")[:-1] == [f"line {n}" for n in range(1, 5)]


def spent(client: Client) -> list[dict[str, int]]:
    """The turns that the goal frames counted, each number once."""
    seen = [
        frame["goal_state"]["spent"]["turns"] for frame in client.frames if frame["event"] == "goal_state"
    ]
    return [{"number": number} for number in dict.fromkeys(seen)]


async def test_the_last_message_tells_what_turns_helpers_and_verifier_cost(tmp_path: Path) -> None:
    turns = [
        Reply(calls=(Call("d", "delegate", '{"task": "say hello"}'),)),
        Reply("hello"),  # the helper's
        Reply("It said hello."),
        Reply(calls=(Call("c", "complete_goal", '{"recap": "Hello was said."}'),)),
        Reply("Finished."),
    ]
    prices = "[models.test.prices.worker]\ninput = 1.0\noutput = 5.0"
    async with Scripted(*turns) as model, gateway(tmp_path, model, prices) as app, page(app) as client:
        await said(client, "/goal Say hello")
        told = await reply(client)
    manager = SessionManager(tmp_path)
    spent = manager.get_or_create("websocket:c").metadata["goal_state"]["spent"]
    lines = [line for row in manager.list_sessions() for line in manager.get_or_create(row["key"]).messages]
    cost = pricing.spent(
        lines, {"test": msgspec.convert({"prices": {"worker": {"input": 1.0, "output": 5.0}}}, Priced)}
    )
    assert len(manager.list_sessions()) == 3
    assert cost.dollars is not None
    assert spent["dollars"] == pytest.approx(cost.dollars, abs=1e-5)
    assert spent["tokens"] == cost.usage.input + cost.usage.output
    assert spent["unpriced"] == 0
    assert f"${spent['dollars']:.2f}, " in told


class Priced(msgspec.Struct):
    """A table of models with prices."""

    prices: dict[str, pricing.Price]


async def test_the_pages_stop_button_pauses_and_resume_goes_on(tmp_path: Path) -> None:
    async with Worker(4, 0.2) as worker, gateway(tmp_path, worker) as app, page(app) as client:
        await said(client, "/goal Write lines")
        await client.expect("tool_event")
        await client.send(type="stop", chat_id="c")
        assert (await goal(client, "paused"))["reason"] == "stopped"
        worker.pause = 0
        assert "Going on" in await said(client, "/goal resume")
        await goal(client, "completed")
        assert "Goal completed" in await reply(client)


async def test_a_restart_takes_a_goal_up_by_itself(tmp_path: Path) -> None:
    async with Worker(4, 0.3) as worker:
        async with gateway(tmp_path, worker) as app, page(app) as client:
            await said(client, "/goal Write lines")
            await client.expect("tool_event")
        worker.pause = 0
        async with gateway(tmp_path, worker) as app, page(app) as client:
            await client.send(type="attach", chat_id="c")
            assert "Goal completed" in await reply(client)
        assert (tmp_path / "lines.txt").read_text().count("\n") == 3


async def test_telegram_shows_one_message_that_is_edited_and_then_the_result(
    tmp_path: Path, telegram: TelegramServer
) -> None:
    async with Worker(5, 0.05) as worker, gateway(tmp_path, worker, telegram_table(telegram)):
        telegram.say(ANN, "/goal Write lines\none after another")
        await telegram.until(lambda: any("Goal completed" in text for text in telegram.texts(ANN)), 20)
        await telegram.until(lambda: "Completed" in telegram.texts(ANN)[0])
        first, last = telegram.texts(ANN)
        assert "Write lines one after another" in first
        assert "5 of 50 turns" in first
        assert "It took 5 of 50 turns" in last
        assert "All lines are there." in last
        assert len(telegram.made("sendMessage", ANN)) == 2


async def test_telegrams_menu_buttons_and_strangers(tmp_path: Path, telegram: TelegramServer) -> None:
    async with Worker(50, 0.05) as worker, gateway(tmp_path, worker, telegram_table(telegram, '["*"]')):
        telegram.say(GROUP, "@helper_bot /goal Take over")
        telegram.say(ANN, "/goal Write lines")
        await telegram.until(lambda: telegram.texts(ANN))
        assert "goal" in {one["command"] for one in telegram.world.commands}
        post = telegram.posts(ANN)[0]
        telegram.press(ANN, post.id, "/goal pause")
        await telegram.until(lambda: any(text.startswith("Paused") for text in telegram.texts(ANN)))
        await telegram.until(lambda: "Paused" in telegram.texts(ANN)[0])
        await telegram.until(lambda: telegram.texts(GROUP))
        assert telegram.texts(GROUP) == ["Only people whom the owner has let in may use /goal here."]
