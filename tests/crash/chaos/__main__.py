"""`python -m tests.crash.chaos --minutes 10 [--seed S]`: exit status 0 when every promise held."""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from bench.machine import about, sentence
from bench.report import kills, stored
from tests.crash.chaos.plan import make
from tests.crash.chaos.run import SHOWN, Report, Run
from tests.crash.chaos.slack import SlackUsers
from tests.crash.chaos.table import proof, whole
from tests.crash.chaos.telegram import TelegramUsers
from tests.crash.chaos.users import Platform
from tests.crash.chaos.websocket import WebSocketUsers

PLATFORMS: dict[str, Callable[[int], Platform]] = {
    "slack": SlackUsers,
    "telegram": TelegramUsers,
    "websocket": WebSocketUsers,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument(
        "--seed", type=int, default=0, help="of the schedule; by default a new one, which is printed"
    )
    parser.add_argument("--chats", type=int, default=200, help="of each platform")
    parser.add_argument("--rate", type=float, default=15.0, help="messages a second, bursts aside")
    parser.add_argument("--queue", choices=("steer", "followup"), default="steer")
    parser.add_argument("--without", action="append", default=[], metavar="FAULT")
    parser.add_argument("--platform", action="append", choices=sorted(PLATFORMS), help="by default all")
    parser.add_argument("--keep", type=Path, help="a folder for the log and the workspace, which then stay")
    parser.add_argument("--proof", type=Path, help="a Markdown file to write the results to")
    parser.add_argument("--machine", default=sentence(about()), help="for the proof")
    options = parser.parse_args()
    seed = options.seed or random.SystemRandom().randrange(1, 2**31)
    print(f"seed {seed}", flush=True)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="nanobot-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    platforms = [PLATFORMS[name](options.chats) for name in options.platform or PLATFORMS]
    plan = make(
        seed,
        options.minutes * 60,
        {one.name: one.faults for one in platforms},
        chats=options.chats,
        rate=options.rate,
        without=frozenset(options.without),
    )
    try:
        report = asyncio.run(Run(plan, platforms, folder, queue=options.queue, keep=bool(options.keep))())
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(whole(report))
    if options.proof:
        options.proof.write_text(proof(report, datetime.now(UTC).date(), options.machine, kills(stored())))
    return told(report)


def told(report: Report) -> int:
    for late in report.slow[:SHOWN]:
        print(f"late: {late[:300]}")
    if not report.failures:
        print("\nevery promise held")
        return 0
    again = report.plan.again(report.queue)
    print(f"\n{len(report.failures)} promises were broken; the same schedule again: {again}")
    for failure in report.failures[:SHOWN]:
        print(f"- {failure[:600]}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
