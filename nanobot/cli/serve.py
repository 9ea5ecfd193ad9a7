"""The gateway's own process: `python -P -m nanobot.cli.serve WORKSPACE [HOST] [PORT]`, empty for what is not given.

`nanobot gateway` becomes this once it has read its options. A gateway lives for months; the command line's libraries
would stay in its memory all that time: 9 MB of 63.
"""

import sys
from pathlib import Path

from nanobot.cli.verdict import judged


def main() -> int:
    """Run a gateway; returns the exit code."""
    return judged(serve)


def serve() -> int:
    from nanobot import app  # noqa: PLC0415 - inside, so that its errors on importing are told like others

    workspace, host, port = [*sys.argv[1:], "", ""][:3]
    return app.run(Path(workspace), host=host or None, port=int(port) if port else None)


if __name__ == "__main__":
    sys.exit(main())
