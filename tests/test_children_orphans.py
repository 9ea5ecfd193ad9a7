"""What an earlier gateway left: processes by id, start and boot, commands whose gateway is gone, files that grew old."""

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from nanobot.child import Child
from nanobot.child_orphans import KEEP_DAYS
from nanobot.executor import ProcessRecord
from nanobot.security import state_key, tree
from tests.gateway_in_memory import World, life
from tests.test_children import use, world_of

Sleeper = asyncio.subprocess.Process


@pytest.fixture
async def sleeper() -> AsyncIterator[Sleeper]:
    """A process of its own session, as tools are."""
    process = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


def record_of(process: Sleeper) -> ProcessRecord:
    identity = tree.identify(process.pid)
    assert identity
    return ProcessRecord(process.pid, identity.started, tree.boot_id(), "no-such-mark")


async def ended_child(world: World, process: ProcessRecord | None = None) -> Child:
    """One that ended in an earlier life."""
    async with life(world) as gateway:
        await use(gateway, "delegate", task="hello", executor="codex")
        child = gateway.children.records.all()[0]
        child = msgspec.structs.replace(child, process=process or child.process)
        return await gateway.children.records.put(child)


async def test_what_an_ended_child_left_running_is_ended_at_the_next_start(
    tmp_path: Path, sleeper: Sleeper
) -> None:
    world = world_of(tmp_path, None, "codex")
    await ended_child(world, process=record_of(sleeper))
    async with life(world):
        assert await asyncio.wait_for(sleeper.wait(), 10) == -9


@pytest.mark.parametrize("difference", ["start", "boot"])
async def test_a_process_that_only_has_the_same_number_is_left_alone(
    tmp_path: Path, sleeper: Sleeper, difference: str
) -> None:
    world = world_of(tmp_path, None, "codex")
    record = record_of(sleeper)
    number, boot = record.started, record.boot
    other = ProcessRecord(record.pid, number - 1, boot, "no-such-mark")
    if difference == "boot":
        other = ProcessRecord(record.pid, number, "another", "no-such-mark")
    await ended_child(world, process=other)
    async with life(world):
        identity = tree.identify(sleeper.pid)
        assert identity
        assert tree.alive(identity)


async def test_a_command_whose_gateway_is_gone_is_ended_and_one_whose_gateway_lives_is_not(
    tmp_path: Path,
) -> None:
    gone = await asyncio.create_subprocess_exec("true")
    identity = tree.identify(gone.pid)
    owner = f"{gone.pid}.{identity.started if identity else 1}"
    await gone.wait()
    commands = [
        await asyncio.create_subprocess_exec(
            "sleep", "300", env={**os.environ, tree.OWNER: one}, start_new_session=True
        )
        for one in (owner, tree.owner())
    ]
    async with life(world_of(tmp_path)):
        assert await asyncio.wait_for(commands[0].wait(), 10) == -9
        assert commands[1].returncode is None
    commands[1].kill()
    await commands[1].wait()


async def test_what_an_ended_child_wrote_before_a_kill_is_sealed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, None, "codex")
    child = await ended_child(world)
    path = world.workspace / ".nanobot" / "children" / child.id / "turn_1.jsonl"
    assert b"codex: hello" in path.read_bytes()
    monkeypatch.setenv(state_key.VARIABLE, state_key.new_master())
    world.sealer = state_key.begin(tmp_path / "elsewhere")  # one that takes no plain files of ended turns
    assert not world.sealer.plain
    async with life(world) as gateway:
        assert b"codex: hello" not in path.read_bytes()
        found = await use(gateway, "get_trajectory", session_id=child.id, full=True)
        assert "codex: hello" in str(found["steps"])


async def test_the_files_of_old_turns_are_removed_and_their_histories_stay(tmp_path: Path) -> None:
    world = world_of(tmp_path, None, "codex")
    child = await ended_child(world)
    folder = world.workspace / ".nanobot" / "children" / child.id
    async with life(world) as gateway:  # a day old, and the files are there
        assert (folder / "turn_1.jsonl").is_file()
        young = gateway.children.records.all()[0]
        old = msgspec.structs.replace(young, updated_at=young.updated_at - timedelta(days=KEEP_DAYS, hours=1))
        await gateway.children.records.put(old)
    async with life(world) as gateway:
        assert not folder.exists()
        state = await use(gateway, "check_session", session_id=child.id)
        assert state["response"] == "codex: hello"


async def test_thousands_that_ended_cost_a_start_no_second(tmp_path: Path, sleeper: Sleeper) -> None:
    world = world_of(tmp_path, None, "codex")
    child = await ended_child(world, process=record_of(sleeper))
    assert child.process
    gone = msgspec.structs.replace(child.process, pid=child.process.pid, started=1)
    async with life(world) as gateway:
        for number in range(2_000):
            other = msgspec.structs.replace(
                child,
                id=str(uuid.UUID(int=number)),
                process=msgspec.structs.replace(gone, marker=f"m{number}"),
            )
            await gateway.children.records.put(other)
    began = time.process_time()
    async with life(world) as gateway:
        assert len(gateway.children.records.all()) == 2_001
    assert time.process_time() - began < 2.0
