"""A `[models.<provider>]` table as tests need it."""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import msgspec

from nanobot.messages import Line
from nanobot.model import ModelEvent, ModelRequest, Text


class Settings(msgspec.Struct, frozen=True):
    kind: str = "openai"
    api_key: str = "sk-secret-of-the-test"
    base_url: str = ""
    timeout: float = 10.0
    idle_timeout: float = 5.0
    path: str = ""
    headers: Mapping[str, str] = {}
    extra: Mapping[str, Any] = {}


def asks(text: str, *before: Line, **fields: Any) -> ModelRequest:
    """A request whose last message is the user's text."""
    return ModelRequest(system="Be brief.", messages=[*before, Line(role="user", content=text)], **fields)


def text_of(events: Iterable[ModelEvent]) -> str:
    """The words of an answer, however they were cut."""
    return "".join([event.text for event in events if isinstance(event, Text)])


async def collect(stream: AsyncIterator[ModelEvent]) -> list[ModelEvent]:
    return [event async for event in stream]
