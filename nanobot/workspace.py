"""Where a workspace and its state are. Light: commands that need no configuration do not pay for one."""

import os
from pathlib import Path

from nanobot.errors import UsageError

CONFIG_FILE = "config.toml"
STATE_DIR = ".nanobot"


def workspace_dir(option: str | None = None) -> Path:
    """The workspace: `-w`, else NANOBOT_WORKSPACE, else ~/.nanobot."""
    chosen = option or os.environ.get("NANOBOT_WORKSPACE") or "~/.nanobot"
    try:
        place = Path(chosen).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{chosen}: there is no such home directory. Name the workspace with -w.") from error
    if place.exists() and not place.is_dir():
        raise UsageError(f"{place} is no directory. Name the workspace with -w.")
    return place.absolute()


def state_dir(workspace: Path) -> Path:
    """The gateway's own folder in a workspace: 0700, out of the agent's reach."""
    return workspace / STATE_DIR
