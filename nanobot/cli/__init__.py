"""The command line. `version` answers without importing anything that it does not need."""

import sys

from nanobot import __version__


def main() -> None:
    """Run a command and exit: 0 ok, 1 failed, 2 usage or configuration error."""
    if sys.argv[1:] in (["version"], ["--version"]):
        sys.stdout.write(f"nanobot {__version__}\n")
        return
    from nanobot.cli.root import run  # noqa: PLC0415 - lazy: typer alone costs more than `version` may

    sys.exit(run())
