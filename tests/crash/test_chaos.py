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
SEED = int(os.environ.get("NANOBOT_SEED", "11"))
CHATS = 100  # of each platform


async def _whole_run(seed: int, folder: Path) -> None:
    platforms: list[Platform] = [WebSocketUsers(CHATS), TelegramUsers(CHATS), SlackUsers(CHATS)]
    plan = make(seed, SECONDS, {one.name: one.faults for one in platforms}, chats=CHATS, rate=15)
    queue = "steer" if seed % 2 else "followup"
    report = await Run(plan, platforms, folder, queue=queue)()
    print(whole(report))
    assert not report.failures, f"again: python -m tests.crash.chaos {plan.again(queue)}"
    assert sum(report.accepted.values()) == len(plan.says)


async def test_whatever_fails_every_message_is_answered_once_and_seen_once(tmp_path: Path) -> None:
    await _whole_run(SEED, tmp_path)


@pytest.mark.slow  # another schedule each time; `make nightly` runs it, and `make chaos` for longer
async def test_an_unknown_schedule_breaks_no_promise_either(tmp_path: Path) -> None:
    await _whole_run(random.SystemRandom().randrange(1, 2**31), tmp_path)


def test_the_same_seed_makes_the_same_plan() -> None:
    assert make(7, 60, {"websocket": ("dropped",)}) == make(7, 60, {"websocket": ("dropped",)})
    assert make(7, 60, {"websocket": ("dropped",)}) != make(8, 60, {"websocket": ("dropped",)})
