"""The session file's bytes ↔ lines. No disk here.

One JSON object a line. `_type: "metadata"` heads the file and may come again later: the last one counts. Objects of
other types (the reference's `provider_state`) are carried along; everything with a `role` is a message.
"""

import json
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from nanobot.errors import StoreError
from nanobot.messages import Line

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder(enc_hook=str)
_PADDING = b" \t\r\n\0"
_BOM = b"\xef\xbb\xbf"
_OBJECT = re.compile(rb'\{\s*"')


class Part(msgspec.Struct):
    """A line of a file: its bytes without the newline, and what they say."""

    raw: bytes
    value: dict[str, Any]

    @property
    def is_message(self) -> bool:
        return is_message(self.value)


class Parsed(msgspec.Struct):
    """What a file says. `removed` holds the bytes that are no lines; `parts` only what a full scan kept."""

    metadata: dict[str, Any]
    messages: list[Line]
    lines: int
    removed: list[bytes] = []
    torn: bool = False  # the last line was cut off while it was written
    parts: list[Part] | None = None


def is_message(value: dict[str, Any]) -> bool:
    return "_type" not in value and isinstance(value.get("role"), str)


def encode(value: dict[str, Any]) -> bytes:
    """One line with its newline; what JSON or UTF-8 cannot say becomes text, so that no line is ever refused."""
    try:
        return _encoder.encode(value) + b"\n"
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_plain(value), ensure_ascii=False).encode() + b"\n"


def metadata_line(
    key: str,
    created_at: str,
    updated_at: str,
    metadata: dict[str, Any],
    last_consolidated: int,
    archived: "tuple[int, int]" = (0, 0),
) -> bytes:
    """The file's head. `archived` is the number of archive segments and of the messages in them."""
    head = {
        "_type": "metadata",
        "key": key,
        "created_at": created_at,
        "updated_at": updated_at,
        "metadata": metadata,
        "last_consolidated": last_consolidated,
    }
    if archived[0]:
        head["archived"] = {"segments": archived[0], "messages": archived[1]}
    return encode(head)


def parse(data: bytes) -> Parsed:
    """Read a file; fails for an encrypted one alone. Takes the short way where every line is sound."""
    try:
        values = _decoder.decode_lines(data)
    except (ValueError, RecursionError):
        return scan(data)
    expected = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
    parsed = Parsed({}, [], len(values))
    add = parsed.messages.append
    for value in values:
        if type(value) is not dict:
            return scan(data)
        if "_type" not in value:
            if type(value.get("role")) is str:
                add(Line(value))
        elif value["_type"] == "metadata":
            parsed.metadata = value
        elif value["_type"] == "sealed":
            raise sealed()
    # A value over several lines reads well here, but is not what the line-wise readers see.
    return parsed if len(values) == expected else scan(data)


def scan(data: bytes) -> Parsed:
    """Read a file line by line, keeping the bytes of each good one and setting the others aside."""
    parsed = Parsed({}, [], 0, parts=[])
    parts: list[Part] = []
    body = data.removeprefix(_BOM)
    complete = body.endswith(b"\n")
    pieces = body.split(b"\n")
    if complete:
        pieces.pop()
    for number, raw in enumerate(pieces):
        stripped = raw.strip(_PADDING)
        last = number == len(pieces) - 1 and not complete
        if not stripped:
            if b"\0" in raw:
                parsed.removed.append(raw)
            continue
        found = value(stripped)
        if found is not None:
            parts.append(Part(stripped if b"\0" in raw else raw, found))
            if b"\0" in raw:
                parsed.removed.append(raw)
            continue
        parts += _salvage(stripped, torn=last)
        parsed.removed.append(raw)
        parsed.torn = parsed.torn or last
    for part in parts:
        if part.is_message:
            parsed.messages.append(Line(part.value))
        elif part.value.get("_type") == "metadata":
            parsed.metadata = part.value
        elif part.value.get("_type") == "sealed":
            raise sealed()
    parsed.parts = parts
    parsed.lines = len(parts)
    return parsed


def sealed() -> StoreError:
    """A line that only `folder` with a sealer can read is no damage to be mended."""
    return StoreError("the session file is encrypted, and seal.json is not where its state is")


def consolidated(metadata: dict[str, Any], messages: int) -> int:
    """A head's `last_consolidated` where it makes sense, else 0: a wrong one would hide the history."""
    value = metadata.get("last_consolidated")
    return value if type(value) is int and 0 <= value <= messages else 0


def archived(metadata: dict[str, Any]) -> tuple[int, int]:
    """A head's count of archive segments and of messages in them."""
    value = metadata.get("archived")
    if not isinstance(value, dict):
        return 0, 0
    segments, messages = value.get("segments"), value.get("messages")
    if type(segments) is int and type(messages) is int and segments > 0 and messages > 0:
        return segments, messages
    return 0, 0


def moment(value: Any) -> datetime | None:
    """A timestamp as aware UTC; one without a zone is local time, as the reference writes it."""
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def value(raw: bytes) -> dict[str, Any] | None:
    """The object of one line; None where it is none."""
    try:
        found = _decoder.decode(raw)
    except (ValueError, RecursionError):
        # NaN and lone surrogates: the standard library writes them, so files have them.
        try:
            found = _plain(json.loads(raw.decode()))
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) else None


def _salvage(raw: bytes, *, torn: bool) -> list[Part]:
    """The whole objects in a bad line: two lines run together where a newline was lost or a write was torn."""
    saved: list[Part] = []
    text = raw.decode("utf-8", "surrogateescape")
    position = 0
    while 0 <= position < len(text):
        try:
            found, end = json.JSONDecoder().raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        piece = text[position:end].encode("utf-8", "surrogateescape")
        if not _is_line(found) or value(piece) is None:
            break
        saved.append(Part(piece, found))
        position = text.find("{", end)
    if torn or position < 0:
        return saved  # what follows is half a line, whose inner objects are no lines
    # The outermost object that reaches to the end; those inside a broken one end before its last brace.
    reached = len(text[:position].encode("utf-8", "surrogateescape"))
    for match in list(_OBJECT.finditer(raw, max(reached, 1)))[:200]:
        piece = raw[match.start() :]
        candidate = value(piece)
        if candidate is not None:
            if _is_line(candidate):
                saved.append(Part(piece, candidate))
            break
    return saved


def _is_line(value: Any) -> bool:
    return isinstance(value, dict) and ("_type" in value or is_message(value))


def _plain(value: Any) -> Any:
    """A value that JSON and UTF-8 can say."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return None
    if value is None or isinstance(value, bool | int | float):
        return value
    return _plain(str(value))
