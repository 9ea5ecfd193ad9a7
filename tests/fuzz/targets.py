"""What is fuzzed: functions of bytes that raise where a promise is broken. Random mutations run in the tests; `make fuzz`
lets atheris look for inputs by the branches they reach.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from channels.slack import markdown, wire
from channels.telegram import text as telegram_text
from channels.telegram import wire as telegram
from channels.websocket.wire import BadFrame, read_frame
from nanobot import history
from nanobot.frontmatter import BadFrontmatter, parse
from nanobot.messages import Inbound
from nanobot.model import Failed, Finished
from nanobot.models.failures import Target
from nanobot.models.sse import EventTooLong, Splitter
from nanobot.models.wire_anthropic import AnthropicDecoder
from nanobot.models.wire_openai import OpenAIDecoder
from nanobot.stores.sessions import jsonl
from nanobot.stores.sqlite.codec import Codec
from nanobot.tools.readable import readable

SLACK = wire.Me("T1", "UBOT", "BBOT", "nanobot")
TELEGRAM = telegram.Me(7, "nano_bot")
PROVIDER = Target("test/model", "http://127.0.0.1:1", ())
EVERYBODY = ("<!channel>", "<!here>", "<!everyone>", "<!group>", "<!subteam")


def slack_event(data: bytes) -> None:
    """Any JSON is a message or none; what is one has texts in every field."""
    body = loaded(data)
    if not isinstance(body, dict):
        return
    for read in (wire.read_message, wire.read_edit):
        said = read(body, SLACK)
        if said is not None:
            text = wire.plain(said.text, {}, SLACK)
            assert isinstance(text, str)
            assert said.id.count(":") >= 2
            inbound = Inbound("slack", said.id, said.channel, text, thread=said.thread, sender=said.user)
            stored(inbound)
            wire.sent_at(said.ts)


def telegram_update(data: bytes) -> None:
    """Any JSON is an update or a ValidationError; a message of one can be stored."""
    try:
        update = telegram.read_update(loaded(data))
    except msgspec.ValidationError:
        return
    assert isinstance(update.chat_id, int)
    for message in (update.message, update.edited_message):
        if message is not None:
            inbound = telegram.to_inbound(message, TELEGRAM, channel="telegram")
            if inbound is not None:
                telegram.files_of(message)
                telegram.thread_id(inbound.address)
                stored(inbound)


def slack_markdown(data: bytes) -> None:
    """A reply's parts fit, ping nobody, and are the same each time."""
    text = data.decode("utf-8", "replace")
    parts = markdown.split(text, 500)
    assert parts
    assert all(0 < len(part) <= 500 for part in parts), [len(part) for part in parts]
    assert not [word for word in EVERYBODY for part in parts if word in part]
    assert parts == markdown.split(text, 500)
    assert markdown.neutral(text).startswith(markdown.settled(text)[:-1])


def telegram_markdown(data: bytes) -> None:
    """A reply's messages fit Telegram's limits, and their formats lie inside their texts."""
    text = data.decode("utf-8", "replace")
    for part in telegram_text.formatted(text):
        units = len(part.text.encode("utf-16-le")) // 2
        assert 0 < units <= telegram_text.MAX_UNITS, units
        assert part.text.strip(), "Telegram refuses empty messages"
        assert len(part.entities) <= telegram_text.MAX_ENTITIES
        assert all(
            one.offset >= 0 and one.length > 0 and one.offset + one.length <= units for one in part.entities
        )
    telegram_text.preview(text)


def sse_openai(data: bytes) -> None:
    streamed(data, OpenAIDecoder(PROVIDER))


def sse_anthropic(data: bytes) -> None:
    streamed(data, AnthropicDecoder(PROVIDER))


def streamed(data: bytes, decoder: Any) -> None:
    """Cut anywhere, a stream gives the same events, and ends with one that says how."""
    whole, pieces = Splitter(), Splitter()
    step = data[0] % 7 + 1 if data else 1
    try:
        found = whole.feed(data) + whole.end()
        again = [
            one for at in range(0, len(data), step) for one in pieces.feed(data[at : at + step])
        ] + pieces.end()
    except EventTooLong:
        return
    assert found == again, "the cuts of a stream change what it says"
    events = [event for one in found for event in decoder.feed(one)] + list(decoder.end())
    assert any(isinstance(one, Failed | Finished) for one in events), "a stream ended without an end"


def frame(data: bytes) -> None:
    """Any text is a frame or a refusal."""
    with suppress(BadFrame):
        read_frame(data.decode("utf-8", "replace"))


def session_file(data: bytes) -> None:
    """Any bytes are a history that a model accepts; reading it again says the same."""
    if b"sealed" in data:
        return  # a line that needs a key is refused on purpose
    parsed = jsonl.parse(data)
    lines = history.legal(parsed.messages)
    assert history.legal(lines) == lines
    kept = b"".join(part.raw + b"\n" for part in jsonl.scan(data).parts or [])
    assert jsonl.parse(kept).messages == jsonl.scan(data).messages


def skill_head(data: bytes) -> None:
    try:
        parse(data.decode("utf-8", "replace"))
    except BadFrontmatter:
        return


def page(data: bytes) -> None:
    """Any HTML is a title and a text without tags that run."""
    title, text = readable(data.decode("utf-8", "replace"), "https://site.example/")
    assert isinstance(title, str)
    assert isinstance(text, str)


def stored(message: Inbound) -> None:
    """What the store makes of a message: every text of it can be written and sent."""
    clean, _ = Codec().pack(message, "id")
    for text in (clean.message_id, clean.key, clean.text, clean.sender, clean.sender_name):
        text.encode()


def loaded(data: bytes) -> Any:
    """JSON as a platform's library would hand it on."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one
    for one in (
        slack_event, telegram_update, slack_markdown, telegram_markdown, sse_openai, sse_anthropic, frame, session_file,
        skill_head, page,
    )
}  # fmt: skip
