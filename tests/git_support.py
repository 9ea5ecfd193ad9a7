"""Real repositories for tests."""

import subprocess
from pathlib import Path


def git(place: Path, *arguments: str, stdin: bytes = b"") -> str:
    line = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    return subprocess.run(line, cwd=place, check=True, capture_output=True, input=stdin).stdout.decode()


def repository(place: Path, *, kind: str = "sha1") -> Path:
    """With an unborn branch."""
    place.mkdir(parents=True, exist_ok=True)
    git(place, "init", "-q", "-b", "main", f"--object-format={kind}")
    return place


def commit(place: Path, name: str = "a") -> None:
    (place / name).write_text(name)
    git(place, "add", name)
    git(place, "commit", "-q", "-m", name)
