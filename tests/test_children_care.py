"""Outside agents that die at work, seen from their parent: started again, told, and reported once."""

import json
from pathlib import Path

import pytest

from nanobot.health import HealthLimits
from tests.gateway_in_memory import InMemory, life
from tests.test_children import until_results, use, world_of

LIMITS = HealthLimits(interval=0.05, restarts=2, backoff=0.01)


@pytest.mark.parametrize("tool", ["codex", "claude"])
async def test_a_child_that_dies_is_started_again_and_reported_once(tmp_path: Path, tool: str) -> None:
    async with life(world_of(tmp_path, None, tool)) as gateway:
        gateway.care.limits = LIMITS
        task = f"ONCE 9 {tmp_path / 'died'}"
        found = await use(gateway, "delegate", task=task, executor=tool, mode="async")
        (told,) = await until_results(gateway, 1)
        await gateway.answers(2)  # the parent has answered it
        assert f"({'completed'})" in told
        assert "Started again once: its process was killed by signal 9" in told
        state = await use(gateway, "check_session", session_id=found["session_id"])
        assert (state["status"], state["restarts"]) == ("completed", 1)
        assert state["restart_reason"] == "its process was killed by signal 9"
        again = await use(gateway, "converse", session_id=found["session_id"], message="and now?")
        assert "restarts" not in again
        assert len(await until_results(gateway, 1)) == 1


async def test_a_parent_that_waits_for_it_is_told_and_gets_one_result(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, None, "codex")) as gateway:
        gateway.care.limits = LIMITS
        found = await use(gateway, "delegate", task=f"ONCE 9 {tmp_path / 'died'}", executor="codex")
        assert found["status"] == "completed"
        assert found["restarts"] == 1
        assert len(notes(await history(gateway))) == 1
        assert "codex is started again (1 of at most 2 times)" in notes(await history(gateway))[0]


async def test_a_child_that_keeps_dying_has_failed_and_says_how_often(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, None, "codex")) as gateway:
        gateway.care.limits = LIMITS
        found = await use(gateway, "delegate", task="DIE 9", executor="codex")
        assert (found["success"], found["status"], found["restarts"]) == (False, "failed", 2)
        assert "started again 2 times" in json.dumps(found)


async def test_what_a_dying_child_had_begun_is_seen_in_its_trajectory(tmp_path: Path) -> None:
    async with life(world_of(tmp_path, None, "codex")) as gateway:
        gateway.care.limits = LIMITS
        task = f"USED before\nONCE 9 {tmp_path / 'died'}"
        found = await use(gateway, "delegate", task=task, executor="codex")
        steps = await use(gateway, "get_trajectory", session_id=found["session_id"])
        assert steps["success"] is True
        assert any("[response]" in step for step in steps["steps"])


async def history(gateway: InMemory) -> list[dict[str, object]]:
    return [dict(line) for line in await gateway.history()]


def notes(lines: list[dict[str, object]]) -> list[str]:
    return [str(line["content"]) for line in lines if line.get("injected") == "nudge"]
