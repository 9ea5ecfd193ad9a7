"""The format of sealed state: AES-256-GCM, bound to its place. Bytes and keys in, bytes out; no disk, no library.

A sealed line is an object of the session file's own kind, so that whoever cannot open it still sees a line:
`{"_type":"sealed","v":1,"k":"<key id>","p":<position>,"d":"<base64 of nonce and ciphertext>"}`. A sealed value or file
is `NBS1`, 8 bytes of key id, 12 of nonce, the ciphertext. What is authenticated beside the content is the key's id and
the place: a line's file and position, a row's table and identity, a file's name. So nothing opens in another place.
"""

import binascii
import os
from base64 import b64encode
from collections.abc import Mapping
from typing import Protocol

MAGIC = b"NBS1"
PREFIX = b'{"_type":"sealed","v":1,"k":"'
NONCE = 12  # bytes
HEAD = len(MAGIC) + 8 + NONCE
_POSITION = b'","p":'
_DATA = b',"d":"'
_END = b'"}'
_KEY_AT = len(PREFIX)
_POSITION_AT = _KEY_AT + 16
_NUMBER_AT = _POSITION_AT + len(_POSITION)


class Cipher(Protocol):
    """What `cryptography`'s AESGCM is."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...


class Unsealable(Exception):
    """The bytes are no whole sealed piece of this place."""


class ForeignKey(Unsealable):
    """Sealed with a key that is not there."""


class Sealer:
    """The keys of a state. Everything is written with the `current` one ("" = plain) and read with any.

    `plain`: whether what was never sealed is read, too; so it is while a state is being converted, and from then on
    not, or else whoever can write to the disk could put words into anybody's mouth.
    """

    def __init__(
        self, current: str, ciphers: Mapping[str, Cipher], broken: type[Exception], *, plain: bool
    ) -> None:
        self.current = current
        self.plain = plain
        self._ciphers = dict(ciphers)
        self._broken = broken  # what a cipher raises for bytes that were changed
        self._key = current.encode()
        self._cipher = self._ciphers.get(current)

    # Values and whole files

    def seal(self, data: bytes, *place: str) -> bytes:
        """The data as it is written at this place."""
        if self._cipher is None:
            return data
        nonce = os.urandom(NONCE)
        head = MAGIC + bytes.fromhex(self.current)
        return head + nonce + self._cipher.encrypt(nonce, data, _bound(self._key, place))

    def open(self, data: bytes, *place: str) -> bytes:
        """What `seal` was given. Raises Unsealable; plain data is returned only where that is still accepted."""
        if not data.startswith(MAGIC):
            if self.plain:
                return data
            raise Unsealable("it is not sealed")
        key = data[len(MAGIC) : len(MAGIC) + 8].hex()
        cipher = self._ciphers.get(key)
        if cipher is None:
            raise ForeignKey(f"it is sealed with the key {key}, which is not there")
        try:
            return cipher.decrypt(data[HEAD - NONCE : HEAD], data[HEAD:], _bound(key.encode(), place))
        except (self._broken, ValueError) as error:
            raise Unsealable("it was changed, cut or moved") from error

    def text(self, value: str, *place: str) -> str | bytes:
        """A text as it is kept in a column: bytes where it is sealed."""
        return value if self._cipher is None else self.seal(value.encode(), *place)

    def opened(self, value: str | bytes, *place: str) -> str:
        """A column's text. Raises Unsealable."""
        if isinstance(value, bytes):
            return self.open(value, *place).decode()
        if not self.plain:
            raise Unsealable("it is not sealed")
        return value

    def is_current(self, value: str | bytes) -> bool:
        """Whether it was written as it would be written now."""
        if isinstance(value, str) or not value.startswith(MAGIC):
            return not self.current
        return value[len(MAGIC) : len(MAGIC) + 8].hex() == self.current

    # Lines

    def seal_line(self, line: bytes, name: str, position: int) -> bytes:
        """A line, without its newline, for this position (in bytes) of a file."""
        if self._cipher is None:
            return line
        nonce = os.urandom(NONCE)
        number = b"%d" % position
        body = nonce + self._cipher.encrypt(nonce, line, _line_bound(self._key, name.encode(), number))
        return b"".join(
            (PREFIX, self._key, _POSITION, number, _DATA, b64encode(body), _END),
        )

    def open_line(self, line: bytes, name: str) -> tuple[bytes, int]:
        """What a sealed line says, and the position it was written for. Raises Unsealable."""
        end = line.find(_DATA, _NUMBER_AT)
        begun = line.startswith(PREFIX) and line[_POSITION_AT:_NUMBER_AT] == _POSITION
        if end < 0 or not begun or not line.endswith(_END):
            raise Unsealable("it is no whole line")
        key, number = line[_KEY_AT:_POSITION_AT], line[_NUMBER_AT:end]
        cipher = self._ciphers.get(key.decode("ascii", "replace"))
        if cipher is None:
            raise ForeignKey(
                f"it is sealed with the key {key.decode('ascii', 'replace')}, which is not there"
            )
        try:
            written = line[end + len(_DATA) : -len(_END)]
            body = binascii.a2b_base64(written, strict_mode=True)
            # Strict mode still lets the last character's unused bits be anything: another line of the same bytes.
            if b64encode(body[-(len(body) % 3 or 3) :]) != written[-4:]:
                raise Unsealable("it was changed")
            text = cipher.decrypt(body[:NONCE], body[NONCE:], _line_bound(key, name.encode(), number))
            return text, int(number)
        except (self._broken, ValueError) as error:
            raise Unsealable("it was changed, cut or moved") from error

    def line_is_current(self, line: bytes) -> bool:
        if not line.startswith(PREFIX):
            return not self.current
        return line[_KEY_AT:_POSITION_AT] == self._key


def _bound(key: bytes, place: tuple[str, ...]) -> bytes:
    return b"\0".join((MAGIC, key, *(part.encode("utf-8", "surrogatepass") for part in place)))


def _line_bound(key: bytes, name: bytes, number: bytes) -> bytes:
    return b"\0".join((PREFIX, key, name, number))
