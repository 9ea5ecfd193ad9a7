"""What the tests of sessions share."""

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

from nanobot.messages import Line
from nanobot.stores.sessions import SessionManager

KEY = "websocket:1"
ROOT = Path(__file__).parent.parent  # where a child finds the packages


def file_of(sessions: SessionManager, key: str = KEY) -> Path:
    assert sessions.directory is not None
    return sessions.directory / f"{sessions.safe_key(key)}.jsonl"


def archive_of(sessions: SessionManager, key: str = KEY) -> list[list[bytes]]:
    """The archive's segments, each as its lines."""
    assert sessions.directory is not None
    folder = sessions.directory / "archive" / sessions.safe_key(key)
    return [gzip.decompress(one.read_bytes()).splitlines() for one in sorted(folder.glob("*"))]


def turn(number: int, text: str = "") -> list[Line]:
    return [
        Line(role="user", content=text or f"question {number}", turn=f"t{number}"),
        Line(role="assistant", content=f"answer {number}", turn=f"t{number}", latency_ms=1),
    ]


def texts(lines: Any) -> list[Any]:
    return [line["content"] for line in lines]


async def grow(sessions: SessionManager, turns: int, first: int = 0) -> None:
    for number in range(first, first + turns):
        await sessions.append(KEY, turn(number))


def run_child(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, which may kill itself."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=ROOT,
    )
