"""Texts as the Bot API checks them: entities in UTF-16 units, HTML, lengths, keyboards."""

import re
from html.parser import HTMLParser
from typing import Any

from tests.emulators.telegram.errors import bad

MAX_TEXT = 4_096  # characters of a message, after the markup is read
MAX_CAPTION = 1_024
MAX_ENTITIES = 100  # the platform forgets the others; here they are refused, so that a test sees it
TYPES = frozenset(
    [
        "mention",
        "hashtag",
        "cashtag",
        "bot_command",
        "url",
        "email",
        "phone_number",
        "bold",
        "italic",
        "underline",
        "strikethrough",
        "spoiler",
        "blockquote",
        "expandable_blockquote",
        "code",
        "pre",
        "text_link",
        "text_mention",
        "custom_emoji",
        "date_time",
    ]
)
TAGS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "tg-emoji": "custom_emoji",
    "tg-time": "date_time",
}
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")  # the platform shows a space for each


def units(text: str) -> int:
    """Length in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def read_text(
    text: Any, entities: Any, parse_mode: str, *, limit: int = MAX_TEXT, empty: bool = False
) -> tuple[str, list[dict[str, Any]]]:
    """The text and entities a message will have. Raises what the platform answers to bad ones."""
    if not isinstance(text, str):
        raise bad("message text is empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise bad("strings must be encoded in UTF-8") from None
    if parse_mode.lower() == "html":
        text, entities = parse_html(text)
    elif parse_mode:
        raise bad(f"unsupported parse_mode {parse_mode}")
    text = CONTROL.sub(" ", text.replace("\r", ""))
    checked = check_entities(text, entities or [])
    stripped = text.strip()
    if not stripped and not empty:
        raise bad("message text is empty")
    if len(stripped) > limit:
        raise bad("message is too long" if limit == MAX_TEXT else "message caption is too long")
    cut = units(text) - units(text.lstrip())
    end = units(stripped)
    kept = []
    for entity in checked:
        first, last = max(0, entity["offset"] - cut), min(end, entity["offset"] - cut + entity["length"])
        if last > first:
            kept.append({**entity, "offset": first, "length": last - first})
    return stripped, sorted(kept, key=lambda one: (one["offset"], -one["length"]))


def check_entities(text: str, entities: Any) -> list[dict[str, Any]]:
    if not isinstance(entities, list):
        raise bad("can't parse entities: Expected an Array of MessageEntity")
    if len(entities) > MAX_ENTITIES:
        raise bad("can't parse entities: too many entities")
    data = text.encode("utf-16-le")
    total = len(data) // 2
    for entity in entities:
        kind, offset, length = entity.get("type"), entity.get("offset"), entity.get("length")
        if kind not in TYPES:
            raise bad(f"can't parse entities: unknown type {kind}")
        if not isinstance(offset, int) or not isinstance(length, int) or offset < 0 or length <= 0:
            raise bad("can't parse entities: offset or length is wrong")
        if offset + length > total:
            raise bad("can't parse entities: entity ends after the text")
        if low_surrogate(data, offset):
            raise bad(f"entity begins in a middle of a UTF-16 symbol at byte offset {offset}")
        if low_surrogate(data, offset + length):
            raise bad(f"entity ends in a middle of a UTF-16 symbol at byte offset {offset + length}")
        if kind == "text_link" and not entity.get("url"):
            raise bad("can't parse entities: a link without a URL")
    return list(entities)


def low_surrogate(data: bytes, unit: int) -> bool:
    """Whether the code unit there is the second of a pair."""
    piece = data[2 * unit : 2 * unit + 2]
    return len(piece) == 2 and 0xDC <= piece[1] <= 0xDF


def parse_html(text: str) -> tuple[str, list[dict[str, Any]]]:
    parser = _Html()
    parser.feed(text)
    parser.close()
    if parser.open:
        raise bad(
            f"can't parse entities: Can't find end tag corresponding to start tag \"{parser.open[-1][0]}\""
        )
    return "".join(parser.text), parser.entities


class _Html(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.text: list[str] = []
        self.open: list[tuple[str, int, dict[str, str | None]]] = []
        self.entities: list[dict[str, Any]] = []
        self._at = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in TAGS:
            raise bad(
                f'can\'t parse entities: Unsupported start tag "{tag}" at byte offset {self.getpos()[1]}'
            )
        if tag == "span" and dict(attrs).get("class") != "tg-spoiler":
            raise bad('can\'t parse entities: Tag "span" must have class "tg-spoiler"')
        self.open.append((tag, self._at, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1][0] != tag:
            raise bad(f'can\'t parse entities: Unmatched end tag "{tag}"')
        _, start, attributes = self.open.pop()
        if self._at > start:
            entity: dict[str, Any] = {"type": TAGS[tag], "offset": start, "length": self._at - start}
            if tag == "a" and attributes.get("href"):
                entity["url"] = attributes["href"]
            self.entities.append(entity)

    def handle_data(self, data: str) -> None:
        if "<" in data:
            raise bad("can't parse entities: Unexpected character '<'")
        self.text.append(data)
        self._at += units(data)

    def handle_entityref(self, name: str) -> None:
        known = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
        self.handle_plain(known.get(name, f"&{name};"))

    def handle_charref(self, name: str) -> None:
        self.handle_plain(chr(int(name[1:], 16) if name[0] in "xX" else int(name)))

    def handle_plain(self, data: str) -> None:
        self.text.append(data)
        self._at += units(data)


def check_keyboard(markup: Any) -> Any:
    """An inline keyboard, or nothing."""
    if not markup:
        return None
    rows = markup.get("inline_keyboard") if isinstance(markup, dict) else None
    if not isinstance(rows, list):
        raise bad("object expected as reply markup")
    for button in [one for row in rows for one in row]:
        if not button.get("text"):
            raise bad("inline keyboard button text is empty")
        data = button.get("callback_data")
        if data is None and "url" not in button:
            raise bad("inline keyboard button must have exactly one optional field")
        if data is not None and not 1 <= len(data.encode()) <= 64:
            raise bad("BUTTON_DATA_INVALID")
    return {"inline_keyboard": rows} if any(rows) else None
