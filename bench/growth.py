"""How the figures grow: with chats, with a chat's history, with open connections, with sessions on the disk."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from bench import load, micro, turns
from bench.gateway import Floor, Past, Target, fresh
from bench.load import percentile
from bench.peer import Peer
from bench.processes import NotReady, running

Figures = dict[str, float | str]

MS = 1e3
CHATS = (1, 5, 20, 50, 100, 200)
HISTORY = (10, 100, 1_000, 2_000, 5_000, 10_000)  # messages
SOCKETS = (0, 500, 1_000, 2_000, 3_000, 5_000)
SESSIONS = (10, 100, 1_000, 5_000, 10_000)
CURVE_SECONDS = 600.0  # no curve of a target may take longer
SETTLE_SECONDS = 1.5  # after ready, before memory is read


class Effort:
    """How much is done at each point; a slow target and a quick run get less."""

    def __init__(self, *, slow: bool, quick: bool) -> None:
        self.chats = CHATS[::2] if quick else CHATS
        self.history = HISTORY[:4:2] if quick else HISTORY
        self.sockets = SOCKETS[:3] if quick else SOCKETS
        self.sessions = SESSIONS[:3] if quick else SESSIONS
        self.turns = 100 if quick else 100 if slow else 600  # of all chats together
        self.least = 1 if slow else 2  # turns in each chat
        self.long_turns = (1, 3) if slow else (2, 4) if quick else (3, 8)  # chats, turns in each
        self.beside = 8 if slow else 20 if quick else 60  # turns beside idle connections
        self.timeout = 240.0 if slow else 60.0


async def growth(target: Target, folder: Path, llm: str, *, quick: bool) -> Figures:
    """All four, one after the other."""
    effort = Effort(slow=target.slow, quick=quick)
    figures: Figures = {}
    for work in (chats, history, sockets, sessions):
        try:  # a curve that fails leaves the others, and its first points
            async with asyncio.timeout(CURVE_SECONDS):
                await work(target, folder / work.__name__, llm, effort, figures)
        except (NotReady, TimeoutError, OSError, AssertionError) as error:
            figures[f"growth.{work.__name__}.faults"] = f"{type(error).__name__}: {error}"[:200]
    return figures


async def chats(target: Target, folder: Path, llm: str, effort: Effort, figures: Figures) -> None:
    """More and more chats that ask at the same time, on an instant model."""
    async with running(await target.start(fresh(folder), llm, "instant")) as server:
        await load.run(server.socket, ["warm"], 5, timeout=effort.timeout)
        for count in effort.chats:
            names = turns.chats(f"grow{count}", count)
            each = max(effort.least, min(60, effort.turns // count))
            before = server.cpu()
            result = await load.run(server.socket, names, each, timeout=effort.timeout)
            figures[f"growth.chats.cpu_ms@{count}"] = (server.cpu() - before) / max(1, result.turns) * MS
            figures[f"growth.chats.rate@{count}"] = result.rate
            figures[f"growth.chats.first_ms@{count}"] = percentile(result.first, 50) * MS
            turns.note(figures, f"growth.chats.{count}", result)


async def history(target: Target, folder: Path, llm: str, effort: Effort, figures: Figures) -> None:
    """Longer and longer histories: a turn's CPU, and what its file costs."""
    many, each = effort.long_turns
    for count in effort.history:
        names = turns.chats(f"past{count}", many)
        past = Past(tuple(names), count)
        async with running(await target.start(fresh(folder / "turns"), llm, "instant", past)) as server:
            await load.run(server.socket, ["warm"], 3, timeout=effort.timeout)
            await load.run(server.socket, names, 1, one_by_one=True, timeout=effort.timeout)
            before = server.cpu()
            result = await load.run(server.socket, names, each, one_by_one=True, timeout=effort.timeout)
            figures[f"growth.history.cpu_ms@{count}"] = (server.cpu() - before) / max(1, result.turns) * MS
            turns.note(figures, f"growth.history.{count}", result)
        found = await files(target, folder / "files", messages=count)
        figures[f"growth.history.load_ms@{count}"] = found["micro.load_ms"]
        figures[f"growth.history.save_ms@{count}"] = found["micro.save_ms"]


async def sockets(target: Target, folder: Path, llm: str, effort: Effort, figures: Figures) -> None:
    """More and more silent connections: one chat's turns beside them, and their memory."""
    async with AsyncExitStack() as stack:
        server = await target.start(fresh(folder), llm, "instant")
        await stack.enter_async_context(running(server))
        await load.run(server.socket, ["warm"], 5, timeout=effort.timeout)
        empty, there = server.rss(), 0
        for count in effort.sockets:
            if count > there:
                more = load.idle(server.socket, count - there, first=there)
                there += await stack.enter_async_context(more)
                figures[f"growth.sockets.kb@{count}"] = (server.rss() - empty) * 1e3 / there
            if there < count:
                figures["growth.sockets.faults"] = f"only {there} of {count} connections were held"
            result = await load.run(server.socket, ["awake"], effort.beside, timeout=effort.timeout)
            figures[f"growth.sockets.end_ms@{count}"] = percentile(result.end, 50) * MS
            turns.note(figures, f"growth.sockets.{count}", result)


async def sessions(target: Target, folder: Path, llm: str, effort: Effort, figures: Figures) -> None:
    """More and more sessions on the disk: start, memory, list. The floor has no disk to start from."""
    for count in effort.sessions:
        found = await files(target, folder / "files", listed=count)
        figures[f"growth.sessions.list_ms@{count}"] = found["micro.list_ms"]
        if not target.disk:
            continue
        past = Past(tuple(turns.chats("kept", count)), 2)
        place = fresh(folder / "state")
        for again in range(2):  # the first start may index what is there
            async with running(await target.start(place, llm, "instant", None if again else past)) as server:
                if again:
                    figures[f"growth.sessions.ready_s@{count}"] = server.seconds
                    await asyncio.sleep(SETTLE_SECONDS)
                    figures[f"growth.sessions.rss_mb@{count}"] = server.rss()


async def files(target: Target, folder: Path, *, messages: int = 10, listed: int = 1) -> Figures:
    """Session files without a gateway: save and load one of so many messages, list so many."""
    if isinstance(target, Peer):
        return await target.micro(folder, messages=messages, listed=listed)
    work = micro.floor if isinstance(target, Floor) else micro.ours
    return await asyncio.to_thread(work, folder, messages=messages, listed=listed)
