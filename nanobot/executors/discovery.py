"""Finds an outside agent's program: what the configuration names, else PATH, else the one a Python package brought."""

import importlib.util
import os
import shutil
from pathlib import Path

from nanobot.executor import ExecutorProblem

# program → the package that carries it, and where in it
WHEELS = {
    "codex": ("codex_cli_bin", "bin/codex", "openai-codex-cli-bin"),
    "claude": ("claude_agent_sdk", "_bundled/claude", "claude-agent-sdk"),
}


def find(name: str, configured: str = "") -> str:
    """The program's resolved path. Raises ExecutorProblem with a hint where there is none."""
    wanted = configured or name
    if wanted != name:
        path = os.path.expanduser(wanted) if "/" in wanted else shutil.which(wanted)  # noqa: PTH111 - a text stays one
        if path and _runs(Path(path)):
            return os.path.realpath(path)
        raise ExecutorProblem(
            f"{wanted}, the command of [executors.{name}], was not found or cannot be executed",
            f"correct [executors.{name}] command, or remove it to use {name} from PATH",
        )
    path = shutil.which(name)
    if path:
        return os.path.realpath(path)
    package, inside, distribution = WHEELS[name]
    spec = importlib.util.find_spec(package)  # finds it without importing it
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        place = Path(folder, inside)
        if _runs(place):
            return os.path.realpath(place)
    raise ExecutorProblem(
        f"{name} is not installed",
        f"put {name} on PATH, name it in [executors.{name}] command, or pip install {distribution}",
    )


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
