"""The Bot API by python-telegram-bot: one client for calls, one for long polling, and what its errors mean here."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import aiohttp

from nanobot.channel import DeadlineExceeded, RetryLater, Undeliverable, Unreachable, deadline
from telegram import Bot
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)

from .request import AiohttpRequest

CALL_SECONDS = 20.0
UPLOAD_SECONDS = 50.0  # of a file; below the time that the outbox allows one delivery
CONNECTIONS = 64
POLL_SLACK = 5.0  # beyond the time that Telegram holds a poll; then it is taken for lost
REVOKED_SECONDS = 300.0  # between attempts while the token is refused
UPDATES = ("message", "edited_message", "callback_query", "my_chat_member")
# Failures before anything was sent: no address, no connection, no free one in the pool.
NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError, aiohttp.ConnectionTimeoutError)


class Api:
    """The connection to one bot."""

    def __init__(self, token: str, api_url: str) -> None:
        base = api_url.rstrip("/")
        self._closed = False
        self._polls = polling_client()
        self.bot = Bot(
            token,
            base_url=f"{base}/bot",
            base_file_url=f"{base}/file/bot",
            request=AiohttpRequest(
                connections=CONNECTIONS, seconds=CALL_SECONDS, upload_seconds=UPLOAD_SECONDS
            ),
            get_updates_request=self._polls,
        )

    async def open(self) -> None:
        """Ask who we are; InvalidToken where the token is no (longer) good."""
        self._closed = False
        async with deadline(CALL_SECONDS, "getMe"):
            await self._polls.initialize()
            await self.bot.initialize()

    async def reopen(self) -> None:
        """Have a client for calls again, after `close`."""
        if self._closed:
            self._closed = False
            await self.bot.request.initialize()

    async def close(self) -> None:
        async with deadline(CALL_SECONDS, "closing the connections to Telegram"):
            await self.bot.shutdown()
            await self._polls.shutdown()
        self._closed = True

    async def updates(self, offset: int, seconds: int) -> Sequence[dict[str, Any]]:
        """One long poll. Raw updates, so that one that is malformed spoils no other."""
        allowed = quote("[" + ",".join(f'"{kind}"' for kind in UPDATES) + "]")
        query = f"timeout={seconds}&allowed_updates={allowed}" + (f"&offset={offset}" if offset else "")
        async with deadline(seconds + POLL_SLACK, "getUpdates"):
            found = await self._polls.post(
                f"{self.bot.base_url}/getUpdates?{query}", read_timeout=seconds + POLL_SLACK
            )
        return found if isinstance(found, list) else []

    async def rebuild_polling(self) -> None:
        """Drop the polling connection and what its pool remembers."""
        old, self._polls = self._polls, polling_client()
        await self._polls.initialize()
        async with deadline(CALL_SECONDS, "closing the polling connection"):
            await old.shutdown()


def polling_client() -> AiohttpRequest:
    return AiohttpRequest(connections=2, seconds=CALL_SECONDS)


def seconds_of(error: RetryAfter) -> float:
    """How long Telegram asked us to wait."""
    wait = error.retry_after
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)


def not_sent(error: BaseException) -> bool:
    """Whether the request never reached Telegram, so that repeating it cannot double anything."""
    return isinstance(error.__cause__, NOT_SENT)


def says(error: TelegramError, *texts: str) -> bool:
    """Whether the platform's reason holds one of these; the library changes the case of letters."""
    reason = str(error).lower()
    return any(text in reason for text in texts)


@asynccontextmanager
async def translated(what: str, seconds: float = CALL_SECONDS) -> AsyncIterator[None]:
    """Bound a call and raise the gateway's errors for the platform's; what is left means an unknown outcome.

    BadRequest and ChatMigrated pass: their callers know better.
    """
    try:
        async with deadline(seconds, what):
            yield
    except (BadRequest, ChatMigrated, DeadlineExceeded):
        raise
    except RetryAfter as error:
        raise RetryLater(seconds_of(error), f"{what}: Telegram asks to wait") from error
    except Forbidden as error:
        raise Unreachable(str(error)) from error
    except InvalidToken as error:
        raise RetryLater(REVOKED_SECONDS, f"{what}: Telegram refuses the token") from error
    except NetworkError as error:
        if not_sent(error):
            raise RetryLater(3.0, f"{what}: no connection to Telegram") from error
        raise


def undeliverable(error: BadRequest) -> Undeliverable:
    return Undeliverable(f"Telegram refused the message: {error}")
