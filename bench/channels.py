"""What Slack and Telegram cost: a gateway that has both beside the page's channel, on the platforms' emulators."""

import asyncio
import sys
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from bench import gateway, load, processes
from bench.gateway import Nanobot, Past, Target, fresh
from bench.load import percentile
from bench.platforms import Talk
from bench.processes import NotReady, Server, running

Figures = dict[str, float | str]
Tables = dict[str, dict[str, Any]]

SETTLE_SECONDS = 3.0  # after ready, as in the other parts
MS = 1e3


async def channels(target: Target, folder: Path, llm: str, *, quick: bool) -> Figures:
    """Start and memory with both channels, then the gateway's CPU per turn in direct chats of each."""
    if not isinstance(target, Nanobot):
        return {}
    figures: Figures = {}
    starts, chats, turns = (3, 5, 10) if quick else (6, 10, 20)
    log = folder.with_name("platforms.log")
    async with running(await processes.start([sys.executable, "-m", "bench.platforms"], log)) as world:
        both = Both(msgspec.json.decode(await asked(world, "/places"), type=Tables))
        ready: list[float] = []
        fresh(folder)
        for _ in range(starts):
            async with running(await both.start(folder, llm, "instant")) as server:
                ready.append(server.seconds)
        figures["channels.ready_s"] = median(ready[1:])
        async with running(await both.start(folder, llm, "instant")) as server:
            await asyncio.sleep(SETTLE_SECONDS)
            figures["channels.rss_idle"] = server.rss()
            for name in ("slack", "telegram"):
                await talk(world, name, 1, 5)  # what a first turn loads is loaded
                before = server.cpu()
                seen = await talk(world, name, chats, turns)
                figures[f"{name}.cpu_ms"] = (server.cpu() - before) / max(1, len(seen.seconds)) * MS
                figures[f"{name}.end_p50_ms"] = percentile(seen.seconds, 50) * MS
                if seen.faults:
                    figures[f"{name}.faults"] = seen.faults
            figures["channels.rss_turns"] = server.rss()
    return figures


class Both(Nanobot):
    """Nanobot with the page, Slack and Telegram; everybody may write."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def start(
        self, folder: Path, llm: str, model: str, past: Past | None = None, *, more: str = ""
    ) -> Server:
        assert past is None, "these chats begin empty"
        for name, values in self._tables.items():
            lines = [f'{key} = "{value}"' for key, value in values.items()]
            more += "\n".join(["", f"[channels.{name}]", "enabled = true", 'allow_from = ["*"]', *lines, ""])
        (folder / "config.toml").write_text(gateway.CONFIG.format(model=model, llm=llm) + more)
        server = await processes.start(
            [str(gateway.NANOBOT), "gateway", "-w", str(folder)], folder / "gateway.log"
        )
        health = msgspec.json.decode(await asked(server, "/healthz"))
        failed = {name: state for name, state in health["channels"].items() if state != "ok"}
        if failed:
            await server.kill()
            raise NotReady(f"not all channels started: {failed}")
        return server


async def talk(world: Server, platform: str, chats: int, turns: int) -> Talk:
    return msgspec.json.decode(await asked(world, f"/talk/{platform}/{chats}/{turns}"), type=Talk)


async def asked(server: Server, path: str) -> bytes:
    async with load.client() as session, session.get(server.url + path) as response:
        return await response.read()
