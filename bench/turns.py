"""Figures of turns: CPU, rates, latencies and memory of a target under load."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from bench import load
from bench.floor import MESSAGE_BYTES
from bench.gateway import Past, Target, fresh
from bench.load import percentile
from bench.processes import Server, running

Figures = dict[str, float | str]

MS = 1e3
WATCHERS = 200
SETTLE_SECONDS = 3.0  # after ready: what a gateway still does by itself then belongs to its idle memory


class Effort:
    """How much is done; a slow target and a quick run get less."""

    def __init__(self, *, slow: bool, quick: bool) -> None:
        less = slow or quick
        # Chats one after another, turns in each.
        self.single = (4, 5) if slow else (10, 10) if quick else (20, 20)
        self.many = (100, 1) if slow else (100, 4) if quick else (100, 10)
        self.long = (2, 3) if slow else (3, 6) if quick else (5, 9)
        self.memory = (200, 1)
        self.watched = 5 if less else 40
        self.idle = 1_000 if quick else 3_000
        self.idle_turns = 10 if less else 60
        self.paced = ((1, 1), (50, 1)) if less else ((1, 3), (50, 2))
        self.timeout = 180.0 if slow else 30.0


def chats(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def note(figures: Figures, name: str, result: load.Result) -> None:
    """Remember what went wrong; a figure of a run with faults is marked in the table."""
    if found := result.faults():
        figures[f"{name}.faults"] = found


async def asked(llm: str) -> dict[str, Any]:
    """What the fake model counted since it was asked last."""
    async with load.client() as session, session.get(llm.replace("/v1", "/stats")) as response:
        found: dict[str, Any] = msgspec.json.decode(await response.read())
        return found


async def warm(server: Server, effort: Effort) -> None:
    await load.run(server.socket, ["warm"], 5, timeout=effort.timeout)


async def short(target: Target, folder: Path, llm: str, effort: Effort) -> Figures:
    """One chat at a time and a hundred at once, on an instant model; memory before and after."""
    figures: Figures = {}
    async with running(await target.start(fresh(folder), llm, "instant")) as server:
        figures["rss.ready"] = server.rss()
        await asyncio.sleep(SETTLE_SECONDS)
        figures["rss.idle"] = server.rss()
        await warm(server, effort)
        many, turns = effort.single
        before = server.cpu()
        single = await load.run(
            server.socket, chats("one", many), turns, one_by_one=True, timeout=effort.timeout
        )
        figures["one.cpu_ms"] = (server.cpu() - before) / max(1, single.turns) * MS
        figures["one.rate"] = single.rate
        figures["one.first_p50_ms"] = percentile(single.first, 50) * MS
        figures["one.end_p50_ms"] = percentile(single.end, 50) * MS
        figures["one.end_p99_ms"] = percentile(single.end, 99) * MS
        if single.accepted:
            figures["one.accepted_p50_ms"] = percentile(single.accepted, 50) * MS
        figures["rss.turns"] = server.rss()
        note(figures, "one", single)

        many, turns = effort.many
        before = server.cpu()
        hundred = await load.run(server.socket, chats("many", many), turns, timeout=effort.timeout)
        figures["many.cpu_ms"] = (server.cpu() - before) / max(1, hundred.turns) * MS
        figures["many.rate"] = hundred.rate
        figures["many.first_p50_ms"] = percentile(hundred.first, 50) * MS
        figures["many.end_p50_ms"] = percentile(hundred.end, 50) * MS
        figures["many.end_p99_ms"] = percentile(hundred.end, 99) * MS
        figures["rss.many"] = server.rss()
        note(figures, "many", hundred)
    return figures


async def long(target: Target, folder: Path, llm: str, effort: Effort) -> Figures:
    """Chats whose history is 2,000 messages long, one at a time; the first turn of each, which loads it, is apart."""
    figures: Figures = {}
    many, turns = effort.long
    await asked(llm)
    names = chats("long", many)
    past = Past(tuple(names), 2_000 - 2 * (turns + 1))
    async with running(await target.start(fresh(folder), llm, "instant", past)) as server:
        await warm(server, effort)
        before = server.cpu()
        first = await load.run(server.socket, names, 1, one_by_one=True, timeout=effort.timeout)
        figures["long.load_cpu_ms"] = (server.cpu() - before) / max(1, first.turns) * MS
        before = server.cpu()
        result = await load.run(server.socket, names, turns, one_by_one=True, timeout=effort.timeout)
        figures["long.cpu_ms"] = (server.cpu() - before) / max(1, result.turns) * MS
        figures["long.end_p50_ms"] = percentile(result.end, 50) * MS
        figures["long.request_kb"] = largest = (await asked(llm))["largest"] / 1e3
        if largest < past.messages * MESSAGE_BYTES / 1e3:
            figures["long.history.faults"] = f"the model was sent {largest:.0f} kB: not the whole history"
        note(figures, "long", result)
    return figures


async def memory(target: Target, folder: Path, llm: str, effort: Effort) -> Figures:
    """Resident memory with 200 sessions of 20 turns: 19 on the disk beforehand, one more now."""
    figures: Figures = {}
    many, turns = effort.memory
    names = chats("held", many)
    async with running(await target.start(fresh(folder), llm, "instant", Past(tuple(names), 38))) as server:
        result = await load.run(server.socket, names, turns, timeout=effort.timeout)
        figures["rss.sessions"] = server.rss()
        note(figures, "memory", result)
    return figures


async def idle(target: Target, folder: Path, llm: str, effort: Effort) -> Figures:
    """Turns of one chat while thousands of connections are open and silent."""
    figures: Figures = {}
    async with running(await target.start(fresh(folder), llm, "instant")) as server:
        await warm(server, effort)
        empty = server.rss()
        async with load.idle(server.socket, effort.idle) as held:
            figures["idle.held"] = held
            figures["idle.kb"] = (server.rss() - empty) * 1e3 / max(1, held)
            before = server.cpu()
            result = await load.run(server.socket, ["awake"], effort.idle_turns, timeout=effort.timeout)
            figures["idle.cpu_ms"] = (server.cpu() - before) / max(1, result.turns) * MS
            figures["idle.end_p50_ms"] = percentile(result.end, 50) * MS
            figures["rss.idle_connections"] = server.rss()
            note(figures, "idle", result)
    return figures


async def fanout(target: Target, folder: Path, llm: str, effort: Effort) -> Figures:
    """Turns of one chat that 200 connections watch. The floor has no second client in a chat."""
    figures: Figures = {}
    if not target.disk:
        return figures
    async with running(await target.start(fresh(folder), llm, "instant")) as server:
        await warm(server, effort)
        seen = load.Result(first=[], end=[], accepted=[], errors=[])
        async with load.watching(server.socket, "watched", WATCHERS, seen):
            await load.run(server.socket, ["watched"], 2, timeout=effort.timeout)
            before, frames = server.cpu(), seen.frames
            result = await load.run(server.socket, ["watched"], effort.watched, timeout=effort.timeout)
            seconds = server.cpu() - before
            figures["fanout.cpu_ms"] = seconds / max(1, result.turns) * MS
            figures["fanout.end_p50_ms"] = percentile(result.end, 50) * MS
            figures["fanout.frames"] = (seen.frames - frames) / max(1, result.turns)
            note(figures, "fanout", result)
    return figures


async def paced(target: Target, folder: Path, llm: str, effort: Effort) -> Figures:
    """A model as models are: 500 ms to the first token, then 50 tokens a second."""
    figures: Figures = {}
    async with running(await target.start(fresh(folder), llm, "realistic")) as server:
        await warm(server, effort)
        for many, turns in effort.paced:
            result = await load.run(server.socket, chats(f"paced{many}", many), turns, timeout=effort.timeout)
            figures[f"paced{many}.end_p50_ms"] = percentile(result.end, 50) * MS
            figures[f"paced{many}.first_p50_ms"] = percentile(result.first, 50) * MS
            figures[f"paced{many}.rate"] = result.rate
            note(figures, f"paced{many}", result)
    return figures
