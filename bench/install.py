"""What an installation with Slack and Telegram weighs: packages and megabytes of site-packages, in a new environment."""

import asyncio
import subprocess
import sys
from pathlib import Path

from bench.gateway import Nanobot, Target, fresh
from bench.peer import Peer
from bench.processes import ROOT, NotReady

Figures = dict[str, float | str]

PIP_SECONDS = 300.0
NOT_COUNTED = {"pip", "setuptools", "wheel"}


async def install(target: Target, folder: Path) -> Figures:
    """Install ours with pip; the peer is counted where it is installed. The floor has nothing to install."""
    if isinstance(target, Peer):
        return await asyncio.to_thread(weigh, target.python)
    if not isinstance(target, Nanobot):
        return {}
    python = await asyncio.to_thread(fill, fresh(folder) / "venv")
    return await asyncio.to_thread(weigh, python)


def fill(place: Path) -> Path:
    """A new environment with nanobot[slack,telegram]; its Python."""
    _run(sys.executable, "-m", "venv", str(place))
    python = place / "bin" / "python"
    _run(str(python), "-m", "pip", "install", "--quiet", "--no-compile", f"{ROOT}[slack,telegram]")
    return python


def weigh(python: Path) -> Figures:
    """Count packages, and the bytes of site-packages without the installers' own and without compiled copies."""
    listed = _run(str(python), "-m", "pip", "list", "--format=freeze").split()
    names = {line.partition("==")[0].partition("@")[0].lower() for line in listed}
    places = _run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    size = sum(
        path.lstat().st_size
        for path in Path(places).rglob("*")
        if path.is_file() and path.suffix != ".pyc" and not _installer(path.relative_to(places).parts[0])
    )
    return {"install.packages": len(names - NOT_COUNTED), "install.mb": size / 1e6}


def _installer(name: str) -> bool:
    return name.partition("-")[0].lower() in {*NOT_COUNTED, "_distutils_hack", "pkg_resources"}


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=True).stdout
    except subprocess.SubprocessError as error:
        raise NotReady(f"{' '.join(command[1:4])} failed: {getattr(error, 'stderr', '') or error}") from error
