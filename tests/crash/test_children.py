"""A gateway killed with sub-sessions at work: each is resumed, taken over or reported, and reported once."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from nanobot import SessionManager
from nanobot.security import tree
from tests.crash.client import Client
from tests.crash.process import GatewayProcess
from tests.emulators.openai import OpenAIServer
from tests.executors.support import program

KINDS = ("agent", "codex", "claude", "shell")
SECONDS = f"7531.{os.getpid()}"  # for a command to sleep; other runs of this test sleep for another time


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    async with OpenAIServer() as model:
        lines = [
            f'[executors.{name}]\ncommand = "{program(tmp_path / "bin", name)}"'
            for name in ("codex", "claude")
        ]
        process = GatewayProcess(tmp_path / "workspace", model.url, extra="\n".join(lines))
        yield process
        await process.kill()


def reports(workspace: Path) -> list[str]:
    messages = SessionManager(workspace).get_or_create("websocket:c").messages
    return [line["content"] for line in messages if line.get("injected") == "child_result"]


async def until_reports(workspace: Path, count: int) -> list[str]:
    async with asyncio.timeout(40):
        while len(found := reports(workspace)) < count:
            await asyncio.sleep(0.1)  # another process writes it
    return found


def processes(file: str, mark: str) -> dict[int, str]:
    """The command lines of the processes whose `/proc` file holds this."""
    found = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                if mark.encode() in (place / file).read_bytes():
                    found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def sleepers(mark: str) -> list[int]:
    return list(processes("cmdline", mark))


async def until_nothing_is_left(gateway: GatewayProcess, owners: set[int]) -> None:
    """No process of these gateways' commands or of any of their sub-sessions; others' on this machine do not count."""
    marks = [f"{tree.OWNER}={pid}." for pid in owners]
    marks += [
        f"{tree.MARKER}=child:{one.name}:" for one in (gateway.workspace / ".nanobot" / "children").iterdir()
    ]
    left: dict[int, str] = {}
    try:
        async with asyncio.timeout(20):
            while left := {pid: line for mark in marks for pid, line in processes("environ", mark).items()}:
                await asyncio.sleep(0.05)  # a signal was sent; the kernel ends them when it comes to it
    except TimeoutError:
        pytest.fail(f"still running: {left}")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "SIGTERM"])
async def test_four_children_survive_the_end_of_their_gateway_and_answer_once(
    gateway: GatewayProcess, how: signal.Signals
) -> None:
    tasks = {
        "agent": ("agent", "DELAY 2\nfrom agent"),
        "codex": ("codex", "SLEEP 3\nfrom codex"),
        "claude": ("claude", "SLEEP 3\nfrom claude"),
        "shell": ("agent", f'TOOL exec {{"command": "sleep {SECONDS}"}}'),
    }
    await gateway.start()
    owners = {gateway.pid}
    async with Client(gateway.url) as client:
        for number, (executor, task) in enumerate(tasks.values(), 1):
            call = {"task": task, "executor": executor, "mode": "async"}
            await client.send("c", f"TOOL delegate {json.dumps(call)}", f"m{number}")
            await client.until(lambda one, number=number: one.total() >= number)  # else it would steer
        async with asyncio.timeout(20):
            while not sleepers(SECONDS):
                await asyncio.sleep(0.05)  # another process starts it
        await (gateway.kill() if how is signal.SIGKILL else gateway.terminate())
        await gateway.start()
        owners.add(gateway.pid)
        found = await until_reports(gateway.workspace, 4)
    text = "\n".join(found)
    assert text.count("from agent") >= 1
    assert "codex: SLEEP 3\nfrom codex" in text
    assert "claude: SLEEP 3\nfrom claude" in text
    assert "interrupted: outcome unknown" in text
    await gateway.terminate()
    await until_nothing_is_left(gateway, owners)
    assert sleepers(SECONDS) == []
    assert len(reports(gateway.workspace)) == 4


async def test_a_child_whose_gateway_and_process_both_died_is_started_again_and_reported_once(
    gateway: GatewayProcess, tmp_path: Path
) -> None:
    await gateway.start()
    async with Client(gateway.url) as client:
        call = {"task": f"ONCE 0 {tmp_path / 'hung'}", "executor": "codex", "mode": "async"}
        await client.send("c", f"TOOL delegate {json.dumps(call)}", "m1")
        await client.until(lambda one: one.total() == 1)
        children = gateway.workspace / ".nanobot" / "children"
        async with asyncio.timeout(20):
            while not any(one.read_text() for one in children.glob("*/turn_1.jsonl")):
                await asyncio.sleep(0.05)  # another process writes it
        [record] = children.iterdir()
        await gateway.kill()
        for seen in tree.marked(f"child:{record.name}:1"):
            tree.send(seen.identity, signal.SIGKILL)
        await gateway.start()
        [told] = await until_reports(gateway.workspace, 1)
    assert "codex (completed)" in told
    assert "Started again once: its process died, and nobody saw how" in told


async def test_a_sync_delegation_goes_on_after_a_kill_and_its_result_comes_once(
    gateway: GatewayProcess,
) -> None:
    await gateway.start()
    async with Client(gateway.url) as client:
        call = {"task": "SLEEP 2\nfrom codex", "executor": "codex"}
        await client.send("c", f"TOOL delegate {json.dumps(call)}", "m1")
        children = gateway.workspace / ".nanobot" / "children"
        async with asyncio.timeout(20):
            while not list(children.glob("*/turn_1.jsonl")):
                await asyncio.sleep(0.05)  # another process starts it
        await gateway.kill()
        await gateway.start()
        await client.until(lambda one: one.total() == 1)
        [answer] = client.texts("c")
    assert "codex: SLEEP 2\\nfrom codex" in answer
    assert len(list(children.iterdir())) == 1
    await gateway.terminate()
    assert reports(gateway.workspace) == []
