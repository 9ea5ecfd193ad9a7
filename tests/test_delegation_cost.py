"""What sub-sessions cost: many of our own agent at once in a real gateway, and large files of outside agents."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.crash.client import Client
from tests.crash.process import ROOT, GatewayProcess
from tests.emulators.openai import OpenAIServer

CHILDREN = 50
MB = 1e6


def memory_of(pid: int, name: str = "VmRSS") -> float:
    """Resident megabytes of a process, now (VmRSS) or at most so far (VmHWM)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / MB
    raise AssertionError(name)


async def test_fifty_agents_at_once_take_less_than_a_megabyte_each(tmp_path: Path) -> None:
    async with OpenAIServer() as model:
        limits = f"[delegation]\nmax_children = {CHILDREN}"
        gateway = GatewayProcess(tmp_path / "workspace", model.url, extra=limits)
        await gateway.start()
        try:
            async with Client(gateway.url) as client:
                one = {"task": "warm up", "mode": "sync"}
                await client.send("c", f"TOOL delegate {json.dumps(one)}", "m0")
                await client.until(lambda one: one.total() == 1)
                base = memory_of(gateway.pid)
                calls = [{"task": f"HANG\nnumber {number}", "mode": "async"} for number in range(CHILDREN)]
                lines = "\n".join(f"TOOLS delegate {json.dumps(call)}" for call in calls)
                await client.send("c", lines, "m1")
                await client.until(lambda one: one.total() == 2)
                async with asyncio.timeout(30):
                    while model.in_flight < CHILDREN:
                        await asyncio.sleep(0.05)  # the gateway is another process
                each = (memory_of(gateway.pid, "VmHWM") - base) / CHILDREN
        finally:
            await gateway.kill()
    print(f"{CHILDREN} agents at once: {base:.1f} MB before, {each:.2f} MB each at most")
    assert each <= 1.0


READ = """
import sys, time
from pathlib import Path
from nanobot.executors.turns import read_turns
from nanobot.stores.turn_files import TurnFiles
began = time.process_time()
found = read_turns(TurnFiles(Path(sys.argv[1])), Path(sys.argv[1]), "codex")
seconds = time.process_time() - began
peak = next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM:")) * 1024 / 1e6
print(len(found.kept), found.left_out, seconds, peak)
"""


def reading(folder: Path, megabytes: int) -> tuple[int, float, float]:
    """Steps, seconds of processor time and most megabytes that reading a turn's file takes, in a process of its own."""
    folder.mkdir()
    with (folder / "turn_1.jsonl").open("w") as file:
        size = number = 0
        while size < megabytes * MB:
            item: dict[str, object] = {"id": f"item_{number}", "type": "command_execution"}
            item |= {"command": f"step {number}"}
            item |= {"aggregated_output": "x" * 9_000, "exit_code": 0, "status": "completed"}
            size += file.write(json.dumps({"type": "item.completed", "item": item}) + "\n")
            number += 1
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-c", READ, str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60, env=environment)
    kept, left_out, seconds, peak = done.stdout.split()
    return int(kept) + int(left_out), float(seconds), float(peak)


def test_a_turn_of_100_mb_is_read_in_little_memory_and_linear_time(tmp_path: Path) -> None:
    small, small_seconds, small_peak = reading(tmp_path / "small", 25)
    large, large_seconds, large_peak = reading(tmp_path / "large", 100)
    print(
        f"25 MB: {small_seconds:.2f} s, {small_peak:.0f} MB; 100 MB: {large_seconds:.2f} s, {large_peak:.0f} MB"
    )
    assert large > 3.9 * small
    assert large_peak < 60
    assert large_seconds < 4 * small_seconds * 2  # linear, with room for a busy machine
