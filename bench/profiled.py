"""Where a turn's CPU goes: `python -m bench.profiled turn|long|fanout [lines]` prints the costliest functions.

The gateway runs under cProfile with its main thread's CPU time as the clock, so that waiting counts nothing. The
profile makes everything three to five times as slow: its shares count, not its milliseconds.
"""

import asyncio
import cProfile
import pstats
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from bench import load, processes
from bench.gateway import CONFIG, Past, write_history
from bench.processes import fake_llm, running

WAYS = {
    "turn": "one chat after another, short histories",
    "long": "chats of 1,900 messages",
    "fanout": "one chat that 200 connections watch",
}
CHATS, TURNS, WATCHERS = 5, 40, 200
MESSAGES = 1_900
WRITE_SECONDS = 20.0


async def measure(way: str, folder: Path) -> pstats.Stats:
    """Run one of the ways and return its profile."""
    names = ["watched"] if way == "fanout" else [f"p{number}" for number in range(CHATS)]
    found = folder / "profile"
    async with AsyncExitStack() as stack:
        llm = await stack.enter_async_context(fake_llm(folder))
        (folder / "config.toml").write_text(CONFIG.format(model="instant", llm=llm))
        if way == "long":
            write_history(folder / ".nanobot" / "sessions", Past(tuple(names), MESSAGES))
        command = [sys.executable, "-m", "bench.profiled", "--serve", str(folder), str(found)]
        server = await processes.start(command, folder / "gateway.log")
        await stack.enter_async_context(running(server))
        if way == "fanout":
            seen = load.Result(first=[], end=[], accepted=[], errors=[])
            await stack.enter_async_context(load.watching(server.socket, "watched", WATCHERS, seen))
        await load.run(server.socket, names, 3, one_by_one=True)
        server.process.send_signal(signal.SIGUSR1)
        await load.run(server.socket, names, TURNS, one_by_one=True)
        server.process.send_signal(signal.SIGUSR2)
        async with asyncio.timeout(WRITE_SECONDS):
            while not found.exists():
                await asyncio.sleep(0.05)
    return pstats.Stats(str(found))


def serve(workspace: str, found: str) -> int:
    """A gateway that profiles itself between SIGUSR1 and SIGUSR2."""
    profile = cProfile.Profile(time.thread_time)

    def finish(*_: object) -> None:
        profile.disable()
        profile.dump_stats(f"{found}.part")
        Path(f"{found}.part").rename(found)

    signal.signal(signal.SIGUSR1, lambda *_: profile.enable())
    signal.signal(signal.SIGUSR2, finish)
    sys.argv = ["serve", workspace]
    from nanobot.cli.serve import main

    return main()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        sys.exit(serve(sys.argv[2], sys.argv[3]))
    if len(sys.argv) < 2 or sys.argv[1] not in WAYS:
        sys.exit(f"{__doc__}\n" + "\n".join(f"  {name:7} {said}" for name, said in WAYS.items()))
    with tempfile.TemporaryDirectory(prefix="nanobot-profile-") as place:
        stats = uvloop.run(measure(sys.argv[1], Path(place)))
    stats.sort_stats("tottime").print_stats(int(sys.argv[2]) if len(sys.argv) > 2 else 25)
