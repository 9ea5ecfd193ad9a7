"""A whole gateway on an emulated Slack: one answer for each message, in order, through the platform's faults."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nanobot.app import App, running
from nanobot.config import load
from tests.emulators.openai import OpenAIServer
from tests.emulators.slack import BOT_USER, SlackServer

SLOW = "\nSLOW 16"


def configure(folder: Path, slack: SlackServer, model: OpenAIServer, *lines: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    more = "\n".join(lines) or 'allow_from = ["*"]'
    (folder / "config.toml").write_text(
        f'[agent]\nmodel = "test/echo"\nqueue = "followup"\n[models.test]\nkind = "openai"\napi_key = "none"\n'
        f'base_url = "{model.url}"\n[http]\nport = 0\n[channels.websocket]\nenabled = false\n'
        f'[channels.slack]\nenabled = true\nbot_token = "{slack.bot_token}"\napi_url = "{slack.api_url}"\n'
        f'app_token = "{slack.app_token}"\n{more}\n[security]\nallow_unsandboxed = true\n'
    )
    return folder


class World:
    def __init__(self, app: App, slack: SlackServer) -> None:
        self.app = app
        self.slack = slack

    async def answers(self, chat: str, *texts: str, thread: str | None = None, seconds: float = 8) -> None:
        """Wait until the bot shows exactly these, and that it stays so once everything is delivered."""
        workspace = self.slack.workspace
        await workspace.until(lambda: len(workspace.shown(chat, thread)) >= len(texts), seconds)
        await workspace.until(lambda: workspace.shown(chat, thread) == list(texts), seconds)


@asynccontextmanager
async def world(folder: Path, *lines: str) -> AsyncIterator[World]:
    async with SlackServer() as slack, OpenAIServer() as model:
        for number in range(1, 60):
            slack.person(f"U{number}")
        slack.workspace.channel("C1")
        async with running(load(configure(folder / "workspace", slack, model, *lines))) as app:
            assert "slack" in app.ready_line(), app.gateway.problems
            yield World(app, slack)


async def test_a_direct_message_is_answered_once(tmp_path: Path) -> None:
    async with world(tmp_path) as one:
        one.slack.say("DU1", "U1", "hello there")
        await one.answers("DU1", "echo: hello there")


async def test_a_mention_is_answered_in_its_thread_and_followed_there(tmp_path: Path) -> None:
    async with world(tmp_path) as one:
        message, _ = one.slack.say("C1", "U1", f"<@{BOT_USER}> hello", raw=True)
        await one.answers("C1", "echo: [u1] hello", thread=message.ts)
        one.slack.say("C1", "U2", "and you", thread=message.ts)
        await one.answers("C1", "echo: [u1] hello", "echo: [u2] and you", thread=message.ts)
        one.slack.say("C1", "U2", "not for you")
        assert one.slack.workspace.shown("C1") == ["echo: [u1] hello", "echo: [u2] and you"]


@pytest.mark.parametrize("lost", ["ack", "event"])
async def test_a_lost_ack_or_a_duplicate_event_is_one_answer(tmp_path: Path, lost: str) -> None:
    async with world(tmp_path) as one:
        one.slack.events.ack_seconds = 0.2
        one.slack.events.lose_acks = 1 if lost == "ack" else 0
        message, [way] = one.slack.say("DU1", "U1", "once")
        assert await way.acked()
        _, [again] = one.slack.say("DU1", "U1", "once", ts=message.ts)
        assert await again.acked()
        await one.answers("DU1", "echo: once")
        one.slack.say("DU1", "U1", "twice")
        await one.answers("DU1", "echo: once", "echo: twice")


@pytest.mark.parametrize(
    ("slow", "method", "fault"),
    [
        ("", "chat.postMessage", {"retry_after": 0.2}),
        ("", "chat.postMessage", {"lost": "after"}),
        ("", "chat.postMessage", {"lost": "before"}),
        ("", "chat.postMessage", {"status": 503}),
        (SLOW, "chat.postMessage", {"lost": "after"}),
        (SLOW, "chat.update", {"retry_after": 0.2, "times": 3}),
        (SLOW, "chat.update", {"lost": "after"}),
        (SLOW, "chat.startStream", {"retry_after": 0.2}),
        (SLOW, "chat.stopStream", {"retry_after": 0.2}),
        (SLOW, "chat.stopStream", {"lost": "after"}),
        (SLOW, "chat.stopStream", {"lost": "before"}),
    ],
    ids=str,
)
async def test_a_fault_of_a_call_is_one_answer(
    tmp_path: Path, slow: str, method: str, fault: dict[str, Any]
) -> None:
    async with world(tmp_path) as one:
        one.slack.fail(method, **fault)
        message, _ = one.slack.say(
            "C1", "U1", f"<@{BOT_USER}> one two three four five six seven eight{slow}", raw=True
        )
        one.slack.say("DU1", "U1", f"one two three four five six seven eight{slow}")
        await one.answers("C1", "echo: [u1] one two three four five six seven eight", thread=message.ts)
        await one.answers("DU1", "echo: one two three four five six seven eight")


async def test_a_burst_of_messages_in_one_chat_is_answered_in_order(tmp_path: Path) -> None:
    texts = [f"message {number}" for number in range(200)]
    async with world(tmp_path) as one:
        for text in texts:
            one.slack.say("DU1", "U1", text)
        await one.answers("DU1", *(f"echo: {text}" for text in texts), seconds=60)


async def test_fifty_chats_are_answered_while_one_is_limited(tmp_path: Path) -> None:
    async with world(tmp_path) as one:
        limit = one.slack.fail("chat.postMessage", channel="DU1", retry_after=600, times=100)
        for number in range(1, 51):
            one.slack.say(f"DU{number}", f"U{number}", f"hello {number}")
        await asyncio.gather(
            *(one.answers(f"DU{number}", f"echo: hello {number}", seconds=15) for number in range(2, 51))
        )
        assert one.slack.workspace.shown("DU1") == []
        assert limit.hits == 1


@pytest.mark.parametrize("how", ["refresh", "drop"])
async def test_a_socket_that_goes_during_a_stream_costs_nothing(tmp_path: Path, how: str) -> None:
    async with world(tmp_path) as one:
        message, _ = one.slack.say("C1", "U1", f"<@{BOT_USER}> one two three four five six\nSLOW 8", raw=True)
        await one.slack.workspace.until(lambda: one.slack.workspace.shown("C1"))
        await getattr(one.slack.events, how)()
        one.slack.say("DU1", "U1", "meanwhile")
        await one.answers("C1", "echo: [u1] one two three four five six", thread=message.ts)
        await one.answers("DU1", "echo: meanwhile")


async def test_an_outage_of_everything_loses_and_doubles_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as one:
        one.slack.events.ack_seconds = 0.3
        one.slack.events.retries = 60
        one.slack.say("DU1", "U1", "SLOW 10\nbefore the outage begins")
        await one.slack.workspace.until(lambda: one.slack.workspace.shown("DU1"))
        one.slack.events.refusing = True
        outage = one.slack.fail("*", times=10_000, status=503)
        await one.slack.events.drop()
        one.slack.say("DU2", "U2", "during the outage")
        await asyncio.sleep(2)  # the outage
        one.slack.heal()
        one.slack.events.refusing = False
        await one.answers("DU1", "echo: before the outage begins", seconds=60)
        await one.answers("DU2", "echo: during the outage", seconds=60)
    assert outage.hits


async def test_strangers_get_a_code_in_a_direct_chat_and_silence_in_a_channel(tmp_path: Path) -> None:
    async with world(tmp_path, 'allow_from = ["U1"]') as one:
        workspace = one.slack.workspace
        [way] = one.slack.say("DU2", "U2", "let me in")[1]
        assert await way.acked()
        ways = one.slack.say("C1", "U2", f"<@{BOT_USER}> hello", raw=True)[1]
        assert all([await way.acked() for way in ways])
        await workspace.until(lambda: workspace.shown("DU2"))
        [told] = workspace.shown("DU2")
        code = told.split("pairing code is ")[1].split(",")[0]
        one.slack.say("DU1", "U1", f"/pairing approve {code}")
        await workspace.until(lambda: workspace.shown("DU1"))
        one.slack.say("DU2", "U2", "thank you")
        await one.answers("DU2", told, "echo: thank you")

    assert workspace.shown("C1") == []


async def test_commands_work_as_slash_command_and_as_text_and_stop_acts_on_the_running_turn(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as one:
        workspace = one.slack.workspace
        one.slack.say("DU1", "U1", "SLOW 2\none two three four five six seven eight nine ten eleven")
        await workspace.until(lambda: workspace.shown("DU1"))
        one.slack.say("DU1", "U1", "!stop")
        await workspace.until(lambda: any("Stopped." in text for text in workspace.shown("DU1")))
        assert await one.slack.slash("DU1", "U1", "version").acked()
        await workspace.until(lambda: any("nanobot " in text for text in workspace.shown("DU1")))


async def test_a_long_answer_of_the_model_arrives_whole(tmp_path: Path) -> None:
    async with world(tmp_path) as one:
        workspace = one.slack.workspace
        message, _ = one.slack.say("C1", "U1", f"<@{BOT_USER}> now\nLONG 8000", raw=True)
        await workspace.until(lambda: len(" ".join(workspace.shown("C1")).split()) >= 8_000, 30)
        parts = workspace.by_bot("C1", message.ts)

    assert all(len(part.shown) <= 12_000 for part in parts)
    assert not any(part.streaming for part in parts)


async def test_a_revoked_token_stops_this_channel_alone_and_is_told(tmp_path: Path) -> None:
    async with world(tmp_path) as one:
        one.slack.bot_token = "xoxb-new"
        one.slack.say("DU1", "U1", "hello")
        async with asyncio.timeout(20):
            while not one.app.gateway.problems.get("slack"):
                await asyncio.sleep(0.01)
        health = await one.app.gateway.health()

    assert "invalid_auth" in health["channels"]["slack"]
    assert "Reinstall" in health["channels"]["slack"]
    assert "xoxb-test" not in str(health)
