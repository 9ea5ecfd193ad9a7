"""What every REST handler needs: bounded bodies, JSON answers, refusals."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from nanobot.channel import deadline

MAX_BODY = 64 * 1024  # bytes of a JSON body
BODY_SECONDS = 120.0  # for a client to send its body

Handler = Callable[[Request, str], Awaitable[Response]]
T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.response = reply({"error": {"code": code, "detail": detail}}, status)


def reply(value: Any, status: int = 200) -> Response:
    """A JSON answer that no page can be tricked into running and no cache keeps."""
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(_encode(value), status, headers, media_type="application/json")


async def body(request: Request, limit: int) -> bytes:
    """The body, refused as soon as it is known to be too long."""
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise Refusal(413, "too_large", f"at most {limit} bytes")
    data = bytearray()
    try:
        async with deadline(BODY_SECONDS, "receiving the body"):
            async for part in request.stream():
                data += part
                if len(data) > limit:
                    raise Refusal(413, "too_large", f"at most {limit} bytes")
    except ClientDisconnect:
        raise Refusal(400, "bad_request", "the body was cut off") from None
    return bytes(data)


async def decoded(request: Request, kind: type[T]) -> T:
    """The body as JSON of this kind; an empty one is an empty object."""
    data = await body(request, MAX_BODY)
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "bad_request", f"the body is not what is needed: {error}") from None
