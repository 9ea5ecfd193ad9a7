"""What the figures depend on: the machine, the interpreter and the commit. Nothing that names the host."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from bench.processes import ROOT


def about() -> dict[str, Any]:
    """A description that can be published."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "cpu": cpu(),
        "cpus": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 2),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
    }


def commit() -> str:
    """The short id of the commit that is measured; "" outside a repository."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def cpu() -> str:
    """The processor's model name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU"
    )


def sentence(info: dict[str, Any]) -> str:
    """The machine in one line."""
    return f"{info['cpus']} cores ({info['cpu']}), {info['memory_gb']:g} GB, {info['system']}, Python {info['python']}"
