"""Real processes, really killed: what was accepted is answered once, in order, with no tool effect twice."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanobot import SessionManager
from tests.crash.client import Client
from tests.crash.launch import MOMENTS
from tests.crash.process import GatewayProcess
from tests.emulators.openai import OpenAIServer

KILLS = int(os.environ.get("NANOBOT_KILLS", "12"))


@pytest.fixture
async def model() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest.fixture
async def gateway(tmp_path: Path, model: OpenAIServer) -> AsyncIterator[GatewayProcess]:
    process = GatewayProcess(tmp_path / "workspace", model.url)
    yield process
    await process.kill()


def user_texts(workspace: Path, chat: str) -> list[str]:
    """What the history says the user said, read as an outsider would."""
    manager = SessionManager(workspace)
    return [
        line["content"]
        for line in manager.get_or_create(f"websocket:{chat}").messages
        if line["role"] == "user"
    ]


@pytest.mark.parametrize("moment", sorted(MOMENTS))
async def test_a_kill_between_two_steps_loses_nothing_and_repeats_nothing(
    gateway: GatewayProcess, moment: str
) -> None:
    tool = 'TOOL exec {"command": "echo effect >> effects.txt"}\n' if "tool" in moment else ""
    await gateway.start()
    await gateway.terminate()
    await gateway.start(moment)
    async with Client(gateway.url) as client:
        await client.send("c", f"{tool}first", "m1")
        await gateway.dead()
        await gateway.start()
        await client.until(lambda one: one.total() == 1 and "m1" in one.accepted)
        await client.send("c", "second", "m2")
        await client.until(lambda one: one.total() == 2)
        replies = client.texts("c")
    if tool:
        effects = gateway.workspace / "effects.txt"
        count = len(effects.read_text().splitlines()) if effects.exists() else 0
        assert count == (1 if moment == "after-tool" else 0)
        assert "interrupted: outcome unknown" in replies[0]
    else:
        assert replies[0] == "echo: first"
    assert replies[1] == "echo: second"
    await gateway.terminate()
    assert len(user_texts(gateway.workspace, "c")) == 2


async def test_a_kill_in_the_middle_of_a_streamed_reply_brings_the_whole_reply_once(
    gateway: GatewayProcess,
) -> None:
    await gateway.start()
    async with Client(gateway.url) as client:
        await client.send("c", "SLOW 20\none two three four five six seven eight nine ten", "m1")
        await client.until(lambda one: one.deltas >= 2)
        await gateway.kill()
        await gateway.start()
        await client.until(lambda one: one.total() == 1)
        assert client.texts("c") == ["echo: one two three four five six seven eight nine ten"]


async def test_sigterm_stops_within_its_time_and_the_next_start_answers_what_waited(
    gateway: GatewayProcess,
) -> None:
    await gateway.start()
    async with Client(gateway.url) as client:
        await client.send("c", "HANG\nnever", "hang")
        await client.until(lambda one: "hang" in one.accepted)
        for n in range(5):
            await client.send("d", f"DELAY 0.3\n{n}", f"d{n}")
        await client.until(lambda one: len(one.accepted) == 6)
        assert await gateway.terminate() == 0
        await gateway.start()
        await client.until(lambda one: len(one.replies["d"]) == 5)
        assert client.texts("d") == [f"echo: {n}" for n in range(5)]


async def test_a_reply_made_while_nobody_is_there_waits_for_the_next_attach(gateway: GatewayProcess) -> None:
    await gateway.start()
    async with Client(gateway.url) as client:
        await client.send("c", "DELAY 0.5\nlater", "m1")
        await client.until(lambda one: "m1" in one.accepted)
    await gateway.kill()
    await gateway.start()
    async with Client(gateway.url) as late:
        late._chats["c"] = None
        await late.until(lambda one: one.total() == 1)
        assert late.texts("c") == ["echo: later"]


@pytest.mark.parametrize("acks", [True, False], ids=["acks", "no acks"])
async def test_random_kills_under_load_lose_nothing_double_nothing_and_keep_order(
    gateway: GatewayProcess, acks: bool
) -> None:
    seed = int(os.environ.get("NANOBOT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
    chance = random.Random(seed)
    chats = [f"chat{n}" for n in range(6)]
    sent: dict[str, list[str]] = {chat: [] for chat in chats}
    await gateway.start()
    async with Client(gateway.url, acks=acks) as client:

        async def talk() -> None:
            number = 0
            while True:
                chat = chance.choice(chats)
                text = f"message {number}"
                slow = "SLOW 40\n" if chance.random() < 0.5 else ""
                sent[chat].append(text)
                await client.send(chat, slow + text, f"id{number}")
                number += 1
                await asyncio.sleep(chance.uniform(0.005, 0.06))  # the load's pace

        talking = asyncio.create_task(talk())
        for _ in range(KILLS // 2):
            await asyncio.sleep(chance.uniform(0.05, 0.6))  # the moment of the kill
            await gateway.kill()
            await gateway.start()
        talking.cancel()
        expected = sum(map(len, sent.values()))
        await client.until(lambda one: len(one.accepted) == expected, 120)
        await client.until(lambda one: one.total() >= expected, 120)
        for chat in chats:
            assert client.texts(chat) == [f"echo: {text}" for text in sent[chat]], f"seed {seed}"
    await gateway.terminate()
    for chat in chats:
        counts = Counter(text.splitlines()[-1] for text in user_texts(gateway.workspace, chat))
        assert counts == Counter(sent[chat]), f"seed {seed}"
    print(f"seed {seed}: {KILLS // 2} kills, {expected} messages, {client.repeats} repeats known by their id")
