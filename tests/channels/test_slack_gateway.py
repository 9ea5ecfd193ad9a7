"""A whole gateway on an emulated Slack: one answer for each message, in order, through the platform's faults."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from loguru import logger

from channels.slack import connection
from nanobot.app import App, running
from nanobot.config import load
from nanobot.port import CHANGED
from tests.emulators.openai import OpenAIServer
from tests.emulators.slack import BOT_USER, SlackServer

SLOW = "\nSLOW 16"


def configure(
    folder: Path,
    slack: SlackServer,
    model: OpenAIServer,
    *lines: str,
    queue: str = "followup",
    page: bool = False,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    more = "\n".join(lines) or 'allow_from = ["*"]'
    (folder / "config.toml").write_text(
        f'[agent]\nmodel = "test/echo"\nqueue = "{queue}"\n[models.test]\nkind = "openai"\napi_key = "none"\n'
        f'base_url = "{model.url}"\n[http]\nport = 0\n[channels.websocket]\nenabled = {str(page).lower()}\n'
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

    async def closed(self, chat: str) -> None:
        """Wait until no stream is open."""
        workspace = self.slack.workspace
        await workspace.until(lambda: not any(one.streaming for one in workspace.by_bot(chat)), 8)

    async def idle(self) -> None:
        """Wait until every turn has ended."""
        async with asyncio.timeout(10):
            while (health := await self.app.gateway.health())["turns"] or health["queue"]["depth"]:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def world(folder: Path, *lines: str, **settings: Any) -> AsyncIterator[World]:
    async with SlackServer() as slack, OpenAIServer() as model:
        for number in range(1, 60):
            slack.person(f"U{number}")
        slack.workspace.channel("C1")
        async with running(load(configure(folder / "workspace", slack, model, *lines, **settings))) as app:
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


@pytest.mark.parametrize("fault", ["slow", "limited"])
async def test_a_streamed_answer_waits_for_the_answer_before_it(tmp_path: Path, fault: str) -> None:
    """People read a chat by when its messages were posted, so that no preview may overtake a reply."""
    async with world(tmp_path) as one:
        message, _ = one.slack.say("C1", "U1", f"<@{BOT_USER}> hello", raw=True)
        await one.answers("C1", "echo: [u1] hello", thread=message.ts)
        held = one.slack.fail(
            "chat.postMessage", **({"hang": True} if fault == "slow" else {"retry_after": 2})
        )
        one.slack.say("C1", "U1", "quick", thread=message.ts)
        async with asyncio.timeout(10):
            while not held.hits:
                await asyncio.sleep(0.01)
        _, [way] = one.slack.say("C1", "U1", "one two three four five six\nSLOW 4", thread=message.ts)
        assert await way.acked()
        if fault == "slow":
            await one.idle()
            held.release.set()
        texts = ["echo: [u1] hello", "echo: [u1] quick", "echo: [u1] one two three four five six"]
        await one.answers("C1", *texts, thread=message.ts)


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


@pytest.mark.parametrize("how", ["refresh", "drop", "freeze"])
async def test_a_socket_that_goes_during_a_stream_costs_nothing(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PING_SECONDS", 0.3)  # a half-open socket is noticed by its silence
    async with world(tmp_path) as one:
        events = one.slack.events
        events.ack_seconds, events.retries = 0.5, 20
        before = events.connections
        message, _ = one.slack.say("C1", "U1", f"<@{BOT_USER}> one two three four five six\nSLOW 4", raw=True)
        await one.slack.workspace.until(lambda: one.slack.workspace.shown("C1"))
        if how == "freeze":
            events.frozen = True
        else:
            await getattr(events, how)()
        _, [way] = one.slack.say("DU1", "U1", "meanwhile")
        async with asyncio.timeout(10):
            while events.connections == before:
                await asyncio.sleep(0.01)
        events.frozen = False
        assert await way.acked(10)
        await one.answers("C1", "echo: [u1] one two three four five six", thread=message.ts)
        await one.answers("DU1", "echo: meanwhile")
        await one.closed("C1")


@pytest.mark.parametrize("fault", [{"status": 503}, {"lost": "before"}], ids=["refused", "cut"])
@pytest.mark.parametrize("seconds", [2.0, pytest.param(30.0, marks=pytest.mark.slow)])
async def test_an_outage_of_everything_loses_and_doubles_nothing(
    tmp_path: Path, seconds: float, fault: dict[str, Any]
) -> None:
    async with world(tmp_path) as one:
        slack, workspace = one.slack, one.slack.workspace
        slack.events.ack_seconds = 0.3
        slack.events.retries = 60
        slack.say("DU1", "U1", "SLOW 10\nbefore the outage begins")
        message, _ = slack.say("C1", "U1", f"<@{BOT_USER}> long before the outage begins\nSLOW 10", raw=True)
        _, [way] = slack.say("DU3", "U3", "DELAY 1\ndue in the outage")
        assert await way.acked()
        await workspace.until(lambda: workspace.shown("DU1") and workspace.shown("C1"))
        slack.events.refusing = True
        outage = slack.fail("*", times=1_000_000, **fault)
        await slack.events.drop()
        for number in range(3):
            slack.say("DU1", "U1", f"during the outage {number}")
            slack.say("C1", "U2", f"in the thread {number}", thread=message.ts)
        slack.say("DU2", "U2", "during the outage")
        await asyncio.sleep(seconds)  # the outage
        slack.heal()
        slack.events.refusing = False
        during = [f"echo: during the outage {number}" for number in range(3)]
        await one.answers("DU1", "echo: before the outage begins", *during, seconds=60)
        there = [f"echo: [u2] in the thread {number}" for number in range(3)]
        await one.answers("C1", "echo: [u1] long before the outage begins", *there, seconds=60)
        await one.answers("DU2", "echo: during the outage", seconds=60)
        await one.answers("DU3", "echo: due in the outage", seconds=60)
        await one.closed("C1")
    assert outage.hits


@pytest.mark.parametrize("queue", ["followup", "steer"])
@pytest.mark.parametrize("late", [False, True], ids=["waiting", "being answered"])
async def test_a_changed_message_has_one_answer_to_what_it_says_now(
    tmp_path: Path, late: bool, queue: str
) -> None:
    async with world(tmp_path, queue=queue) as one:
        workspace = one.slack.workspace
        words = "one two three four five six seven eight nine ten eleven twelve\nSLOW 6"
        first, [way] = one.slack.say("DU1", "U1", words)
        assert await way.acked()
        if late:
            await workspace.until(lambda: workspace.shown("DU1"))
            assert await one.slack.edit("DU1", first.ts, "quickly now").acked()
            await one.answers("DU1", f"echo: {CHANGED.format('quickly now')}")
            before = workspace.shown("DU1")
        else:
            second, [way] = one.slack.say("DU1", "U1", "second")
            assert await way.acked()
            assert await one.slack.edit("DU1", second.ts, "changed").acked()
            before = [f"echo: {words.partition(chr(10))[0]}", "echo: changed"]
            await one.answers("DU1", *before)
        assert await one.slack.edit("DU1", first.ts, "too late").acked()
        one.slack.say("DU1", "U1", "the next")
        await one.answers("DU1", *before, "echo: the next")


async def test_an_edit_that_slack_repeats_undoes_no_newer_one(tmp_path: Path) -> None:
    async with world(tmp_path) as one:
        words = "one two three four five six seven eight nine ten eleven twelve\nSLOW 6"
        assert await one.slack.say("DU1", "U1", words)[1][0].acked()
        second, [way] = one.slack.say("DU1", "U1", "second")
        assert await way.acked()
        for text, event in (("older", "Ev-a"), ("newer", "Ev-b"), ("older", "Ev-a")):
            assert await one.slack.edit("DU1", second.ts, text, event).acked()
        await one.answers("DU1", f"echo: {words.partition(chr(10))[0]}", "echo: newer")


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
        await workspace.until(lambda: len(workspace.shown("DU2")) == 2)  # who is let in is told so
        before = workspace.shown("DU2")
        one.slack.say("DU2", "U2", "thank you")
        await one.answers("DU2", *before, "echo: thank you")

    assert before[0] == told
    assert workspace.shown("C1") == []


@pytest.mark.parametrize(("label", "answered"), [("Let in", True), ("Turn away", False)])
async def test_the_owner_lets_a_stranger_in_or_turns_them_away_by_a_button(
    tmp_path: Path, label: str, answered: bool
) -> None:
    async with world(tmp_path, 'allow_from = ["U1"]') as one:
        workspace = one.slack.workspace
        one.slack.say("DU1", "U1", "hello")
        await one.answers("DU1", "echo: hello")
        one.slack.say("DU2", "U2", "let me in")
        await workspace.until(lambda: len(workspace.by_bot("DU1")) == 2)
        question = workspace.by_bot("DU1")[1]
        assert await one.slack.click(question, "U2", label).acked()  # not theirs to decide
        assert await one.slack.click(question, "U1", label).acked()
        await workspace.until(lambda: len(workspace.by_bot("DU1")) == 3)
        _, [way] = one.slack.say("DU2", "U2", "and now")
        assert await way.acked()
        if answered:
            await workspace.until(lambda: workspace.shown("DU2")[-1] == "echo: and now", 8)
        else:
            await one.idle()
            assert not any("echo" in text for text in workspace.shown("DU2"))


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
        stop = next(one for one in workspace.messages["DU1"] if one.text == "!stop")
        assert list(stop.reactions) == ["white_check_mark"]


@pytest.mark.parametrize("told", [True, False], ids=["event", "refusal"])
async def test_the_stop_button_of_a_stream_stops_the_turn(tmp_path: Path, told: bool) -> None:
    async with world(tmp_path, 'allow_from = ["U1"]') as one:
        workspace = one.slack.workspace
        words = " ".join(f"word{number}" for number in range(200))
        message, _ = one.slack.say("C1", "U1", f"<@{BOT_USER}> {words}\nSLOW 10", raw=True)
        await workspace.until(lambda: workspace.by_bot("C1"))
        waiting, _ = one.slack.say("C1", "U1", "another", thread=message.ts)
        await workspace.until(lambda: "eyes" in waiting.reactions)
        way = one.slack.press_stop(workspace.by_bot("C1")[0], "U1", told=told)
        assert way is None or await way.acked()
        await workspace.until(lambda: "Stopped. 1 waiting message was dropped." in workspace.shown("C1"), 8)
        await one.idle()
        await workspace.until(lambda: not waiting.reactions)
        one.slack.say("C1", "U1", "and on", thread=message.ts)
        await workspace.until(lambda: workspace.shown("C1")[-1] == "echo: [u1] and on", 8)
        texts = workspace.shown("C1")

    assert len(texts) == 3
    [cut] = [text for text in texts if text.startswith("echo: [u1] word0")]
    assert "word199" not in cut
    assert not any(one.streaming for one in workspace.by_bot("C1"))


async def test_who_may_not_speak_stops_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, 'allow_from = ["U1"]') as one:
        workspace = one.slack.workspace
        words = "one two three four five six seven eight nine ten"
        message, _ = one.slack.say("C1", "U1", f"<@{BOT_USER}> {words}\nSLOW 8", raw=True)
        await workspace.until(lambda: workspace.by_bot("C1"))
        stopped = {"type": "agent_session_stopped", "channel": "C1", "thread_ts": message.ts, "user": "U2"}
        for fields in ({"event_ts": "1.1"}, {"event_ts": "1.2", "streaming_message_ts": [7]}, {"user": None}):
            assert await one.slack.event({**stopped, **fields}).acked()
        await one.answers("C1", f"echo: [u1] {words}")


async def test_a_long_answer_of_the_model_arrives_whole(tmp_path: Path) -> None:
    async with world(tmp_path) as one:
        workspace = one.slack.workspace
        message, _ = one.slack.say("C1", "U1", f"<@{BOT_USER}> now\nLONG 8000", raw=True)
        await workspace.until(lambda: len(" ".join(workspace.shown("C1")).split()) >= 8_000, 30)
        parts = workspace.by_bot("C1", message.ts)

    assert all(len(part.shown) <= 12_000 for part in parts)
    assert not any(part.streaming for part in parts)


@pytest.mark.parametrize(
    ("policy", "asker", "answered"),
    [
        ("open", "U1", True),
        ("open", "U2", True),
        ("mention", "U1", False),
        ("allowlist", "U1", False),
        ("allowlist", "U2", False),
    ],
)
async def test_whom_the_bot_answers_in_a_channel_without_a_mention(
    tmp_path: Path, policy: str, asker: str, answered: bool
) -> None:
    allowed = '["U1"]' if policy == "allowlist" else '["*"]'
    async with world(tmp_path, f'group_policy = "{policy}"\nallow_from = {allowed}') as one:
        _, [way] = one.slack.say("C1", asker, "hello all")
        assert await way.acked()
        one.slack.say("C1", "U1", f"<@{BOT_USER}> and you", raw=True)
        first = [f"echo: [{asker.lower()}] hello all"] if answered else []
        await one.answers("C1", *first, "echo: [u1] and you")


async def test_a_revoked_token_stops_this_channel_alone_and_is_told(tmp_path: Path) -> None:
    logged: list[str] = []
    sink = logger.add(logged.append, level="WARNING")
    async with world(tmp_path, page=True) as one:
        one.slack.bot_token = "xoxb-new"
        one.slack.say("DU1", "U1", "hello")
        async with asyncio.timeout(20):
            while not one.app.gateway.problems.get("slack"):
                await asyncio.sleep(0.01)
        health = await one.app.gateway.health()
        async with aiohttp.ClientSession() as web, web.get(f"{one.app.url}/healthz") as answer:
            served = await answer.json()
        async with aiohttp.ClientSession() as web, web.ws_connect(f"{one.app.url}/ws") as page:
            await page.send_json({"type": "message", "chat_id": "c", "content": "is the page well"})
            async for frame in page:
                if frame.json().get("event") == "message" or "echo: is the page well" in frame.data:
                    break

    assert "invalid_auth" in health["channels"]["slack"]
    assert "Reinstall" in health["channels"]["slack"]
    assert (served["status"], served["channels"]["websocket"]) == ("degraded", "ok")
    assert served["channels"]["slack"] == health["channels"]["slack"]
    assert "xoxb-test" not in str(health)
    logger.remove(sink)
    assert any("Slack refuses the bot token (invalid_auth). Reinstall" in line for line in logged)
    assert not any("xoxb-test" in line for line in logged)
