"""The command line. `version` answers without importing anything that it does not need."""

import sys

from nanobot import __version__
from nanobot.cli.verdict import judged


def main() -> None:
    """Run a command and exit: 0 ok, 1 failed, 2 usage or configuration error."""
    sys.exit(judged(command))


def command() -> int:
    if sys.argv[1:] in (["version"], ["--version"]):
        print(f"nanobot {__version__}", flush=True)
        return 0
    from nanobot.cli.root import run  # noqa: PLC0415 - lazy: typer alone costs more than `version` may

    return run()
