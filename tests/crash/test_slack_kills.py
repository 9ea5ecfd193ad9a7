"""Real gateways killed with SIGKILL while people talk to them in an emulated Slack: each message is answered once."""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.crash.process import GatewayProcess
from tests.emulators.openai import OpenAIServer
from tests.emulators.slack import BOT_USER, SlackServer

KILLS = int(os.environ.get("NANOBOT_SLACK_KILLS", "4"))
WORDS = "one two three four five six seven eight nine ten"
LONG = "\n\n".join(f"paragraph {number} of a long question" for number in range(900))


@pytest.fixture
async def model() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        server.events.ack_seconds = 1.0
        server.events.retries = 60
        for user in ("U1", "U2", "U3"):
            server.person(user)
        server.workspace.channel("C1")
        yield server


@pytest.fixture
async def gateway(tmp_path: Path, model: OpenAIServer, slack: SlackServer) -> AsyncIterator[GatewayProcess]:
    tables = (
        f'[channels.websocket]\nenabled = false\n[channels.slack]\nenabled = true\nallow_from = ["*"]\n'
        f'bot_token = "{slack.bot_token}"\napp_token = "{slack.app_token}"\napi_url = "{slack.api_url}"'
    )
    process = GatewayProcess(tmp_path / "workspace", model.url, extra=tables)
    yield process
    await process.kill()


async def shows(slack: SlackServer, chat: str, *texts: str, seconds: float = 45) -> None:
    """The bot shows exactly these in the end, and nothing comes after the next answer either."""
    workspace = slack.workspace
    await workspace.until(lambda: workspace.shown(chat) == list(texts), seconds)


MOMENTS = (
    "before-accept",
    "after-accept",
    "before-commit",
    "after-commit",
    "before-delivered",
    "after-delivered",
)


@pytest.mark.parametrize("chat", ["DU1", "C1"])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_kill_between_two_steps_is_one_answer(
    gateway: GatewayProcess, slack: SlackServer, moment: str, chat: str
) -> None:
    await gateway.start(moment)
    address = f"<@{BOT_USER}> " if chat == "C1" else ""
    name = "[u1] " if chat == "C1" else ""
    slack.say(chat, "U1", f"{address}first", raw=True)
    await gateway.dead()
    await gateway.start()
    await shows(slack, chat, f"echo: {name}first")
    message = slack.workspace.messages[chat][0]
    slack.say(chat, "U1", f"{address}second", thread=message.ts if chat == "C1" else "", raw=True)
    await shows(slack, chat, f"echo: {name}first", f"echo: {name}second")


async def test_who_answers_in_a_thread_right_after_a_kill_is_heard_without_a_mention(
    gateway: GatewayProcess, slack: SlackServer
) -> None:
    slack.events.retries = 0  # the platform does not send the first message again
    await gateway.start("after-accept")
    message, _ = slack.say("C1", "U1", f"<@{BOT_USER}> first", raw=True)
    await gateway.dead()
    await gateway.start()
    await shows(slack, "C1", "echo: [u1] first")
    slack.say("C1", "U2", "second", thread=message.ts)
    await shows(slack, "C1", "echo: [u1] first", "echo: [u2] second")


async def test_after_a_kill_a_streamed_answer_waits_for_the_answer_before_it(
    gateway: GatewayProcess, slack: SlackServer
) -> None:
    await gateway.start()
    stuck = slack.fail("chat.postMessage", lost="before")
    message, _ = slack.say("C1", "U1", f"<@{BOT_USER}> first", raw=True)
    async with asyncio.timeout(20):
        while not stuck.hits:
            await asyncio.sleep(0.02)
    await gateway.kill()
    # Whether it is there cannot be looked up at once.
    slack.fail("conversations.replies", times=2, retry_after=1)
    await gateway.start()
    slack.say("C1", "U1", f"<@{BOT_USER}> {WORDS}\nSLOW 8", thread=message.ts, raw=True)
    await shows(slack, "C1", "echo: [u1] first", f"echo: [u1] {WORDS}")


@pytest.mark.parametrize("chat", ["DU1", "C1"])
@pytest.mark.parametrize("moment", ["before-commit", "after-commit"])
async def test_a_preview_whose_id_could_not_be_kept_becomes_the_answer_of_the_next_life(
    gateway: GatewayProcess, slack: SlackServer, chat: str, moment: str
) -> None:
    """As on a full disk: the message is there, its id is not, and nothing but the commit is left to do."""
    address, name = (f"<@{BOT_USER}> ", "[u1] ") if chat == "C1" else ("", "")
    await gateway.start(f"forgetful {moment}")
    slack.say(chat, "U1", f"{address}{WORDS}\nSLOW 8", raw=True)
    await gateway.dead()
    assert len(slack.workspace.shown(chat)) == 1
    await gateway.start()
    await shows(slack, chat, f"echo: {name}{WORDS}")
    slack.say(
        chat, "U1", f"{address}again", thread=slack.workspace.messages[chat][0].ts if name else "", raw=True
    )
    await shows(slack, chat, f"echo: {name}{WORDS}", f"echo: {name}again")
    assert not any(message.streaming for message in slack.workspace.by_bot(chat))


@pytest.mark.parametrize("chat", ["DU1", "C1"])
async def test_a_kill_during_streaming_is_one_answer(
    gateway: GatewayProcess, slack: SlackServer, chat: str
) -> None:
    await gateway.start()
    address, name = (f"<@{BOT_USER}> ", "[u1] ") if chat == "C1" else ("", "")
    slack.say(chat, "U1", f"{address}{WORDS}\nSLOW 8", raw=True)
    await slack.workspace.until(lambda: slack.workspace.shown(chat))
    await gateway.kill()
    await gateway.start()
    await shows(slack, chat, f"echo: {name}{WORDS}")
    # The signs of the first life are taken back too.
    asked = slack.workspace.messages[chat][0]
    await slack.workspace.until(lambda: list(asked.reactions) == ["white_check_mark"])
    assert not any(message.streaming for message in slack.workspace.by_bot(chat))


async def test_a_kill_between_the_parts_of_a_long_answer_repeats_none(
    gateway: GatewayProcess, slack: SlackServer
) -> None:
    await gateway.start()
    hanging = slack.fail("users.info", times=0)
    third = slack.fail("chat.postMessage", times=1)  # lets the first part through
    stuck = slack.fail("chat.postMessage", times=1, hang=True)
    slack.say("DU1", "U1", LONG)
    async with asyncio.timeout(20):
        while not stuck.hits:
            await asyncio.sleep(0.02)
    assert (third.hits, hanging.hits) == (1, 0)
    await gateway.kill()
    slack.heal()
    stuck.release.set()
    await gateway.start()
    whole = f"echo: {LONG}".split()
    await slack.workspace.until(lambda: "\n".join(slack.workspace.shown("DU1")).split() == whole, 30)


async def test_events_of_the_time_in_between_are_answered_after_the_restart(
    gateway: GatewayProcess, slack: SlackServer
) -> None:
    await gateway.start()
    await gateway.kill()
    for number in range(5):
        slack.say(f"DU{number % 3 + 1}", f"U{number % 3 + 1}", f"message {number}")
    await gateway.start()
    await shows(slack, "DU3", "echo: message 2")
    for chat, first, second in (("DU1", 0, 3), ("DU2", 1, 4)):
        texts = {f"echo: message {first}", f"echo: message {second}"}
        await slack.workspace.until(lambda: set(slack.workspace.shown(chat)) == texts, 30)  # noqa: B023
        assert len(slack.workspace.shown(chat)) == 2


async def test_random_kills_under_load_lose_nothing_and_double_nothing(
    gateway: GatewayProcess, slack: SlackServer
) -> None:
    chance = random.Random(
        int(os.environ.get("NANOBOT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
    )
    expected: dict[str, list[str]] = {f"DU{number}": [] for number in (1, 2, 3)}
    await gateway.start()
    for life in range(KILLS):
        for number in range(6):
            user = f"U{chance.randrange(1, 4)}"
            text = f"message {life} {number}"
            slow = "\nSLOW 30" if chance.random() < 0.5 else ""
            expected[f"D{user}"].append(f"echo: {text}")
            slack.say(f"D{user}", user, text + slow)
            await asyncio.sleep(chance.uniform(0.0, 0.1))  # the load's pace
        await asyncio.sleep(chance.uniform(0.0, 0.5))  # the moment of the kill
        await gateway.kill()
        await gateway.start()
    for chat, texts in expected.items():
        await slack.workspace.until(lambda: len(slack.workspace.shown(chat)) >= len(texts), 60)  # noqa: B023
    for chat, texts in expected.items():
        await slack.workspace.until(lambda: sorted(slack.workspace.shown(chat)) == sorted(texts), 30)  # noqa: B023
