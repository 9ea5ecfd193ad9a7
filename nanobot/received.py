"""Files that people send, where the agent's tools can open them: a copy in the workspace's `received/`."""

import asyncio
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
from loguru import logger

from nanobot.channel import Files
from nanobot.errors import NanobotError
from nanobot.messages import Attachment
from nanobot.models.media import IMAGE_TYPES
from nanobot.security.paths import Boundary

FOLDER = "received"
MAX_NAME = 100  # characters of the sender's name for it
_UNSAFE = re.compile(r"[^\w.\-]+")


async def brought(media: Sequence[Attachment], workspace: Path, files: Files) -> tuple[Attachment, ...]:
    """The attachments, each with its `copy` where one could be made.

    Pictures have none, since models are shown them. With an encrypted state there is none either: what lies in the
    workspace is plain.
    """
    if files.sealed:
        return tuple(media)
    found = []
    for one in media:
        if one.mime not in IMAGE_TYPES and not one.copy:
            try:
                copy = await asyncio.to_thread(_copied, one, Boundary(workspace), files)
            except (NanobotError, OSError) as error:
                logger.warning("a file that was received is not in {}/: {}", FOLDER, error)
            else:
                found.append(msgspec.structs.replace(one, copy=copy))
                continue
        found.append(one)
    return tuple(found)


def _copied(one: Attachment, boundary: Boundary, files: Files) -> str:
    """Write it once; a message that comes twice finds it there."""
    path = Path(one.path)
    apart = hashlib.sha256(path.name.encode()).hexdigest()[:8]  # two files may have one name
    copy = f"{FOLDER}/{apart}-{safe(one.name)}"
    if not boundary.exists(copy):
        boundary.write(copy, files.read(path), durable=False)
    return copy


def safe(name: str) -> str:
    """A name without folders, odd characters or a dot in front; its ending stays."""
    plain = _UNSAFE.sub("_", Path(name).name).strip("._")
    stem, dot, ending = plain.rpartition(".")
    return (f"{stem[:MAX_NAME]}{dot}{ending[:16]}" if dot else plain[:MAX_NAME]) or "file"
