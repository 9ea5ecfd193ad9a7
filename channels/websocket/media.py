"""Files that clients send and fetch: sniffed, bounded, under random ids, each with its owner."""

import asyncio
import binascii
import os
import re
from base64 import b64decode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from nanobot.channel import Attachment, Files

from .wire import BadFrame, Upload

MAX_FILES = 4  # of one message
MAX_FILE = 6 * 1024 * 1024  # bytes of one file inside a frame
MAX_FILES_BYTES = 24 * 1024 * 1024  # bytes of all files of a message
MAX_POST = 20 * 1024 * 1024  # bytes of one uploaded by POST
INLINE = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))  # safe to show in a page

_ID = re.compile(r"[0-9a-f]{32}")
_DATA_URL = re.compile(r"data:(?P<mime>[\w.+/-]{0,100})(?:;[\w=.-]+)*;base64,", re.ASCII)
_MIME = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)
_BIDI = re.compile(r"[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
)


class Stored(msgspec.Struct, frozen=True):
    """What is known of a file, in the small file beside it."""

    id: str
    owner: str
    name: str
    mime: str
    size: int  # bytes

    def public(self) -> dict[str, Any]:
        """How frames and REST answers name it."""
        return {
            "id": self.id,
            "url": f"/api/media/{self.id}",
            "name": self.name,
            "mime": self.mime,
            "size": self.size,
        }


class MediaStore:
    """A folder of files with their notes. Nothing in it is ever served by path, only by id."""

    def __init__(self, folder: Path, files: Files) -> None:
        self.folder = folder
        self.files = files

    async def take(self, uploads: Sequence[Upload], owner: str) -> tuple[Attachment, ...]:
        """Keep the files of one message; raises BadFrame where one breaks a limit, and then keeps none."""
        if not uploads:
            return ()
        if len(uploads) > MAX_FILES:
            raise BadFrame("bad_media", f"a message holds at most {MAX_FILES} files")
        if sum(len(upload.data_url) for upload in uploads) > MAX_FILES_BYTES * 4 // 3 + 4_096:
            raise BadFrame("too_large", f"the files of a message hold at most {MAX_FILES_BYTES} bytes")
        return await asyncio.to_thread(self._take, uploads, owner)

    async def put(self, data: bytes, name: str, claimed: str, owner: str) -> Stored:
        return await asyncio.to_thread(self._put, data, name, claimed, owner)

    async def find(self, id: str) -> Stored | None:
        return await asyncio.to_thread(self._find, id)

    def path(self, id: str) -> Path:
        return self.folder / id

    async def publish(self, media: Sequence[Attachment], message_id: str, owner: str) -> list[dict[str, Any]]:
        """Make a reply's files fetchable by their chat's owner; a file that is gone is named without a URL."""
        if not media:
            return []
        return await asyncio.to_thread(self._publish, media, message_id, owner)

    def describe(self, entry: Any) -> dict[str, Any]:
        """A history line's note of a file as clients may see it: never a path of this machine."""
        path = entry if isinstance(entry, str) else (entry or {}).get("path", "")
        stored = self._find(Path(path).name) if path and Path(path).parent == self.folder else None
        if stored is not None:
            return stored.public()
        name = entry.get("name", "") if isinstance(entry, dict) else ""
        return {"name": name or Path(path).name}

    def _take(self, uploads: Sequence[Upload], owner: str) -> tuple[Attachment, ...]:
        decoded: list[tuple[bytes, str, str]] = []
        kept: list[Stored] = []
        for upload in uploads:
            if upload.id:
                stored = self._find(upload.id)
                if stored is None or stored.owner != owner:
                    raise BadFrame("bad_media", "no such file; upload it with POST /api/media")
                kept.append(stored)
                continue
            data, mime = decode_data_url(upload.data_url)
            decoded.append((data, upload.name, mime))
        if sum(len(data) for data, _, _ in decoded) > MAX_FILES_BYTES:
            raise BadFrame("too_large", f"the files of a message hold at most {MAX_FILES_BYTES} bytes")
        kept += [self._put(data, name, mime, owner) for data, name, mime in decoded]
        return tuple(Attachment(str(self.path(one.id)), one.name, one.mime, one.size) for one in kept)

    def _put(self, data: bytes, name: str, claimed: str, owner: str) -> Stored:
        stored = Stored(os.urandom(16).hex(), owner, clean_name(name), sniff(data, claimed), len(data))
        self._write(stored, data)
        return stored

    def _write(self, stored: Stored, data: bytes, *, keep: bool = False) -> None:
        self.files.write(self.path(stored.id), data, keep=keep)
        # The note comes last: a file without one does not exist for anybody.
        self.files.write(self._note(stored.id), msgspec.json.encode(stored))

    def _note(self, id: str) -> Path:
        return self.folder / f"{id}.json"

    def _find(self, id: str) -> Stored | None:
        if not _ID.fullmatch(id):
            return None
        try:
            return msgspec.json.decode(self.files.read(self._note(id)), type=Stored)
        except (OSError, ValueError):
            return None

    def _publish(self, media: Sequence[Attachment], message_id: str, owner: str) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = []
        for number, one in enumerate(media):
            path = Path(one.path)
            known = self._find(path.name) if path.parent == self.folder else None
            if known is not None and known.owner == owner:
                shown.append(known.public())
                continue
            # The id follows from the message, so that delivering it again keeps one copy. Knowing it opens nothing.
            copy = sha256(f"{message_id}\0{number}\0{one.path}\0{owner}".encode()).hexdigest()[:32]
            stored = self._find(copy)
            if stored is None:
                try:
                    data = self.files.read(path)
                    stored = Stored(copy, owner, clean_name(one.name), sniff(data, one.mime), len(data))
                    self._write(stored, data, keep=True)
                except OSError:
                    shown.append({"name": clean_name(one.name), "mime": one.mime, "size": one.size})
                    continue
            shown.append(stored.public())
        return shown


def decode_data_url(url: str) -> tuple[bytes, str]:
    """The bytes and the claimed type; raises BadFrame."""
    head = _DATA_URL.match(url[:300])
    if head is None:
        raise BadFrame("bad_media", "media needs data_url as data:<type>;base64,…")
    if (len(url) - head.end()) * 3 // 4 > MAX_FILE + 3:
        raise BadFrame("too_large", f"a file holds at most {MAX_FILE} bytes")
    try:
        data = b64decode(url[head.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise BadFrame("bad_media", "a data_url is not valid base64") from None
    if not data:
        raise BadFrame("bad_media", "a file is empty")
    if len(data) > MAX_FILE:
        raise BadFrame("too_large", f"a file holds at most {MAX_FILE} bytes")
    return data, head["mime"]


def sniff(data: bytes, claimed: str) -> str:
    """The type by the file's first bytes; what a page could run is never believed by its claim."""
    for magic, mime in _MAGIC:
        if data.startswith(magic):
            return mime
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return "audio/wav"
    if data[4:8] == b"ftyp":
        return "video/mp4"
    claimed = claimed.lower()
    if not _MIME.fullmatch(claimed) or claimed.startswith("image/"):
        claimed = ""
    if b"\0" in data[:4_096]:
        return claimed if claimed.startswith(("audio/", "video/")) else "application/octet-stream"
    try:
        data[:4_000].decode()
    except UnicodeDecodeError as error:
        if error.start < min(len(data), 4_000) - 4:
            return "application/octet-stream"
    return "application/json" if claimed == "application/json" else "text/plain"


def clean_name(name: str) -> str:
    """A file name to show: no folders, no control or direction characters, at most 120 characters."""
    last = _BIDI.sub("", name).replace("\\", "/").rsplit("/", 1)[-1]
    last = "".join(letter for letter in last if letter.isprintable()).strip(". ")
    return last[:120] or "file"
