"""What doctor says about a Telegram bot."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from channels.telegram.checkup import examine
from nanobot import doctor
from nanobot.config import load
from tests.emulators.telegram import TelegramServer


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


async def test_a_good_bot_is_named(telegram: TelegramServer) -> None:
    found = await examine({"token": telegram.token, "api_url": telegram.url})

    assert [(one.status, one.text) for one in found] == [("ok", "the token is @helper_bot's")]


@pytest.mark.parametrize(("policy", "status"), [("mention", "ok"), ("open", "warn")])
async def test_privacy_mode_is_told_with_its_remedy(
    telegram: TelegramServer, policy: str, status: str
) -> None:
    telegram.world.reads_all = False
    settings = {"token": telegram.token, "api_url": telegram.url, "group_policy": policy}
    [_, privacy] = await examine(settings)

    assert privacy.status == status
    assert "/setprivacy" in privacy.remedy


async def test_names_where_numbers_belong_are_told(telegram: TelegramServer) -> None:
    settings = {"token": telegram.token, "api_url": telegram.url, "allow_from": ("@ann", "*", "42")}
    first, token = await examine(settings)

    assert (first.status, first.text) == ("warn", "allow_from lets nobody in by @ann")
    assert "pairing list" in first.remedy
    assert token.status == "ok"


async def test_a_wrong_token_fails_without_being_shown(telegram: TelegramServer) -> None:
    [found] = await examine({"token": "1:wrong", "api_url": telegram.url})

    assert found.status == "fail"
    assert "1:wrong" not in found.text + found.remedy
    assert "@BotFather" in found.remedy


async def test_a_webhook_of_somebody_else_is_told(telegram: TelegramServer) -> None:
    telegram.updates.webhook = {"url": "https://other.example.org"}
    found = await examine({"token": telegram.token, "api_url": telegram.url})

    assert ("warn", "a webhook is set: https://other.example.org") in [
        (one.status, one.text) for one in found
    ]


async def test_no_answer_is_a_failure(telegram: TelegramServer) -> None:
    telegram.down = True
    [found] = await examine({"token": telegram.token, "api_url": telegram.url})

    assert found.status == "fail"
    assert telegram.url in found.text


async def test_doctor_tells_what_telegram_says(telegram: TelegramServer, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        f'[channels.telegram]\nenabled = true\ntoken = "1:wrong"\napi_url = "{telegram.url}"\n'
    )
    [channel] = [one for one in load(tmp_path).enabled() if one.name == "telegram"]
    [found] = await doctor.platform(channel, tmp_path)

    assert (found.name, found.status) == ("channel telegram", "fail")
    assert "@BotFather" in found.remedy
    offline = [check async for check in doctor.examine(tmp_path, ask_model=False)]
    assert len([one for one in offline if one.name == "channel telegram"]) == 1
