"""What the tests of executors share: the fake tools as programs, jobs, and captured streams."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nanobot.executor import Executor, Job, ProcessRecord, Result, Spent, Step
from nanobot.executors.claude import Claude
from nanobot.executors.codex import Codex
from nanobot.executors.run import ExecutorRun
from nanobot.messages import new_id
from nanobot.security.context import SecurityContext
from tests.security_support import security_of

SAMPLES = Path(__file__).parents[1] / "samples" / "executors"
FAKE = Path(__file__).with_name("fake_cli.py")


class CodexSettings(msgspec.Struct):
    command: str = "codex"
    model: str = ""
    sandbox: str = "workspace-write"
    config: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}


class ClaudeSettings(msgspec.Struct):
    command: str = "claude"
    model: str = ""
    permission_mode: str = "acceptEdits"
    max_budget_usd: float | None = None
    allowed_tools: Sequence[str] = ()
    env: Mapping[str, str] = {}


def program(folder: Path, name: str) -> str:
    """The fake as a program of this name; it goes by what it is called."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / name
    shutil.copy(FAKE, place)
    place.chmod(0o755)
    return str(place)


def security(folder: Path, level: str = "high") -> SecurityContext:
    """Of a workspace `work` below the folder, where a session may work anywhere."""
    return security_of(folder / "work", level=level, allowed_dirs=["*"])


def executor(folder: Path, name: str) -> Executor:
    command = program(folder / "bin", name)
    if name == "codex":
        return Codex(CodexSettings(command=command), security(folder))
    return Claude(ClaudeSettings(command=command), security(folder))


def job(folder: Path, prompt: str, **fields: Any) -> Job:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    given: dict[str, Any] = {
        "turn": 1,
        "timeout": 30.0,
        "marker": f"test:{new_id()}",
        "fresh": new_id(),
        **fields,
    }
    return Job(prompt=prompt, working_dir=work, folder=folder / "child", **given)


async def run(one: Executor, work: Job, **options: Any) -> tuple[Result, list[Step]]:
    steps: list[Step] = []
    turn = ExecutorRun(one, work, steps.append, **options)
    await turn.start()
    return await turn.wait(), steps


__all__ = [
    "SAMPLES", "ClaudeSettings", "CodexSettings", "ProcessRecord", "Spent", "executor", "job", "program", "run", "security",
]  # fmt: skip
