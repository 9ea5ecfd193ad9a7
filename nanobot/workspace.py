"""Where a workspace and its state are. Light: commands that need no configuration do not pay for one."""

import os
from pathlib import Path

CONFIG_FILE = "config.toml"
STATE_DIR = ".nanobot"


def workspace_dir(option: str | None = None) -> Path:
    """The workspace: `-w`, else NANOBOT_WORKSPACE, else ~/.nanobot."""
    chosen = option or os.environ.get("NANOBOT_WORKSPACE") or "~/.nanobot"
    return Path(chosen).expanduser().absolute()


def state_dir(workspace: Path) -> Path:
    """The gateway's own folder in a workspace: 0700, out of the agent's reach."""
    return workspace / STATE_DIR
