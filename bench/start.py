"""How long starting takes: the shortest command, and a gateway from exec to ready."""

from pathlib import Path
from statistics import median

from bench.gateway import Target, fresh
from bench.processes import running, wall

Figures = dict[str, float | str]


async def start(target: Target, folder: Path, llm: str, *, quick: bool) -> Figures:
    """Medians; files are warm, since the first start of each kind is not counted."""
    times = 3 if quick else 7
    command = target.version_command()
    await wall(command)
    version = [await wall(command) for _ in range(times)]
    fresh(folder)
    ready: list[float] = []
    for _ in range(1 + (2 if quick else 5)):
        async with running(await target.start(folder, llm, "instant")) as server:
            ready.append(server.seconds)
    return {"start.version_s": median(version), "start.ready_s": median(ready[1:]), "start.cold_s": ready[0]}
