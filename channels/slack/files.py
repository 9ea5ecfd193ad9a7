"""Files in, by a bearer token from Slack's own hosts; files out, by the external upload."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from nanobot.channel import (
    Address,
    Attachment,
    ChannelError,
    Clock,
    DeadlineExceeded,
    Files,
    Keys,
    Outbound,
    RetryLater,
    believed,
    deadline,
)

from .api import Api, Lost, Refusal
from .wire import File, clean

FETCH_SECONDS = 60.0
AGAIN = (1.0, 3.0)  # seconds before a file whose transfer failed is fetched again
UPLOAD_SECONDS = 45.0
MAX_FILES = 10  # of one message
SCOPE_HINT = "Slack answered with a sign-in page; the app lacks the scope files:read"


class Inbox:
    """Fetches what people attach into the channel's media folder."""

    def __init__(self, api: Api, folder: Path, files: Files, clock: Clock, *, token: str, most: int) -> None:
        self._api = api
        self._clock = clock
        self._folder = folder
        self._files = files
        self._token = token
        self._most = most  # bytes of one file
        self._base = urlsplit(api.client.base_url)

    async def fetch(self, files: Sequence[File]) -> tuple[tuple[Attachment, ...], list[str]]:
        """The files that could be had, and a sentence for each that could not."""
        media: list[Attachment] = []
        problems: list[str] = []
        for one in files[:MAX_FILES]:
            try:
                media.append(await self._patiently(one))
            except (ChannelError, DeadlineExceeded, aiohttp.ClientError, OSError) as error:
                problems.append(f"{shown_name(one.name)} could not be read: {error}")
        if len(files) > MAX_FILES:
            problems.append(f"{len(files) - MAX_FILES} more files were left out")
        return tuple(media), problems

    def forget(self, media: Sequence[Attachment]) -> None:
        """Remove the files of a message that was not let in."""
        for one in media:
            Path(one.path).unlink(missing_ok=True)

    async def _patiently(self, file: File) -> Attachment:
        for seconds in AGAIN:
            try:
                return await self._fetch(file)
            except (RetryLater, aiohttp.ClientError):
                await self._clock.sleep(seconds)
        return await self._fetch(file)

    async def _fetch(self, file: File) -> Attachment:
        if not self._trusted(file.url):
            raise ChannelError("it is not kept by Slack")
        if file.size > self._most:
            raise ChannelError(f"it has {file.size:,} bytes, more than the {self._most:,} allowed")
        headers = {"Authorization": f"Bearer {self._token}"}
        async with (
            deadline(FETCH_SECONDS, "fetching a file"),
            aiohttp.ClientSession() as session,
            # A redirect would carry the token to wherever it leads, or end at a sign-in page.
            session.get(file.url, headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status == 429 or answer.status >= 500:
                raise RetryLater(AGAIN[-1], f"Slack answered {answer.status}")
            if answer.status != 200:
                raise ChannelError(f"Slack answered {answer.status}")
            if answer.content_type == "text/html" and file.mime != "text/html":
                raise ChannelError(SCOPE_HINT)
            data = await self._read(answer)
        mime = believed(file.mime, data) or "application/octet-stream"
        # Not by its name, which only the message says: names of files can be read where the state is encrypted.
        path = self._folder / os.urandom(16).hex()
        await asyncio.to_thread(self._files.write, path, data)
        return Attachment(str(path), shown_name(file.name), mime, len(data))

    async def _read(self, answer: aiohttp.ClientResponse) -> bytes:
        data = bytearray()
        async for chunk in answer.content.iter_chunked(1 << 16):
            data += chunk
            if len(data) > self._most:
                raise ChannelError(f"it has more than the {self._most:,} bytes allowed")
        return bytes(data)

    def _trusted(self, url: str) -> bool:
        """Whether the token may go there: Slack's file hosts over TLS, or the host the Web API is at."""
        parts = urlsplit(url)
        if (parts.scheme, parts.netloc) == (self._base.scheme, self._base.netloc):
            return True
        host = (parts.hostname or "").lower()
        return parts.scheme == "https" and (
            host in ("slack.com", "slack-files.com") or host.endswith((".slack.com", ".slack-files.com"))
        )


class Outbox:
    """Sends a reply's files, each once: how far each got is kept in the channel's keys."""

    def __init__(self, api: Api, keys: Keys, files: Files) -> None:
        self._api = api
        self._keys = keys
        self._files = files

    async def send(self, message: Outbound, number: int, thread: str) -> None:
        """Upload one file and show it. Raises Refusal or OSError where it can never be."""
        key = f"file:{message.id}:{number}"
        state = await self._keys.get(key) or ""
        if state == "done":
            return
        if state and await self._is_shown(state):
            await self._keys.set(key, "done")
            return
        one = message.media[number]
        data = await asyncio.to_thread(self._files.read, Path(one.path))
        if not data:
            raise Refusal("files.getUploadURLExternal", "the file is empty")
        name = shown_name(one.name)
        place = await self._api.call("files.getUploadURLExternal", filename=name, length=len(data))
        file_id = str(place["file_id"])
        async with deadline(UPLOAD_SECONDS, "uploading a file"), aiohttp.ClientSession() as session:
            try:
                async with session.post(str(place["upload_url"]), data=data) as answer:
                    if answer.status != 200:
                        raise Refusal("upload", f"HTTP {answer.status}")
            except aiohttp.ClientError as error:
                raise Lost(f"upload: {error}") from error
        await self._keys.set(key, file_id)  # from here on a repeat looks before it shows the file again
        await self._complete(file_id, name, message.address, thread)
        await self._keys.set(key, "done")

    async def forget(self, message: Outbound) -> None:
        for number in range(len(message.media)):
            await self._keys.delete(f"file:{message.id}:{number}")

    async def _complete(self, file_id: str, name: str, address: Address, thread: str) -> None:
        await self._api.call(
            "files.completeUploadExternal",
            files=[{"id": file_id, "title": name}],
            channel_id=address.chat_id,
            thread_ts=thread or None,
        )

    async def _is_shown(self, file_id: str) -> bool:
        try:
            found = (await self._api.call("files.info", file=file_id)).get("file") or {}
        except Refusal:
            return False
        return bool(found.get("shares") or found.get("channels") or found.get("groups") or found.get("ims"))


def shown_name(name: str) -> str:
    """A file's name without folders and control characters, at most 120 characters."""
    last = clean(name).replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(letter for letter in last if letter.isprintable()).strip(". ")[:120] or "file"
