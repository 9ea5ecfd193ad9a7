"""A goal of twenty turns, its gateway killed again and again: it is completed, and nothing happens twice."""

import asyncio
import os
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nanobot import SessionManager
from tests.crash.client import Client
from tests.crash.launch import MOMENTS
from tests.crash.process import GatewayProcess
from tests.emulators.model_server import Asked, Call, Reply, directed
from tests.emulators.openai import OpenAIServer

MANY = int(os.environ.get("NANOBOT_KILLS", "20")) >= 100
KILLS = 30 if MANY else 3
TURNS = 20
NEVER = {"before-accept", "after-accept"}  # moments that come with a message from outside
PAUSE = 0.15 if MANY else 0.02  # seconds before the model answers, so that kills meet a goal at work


class Worker(OpenAIServer):
    """A model that adds one line to a file in each of `turns` turns of a goal, and completes it in the last.

    What it does next follows from the conversation alone, so that a question that is asked again after a kill gets
    the same answer.
    """

    turns = TURNS
    pause = PAUSE

    def read(self, raw: bytes, headers: Mapping[str, str]) -> Asked:
        asked = super().read(raw, headers)
        body = msgspec.json.decode(raw)
        system = str(body["messages"][0]["content"])
        if "VERDICT" in system:
            return msgspec.structs.replace(asked, text="VERDICT: PASS", results=())
        if "<goal>" not in raw.decode() or "goal" not in asked.text:
            return asked
        number = int(found[1]) if (found := re.search(r"\(turn (\d+)\)", asked.text)) else 1
        return msgspec.structs.replace(asked, text=f"GOAL {number}\n{len(asked.results)}")

    def _told(self, asked: Asked) -> Reply:
        if asked.text == "VERDICT: PASS":
            return Reply("VERDICT: PASS")
        if not asked.text.startswith("GOAL "):
            return directed(asked, 1)
        number, results = (int(word) for word in asked.text.removeprefix("GOAL ").split("\n"))
        if results:
            last = asked.results[-1]
            return Reply(f"Turn {number}: {last}. Then comes {number + 1}.", first_delay=self.pause)
        if number >= self.turns:
            return Reply(
                calls=(Call(f"call_{number}", "complete_goal", '{"recap": "All lines are there."}'),)
            )
        command = msgspec.json.encode({"command": f"echo line {number} >> lines.txt"}).decode()
        return Reply(calls=(Call(f"call_{number}", "exec", command),))


@pytest.fixture
async def model() -> AsyncIterator[Worker]:
    async with Worker() as server:
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
