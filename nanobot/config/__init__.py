"""The configuration: `<workspace>/config.toml`, environment overrides, defaults, and errors that name the remedy."""

from nanobot.config.channels import ChannelSettings
from nanobot.config.load import Config, load
from nanobot.config.schema import (
    Agent,
    Claude,
    Codex,
    Delegation,
    Delivery,
    Executors,
    Goals,
    Http,
    Logs,
    ModelSettings,
    Security,
    Sessions,
)
from nanobot.workspace import workspace_dir

__all__ = [
    "Agent",
    "ChannelSettings",
    "Claude",
    "Codex",
    "Config",
    "Delegation",
    "Delivery",
    "Executors",
    "Goals",
    "Http",
    "Logs",
    "ModelSettings",
    "Security",
    "Sessions",
    "load",
    "workspace_dir",
]
