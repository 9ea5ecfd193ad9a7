"""A goal of twenty turns, its gateway killed again and again: it is completed, and nothing happens twice."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nanobot import SessionManager
from tests.crash.client import Client
from tests.crash.launch import MOMENTS
from tests.crash.process import GatewayProcess
from tests.emulators.telegram import TelegramServer
from tests.goal_worker import Worker

MANY = int(os.environ.get("NANOBOT_KILLS", "12")) >= 100
KILLS = 30 if MANY else 3
TURNS = 20
NEVER = {"before-accept", "after-accept"}  # moments that come with a message from outside
PAUSE = 0.25 if MANY else 0.02  # seconds before the model answers, so that kills meet a goal at work
ANN = 11
UNKNOWN = {
    "before-delivered"
}  # Telegram cannot be asked whether a message arrived, so that one may come twice


@pytest.fixture
async def model() -> AsyncIterator[Worker]:
    async with Worker(TURNS, PAUSE) as server:
        yield server


@pytest.fixture
async def gateway(tmp_path: Path, model: Worker) -> AsyncIterator[GatewayProcess]:
    process = GatewayProcess(tmp_path / "workspace", model.url)
    yield process
    await process.kill()


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def bot(tmp_path: Path, model: Worker, telegram: TelegramServer) -> AsyncIterator[GatewayProcess]:
    """A gateway with Telegram."""
    process = GatewayProcess(
        tmp_path / "workspace",
        model.url,
        extra=f'[channels.telegram]\nenabled = true\ntoken = "{telegram.token}"\napi_url = "{telegram.url}"\n'
        f'allow_from = ["{ANN}"]\npoll_timeout = 5\npatience = 0.1\nedit_interval = 0.2\n',
    )
    yield process
    await process.kill()


def state_of(workspace: Path, key: str = "websocket:c") -> dict[str, Any]:
    """The goal as the session's file has it, read as an outsider would."""
    session = SessionManager(workspace).get_or_create(key)
    return dict(session.metadata.get("goal_state") or {})


async def begin(telegram: TelegramServer) -> None:
    """Begin a goal, and wait until its progress message is known to have arrived.

    A kill in the instant before that may repeat it: Telegram cannot be asked. Replies of a chat are sent one after
    another, so the second one says that the first is marked.
    """
    telegram.say(ANN, "/goal Write twenty lines")
    telegram.say(ANN, "/version")
    await telegram.until(lambda: len(telegram.texts(ANN)) > 1, 30)


def of_the_goal(telegram: TelegramServer) -> list[str]:
    """The goal's messages in the chat."""
    return [text for text in telegram.texts(ANN) if text.startswith("Goal")]


def nothing_twice(workspace: Path, key: str, note: str) -> None:
    """The goal is completed in all its turns, and no turn and no tool's effect happened twice."""
    state = state_of(workspace, key)
    assert (state["status"], state["spent"]["turns"]) == ("completed", TURNS), note
    lines = Counter((workspace / "lines.txt").read_text().splitlines())
    assert max(lines.values()) == 1, f"{note}: {lines}"
    # A call whose outcome is unknown is not made again, so a line may lack, and then its result says so.
    told = SessionManager(workspace).get_or_create(key).messages
    unknown = sum("outcome unknown" in str(line.get("content")) for line in told if line["role"] == "tool")
    assert len(lines) >= TURNS - 1 - unknown, note
    continued = [line["turn"] for line in told if line.get("injected") == "goal"]
    assert len(continued) == len(set(continued)) == TURNS, note


async def test_a_goal_survives_kills_at_random_and_does_nothing_twice(gateway: GatewayProcess) -> None:
    seed = int(os.environ.get("NANOBOT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
    chance = random.Random(seed)
    await gateway.start()
    async with Client(gateway.url) as client:
        await client.send("c", "/goal Write twenty lines", "g")
        await client.until(lambda one: one.total() == 1)
        for _ in range(KILLS):
            await asyncio.sleep(chance.uniform(0.01, 0.25))  # the moment of the kill
            await gateway.kill()
            await gateway.start()
        await client.until(lambda one: one.total() == 2, 120)
        begun, ended = client.texts("c")
    await gateway.terminate()
    print(f"seed {seed}: {KILLS} kills, {client.repeats} repeats known by their id")
    assert "Write twenty lines" in begun, f"seed {seed}"
    assert "All lines are there." in ended, f"seed {seed}"
    nothing_twice(gateway.workspace, "websocket:c", f"seed {seed}")


async def test_a_goal_in_telegram_survives_kills_with_one_progress_message_and_one_end(
    bot: GatewayProcess, telegram: TelegramServer, model: Worker
) -> None:
    seed = int(os.environ.get("NANOBOT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
    chance = random.Random(seed)
    model.before_call = PAUSE
    model.last.clear()  # the last turn waits, so that every kill meets a goal at work
    await bot.start()
    await begin(telegram)
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(0.01, 0.6))  # the moment of the kill
        await bot.kill()
        await bot.start()
    model.last.set()
    await telegram.until(lambda: any("Goal completed" in text for text in telegram.texts(ANN)), 120)
    await telegram.until(lambda: "Completed" in telegram.texts(ANN)[0], 30)
    await bot.terminate()
    edits = telegram.posts(ANN)[0].edits
    print(f"seed {seed}: {KILLS} kills, {edits} edits of the one progress message")
    assert len(of_the_goal(telegram)) == 2, f"seed {seed}: {telegram.texts(ANN)}"
    begun, ended = of_the_goal(telegram)
    assert "Write twenty lines" in begun, f"seed {seed}"
    assert "All lines are there." in ended, f"seed {seed}"
    nothing_twice(bot.workspace, f"telegram:{ANN}", f"seed {seed}")


@pytest.mark.parametrize(
    "moment", sorted(MOMENTS) if MANY else ["after-claim", "after-commit", "before-commit"]
)
async def test_a_goal_survives_a_kill_between_two_steps(
    gateway: GatewayProcess, model: Worker, moment: str
) -> None:
    model.turns, model.pause = 4, 0.1
    await gateway.start()
    async with Client(gateway.url) as client:
        await client.send("c", "/goal Write three lines", "g")
        await client.until(lambda one: one.total() == 1)
        await gateway.kill()
        await gateway.start(moment)
        if moment not in NEVER:
            await gateway.dead()
        await gateway.kill()
        await gateway.start()
        await client.until(lambda one: one.total() == 2)
    await gateway.terminate()
    state = state_of(gateway.workspace)
    assert (state["status"], state["spent"]["turns"]) == ("completed", 4)
    lines = Counter((gateway.workspace / "lines.txt").read_text().splitlines())
    assert max(lines.values()) == 1
    assert len(lines) >= 2


@pytest.mark.parametrize("moment", sorted(set(MOMENTS) - UNKNOWN) if MANY else ["after-commit", "after-tool"])
async def test_a_kill_between_two_steps_leaves_one_progress_message_and_one_end_in_telegram(
    bot: GatewayProcess, telegram: TelegramServer, model: Worker, moment: str
) -> None:
    # So that a turn's moments come after the progress message is known.
    model.turns, model.pause, model.before_call = (4, 0.05, 0.3)
    await bot.start(moment)  # dies at the first such moment, which may be that of the /goal itself
    telegram.say(ANN, "/goal Write three lines")
    await bot.dead()
    await bot.start()
    await telegram.until(lambda: len(telegram.texts(ANN)) > 1, 60)
    await telegram.until(lambda: "Completed" in telegram.texts(ANN)[0], 30)
    await bot.terminate()
    begun, ended = telegram.texts(ANN)
    assert "Write three lines" in begun
    assert "Goal completed" in ended
    assert len(telegram.made("sendMessage", ANN)) == 2
    assert state_of(bot.workspace, f"telegram:{ANN}")["spent"]["turns"] == 4


async def test_a_stop_said_while_the_gateway_was_down_halts_the_goal(
    bot: GatewayProcess, telegram: TelegramServer, model: Worker
) -> None:
    model.pause = 0.5
    await bot.start()
    await begin(telegram)
    await bot.kill()
    telegram.say(ANN, "/stop")
    await bot.start()
    await telegram.until(lambda: any("the goal is paused" in text for text in telegram.texts(ANN)), 30)
    await telegram.until(lambda: "Paused" in telegram.texts(ANN)[0], 30)
    assert await bot.terminate() == 0
    assert len(of_the_goal(telegram)) == 1
    state = state_of(bot.workspace, f"telegram:{ANN}")
    assert state["status"] == "paused"
    assert state["spent"]["turns"] < TURNS
