"""The webhook: Telegram's requests, proved by the secret, answered once the update is durable."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from loguru import logger
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nanobot.channel import DeadlineExceeded, StoreError

from .settings import WEBHOOK_PATH

HEADER = "X-Telegram-Bot-Api-Secret-Token"
MAX_BODY = 4 << 20  # bytes; updates are a few kilobytes


class Webhook:
    """Open between start and stop; otherwise 503, so that Telegram sends again."""

    def __init__(self, secret: str, take: Callable[[Any], Awaitable[None]]) -> None:
        self._secret = secret.encode()
        self._take = take
        self.open = False

    def route(self) -> Route:
        return Route(WEBHOOK_PATH, self._receive, methods=["POST"])

    async def _receive(self, request: Request) -> Response:
        if not hmac.compare_digest(request.headers.get(HEADER, "").encode(), self._secret):
            logger.warning("telegram: a request to the webhook without its secret was refused")
            return Response(status_code=403)
        if not self.open:
            return Response(status_code=503)
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                return Response(status_code=413)
        try:
            raw = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            logger.warning("telegram: a request to the webhook is no JSON; it is left out")
            return Response()  # it would come again for a day
        try:
            await self._take(raw)
        except (StoreError, DeadlineExceeded) as error:
            logger.warning("telegram: an update could not be kept and must come again: {}", error)
            return Response(status_code=503)
        return Response()
