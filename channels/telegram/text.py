"""Markdown as Telegram shows it: text with entities, cut into messages. Pure, and the same input gives the same parts."""

import re
from unicodedata import combining

import msgspec
from loguru import logger
from telegramify_markdown import convert, utf16_len
from telegramify_markdown.config import RenderConfig
from telegramify_markdown.entity import MessageEntity as Converted

from telegram import MessageEntity

MAX_UNITS = 4_096  # UTF-16 units; the platform counts characters, which are never more
MAX_ENTITIES = 100  # the platform ignores those beyond
PREVIEW = 3_500  # characters of a growing answer that its preview shows
_TAG = re.compile(r"<(?=[A-Za-z/!?])(?!(?:https?|mailto|tg):)")
_STAND_IN = (
    "\ue000"  # for a "<" that the converter would take for HTML and drop; private use, one unit like it
)
_URL = re.compile(r"(?:https?://|mailto:|tel:)\S+", re.IGNORECASE)
# What the converter takes minutes or gigabytes for: lists in lists in one line, each indented further than the one
# around it; and more of these signs than any answer has, each of which it looks for the end of.
_DEEP = re.compile(r"^[ \t]*(?:>[ \t]?|(?:[+*-]|\d{1,9}[.)])[ \t]+){25}", re.MULTILINE)
_MANY = {"$": 1_000, "~": 1_000, "\\": 2_000, "```": 1_000}
_MOST_ENTITIES = 4_000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Part(msgspec.Struct, frozen=True):
    """One message. No entities: plain text."""

    text: str
    entities: tuple[Converted, ...] = ()

    def formats(self) -> list[MessageEntity]:
        """The entities as the library takes them."""
        return [MessageEntity(**one.to_dict()) for one in self.entities]


def _config() -> RenderConfig:
    config = RenderConfig.isolated()
    symbols = config.markdown_symbol
    symbols.heading_level_1 = symbols.heading_level_2 = symbols.heading_level_3 = symbols.heading_level_4 = ""
    symbols.unordered_list_item = "•"
    symbols.task_uncompleted = "☐"
    return config


_CONFIG = _config()


def clean(text: str) -> str:
    """The text without what cannot be sent: lone surrogates, control characters."""
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def formatted(markdown: str) -> list[Part]:
    """The messages that show a Markdown text; none for an empty one."""
    source = clean(markdown)
    if _DEEP.search(source) or any(source.count(sign) > most for sign, most in _MANY.items()):
        return plain(markdown)
    try:
        text, entities = convert(_TAG.sub(_STAND_IN, source), config=_CONFIG)
    except Exception as error:  # noqa: BLE001 - a fault of the converter must not cost the answer: it is sent as it is
        logger.warning("markdown not converted: {}: {}", type(error).__name__, error)
        return plain(markdown)
    if len(entities) > _MOST_ENTITIES or len(text) > 2 * len(source) + MAX_UNITS:
        return plain(markdown)
    text = text.replace(_STAND_IN, "<")
    parts = cut(text, [one for one in entities if one.type != "text_link" or _URL.match(one.url or "")])
    return parts or plain(markdown)


def plain(text: str) -> list[Part]:
    """The messages that show a text as it is."""
    return cut(clean(text), [])


def cut(text: str, entities: list[Converted], limit: int = MAX_UNITS) -> list[Part]:
    """Split at line ends, else at spaces; a code block that is cut goes on as one in the next message."""
    entities = sorted(entities, key=lambda one: (one.offset, -one.length))
    parts: list[Part] = []
    start = unit = 0  # where the next part begins, in characters and in UTF-16 units
    while start < len(text):
        end = reach(text, start, limit)
        here = [one for one in entities if one.offset < unit + limit and one.offset + one.length > unit]
        if len(here) > MAX_ENTITIES and here[MAX_ENTITIES].offset > unit:
            end = min(end, reach(text, start, here[MAX_ENTITIES].offset - unit))
        if end < len(text):
            end = breaking(text, start, end)
        piece = text[start:end]
        until = unit + utf16_len(piece)
        if piece.strip():
            parts.append(Part(piece, clipped(here, unit, until)))
        start, unit = end, until
    return parts


def reach(text: str, start: int, units: int) -> int:
    """The furthest index up to which the text from `start` has at most so many UTF-16 units; always some progress."""
    end = min(len(text), start + max(1, units))
    while (over := utf16_len(text[start:end]) - units) > 0 and end > start + 1:
        end -= max(1, over // 2)
    return end


def breaking(text: str, start: int, end: int) -> int:
    """A good place to break at or before `end`: a line's end, a space, at least not within a visible character."""
    for mark in ("\n\n", "\n", " "):
        found = text.rfind(mark, start + (end - start) // 2, end)
        if found > start:
            return found + len(mark)
    for back in range(end, max(start, end - 16), -1):
        if not joins(text[back]) and not joins(text[back - 1], only_zwj=True):
            return back
    return end


def joins(char: str, *, only_zwj: bool = False) -> bool:
    """Whether it belongs to the character before it: joiners, variation selectors, skin tones, combining marks."""
    if char == "\u200d" or only_zwj:
        return char == "\u200d"
    return "\ufe00" <= char <= "\ufe0f" or "\U0001f3fb" <= char <= "\U0001f3ff" or combining(char) > 0


def clipped(entities: list[Converted], start: int, end: int) -> tuple[Converted, ...]:
    """The entities of a piece, with offsets of its own."""
    found = []
    for one in entities:
        first, last = max(one.offset, start), min(one.offset + one.length, end)
        if last > first:
            found.append(one.copy_with(offset=first - start, length=last - first))
    return tuple(found[:MAX_ENTITIES])


def preview(markdown: str) -> Part:
    """The newest part of a text that still grows, as one message."""
    if len(markdown) > PREVIEW:
        tail = markdown[-PREVIEW:]
        markdown = "…" + tail[tail.find("\n") + 1 :] if "\n" in tail[:500] else "…" + tail
    parts = formatted(markdown)
    return parts[-1] if parts else Part("")
