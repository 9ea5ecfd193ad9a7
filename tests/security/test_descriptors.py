"""No line of one session in another's file: descriptors are closed once."""

import os
from pathlib import Path

import uvloop

from nanobot.security import process

ROOT = Path(__file__).parents[2]


def test_no_pipe_is_given_to_the_event_loops_transports() -> None:
    """uvloop's pipe transports close a descriptor twice; in between another thread may get its number."""
    sources = [*ROOT.glob("nanobot/**/*.py"), *ROOT.glob("channels/**/*.py")]
    assert len(sources) > 100
    guilty = [
        str(path)
        for path in sources
        if "connect_read_pipe(" in path.read_text() or "connect_write_pipe(" in path.read_text()
    ]
    assert guilty == []


def test_commands_leave_no_descriptor_behind(tmp_path: Path) -> None:
    async def main() -> tuple[int, int]:
        counts = []
        for _ in range(20):
            done = await process.run(
                ["/bin/sh", "-c", "echo out; echo err >&2; sleep 60 &"],
                cwd=tmp_path, environment={"PATH": "/usr/bin:/bin"}, timeout=10,
            )  # fmt: skip
            assert done.output == "out\nerr\n"
            counts.append(len(os.listdir("/proc/self/fd")))
        return counts[1], counts[-1]

    first, last = uvloop.run(main())
    assert last <= first
