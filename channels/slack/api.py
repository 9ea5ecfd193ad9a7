"""Calls of the Web API with a deadline, with limits kept per method and channel, and errors by what they mean."""

from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from nanobot.channel import ChannelError, Clock, RetryLater, deadline

CALL_SECONDS = 15.0
AUTH_SECONDS = 60.0  # between attempts with a token that Slack refuses
PACE_SECONDS, CALM_SECONDS = 1.0, 5.0  # between a channel's posts after a limit, and how long after it
MAX_WAIT = 30.0  # seconds between attempts while Slack cannot be reached
# Methods whose limit counts per channel; all others count per workspace.
PER_CHANNEL = frozenset({"chat.postMessage"})
# Methods that take form fields; the others take JSON.
FORM = frozenset(
    {
        "auth.test",
        "conversations.history",
        "conversations.replies",
        "users.info",
        "files.info",
        "files.getUploadURLExternal",
    }
)
TOKEN_ERRORS = frozenset(
    {"invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive", "org_login_required"}
)
# Slack had trouble of its own: whether it did what was asked is not known.
UNSURE = frozenset({"fatal_error", "internal_error", "request_timeout", "service_unavailable"})
REMEDY = "Reinstall the app to the workspace and put its new token into [channels.slack]."


class Refusal(ChannelError):
    """Slack said no; `error` is its word for why. Nothing was done."""

    def __init__(self, method: str, error: str, needed: str = "") -> None:
        more = f" (the app needs the scope {needed}; see channels/slack/README.md)" if needed else ""
        super().__init__(f"{method}: {error}{more}")
        self.error = error


class Lost(ChannelError):
    """No answer came; whether Slack did what was asked is not known."""


class Api:
    """The Web API. `trouble` is told in one sentence when the token is refused, and "" once it works again."""

    def __init__(self, token: str, base_url: str, clock: Clock, trouble: Callable[[str], None]) -> None:
        # No retry handlers: a post whose answer was lost must not be repeated below the outbox's eyes.
        self.client = AsyncWebClient(
            token=token, base_url=base_url, timeout=int(CALL_SECONDS), retry_handlers=[]
        )
        self._clock = clock
        self._trouble = trouble
        self._limited: dict[tuple[str, str], float] = {}  # until when, monotonic
        self._unreached = 0  # attempts in a row that did not get through
        self._refused = False

    async def open(self) -> None:
        """One connection pool for all calls; without it each call opens a connection of its own."""
        if self.client.session is None or self.client.session.closed:
            self.client.session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=CALL_SECONDS),
                connector=aiohttp.TCPConnector(limit=40, ttl_dns_cache=300),
            )

    async def close(self) -> None:
        """Close the pool. Later calls still work, on connections of their own: deliveries end after the intake."""
        session, self.client.session = self.client.session, None
        if session is not None:
            await session.close()

    async def call(self, method: str, **args: Any) -> Mapping[str, Any]:
        """Call a method; arguments that are None are left out.

        Raises RetryLater (nothing was done), Refusal (never will be), Lost or DeadlineExceeded (outcome unknown).
        """
        given = {key: value for key, value in args.items() if value is not None}
        scope = (method, str(given.get("channel", "")) if method in PER_CHANNEL else "")
        self._take_turn(scope)
        try:
            async with deadline(CALL_SECONDS, method):
                answer = (
                    await self.client.api_call(method, params=given)
                    if method in FORM
                    else await self.client.api_call(method, json=given)
                )
        except SlackApiError as error:
            raise self._refusal(method, scope, error) from error
        except aiohttp.ClientConnectorError as error:
            self._unreached += 1
            seconds = min(MAX_WAIT, 0.5 * 2.0 ** min(self._unreached, 8))
            raise RetryLater(seconds, f"Slack cannot be reached: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Lost(f"{method}: {type(error).__name__}: {error}") from error
        self._well()
        data = answer.data
        if not isinstance(data, dict):
            raise Lost(f"{method}: the answer was no JSON")
        if method == "auth.test":
            headers = answer.headers
            return {
                **data,
                "scopes": str(headers.get("x-oauth-scopes", "")),
                "date": str(headers.get("date", "")),
            }
        return data

    def _take_turn(self, scope: tuple[str, str]) -> None:
        """Wait out a limit. Posts that waited for its end then go one by one, or most would be refused again."""
        now = self._clock.monotonic()
        until = self._limited.get(scope, now - CALM_SECONDS)
        if until > now:
            raise RetryLater(until - now, f"{scope[0]} is limited for {until - now:.1f} s")
        if scope[1] and until > now - CALM_SECONDS:
            self._limited[scope] = now + PACE_SECONDS
        else:
            self._limited.pop(scope, None)

    def _well(self) -> None:
        self._unreached = 0
        if self._refused:
            self._refused = False
            self._trouble("")

    def _refusal(self, method: str, scope: tuple[str, str], failure: SlackApiError) -> ChannelError:
        response = failure.response
        status = int(getattr(response, "status_code", 0) or getattr(response, "status", 0) or 0)
        headers = getattr(response, "headers", {}) or {}
        data = getattr(response, "data", None)
        error = str(data.get("error") or "") if isinstance(data, dict) else ""
        if status == 429 or error in ("ratelimited", "rate_limited"):
            seconds = _seconds(headers.get("Retry-After"))
            self._limited[scope] = self._clock.monotonic() + seconds
            return RetryLater(seconds, f"{method}: limited for {seconds:g} s")
        if error in TOKEN_ERRORS:
            self._refused = True
            self._trouble(f"Slack refuses the bot token ({error}). {REMEDY}")
            return RetryLater(AUTH_SECONDS, f"{method}: {error}")
        if not error or status >= 500 or error in UNSURE:
            return Lost(f"{method}: HTTP {status} {error}")
        self._well()
        return Refusal(method, error, str(data.get("needed") or "") if isinstance(data, dict) else "")


def _seconds(value: Any) -> float:
    try:
        return min(max(float(value), 0.1), 3_600.0)
    except (TypeError, ValueError):
        return 30.0
