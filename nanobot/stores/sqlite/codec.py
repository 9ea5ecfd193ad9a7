"""Values to and from columns."""

from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from nanobot.errors import StoreError
from nanobot.messages import Inbound, Outbound
from nanobot.security.sealing import Sealer, Unsealable
from nanobot.store import Delivery, Row

Stored = str | bytes  # bytes where it is sealed
M = TypeVar("M", Inbound, Outbound)

_encode = msgspec.json.Encoder().encode
_inbound = msgspec.json.Decoder(Inbound).decode
_outbound = msgspec.json.Decoder(Outbound).decode


class Codec:
    """Values to and from columns; sealed ones where the state is sealed, each bound to its table and row."""

    def __init__(self, sealer: Sealer | None = None) -> None:
        self._sealer = sealer

    def pack(self, message: M, id: str = "") -> tuple[M, Stored]:
        """A message and its column. Lone surrogates, which some platforms send, become "?": neither JSON nor SQLite
        takes them. `id` is an inbox row's; a reply is known by turn and part.
        """
        try:
            text = _encode(message)
        except UnicodeEncodeError:
            message = msgspec.convert(scrub(msgspec.to_builtins(message)), type(message))
            text = _encode(message)
        if self._sealer is None:
            return message, text.decode()
        if isinstance(message, Outbound):
            return message, self._sealer.text(text.decode(), "outbox", message.turn, str(message.part))
        return message, self._sealer.text(text.decode(), "inbox", id)

    def text(self, value: str, *place: str) -> Stored:
        """A text's column; `place` is its table and what its row is known by."""
        return value if self._sealer is None else self._sealer.text(value, *place)

    def opened(self, column: Stored, what: str, *place: str) -> str:
        """The text of a column. Raises StoreError that names `what`."""
        if self._sealer is None:
            if isinstance(column, bytes):
                raise unreadable(what, Unsealable("it is encrypted, and seal.json is not where its state is"))
            return column
        try:
            return self._sealer.opened(column, *place)
        except (Unsealable, ValueError) as error:
            raise unreadable(what, error) from error

    def inbound(self, column: Stored, id: str) -> Inbound:
        """Raises StoreError for a message that the disk has damaged; SQLite's own check does not see inside a row."""
        text = self.opened(column, "an accepted message", "inbox", id)
        try:
            return _inbound(text)
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise unreadable("an accepted message", error) from error

    def row(self, columns: tuple[Any, ...]) -> Row:
        """A Row from (seq, id, message, status, accepted_at, attempts, turn)."""
        seq, row_id, message, status, accepted_at, attempts, turn = columns
        return Row(row_id, seq, self.inbound(message, row_id), status, moment(accepted_at), attempts, turn)

    def delivery(self, columns: tuple[Any, ...]) -> Delivery:
        """A Delivery from (id, turn, part, message, ref, status, attempts, created_at, next_at, error)."""
        outbox_id, turn, part, column, ref, status, attempts, created_at, next_at, error = columns
        text = self.opened(column, "a reply", "outbox", turn, str(part))
        try:
            message = _outbound(text)
        except (msgspec.DecodeError, TypeError, ValueError) as damage:
            raise unreadable("a reply", damage) from damage
        if ref != message.ref:
            message = msgspec.structs.replace(message, ref=ref)
        return Delivery(outbox_id, message, status, attempts, moment(created_at), moment(next_at), error)


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


def moment(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise unreadable("a time", error) from error


def unreadable(what: str, error: Exception) -> StoreError:
    return StoreError(f"database: {what} cannot be read: {error}; `nanobot doctor` checks the file")
