"""The short form of `python -m tests.crash.chaos`: everything fails for a while, nothing is lost or done twice."""

import os
import random
from pathlib import Path

from tests.crash.chaos.plan import make
from tests.crash.chaos.run import Run
from tests.crash.chaos.table import whole
from tests.crash.chaos.websocket import WebSocketUsers

SECONDS = float(os.environ.get("NANOBOT_CHAOS_SECONDS", "30"))


async def test_whatever_fails_every_message_is_answered_once_and_seen_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("NANOBOT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
    users = WebSocketUsers(200)
    plan = make(seed, SECONDS, {users.name: users.faults})
    report = await Run(plan, [users], tmp_path, queue="steer" if seed % 2 else "followup")()
    print(whole(report))
    assert not report.failures, f"again: python -m tests.crash.chaos --seed {seed} --minutes {SECONDS / 60:g}"
    assert report.accepted[users.name] == len(plan.says)


def test_the_same_seed_makes_the_same_plan() -> None:
    assert make(7, 60, {"websocket": ("dropped",)}) == make(7, 60, {"websocket": ("dropped",)})
    assert make(7, 60, {"websocket": ("dropped",)}) != make(8, 60, {"websocket": ("dropped",)})
