"""The message tool: text and files to a chat while the turn goes on."""

import asyncio
import mimetypes
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from nanobot.clock import deadline
from nanobot.errors import BadArguments, ChannelError, Refused, ToolError
from nanobot.files import Files
from nanobot.messages import Address, Attachment, new_id
from nanobot.security.context import SecurityContext
from nanobot.tool import FunctionTool, ToolContext, ToolResult, tool

Send = Callable[[Address, str, tuple[Attachment, ...]], Awaitable[str]]

SEND_SECONDS = 45.0
FILES = 10
KEEP_SECONDS = 7 * 86_400.0


class Message(msgspec.Struct, forbid_unknown_fields=True):
    text: Annotated[str, Meta(max_length=40_000)] = ""
    files: Annotated[
        list[str], Meta(description="Paths in the workspace, sent as attachments.", max_length=FILES)
    ] = []
    chat_id: Annotated[str, Meta(description="Another chat of the same channel; empty = this one.")] = ""
    thread: Annotated[str, Meta(description="A thread or topic of that other chat.")] = ""


def message_tool(
    security: SecurityContext, outgoing: Path, send: Send, store: Files
) -> FunctionTool[Message]:
    """`outgoing` is a folder of the state that holds attachments until they are delivered."""

    @tool(
        "message",
        "Send a message or files to the user now, while the work goes on: to deliver a file, or to write to another "
        "chat. Do not use it for the answer to the user's message: what you say at the end is sent by itself.",
    )
    async def message(arguments: Message, context: ToolContext) -> ToolResult:
        if not arguments.text.strip() and not arguments.files:
            raise BadArguments("message needs text or files")
        address = _target(arguments, context.address, other_chats=security.rules.other_chats)
        place = security.within(context.workspace)
        media = await asyncio.to_thread(_attached, place, outgoing, store, arguments.files)
        try:
            async with deadline(SEND_SECONDS, "sending the message"):
                ref = await send(address, arguments.text, media)
        except ChannelError as error:
            raise ToolError(f"the message was not sent: {error}") from error
        files = f" with {len(media)} file{'s' if len(media) > 1 else ''}" if media else ""
        return ToolResult(f"Sent{files} to {address.key} ({ref})", media=media)

    return message


def _target(arguments: Message, here: Address, *, other_chats: bool) -> Address:
    if not arguments.chat_id or arguments.chat_id == here.chat_id:
        if arguments.thread and arguments.thread != here.thread and not other_chats:
            raise Refused("at this security level messages go only to the chat they were asked in")
        return Address(here.channel, here.chat_id, arguments.thread or here.thread)
    if not other_chats:
        raise Refused("at this security level messages go only to the chat they were asked in")
    if here.channel == "websocket":  # a chat of the page belongs to the person who opened it
        raise Refused("on the page messages go only to the chat they were asked in")
    return Address(here.channel, arguments.chat_id, arguments.thread)


def _attached(
    security: SecurityContext, outgoing: Path, files: Files, paths: list[str]
) -> tuple[Attachment, ...]:
    """Copies of the files: the original may be changed, or become a link to anywhere, before it is delivered."""
    if not paths:
        return ()
    with suppress(FileNotFoundError):
        _forget_old(outgoing)
    media: list[Attachment] = []
    for path in paths:
        with security.boundary.file(path) as (opened, facts):
            security.fits(path, facts.st_size)
            name = Path(path).name
            copy = outgoing / new_id()
            with os.fdopen(os.dup(opened), "rb") as source:
                data = source.read()
            files.write(copy, data, keep=True)
        mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
        media.append(Attachment(str(copy), name, mime, len(data)))
    return tuple(media)


def _forget_old(outgoing: Path) -> None:
    with os.scandir(outgoing) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_mtime < time.time() - KEEP_SECONDS:
                with suppress(OSError):
                    Path(entry.path).unlink()
