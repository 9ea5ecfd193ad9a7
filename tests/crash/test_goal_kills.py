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
from tests.goal_worker import Worker

MANY = int(os.environ.get("NANOBOT_KILLS", "20")) >= 100
KILLS = 30 if MANY else 3
TURNS = 20
NEVER = {"before-accept", "after-accept"}  # moments that come with a message from outside
PAUSE = 0.15 if MANY else 0.02  # seconds before the model answers, so that kills meet a goal at work


@pytest.fixture
async def model() -> AsyncIterator[Worker]:
    async with Worker(TURNS, PAUSE) as server:
        yield server


@pytest.fixture
async def gateway(tmp_path: Path, model: Worker) -> AsyncIterator[GatewayProcess]:
    process = GatewayProcess(tmp_path / "workspace", model.url)
    yield process
    await process.kill()


def state_of(workspace: Path) -> dict[str, Any]:
    """The goal as the session's file has it, read as an outsider would."""
    session = SessionManager(workspace).get_or_create("websocket:c")
    return dict(session.metadata.get("goal_state") or {})


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
    state = state_of(gateway.workspace)
    assert (state["status"], state["spent"]["turns"]) == ("completed", TURNS), f"seed {seed}"
    lines = Counter((gateway.workspace / "lines.txt").read_text().splitlines())
    assert max(lines.values()) == 1, f"seed {seed}: {lines}"
    # A call whose outcome is unknown is not made again, so a line may lack, and then its result says so.
    told = SessionManager(gateway.workspace).get_or_create("websocket:c").messages
    unknown = sum("outcome unknown" in str(line.get("content")) for line in told if line["role"] == "tool")
    assert len(lines) >= TURNS - 1 - unknown, f"seed {seed}"
    continued = [line["turn"] for line in told if line.get("injected") == "goal"]
    assert len(continued) == len(set(continued)) == TURNS, f"seed {seed}"


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
