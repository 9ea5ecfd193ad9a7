"""Files: what people send is fetched before the message is accepted; what the bot sends goes by its type."""

import asyncio
import mimetypes
import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
from loguru import logger

from nanobot.channel import Attachment, ChannelError, DeadlineExceeded, Files, Port, RetryLater, believed
from telegram.error import BadRequest, ChatMigrated, NetworkError, TelegramError

from .api import UPLOAD_SECONDS, Api, says, translated
from .wire import File, Message, files_of

MAX_DOWNLOAD = 20 << 20  # bytes; api.telegram.org serves bots no larger file
MAX_UPLOAD, MAX_PHOTO = 50 << 20, 10 << 20
DOWNLOAD_SECONDS = 60.0
MAX_WAIT = 60.0  # that Telegram may ask for before a download
AGAIN = (1.0, 3.0)  # seconds before a download that the network cut off is tried again
ENDINGS = {
    "photo": ".jpg",
    "voice": ".ogg",
    "video": ".mp4",
    "video_note": ".mp4",
    "animation": ".mp4",
    "audio": ".mp3",
}
_MAGIC = (
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"PK\x03\x04", "application/zip"),
)
_UNSAFE = re.compile(r"[^\w.\- ]+")


class Outgoing(msgspec.Struct, frozen=True):
    """A file to send; with a problem instead of a path, the sentence that says why it cannot be."""

    name: str
    path: Path | None = None
    method: str = "document"
    problem: str = ""


class Incoming:
    """Fetches the files of messages."""

    def __init__(self, api: Api, port: Port) -> None:
        self._api = api
        self._clock = port.clock
        self._folder = port.media
        self._files = port.files

    async def fetch(self, message: Message) -> tuple[list[Attachment], list[str]]:
        """The message's files, and a sentence about each that could not be had."""
        got: list[Attachment] = []
        problems: list[str] = []
        for kind, file in files_of(message):
            name = file_name(kind, file)
            if file.file_size > MAX_DOWNLOAD:
                size = file.file_size / (1 << 20)
                problems.append(
                    f"[The file {name} was not fetched: {size:.0f} MB; bots may fetch 20 MB at most.]"
                )
                continue
            try:
                got.append(await self._patiently(file, name, kind))
            except (TelegramError, ChannelError, DeadlineExceeded, OSError) as error:
                logger.warning("telegram: file {} not fetched: {}", name, error)
                reason = (
                    "too large; bots may fetch 20 MB at most"
                    if "too big" in str(error).lower()
                    else "it failed"
                )
                problems.append(f"[The file {name} was not fetched: {reason}.]")
        return got, problems

    async def _patiently(self, file: File, name: str, kind: str) -> Attachment:
        for seconds in AGAIN:
            try:
                return await self._fetch(file, name, kind)
            except (BadRequest, ChatMigrated):
                raise
            except RetryLater as error:
                await self._clock.sleep(min(MAX_WAIT, max(seconds, error.seconds)))
            except NetworkError:
                await self._clock.sleep(seconds)
        return await self._fetch(file, name, kind)

    async def _fetch(self, file: File, name: str, kind: str) -> Attachment:
        async with translated("getFile", DOWNLOAD_SECONDS):
            found = await self._api.bot.get_file(file.file_id)
            data = bytes(await found.download_as_bytearray(read_timeout=DOWNLOAD_SECONDS))
        if len(data) > MAX_DOWNLOAD:
            raise OSError("too big")
        # Not by its name, which only the message says: names of files can be read where the state is encrypted.
        path = self._folder / (
            re.sub(r"[^A-Za-z0-9_-]", "", file.file_unique_id)[:64] or os.urandom(16).hex()
        )
        await asyncio.to_thread(self._files.write, path, data)
        return Attachment(str(path), name, sniff(data, file.mime_type, name, kind), len(data))


def file_name(kind: str, file: File) -> str:
    """A name without folders or odd characters, with an ending."""
    name = _UNSAFE.sub("_", Path(file.file_name.replace("\\", "/")).name).strip(". ")[-100:]
    return name or f"{kind}{ENDINGS.get(kind, '')}"


def sniff(data: bytes, claimed: str, name: str, kind: str) -> str:
    """The type by the file's first bytes; a claim to be a picture is not believed without them."""
    claimed = believed(claimed, data)
    for magic, mime in _MAGIC:
        if data.startswith(magic):
            return (
                "application/octet-stream"
                if mime == "application/zip" and not claimed
                else (claimed if mime == "application/zip" else mime)
            )
    if data[4:8] == b"ftyp":
        return claimed if claimed.startswith(("audio/", "video/")) else "video/mp4"
    claimed = claimed or mimetypes.guess_type(name)[0] or {"voice": "audio/ogg"}.get(kind, "")
    return believed(claimed, data) or "application/octet-stream"


def to_send(media: Sequence[Attachment], workspace: Path) -> list[Outgoing]:
    """What becomes of each attachment of a reply."""
    found = []
    for one in media:
        path = workspace / one.path
        name = one.name or path.name
        try:
            size = path.stat().st_size
        except OSError:
            found.append(Outgoing(name, problem=f"The file {name} is no longer there."))
            continue
        if size > MAX_UPLOAD:
            found.append(
                Outgoing(name, problem=f"The file {name} is larger than 50 MB, which bots cannot send.")
            )
        elif size == 0:
            found.append(Outgoing(name, problem=f"The file {name} is empty."))
        else:
            found.append(Outgoing(name, path, method_for(one.mime, name, size)))
    return found


def method_for(mime: str, name: str, size: int) -> str:
    """How Telegram should show a file."""
    if mime in ("", "application/octet-stream"):
        mime = mimetypes.guess_type(name)[0] or mime
    if mime in ("image/jpeg", "image/png", "image/webp") and size <= MAX_PHOTO:
        return "photo"
    if mime in ("audio/ogg", "audio/opus"):
        return "voice"
    if mime in ("audio/mpeg", "audio/mp4", "audio/x-m4a"):
        return "audio"
    return "video" if mime == "video/mp4" else "document"


async def send_file(api: Api, chat: str, thread: int | None, file: Outgoing, files: Files) -> str:
    """Post a file, as a document where Telegram does not take it as what it looks like; returns the message id."""
    if file.path is None:
        async with translated("sendMessage"):
            return str((await api.bot.send_message(chat, file.problem, message_thread_id=thread)).message_id)
    data = await asyncio.to_thread(files.read, file.path)
    for method in dict.fromkeys((file.method, "document")):
        send = getattr(api.bot, f"send_{method}")
        try:
            async with translated(f"send_{method}", UPLOAD_SECONDS):
                posted = await send(chat, data, filename=file.name, message_thread_id=thread)
            return str(posted.message_id)
        except BadRequest as error:
            if method == "document" or says(error, "chat not found", "thread not found"):
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")
