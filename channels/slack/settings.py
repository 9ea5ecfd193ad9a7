"""The channel's table of the configuration, and the pace of live views."""

from collections.abc import Mapping
from typing import Any

import msgspec

from nanobot.channel import ConfigError


class Settings(msgspec.Struct, frozen=True):
    bot_token: str
    app_token: str
    signing_secret: str
    api_url: str
    group_policy: str
    thread_follow: bool
    reactions: bool
    streaming: bool
    max_file_mb: int
    prompts: tuple[str, ...]


class Pace(msgspec.Struct, frozen=True):
    """How often a turn's view may change, in seconds; the budgets are calls a minute over all chats.

    The platform allows 100 appends, 50 edits and 20 starts a minute (docs.slack.dev/apis/web-api/rate-limits); what
    the budgets leave is for final answers.
    """

    start: float = 0.4  # between a turn's first words and its preview
    append: float = 0.7
    edit: float = 1.5
    progress: float = 2.0  # a turn without words is told about after this time
    tick: float = 10.0  # between changes of the elapsed time alone
    status: float = 90.0  # an assistant thread's status lives two minutes
    starts: float = 15
    appends: float = 85
    edits: float = 35


def read_settings(values: Mapping[str, Any]) -> Settings:
    """The settings, with defaults for what a test leaves out; ConfigError where neither way of receiving is set."""
    made = Settings(
        bot_token=str(values.get("bot_token") or ""),
        app_token=str(values.get("app_token") or ""),
        signing_secret=str(values.get("signing_secret") or ""),
        api_url=str(values.get("api_url") or "https://slack.com/api/").rstrip("/") + "/",
        group_policy=str(values.get("group_policy") or "mention"),
        thread_follow=bool(values.get("thread_follow", True)),
        reactions=bool(values.get("reactions", True)),
        streaming=bool(values.get("streaming", True)),
        max_file_mb=int(values.get("max_file_mb") or 20),
        prompts=tuple(map(str, values.get("prompts") or ())),
    )
    if not made.bot_token:
        raise ConfigError("[channels.slack] bot_token is empty. Set it to the app's xoxb-… token.")
    if not made.app_token and not made.signing_secret:
        raise ConfigError(
            "[channels.slack] has neither app_token (Socket Mode) nor signing_secret (HTTP events). Set one: without "
            "the signing secret nobody could tell Slack's requests from forged ones."
        )
    return made
