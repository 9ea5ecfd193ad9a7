"""Strangers on Slack and Telegram: who is asked to let them in, and what both sides read."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nanobot.app import App, running
from nanobot.config import load
from tests.emulators.openai import OpenAIServer
from tests.emulators.slack import Message, SlackServer
from tests.emulators.telegram import Posted, TelegramServer

OWNER, EVE = 99, 11
WELCOME = "You are let in. What you wrote before was not kept, so please write it again."
Life = Callable[..., AbstractAsyncContextManager[App]]


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        for user in ("U1", "U2"):
            server.person(user)
        yield server


@pytest.fixture
async def life(tmp_path: Path, telegram: TelegramServer, slack: SlackServer) -> AsyncIterator[Life]:
    """A gateway with both channels; the values are their allow_from."""
    async with OpenAIServer() as model:

        @asynccontextmanager
        async def begin(**allow: str) -> AsyncIterator[App]:
            tables: dict[str, dict[str, Any]] = {
                "telegram": {"token": telegram.token, "api_url": telegram.url},
                "slack": {
                    "bot_token": slack.bot_token,
                    "app_token": slack.app_token,
                    "api_url": slack.api_url,
                },
            }
            text = (
                f'[agent]\nmodel = "test/echo"\n[models.test]\nkind = "openai"\napi_key = "none"\n'
                f'base_url = "{model.url}"\n[http]\nport = 0\n[security]\nallow_unsandboxed = true\n'
            )
            for name, allowed in allow.items():
                lines = [f'{key} = "{value}"' for key, value in tables[name].items()]
                text += "\n".join(
                    [f"[channels.{name}]", "enabled = true", f"allow_from = {allowed}", *lines, ""]
                )
            (tmp_path / "config.toml").write_text(text)
            async with running(load(tmp_path)) as app:
                yield app

        yield begin


async def asked(telegram: TelegramServer) -> Posted:
    """The owner's message about a stranger."""
    await telegram.until(lambda: any(one.keyboard for one in telegram.posts(OWNER)))
    return next(one for one in telegram.posts(OWNER) if one.keyboard)


def button(post: Posted, label: str) -> str:
    """What pressing a button sends."""
    [data] = [
        one["callback_data"]
        for row in post.keyboard["inline_keyboard"]
        for one in row
        if one["text"] == label
    ]
    return str(data)


async def test_the_owner_lets_somebody_in_by_a_button(life: Life, telegram: TelegramServer) -> None:
    async with life(telegram=f'["{OWNER}"]'):
        telegram.say(OWNER, "hello")
        await telegram.until(lambda: telegram.texts(OWNER))
        telegram.say(EVE, "let me in")
        post = await asked(telegram)
        await telegram.until(lambda: telegram.texts(EVE))
        telegram.press(OWNER, post.id, button(post, "Let in"))
        await telegram.until(lambda: telegram.texts(EVE)[-1] == WELCOME)
        await telegram.until(lambda: post.keyboard is None)
        telegram.say(EVE, "now")
        await telegram.until(lambda: telegram.texts(EVE)[-1] == "echo: now")

        assert "Person 11" in post.text
        assert "I have asked the owner" in telegram.texts(EVE)[0]
        assert telegram.texts(OWNER)[-1] == "Person 11 may talk to the bot on telegram now."
        assert len(telegram.texts(EVE)) == 3


async def test_somebody_turned_away_hears_nothing_more_and_the_owner_is_not_asked_again(
    life: Life, telegram: TelegramServer
) -> None:
    async with life(telegram=f'["{OWNER}"]'):
        telegram.say(OWNER, "hello")
        await telegram.until(lambda: telegram.texts(OWNER))
        telegram.say(EVE, "let me in")
        post = await asked(telegram)
        telegram.press(OWNER, post.id, button(post, "Turn away"))
        telegram.press(OWNER, post.id, button(post, "Let in"))  # pressed once more: the first counts
        await telegram.until(lambda: telegram.texts(OWNER)[-1] == "Denied.")
        telegram.say(EVE, "please")
        telegram.say(OWNER, "end")
        await telegram.until(lambda: telegram.texts(OWNER)[-1] == "echo: end")

        assert len(telegram.texts(EVE)) == 1
        assert len(telegram.texts(OWNER)) == 4


async def test_the_owner_is_remembered_over_a_restart_and_forgotten_with_the_setting(
    life: Life, telegram: TelegramServer
) -> None:
    async with life(telegram=f'["{OWNER}"]'):
        telegram.say(OWNER, "hello")
        await telegram.until(lambda: telegram.texts(OWNER))
    async with life(telegram=f'["{OWNER}"]'):
        telegram.say(EVE, "let me in")
        await asked(telegram)
    async with life(telegram='["98"]'):
        telegram.say(12, "me too")
        await telegram.until(lambda: telegram.texts(12))

        assert "nanobot pairing approve" in telegram.texts(12)[0]
        assert len(telegram.texts(OWNER)) == 2


async def test_slacks_owner_is_asked_too_and_answers_by_a_button(life: Life, slack: SlackServer) -> None:
    async with life(slack='["U1"]'):
        slack.say("DU1", "U1", "hello")
        await slack.workspace.until(lambda: slack.workspace.shown("DU1"))
        slack.say("DU2", "U2", "let me in")
        await slack.workspace.until(lambda: choices(slack, "DU1") is not None)
        post = choices(slack, "DU1")
        assert post is not None
        slack.click(post, "U1", "Let in")
        await slack.workspace.until(lambda: WELCOME in slack.workspace.shown("DU2"))
        slack.say("DU2", "U2", "now")
        await slack.workspace.until(lambda: slack.workspace.shown("DU2")[-1] == "echo: now")

        assert len(slack.workspace.shown("DU2")) == 3


async def test_where_a_channel_has_no_owner_the_others_owner_is_asked(
    life: Life, telegram: TelegramServer, slack: SlackServer
) -> None:
    async with life(slack='["U1"]', telegram="[]"):
        slack.say("DU1", "U1", "hello")
        await slack.workspace.until(lambda: slack.workspace.shown("DU1"))
        telegram.say(EVE, "let me in")
        await slack.workspace.until(lambda: choices(slack, "DU1") is not None)
        post = choices(slack, "DU1")
        assert post is not None
        slack.click(post, "U1", "Let in")
        await telegram.until(lambda: telegram.texts(EVE)[-1:] == [WELCOME])


def choices(slack: SlackServer, room: str) -> Message | None:
    """The bot's message that has buttons."""
    return next(
        (
            one
            for one in slack.workspace.by_bot(room)
            if any(block["type"] == "actions" for block in one.blocks)
        ),
        None,
    )
