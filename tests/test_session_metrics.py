"""What sessions use, measured on real processes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nanobot.messages import new_id
from nanobot.security import process, tree
from nanobot.session_metrics import Load, Pulse, SessionMetrics, load_of


async def test_several_trees_of_processes_are_measured_as_one() -> None:
    line = ("sh", "-c", "sleep 30 & sleep 30")
    shells = [await asyncio.create_subprocess_exec(*line, start_new_session=True) for _ in range(2)]
    roots = {found: "" for shell in shells if (found := tree.identify(shell.pid))}
    assert len(roots) == 2
    try:
        async with asyncio.timeout(10):
            while load_of(roots).processes < 6:
                await asyncio.sleep(0)  # until the shells have started both
        assert load_of(roots).memory_mb > 0
    finally:
        for root in roots:
            await tree.kill_tree(root)
        for shell in shells:
            await shell.wait()
    assert load_of(roots) == Load()


async def test_a_command_is_known_by_its_session_while_it_runs(tmp_path: Path) -> None:
    key = new_id()
    running = asyncio.create_task(
        process.run(["sleep", "30"], cwd=tmp_path, environment={}, timeout=30, session=key)
    )
    async with asyncio.timeout(10):
        while load_of(process.of_session(key)).processes == 0:
            await asyncio.sleep(0)
    assert process.of_session("another") == {}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert process.of_session(key) == {}


def test_a_session_is_stressed_by_what_it_uses_in_all_or_for_each_agent() -> None:
    def stressed(active: int, memory: float, cpu: float) -> bool:
        load = Load(1, memory, 1.0, cpu)
        return SessionMetrics(agents=20, active=active, load=load).stressed

    assert not stressed(1, 400, 80)
    assert stressed(1, 401, 0)
    assert stressed(1, 0, 81)
    assert not stressed(7, 401, 81)
    assert stressed(20, 3_073, 0)
    assert stressed(20, 0, 601)


def test_counts_that_cannot_be_are_refused() -> None:
    assert SessionMetrics(messages=8, errors=1).error_rate == 12.5
    assert SessionMetrics().error_rate == 0
    wrongs: list[dict[str, Any]] = [{"errors": -1}, {"agents": 1, "active": 1, "idle": 1}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"."):
            SessionMetrics(**wrong)


def test_the_share_of_a_core_is_that_since_the_last_look() -> None:
    pulse = Pulse()
    assert pulse.percent("a", Load(1, 1, 100.0, 7.5)) == 7.5  # its whole life
    assert pulse.percent("a", Load(1, 1, 0.0, 3.0)) == 3.0  # other processes than before
