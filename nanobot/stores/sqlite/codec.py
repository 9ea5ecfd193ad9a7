"""Values to and from columns."""

from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from nanobot.errors import StoreError
from nanobot.messages import Inbound, Outbound
from nanobot.store import Delivery, Row

M = TypeVar("M", Inbound, Outbound)

_encode = msgspec.json.Encoder().encode
_inbound = msgspec.json.Decoder(Inbound).decode
_outbound = msgspec.json.Decoder(Outbound).decode


def pack(message: M) -> tuple[M, str]:
    """A message and its JSON. Lone surrogates, which some platforms send, become "?": neither JSON nor SQLite takes them."""
    try:
        return message, _encode(message).decode()
    except UnicodeEncodeError:
        clean: M = msgspec.convert(scrub(msgspec.to_builtins(message)), type(message))
        return clean, _encode(clean).decode()


def scrub(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {scrub(key): scrub(item) for key, item in value.items()}
        case list() | tuple():
            return [scrub(item) for item in value]
        case _:
            return value


def unpack(text: str) -> Inbound:
    """Raises StoreError for a message that the disk has damaged; SQLite's own check does not see inside a row."""
    try:
        return _inbound(text)
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        raise unreadable("an accepted message", error) from error


def row(columns: tuple[Any, ...]) -> Row:
    """A Row from (seq, id, message, status, accepted_at, attempts, turn)."""
    seq, row_id, message, status, accepted_at, attempts, turn = columns
    return Row(row_id, seq, unpack(message), status, moment(accepted_at), attempts, turn)


def delivery(columns: tuple[Any, ...]) -> Delivery:
    """A Delivery from (id, message, ref, status, attempts, created_at, next_at, error)."""
    outbox_id, text, ref, status, attempts, created_at, next_at, error = columns
    try:
        message = _outbound(text)
    except (msgspec.DecodeError, TypeError, ValueError) as damage:
        raise unreadable("a reply", damage) from damage
    if ref != message.ref:
        message = msgspec.structs.replace(message, ref=ref)
    return Delivery(outbox_id, message, status, attempts, moment(created_at), moment(next_at), error)


def moment(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise unreadable("a time", error) from error


def unreadable(what: str, error: Exception) -> StoreError:
    return StoreError(f"database: {what} cannot be read: {error}; `nanobot doctor` checks the file")
