"""The words of the protocol: client frames in, server frames out. Pure; docs/protocol.md is the full text."""

import re
from typing import Any

import msgspec

MAX_TEXT = 1_048_576  # bytes of UTF-8 in one message
MAX_FRAME = 36 * 1024 * 1024  # bytes; above it the server closes with 1009
MAX_ID = 128  # characters of a client's own message id
_CHAT_ID = re.compile(r"[A-Za-z0-9_:-]{1,64}")

_encode = msgspec.json.Encoder().encode


class BadFrame(Exception):
    """A client frame that cannot be acted on; the connection stays."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Upload(msgspec.Struct, frozen=True):
    """A file in a message: inline as a data URL, or the id that `POST /api/media` gave."""

    data_url: str = ""
    name: str = ""
    id: str = ""


class Message(msgspec.Struct, frozen=True, tag_field="type", tag="message"):
    """A message to a chat; without `chat_id` to the connection's own."""

    chat_id: str | None = ""
    content: str | None = ""
    id: str | int | None = None
    turn_id: str | None = None  # the older name of `id`
    media: tuple[Upload, ...] | None = ()


class NewChat(msgspec.Struct, frozen=True, tag_field="type", tag="new_chat"):
    pass


class Attach(msgspec.Struct, frozen=True, tag_field="type", tag="attach"):
    chat_id: str
    after: int | None = None
    epoch: str | None = None


class Detach(msgspec.Struct, frozen=True, tag_field="type", tag="detach"):
    chat_id: str


class Stop(msgspec.Struct, frozen=True, tag_field="type", tag="stop"):
    chat_id: str | None = ""


class History(msgspec.Struct, frozen=True, tag_field="type", tag="history"):
    chat_id: str | None = ""
    before: int | None = None
    limit: int = 24


class Ack(msgspec.Struct, frozen=True, tag_field="type", tag="ack"):
    chat_id: str
    seq: int


class Ping(msgspec.Struct, frozen=True, tag_field="type", tag="ping"):
    id: Any = None


class Auth(msgspec.Struct, frozen=True, tag_field="type", tag="auth"):
    token: str


class Watch(msgspec.Struct, frozen=True, tag_field="type", tag="watch"):
    """Ask for `session_updated` of every session one may see, not only of the attached chats."""

    on: bool = True


ClientFrame = Message | NewChat | Attach | Detach | Stop | History | Ack | Ping | Auth | Watch


class _Head(msgspec.Struct):
    type: Any = None
    content: Any = None
    text: Any = None
    message: Any = None


_frames: msgspec.json.Decoder[ClientFrame] = msgspec.json.Decoder(ClientFrame)
_head = msgspec.json.Decoder(_Head)


def read_frame(text: str) -> ClientFrame:
    """Understand one client frame; raises BadFrame.

    Text that does not begin with `{` is a message to the connection's own chat, as is an object without a `type`.
    """
    if not text.lstrip().startswith("{"):
        return Message(content=text)
    try:
        return _frames.decode(text)
    except msgspec.ValidationError as error:
        return _diagnose(text, error)
    except (ValueError, RecursionError) as error:
        raise BadFrame("bad_json", f"the frame is not JSON: {error}") from None


def _diagnose(text: str, error: msgspec.ValidationError) -> ClientFrame:
    try:
        head = _head.decode(text)
    except (ValueError, RecursionError):
        raise BadFrame("bad_json", "the frame is not a JSON object") from None
    if isinstance(head.type, str):
        if head.type in _TYPES:
            raise BadFrame("bad_frame", f"{head.type}: {error}") from None
        raise BadFrame("unknown_type", f"unknown type {head.type[:40]!r}") from None
    for content in (head.content, head.text, head.message):
        if isinstance(content, str):
            return Message(content=content)
    raise BadFrame("missing_content", "a frame needs a type, or content as a string") from None


_TYPES = frozenset(
    ("message", "new_chat", "attach", "detach", "stop", "history", "ack", "ping", "auth", "watch"),
)


def check_chat_id(chat_id: str) -> str:
    """Return the id where it is well formed; raises BadFrame."""
    if not _CHAT_ID.fullmatch(chat_id):
        raise BadFrame("bad_chat_id", "chat_id must match ^[A-Za-z0-9_:-]{1,64}$")
    return chat_id


def check_id(message: Message) -> str:
    """The client's own id of a message, "" where it gave none; raises BadFrame."""
    given = message.id if message.id is not None else message.turn_id
    text = "" if given is None else str(given)
    if len(text) > MAX_ID or not text.isprintable():
        raise BadFrame("bad_frame", f"message: id must be at most {MAX_ID} printable characters")
    return text


def clean_text(text: str) -> str:
    """The text as it is kept: NUL characters are removed, nothing else; raises BadFrame where it is too long."""
    if len(text) > MAX_TEXT or len(text.encode()) > MAX_TEXT:
        raise BadFrame("too_large", f"a message holds at most {MAX_TEXT} bytes of text")
    return text.replace("\0", "") if "\0" in text else text


def encode(event: str, fields: dict[str, Any]) -> str:
    """One server frame, as the text that goes to the socket."""
    return _encode({"event": event, **fields}).decode()


def error_frame(code: str, detail: str, **fields: Any) -> str:
    return encode("error", {"code": code, "detail": detail, **fields})
