"""The channel's table of the configuration, `[channels.telegram]`."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from nanobot.channel import ConfigError

WEBHOOK_PATH = "/telegram/webhook"
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")


class Settings(msgspec.Struct, frozen=True):
    """Defaults are those of channel.toml; seconds where a time is meant."""

    token: str = ""
    api_url: str = "https://api.telegram.org"
    webhook_url: str = ""
    webhook_secret: str = ""
    group_policy: str = "mention"
    allow_from: tuple[str, ...] = ()
    unknown_send: str = "resend"
    reaction: str = "👀"
    stream: bool = True
    patience: float = 2.0
    edit_interval: float = 3.0
    draft_interval: float = 0.8
    poll_timeout: int = 25

    @property
    def webhook(self) -> str:
        """The full address of the webhook, or nothing for long polling."""
        if not self.webhook_url:
            return ""
        parts = urlsplit(self.webhook_url)
        return urlunsplit(parts._replace(path=WEBHOOK_PATH)) if parts.path in ("", "/") else self.webhook_url


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Check the table; raises ConfigError with the key and the remedy."""
    try:
        settings = msgspec.convert(dict(table), Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"[channels.telegram]: {error}") from None
    if not settings.token:
        raise ConfigError("[channels.telegram] token is not set; @BotFather gives one")
    if settings.webhook_url and not _SECRET.fullmatch(settings.webhook_secret):
        raise ConfigError(
            "[channels.telegram] webhook_secret must be 1-256 letters, digits, _ or -; without it anybody could "
            "send updates. Make one with: openssl rand -hex 32"
        )
    return settings
