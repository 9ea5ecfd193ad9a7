"""The soak: a gateway under steady load for as long as one likes, its memory, descriptors and threads looked at often.

A hundred chats ask twenty times a second between them; every fourth question runs a tool; clients go away, every
second time without a word, and come back. The histories reach their cap well before the half, so that in the second
half nothing has a reason to grow.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import linear_regression, median

import psutil

from bench import load, turns
from bench.fake_llm import ANSWER, WITH_TOOL
from bench.gateway import Nanobot, Target, fresh
from bench.load import percentile
from bench.processes import Server, running

Figures = dict[str, float | str]

CHATS = 100
RATE = 20.0  # turns a second, of all chats
LINES = 0.5  # lines of history a chat gains a second: two or four a turn
CAP_REACHED = 0.3  # of the time: then the histories are at their cap
TOOL_EVERY = 4  # turns
TURNS_A_CONNECTION = (5, 40)
SAMPLE_SECONDS = 10.0
LEAST_SAMPLES = 40
TURN_SECONDS = 30.0
MB_AN_HOUR = "soak.slope"


async def soak(target: Target, folder: Path, llm: str, *, minutes: float) -> Figures:
    """Run for so long; only nanobot is soaked."""
    if not isinstance(target, Nanobot):
        return {}
    seconds = minutes * 60
    cap = max(20, int(CAP_REACHED * seconds * LINES / 1.25))  # a file may grow to 1.25 x its cap
    figures: Figures = {"soak.minutes": minutes, "soak.cap": cap}
    result = load.Result(first=[], end=[], accepted=[], errors=[])
    samples: list[tuple[float, float, int, int]] = []  # seconds, MB, descriptors, threads
    server = await target.start(fresh(folder), llm, "tools", more=f"[sessions]\nmax_messages = {cap}\n")
    async with running(server):
        process = psutil.Process(server.pid)
        began, before = time.monotonic(), server.cpu()
        crowd = [
            asyncio.create_task(talk(server, chat, began + number / RATE, began + seconds, result))
            for number, chat in enumerate(turns.chats("soak", CHATS))
        ]
        while (now := time.monotonic() - began) < seconds:
            samples.append((now, server.rss(), process.num_fds(), process.num_threads()))
            await asyncio.sleep(min(SAMPLE_SECONDS, seconds / LEAST_SAMPLES))
        await asyncio.gather(*crowd)
        figures["soak.cpu_ms"] = (server.cpu() - before) / max(1, result.turns) * 1e3
    figures["soak.turns"] = result.turns
    figures["soak.rate"] = result.turns / seconds
    figures["soak.end_p50_ms"] = percentile(result.end, 50) * 1e3
    figures["soak.end_p99_ms"] = percentile(result.end, 99) * 1e3
    for at, rss, _, _ in samples:
        figures[f"soak.rss@{at / 60:.2f}"] = rss
    figures |= flat(samples)
    turns.note(figures, "soak", result)
    return figures


def flat(samples: Sequence[tuple[float, float, int, int]]) -> Figures:
    """How much the second half grew: memory by its slope, descriptors and threads from its first to its last quarter."""
    half = samples[len(samples) // 2 :]
    quarter = max(1, len(half) // 2)

    def grown(column: int) -> float:
        return median(row[column] for row in half[-quarter:]) - median(row[column] for row in half[:quarter])

    slope = linear_regression([row[0] / 3600 for row in half], [row[1] for row in half]).slope
    return {
        MB_AN_HOUR: slope,
        "soak.rss_half": median(row[1] for row in half[:quarter]),
        "soak.rss_end": median(row[1] for row in half[-quarter:]),
        "soak.grown": grown(1),
        "soak.fds": grown(2),
        "soak.threads": grown(3),
    }


async def talk(server: Server, name: str, due: float, end: float, result: load.Result) -> None:
    """One chat: a question each time it is due, on one connection after another."""
    chance = random.Random(name)
    number = 0
    async with load.client() as session:
        while due < end:
            chat = await load.connect(session, server.socket, name, result)
            try:
                for _ in range(chance.randrange(*TURNS_A_CONNECTION)):
                    if due >= end:
                        break
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                    number += 1
                    content = f"hello {WITH_TOOL}" if number % TOOL_EVERY == 0 else "hello"
                    await chat.turn(content, TURN_SECONDS, ANSWER)
                    due += CHATS / RATE
            except ConnectionError as error:
                result.errors.append(str(error))
                due += CHATS / RATE
            if chance.random() < 0.5:
                await chat.socket.close()
            else:
                chat.abort()
