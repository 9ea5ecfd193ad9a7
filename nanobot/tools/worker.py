"""Work on what strangers wrote, in a child process that can be stopped.

A regular expression or a broken page can keep Python busy for hours, and nothing inside one interpreter can end
that: it would hold up every chat. The child has only the standard library, so it is ready in some 20 ms.
"""

import sys
from pathlib import Path
from typing import Any

import msgspec

from nanobot.errors import ToolError
from nanobot.security import environment, process

_LIMITS = process.Limits(memory_mb=1024)
_OUTPUT = 4_000_000  # bytes of the answer
_PACKAGE = Path(__file__).parents[2]
_START = (
    "import json, sys; from importlib import import_module; sys.path.insert(0, sys.argv[1]); "
    "json.dump(import_module(sys.argv[2]).answer(json.load(sys.stdin)), sys.stdout)"
)


class TooLong(ToolError):
    """The work was not done in its time and was stopped."""


async def ask(module: str, request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What `answer(request)` of a module returns that imports nothing but the standard library and its like."""
    done = await process.run(
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", _START, str(_PACKAGE), module],
        cwd=_PACKAGE,
        environment=environment.scrubbed(_PACKAGE),
        timeout=seconds,
        stdin=msgspec.json.encode(request),
        limits=_LIMITS,
        output_limit=_OUTPUT,
    )
    if done.timed_out:
        raise TooLong(f"the work took more than {seconds:g} s")
    try:
        return msgspec.json.decode(done.output, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ToolError(f"the work failed: {done.output[-300:]}") from error
