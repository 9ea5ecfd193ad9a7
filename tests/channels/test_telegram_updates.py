"""How updates are asked for: second pollers, outages, a revoked token, the webhook."""

import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from channels.telegram import polling
from nanobot.errors import ChannelDown, ConfigError, StoreFull
from nanobot.http import HttpServer, build
from tests.channels.telegram_house import ANN, BOB, House, house
from tests.emulators.telegram import TelegramServer, drop_after, drop_before, flood, hang, status

ROOT = Path(__file__).parents[2]
SECRET = "a-secret_of-the-test"


async def test_the_offset_moves_only_past_what_was_kept(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.port.fails = StoreFull("disk full")
        gateway.server.say(ANN, "hello")
        update = gateway.server.world.updates[-1]["update_id"]
        await gateway.server.until(lambda: gateway.port.fails is None)
        assert gateway.server.updates.confirmed <= update
        message = await gateway.arrival()
        await gateway.server.until(lambda: gateway.server.updates.confirmed > update)

        assert message.text == "hello"


async def test_a_poll_whose_answer_was_lost_loses_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.server.fail("getUpdates", drop_after(), drop_before(), status(502))
        for number in range(5):
            gateway.server.say(ANN, f"m{number}")
        got = [(await gateway.arrival()).text for _ in range(5)]

        assert got == [f"m{number}" for number in range(5)]
        assert len(gateway.port.accepted) == 5


async def test_a_second_poller_is_one_clear_problem_and_goes_away_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "CONFLICT_SECONDS", (0.3,))
    async with house(tmp_path) as gateway:
        await gateway.server.until(lambda: gateway.server.updates.pollers == 1)
        async with aiohttp.ClientSession() as rival:
            url = f"{gateway.server.url}/bot{gateway.server.token}/getUpdates?timeout=1"
            async with rival.get(url):
                pass
        await gateway.server.until(lambda: gateway.server.updates.pollers == 1)
        assert gateway.server.updates.conflicts
        assert "another program" in gateway.port.problem
        await gateway.asked(ANN, "hello")
        await gateway.server.until(lambda: not gateway.server.world.updates)

        assert gateway.port.problem == ""


async def test_polling_that_hangs_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "REBUILD_SECONDS", 0.5)
    monkeypatch.setattr(polling, "SILENT_SECONDS", 0.2)
    async with house(tmp_path) as gateway:
        await gateway.asked(ANN, "before")
        old = gateway.channel._api._polls
        gateway.server.down = True
        await gateway.server.stop_polls()
        await gateway.server.until(lambda: gateway.channel._api._polls is not old)
        assert "no connection to Telegram" in gateway.port.problem
        gateway.server.down = False
        await gateway.asked(ANN, "after")
        await gateway.server.until(lambda: not gateway.server.world.updates)

        assert gateway.port.problem == ""


async def test_a_flooded_poll_waits_and_goes_on(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        gateway.server.fail("getUpdates", flood(1))
        gateway.server.say(ANN, "hello")

        assert (await gateway.arrival()).text == "hello"


async def test_a_revoked_token_stops_the_channel_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "REVOKED_SECONDS", 0.1)
    async with house(tmp_path) as gateway:
        gateway.server.revoked = True
        gateway.server.say(ANN, "hello")
        await gateway.server.until(lambda: gateway.port.problem)
        assert "@BotFather" in gateway.port.problem
        assert gateway.server.token not in gateway.port.problem


@pytest.mark.parametrize(("state", "words"), [("revoked", "@BotFather"), ("down", "cannot be reached")])
async def test_it_says_why_it_cannot_start(tmp_path: Path, state: str, words: str) -> None:
    async with house(tmp_path, start=False) as gateway:
        setattr(gateway.server, state, True)
        with pytest.raises(ChannelDown, match=words) as why:
            await gateway.channel.start()
        assert gateway.server.token not in str(why.value)
        setattr(gateway.server, state, False)
        await gateway.channel.start()

        assert (await gateway.asked()).text == "hello"


async def test_a_start_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from channels.telegram import api

    monkeypatch.setattr(api, "CALL_SECONDS", 0.3)
    async with house(tmp_path, start=False) as gateway:
        gateway.server.fail("getMe", hang(1.0))
        with pytest.raises(ChannelDown):
            await gateway.channel.start()


def test_settings_that_cannot_work_are_named(tmp_path: Path) -> None:
    from channels.telegram.settings import read_settings

    with pytest.raises(ConfigError, match="webhook_secret"):
        read_settings({"token": "1:x", "webhook_url": "https://bot.example.org"})
    with pytest.raises(ConfigError, match="token"):
        read_settings({})
    ok = read_settings({"token": "1:x", "webhook_url": "https://bot.example.org", "webhook_secret": "s"})
    assert ok.webhook == "https://bot.example.org/telegram/webhook"


# --- webhook ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def hooked(workspace: Path) -> AsyncIterator[tuple[House, str]]:
    """The channel behind a real HTTP server, which the platform calls."""
    server = TelegramServer()
    await server.start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        # The channel registers its own address, so the port must be known before.
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    settings: dict[str, Any] = {"webhook_url": address, "webhook_secret": SECRET}
    async with house(workspace, server, start=False, **settings) as gateway:
        app = build(gateway.channel.routes(), health=health, ready=lambda: True, metrics=lambda: b"")
        web = HttpServer(app, port=port)
        await web.start()
        await gateway.channel.start()
        yield gateway, f"{address}/telegram/webhook"
        await web.stop()


async def health() -> dict[str, Any]:
    return {}


async def test_webhook_updates_are_accepted_in_order_and_acknowledged(tmp_path: Path) -> None:
    async with hooked(tmp_path) as (gateway, _):
        for number in range(5):
            gateway.server.say(ANN, f"m{number}")
        got = [(await gateway.arrival()).text for _ in range(5)]
        await gateway.server.until(lambda: not gateway.server.world.updates)

        assert got == [f"m{number}" for number in range(5)]
        assert gateway.server.made("getUpdates") == []


async def test_a_webhook_update_that_cannot_be_kept_comes_again(tmp_path: Path) -> None:
    async with hooked(tmp_path) as (gateway, _):
        gateway.port.fails = StoreFull("disk full")
        message = await gateway.asked(BOB, "hello")

        assert message.text == "hello"
        assert len(gateway.port.accepted) == 1


@pytest.mark.parametrize("secret", ["", "wrong", "ä"])
async def test_a_request_without_the_secret_is_refused(tmp_path: Path, secret: str) -> None:
    async with hooked(tmp_path) as (gateway, url):
        headers = {"X-Telegram-Bot-Api-Secret-Token": secret} if secret else {}
        async with aiohttp.ClientSession() as session, session.post(url, json={}, headers=headers) as answer:
            assert answer.status == 403
        assert gateway.port.accepted == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b'{"update_id": "x"}', b"\xff\xfe"])
async def test_nonsense_with_the_secret_is_taken_and_left_out(tmp_path: Path, body: bytes) -> None:
    async with hooked(tmp_path) as (gateway, url):
        headers = {"X-Telegram-Bot-Api-Secret-Token": SECRET}
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=body, headers=headers) as answer,
        ):
            assert answer.status == 200
        assert gateway.port.accepted == []


async def test_a_stopped_webhook_asks_telegram_to_come_again(tmp_path: Path) -> None:
    async with hooked(tmp_path) as (gateway, url):
        await gateway.channel.stop()
        headers = {"X-Telegram-Bot-Api-Secret-Token": SECRET}
        async with aiohttp.ClientSession() as session, session.post(url, json={}, headers=headers) as answer:
            assert answer.status == 503


def test_what_the_library_can_do_without_is_not_loaded_and_is_there_for_others() -> None:
    code = (
        "import sys, channels.telegram; heavy = {'rich', 'click', 'pygments', 'cryptography'};"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules})); import httpx._main"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)

    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
