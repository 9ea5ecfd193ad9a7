"""`python -m bench`: run it all, print the table, keep the figures."""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench import channels, growth, install, kill, machine, micro, report, sealed, soak, start, turns
from bench.gateway import Floor, Nanobot, Target
from bench.peer import Peer
from bench.processes import ROOT, fake_llm
from bench.table import APART, PARTS, ROWS, missed, render

PART_SECONDS = 600.0  # no part of a target may take longer, but for the curves, each of which has as much
RESULTS = Path(__file__).resolve().parent / "results"

Figures = dict[str, float | str]
Measured = dict[str, dict[str, Figures]]  # part → target → figures
Part = Callable[[Target, Path, str], Coroutine[Any, Any, Figures]]

ABOUT = """\
Measures a bare floor, nanobot and, where there is one, a peer: the same work, on this machine, in one run.
All processes are started here, talk over loopback only, and are ended by their ids. Wall times swing with what else
the machine does; CPU per turn, of the gateway's process alone, is the sturdy figure."""

ENVIRONMENT = """\
environment:
  PEER_PY   a Python that has nanobot-ai==0.3.5; the peer is then measured too (adds some minutes)

A failed or wrong turn is named under the table. Figures go to bench/results/, as JSON."""


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m bench",
        description=ABOUT,
        epilog="parts:\n"
        + "\n".join(f"  {name:9} {said}" for name, said in PARTS.items())
        + f"\n\n{ENVIRONMENT}",
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
    parser.add_argument(
        "--write", action="store_true", help="write docs/performance.md and its pictures anew"
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long the soak takes (%(default)g)")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a target figure is missed")
    return parser.parse_args(argv)


def parts(*, quick: bool, minutes: float) -> dict[str, Part]:
    """What is run for each part's name."""

    def loaded(work: Callable[[Target, Path, str, turns.Effort], Coroutine[Any, Any, Figures]]) -> Part:
        async def run(target: Target, folder: Path, llm: str) -> Figures:
            return await work(target, folder, llm, turns.Effort(slow=target.slow, quick=quick))

        return run

    async def starting(target: Target, folder: Path, llm: str) -> Figures:
        return await start.start(target, folder, llm, quick=quick)

    async def killing(target: Target, folder: Path, llm: str) -> Figures:
        return await kill.kill(target, folder, llm, quick=quick) if target.disk else {}

    async def chatting(target: Target, folder: Path, llm: str) -> Figures:
        return await channels.channels(target, folder, llm, quick=quick)

    async def filing(target: Target, folder: Path, _llm: str) -> Figures:
        return await growth.files(target, folder, messages=micro.LONG, listed=micro.LISTED)

    async def growing(target: Target, folder: Path, llm: str) -> Figures:
        return await growth.growth(target, folder, llm, quick=quick)

    async def soaking(target: Target, folder: Path, llm: str) -> Figures:
        return await soak.soak(target, folder, llm, minutes=minutes)

    async def sealing(target: Target, folder: Path, llm: str) -> Figures:
        return await sealed.sealed(target, folder, llm, quick=quick)

    async def installing(target: Target, folder: Path, _llm: str) -> Figures:
        return await install.install(target, folder)

    return {
        "turns": loaded(turns.short),
        "memory": loaded(turns.memory),
        "long": loaded(turns.long),
        "idle": loaded(turns.idle),
        "fanout": loaded(turns.fanout),
        "paced": loaded(turns.paced),
        "start": starting,
        "channels": chatting,
        "micro": filing,
        "sealed": sealing,
        "kill": killing,
        "install": installing,
        "growth": growing,
        "soak": soaking,
    }


async def measure(
    targets: Sequence[Target], wanted: Sequence[str], *, quick: bool, minutes: float
) -> Measured:
    """Every wanted part over every target, one after the other; a part that fails is a fault, not the end."""
    results: Measured = {part: {target.name: {} for target in targets} for part in wanted}
    work = parts(quick=quick, minutes=minutes)
    with tempfile.TemporaryDirectory(prefix="nanobot-bench-") as folder:
        async with fake_llm(Path(folder)) as llm:
            for part in wanted:
                for target in targets:
                    limit = PART_SECONDS * (4 if part == "growth" else 1) + minutes * 60
                    print(f"{part}: {target.name} …", file=sys.stderr, flush=True)
                    try:
                        async with asyncio.timeout(limit):
                            found = await work[part](target, Path(folder) / target.name, llm)
                    # A part's edge: told under the table, and the others are measured.
                    except Exception as error:
                        said = str(error).strip().splitlines() or [""]
                        found = {f"{part}.faults": f"{type(error).__name__}: {said[0]} … {said[-1]}"}
                    results[part][target.name] = found
    return {part: found for part, found in results.items() if any(found.values())}


def main(argv: Sequence[str]) -> int:
    options = arguments(argv)
    targets: list[Target] = [Floor(), Nanobot()]
    if peer := os.environ.get("PEER_PY"):
        targets.append(Peer(Path(peer)))
    if options.target:
        targets = [target for target in targets if target.name in options.target]
    wanted = [part for part in ROWS if (part in options.only if options.only else part not in APART)]
    info, began = machine.about(), time.perf_counter()
    measured = uvloop.run(measure(targets, wanted, quick=options.quick, minutes=options.minutes))
    info["seconds"] = round(time.perf_counter() - began, 1)
    info["quick"] = options.quick
    results: dict[str, Figures] = {target.name: {} for target in targets}
    for found in measured.values():
        for name, figures in found.items():
            results[name] |= figures

    print(render(results, wanted))
    if any(isinstance(target, Peer) for target in targets):
        print(f"\npeer: {Peer.about}")
    print(
        f"\n{info['at']}, commit {info['commit']}, {machine.sentence(info)}, load {info['load']:.1f} before, "
        f"{info['seconds']} s" + (", quick" if options.quick else "")
    )
    path = options.json or RESULTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode({"about": info, "figures": results})) + b"\n")
    print(f"figures: {path}")
    if options.write:
        written = report.write(report.keep(measured, info))
        print(f"written: {', '.join(str(one.relative_to(ROOT)) for one in written)}")
    late = missed(results)
    if late:
        print(f"missed: {'; '.join(late)}")
    return 1 if late and options.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
