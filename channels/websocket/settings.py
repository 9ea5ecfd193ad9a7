"""The channel's table of the configuration, `[channels.websocket]`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from nanobot.channel import ConfigError

OWNER = "owner"


class Settings(msgspec.Struct, frozen=True):
    """Who may connect. With no token at all, everyone on the loopback interface is the owner."""

    token: str = ""
    users: dict[str, str] = {}
    allow_origins: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """No token is set: whoever reaches the loopback address acts as the owner."""
        return not self.token and not self.users


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Check the table; raises ConfigError with the key and the remedy."""
    try:
        settings = msgspec.convert(dict(table), Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"[channels.websocket]: {error}") from None
    if OWNER in settings.users:
        raise ConfigError(
            f"[channels.websocket] users: '{OWNER}' is the owner's name; set `token` for the owner"
        )
    # The parts of a message's id are told apart by it: else one person's id could be another's, and count as a repeat.
    if any(":" in name for name in settings.users):
        raise ConfigError("[channels.websocket] users: a name cannot hold a colon")
    tokens = [token for token in (settings.token, *settings.users.values()) if token]
    if len(tokens) < len(settings.users) + bool(settings.token):
        raise ConfigError("[channels.websocket] users: every user needs a token that is not empty")
    if len(set(tokens)) < len(tokens):
        raise ConfigError(
            "[channels.websocket] users: two principals have the same token; give each their own"
        )
    return settings
