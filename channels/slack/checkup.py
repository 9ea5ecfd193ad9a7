"""What can be told about the app's set-up without receiving anything: tokens and scopes."""

from collections.abc import Mapping
from typing import Any

import msgspec
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from nanobot.channel import ChannelError, DeadlineExceeded, SystemClock, deadline

from .api import Api
from .settings import read_settings

# scope → what it is for
SCOPES: Mapping[str, str] = {
    "app_mentions:read": "hearing mentions",
    "channels:history": "threads in public channels",
    "groups:history": "threads in private channels",
    "im:history": "direct messages",
    "mpim:history": "group direct messages",
    "chat:write": "answering",
    "files:read": "files from people",
    "files:write": "files to people",
    "reactions:write": "marks on messages",
    "users:read": "names",
    "commands": "/nanobot",
    "assistant:write": "assistant threads and streams",
}
CHECK_SECONDS = 20.0


class Finding(msgspec.Struct, frozen=True):
    """`status` is ok, warn or fail; `remedy` says what to do about the last two."""

    status: str
    text: str
    remedy: str = ""


def missing(scopes: frozenset[str]) -> list[str]:
    """The scopes we use that the token lacks; none where Slack did not say."""
    return [one for one in SCOPES if one not in scopes] if scopes else []


async def examine(values: Mapping[str, Any]) -> list[Finding]:
    """Ask Slack about the configured tokens. `values` is the channel's table; raises ConfigError where it is unusable."""
    settings = read_settings(values)
    api = Api(settings.bot_token, settings.api_url, SystemClock(), lambda _: None)
    try:
        found = await api.call("auth.test")
    except (ChannelError, DeadlineExceeded) as error:
        return [
            Finding(
                "fail", f"bot_token: {error}", "Reinstall the app and copy its xoxb-… token to bot_token."
            )
        ]
    findings = [Finding("ok", f"bot_token belongs to {found.get('user')} in {found.get('team')}")]
    lacking = missing(frozenset(str(found["scopes"]).replace(" ", "").split(",")) - {""})
    if lacking:
        why = ", ".join(f"{one} ({SCOPES[one]})" for one in lacking)
        findings.append(
            Finding(
                "warn", f"missing scopes: {why}", "Add them under OAuth & Permissions and reinstall the app."
            )
        )
    if settings.signing_secret:
        findings.append(Finding("ok", "HTTP events at /slack/events; Slack must reach this machine"))
    else:
        findings.append(await _socket(settings.app_token, api.client))
    return findings


async def _socket(token: str, client: AsyncWebClient) -> Finding:
    try:
        async with deadline(CHECK_SECONDS, "apps.connections.open"):
            await client.apps_connections_open(app_token=token)
    except SlackApiError as error:
        word = error.response.get("error")
        return Finding(
            "fail",
            f"app_token: {word}",
            "Make an app-level token with connections:write and turn Socket Mode on.",
        )
    except (OSError, DeadlineExceeded) as error:
        return Finding("fail", f"app_token: {error}", "Check the network.")
    return Finding("ok", "app_token opens Socket Mode connections")
