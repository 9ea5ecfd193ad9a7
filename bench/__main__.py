"""`python -m bench`: run it all, print the table, keep the figures."""

import argparse
import asyncio
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil
import uvloop

from bench import kill, micro, start, turns
from bench.gateway import Floor, Nanobot, Target
from bench.peer import Peer
from bench.processes import ROOT, NotReady, fake_llm
from bench.table import ROWS, missed, render

PART_SECONDS = 600.0  # no part of a target may take longer
RESULTS = Path(__file__).resolve().parent / "results"

Figures = dict[str, float | str]
Part = Callable[[Target, Path, str], Coroutine[Any, Any, Figures]]

ABOUT = """\
Measures a bare floor, nanobot and, where there is one, a peer: the same work, on this machine, in one run.
All processes are started here, talk over loopback only, and are ended by their ids. Wall times swing with what else
the machine does; CPU per turn, of the gateway's process alone, is the sturdy figure."""

PARTS = """\
parts:
  turns   one chat at a time and 100 at once on an instant model: CPU, rates, latencies, memory
  memory  resident memory with 200 sessions of 20 turns
  long    CPU per turn in chats of 2,000 messages
  idle    turns while 3,000 connections are open and silent
  paced   a model of 500 ms to the first token, then 50 tokens a second
  start   `nanobot version` and a gateway's start
  micro   session files: save, load, list
  kill    kill -9 and SIGTERM with 25 accepted messages: unanswered, answered twice

environment:
  PEER_PY   a Python that has nanobot-ai==0.3.5; the peer is then measured too (adds some minutes)

A failed or wrong turn is named under the table. Figures go to bench/results/, as JSON."""


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m bench",
        description=ABOUT,
        epilog=PARTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", action="append", choices=tuple(ROWS), help="measure this part; may be repeated"
    )
    parser.add_argument(
        "--target",
        action="append",
        choices=("floor", "ours", "peer"),
        help="measure this one; may be repeated",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a smaller load, about a minute; rougher figures"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target figure is missed")
    return parser.parse_args(argv)


def parts(*, quick: bool) -> dict[str, Part]:
    """What is run for each part's name."""

    def loaded(work: Callable[[Target, Path, str, turns.Effort], Coroutine[Any, Any, Figures]]) -> Part:
        async def run(target: Target, folder: Path, llm: str) -> Figures:
            return await work(target, folder, llm, turns.Effort(slow=target.slow, quick=quick))

        return run

    async def starting(target: Target, folder: Path, llm: str) -> Figures:
        return await start.start(target, folder, llm, quick=quick)

    async def killing(target: Target, folder: Path, llm: str) -> Figures:
        return await kill.kill(target, folder, llm, quick=quick) if target.disk else {}

    async def filing(target: Target, folder: Path, _llm: str) -> Figures:
        if isinstance(target, Peer):
            return await target.micro(folder)
        work = micro.floor if isinstance(target, Floor) else micro.ours
        return await asyncio.to_thread(work, folder, quick=quick)

    return {
        "turns": loaded(turns.short),
        "memory": loaded(turns.memory),
        "long": loaded(turns.long),
        "idle": loaded(turns.idle),
        "paced": loaded(turns.paced),
        "start": starting,
        "micro": filing,
        "kill": killing,
    }


async def measure(targets: Sequence[Target], wanted: Sequence[str], *, quick: bool) -> dict[str, Figures]:
    """Every wanted part over every target, one after the other; a part that fails is a fault, not the end."""
    results: dict[str, Figures] = {target.name: {} for target in targets}
    work = parts(quick=quick)
    with tempfile.TemporaryDirectory(prefix="nanobot-bench-") as folder:
        async with fake_llm(Path(folder)) as llm:
            for part in wanted:
                for target in targets:
                    print(f"{part}: {target.name} …", file=sys.stderr, flush=True)
                    try:
                        async with asyncio.timeout(PART_SECONDS):
                            found = await work[part](target, Path(folder) / target.name, llm)
                    except (NotReady, TimeoutError, OSError, AssertionError) as error:
                        said = str(error).strip().splitlines() or [""]
                        found = {f"{part}.faults": f"{type(error).__name__}: {said[0]} … {said[-1]}"}
                    results[target.name] |= found
    return results


def about() -> dict[str, Any]:
    """What the figures depend on."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
    }


def main(argv: Sequence[str]) -> int:
    options = arguments(argv)
    targets: list[Target] = [Floor(), Nanobot()]
    if peer := os.environ.get("PEER_PY"):
        targets.append(Peer(Path(peer)))
    if options.target:
        targets = [target for target in targets if target.name in options.target]
    wanted = [part for part in ROWS if not options.only or part in options.only]
    info, began = about(), time.perf_counter()
    results = uvloop.run(measure(targets, wanted, quick=options.quick))
    info["seconds"] = round(time.perf_counter() - began, 1)
    info["quick"] = options.quick

    print(render(results, wanted))
    if any(isinstance(target, Peer) for target in targets):
        print(f"\npeer: {Peer.about}")
    print(
        f"\n{info['at']}, commit {info['commit']}, Python {info['python']}, {info['cpus']} CPUs, "
        f"load {info['load']:.1f} before, {info['seconds']} s" + (", quick" if options.quick else "")
    )
    path = options.json or RESULTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode({"about": info, "figures": results})) + b"\n")
    print(f"figures: {path}")
    late = missed(results)
    if late:
        print(f"missed: {'; '.join(late)}")
    return 1 if late and options.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
