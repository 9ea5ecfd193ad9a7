"""What doctor says about a Telegram bot."""

from collections.abc import AsyncIterator

import pytest

from channels.telegram import check
from tests.emulators.telegram import TelegramServer


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


async def test_a_good_bot_is_named(telegram: TelegramServer) -> None:
    found = await check({"token": telegram.token, "api_url": telegram.url})

    assert found == [("ok", "the token is @helper_bot's", "")]


@pytest.mark.parametrize(("policy", "status"), [("mention", "ok"), ("open", "warn")])
async def test_privacy_mode_is_told_with_its_remedy(
    telegram: TelegramServer, policy: str, status: str
) -> None:
    telegram.world.reads_all = False
    settings = {"token": telegram.token, "api_url": telegram.url, "group_policy": policy}
    [_, privacy] = await check(settings)

    assert privacy[0] == status
    assert "/setprivacy" in privacy[2]


async def test_a_wrong_token_fails_without_being_shown(telegram: TelegramServer) -> None:
    [(status, text, remedy)] = await check({"token": "1:wrong", "api_url": telegram.url})

    assert status == "fail"
    assert "1:wrong" not in text + remedy
    assert "@BotFather" in remedy


async def test_a_webhook_of_somebody_else_is_told(telegram: TelegramServer) -> None:
    telegram.webhook = {"url": "https://other.example.org"}
    found = await check({"token": telegram.token, "api_url": telegram.url})

    assert ("warn", "a webhook is set: https://other.example.org") in [one[:2] for one in found]


async def test_no_answer_is_a_failure(telegram: TelegramServer) -> None:
    telegram.down = True
    [(status, text, _)] = await check({"token": telegram.token, "api_url": telegram.url})

    assert status == "fail"
    assert telegram.url in text
