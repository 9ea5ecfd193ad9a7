"""The short form of `python -m tests.crash.chaos`: everything fails for a while, nothing is lost or done twice."""

import os
import random
from pathlib import Path

import pytest

from tests.crash.chaos.plan import make
from tests.crash.chaos.run import Run
from tests.crash.chaos.slack import SlackUsers
from tests.crash.chaos.table import whole
from tests.crash.chaos.telegram import TelegramUsers
from tests.crash.chaos.users import Platform
from tests.crash.chaos.websocket import WebSocketUsers

SECONDS = float(os.environ.get("NANOBOT_CHAOS_SECONDS", "30"))


@pytest.mark.slow  # a random schedule, over a minute with its rest: `make chaos` and `make nightly` run it
async def test_whatever_fails_every_message_is_answered_once_and_seen_once(tmp_path: Path) -> None:
    seed = int(os.environ.get("NANOBOT_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
    # Slack without previews: one of a later answer can still be posted before an earlier reply that waits.
    platforms: list[Platform] = [WebSocketUsers(70), TelegramUsers(70), SlackUsers(70, previews=False)]
    plan = make(seed, SECONDS, {one.name: one.faults for one in platforms}, chats=70, rate=15)
    report = await Run(plan, platforms, tmp_path, queue="steer" if seed % 2 else "followup")()
    print(whole(report))
    assert not report.failures, f"again: python -m tests.crash.chaos --seed {seed} --minutes {SECONDS / 60:g}"
    assert sum(report.accepted.values()) == len(plan.says)


def test_the_same_seed_makes_the_same_plan() -> None:
    assert make(7, 60, {"websocket": ("dropped",)}) == make(7, 60, {"websocket": ("dropped",)})
    assert make(7, 60, {"websocket": ("dropped",)}) != make(8, 60, {"websocket": ("dropped",)})
