"""Which images of a history a model is shown, and how everything else of a line becomes text."""

import asyncio
import base64
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nanobot.messages import Line
from nanobot.model import ToolSpec
from nanobot.security.paths import HIDDEN

MAX_IMAGE = 5 * 1024 * 1024  # bytes; both providers' limit
IMAGE_LINES = 4  # the last user lines with images whose images are sent
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
KEPT = (
    200  # lines from which on a history's encoded lines are kept: for fewer, encoding costs less than memory
)
KNOWN_TOOLS = 8  # lists of tools whose encoding is kept

encoder = msgspec.json.Encoder()


class Tools:
    """The encoded lists of tools, which are the same objects in every call: 10 kB that need not be made each time."""

    def __init__(self, tool: Callable[[ToolSpec], dict[str, Any]]) -> None:
        self._tool = tool
        self._known: dict[int, tuple[Sequence[ToolSpec], bytes]] = {}

    def __call__(self, specs: Sequence[ToolSpec]) -> bytes:
        """The JSON list of these tools."""
        known = self._known.get(id(specs))
        if known is not None and known[0] is specs:
            return known[1]
        if len(self._known) >= KNOWN_TOOLS:
            self._known.clear()
        made = encoder.encode([self._tool(spec) for spec in specs])
        self._known[id(specs)] = (specs, made)  # with the list itself, so that its id stays its own
        return made


# What no model here takes in: the person must not believe that it was heard.
UNHEARD = {
    "audio": "; you cannot hear it and nothing wrote it down: if it matters, say so and ask for text",
    "video": "; you cannot see it and nothing described it: if it matters, say so and ask for text",
}


class Image(msgspec.Struct, frozen=True):
    mime: str
    base64: str


Read = Callable[[Path], bytes]  # a file of a history; raises OSError
Images = Mapping[str, Image]  # by path


def image_lines(messages: Sequence[Line]) -> dict[int, list[str]]:
    """The paths of the images to show, by the index of their line."""
    found: dict[int, list[str]] = {}
    for index in range(len(messages) - 1, -1, -1):
        line = messages[index]
        if line.get("media") and line.get("role") == "user":
            paths = [item["path"] for item in items_of(line) if item.get("mime") in IMAGE_TYPES]
            if paths:
                found[index] = paths
                if len(found) == IMAGE_LINES:
                    break
    return found


async def load_images(
    messages: Sequence[Line], roots: Iterable[Path], read: Read = Path.read_bytes
) -> tuple[frozenset[int], Images]:
    """Read the images to show: the indexes of lines that may hold some, and what exists and is not too large."""
    lines = image_lines(messages)
    if not lines:
        return frozenset(), {}
    wanted = {
        item["path"]: str(item["mime"])
        for index in lines
        for item in items_of(messages[index])
        if item["path"] in lines[index]
    }
    return frozenset(lines), await asyncio.to_thread(_read, wanted, tuple(roots), read)


def text_of(line: Line, shown: Images | None = None) -> str:
    """A line's text: who said it in a group, its words, and a breadcrumb for each file that is not shown."""
    content = line.get("content")
    text = content if isinstance(content, str) else blocks_text(content)
    if line.get("role") == "user" and line.get("sender"):
        text = f"[{line['sender']}] {text}"
    if line.get("media") and line.get("role") in ("user", "tool"):
        for item in items_of(line):
            if not shown or item["path"] not in shown:
                mime = str(item.get("mime") or "application/octet-stream")
                crumb = f"[file: {item.get('copy') or item['path']} ({mime}){UNHEARD.get(mime.partition('/')[0], '')}]"
                text = f"{text}\n{crumb}" if text else crumb
    return text


def blocks_text(content: Any) -> str:
    """The text of a list of content blocks, for places that take text alone."""
    if not isinstance(content, list):
        return "" if content is None else str(content)
    texts = [block if isinstance(block, str) else block.get("text") for block in content]
    return "\n".join([text for text in texts if isinstance(text, str) and text])


def calls_of(line: Line) -> list[tuple[str, str, str]]:
    """The tool calls of an assistant's line as (id, name, arguments as JSON text)."""
    calls = []
    for call in line.get("tool_calls") or ():
        function = call.get("function") or call
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = encoder.encode(arguments or {}).decode()
        calls.append((str(call.get("id") or ""), str(function.get("name") or ""), arguments or "{}"))
    return calls


def last_user(messages: Sequence[Line]) -> int:
    """The index of the last user line, which takes the runtime context; -1 where there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "user":
            return index
    return -1


def separated(parts: Sequence[bytes]) -> list[bytes]:
    """The elements of a JSON list with their commas, unjoined: kept lines are shared, not copied, while a call runs."""
    return [piece for part in parts for piece in (b",", part)][1:]


def items_of(line: Line) -> list[dict[str, Any]]:
    """A line's files; older histories have bare paths."""
    media = line.get("media")
    if not isinstance(media, list | tuple):
        return []
    items = [{"path": item} if isinstance(item, str) else item for item in media]
    return [item for item in items if isinstance(item, dict) and item.get("path")]


def _of_chats(file: Path, root: Path) -> bool:
    """Whether it lies where files of chats do: a history that was imported may name any file of the machine."""
    real, place = Path(os.path.realpath(file)), Path(os.path.realpath(root))
    if real.is_relative_to(place / "media"):
        return True
    public = place.name not in HIDDEN and real.is_relative_to(place)
    return public and real.relative_to(place).parts[0] not in HIDDEN


def _read(wanted: Mapping[str, str], roots: Sequence[Path], read: Read) -> dict[str, Image]:
    images = {}
    for path, mime in wanted.items():
        for root in roots:
            file = root / path  # an absolute path stays what it is
            try:
                if _of_chats(file, root) and file.is_file() and file.stat().st_size <= MAX_IMAGE:
                    images[path] = Image(mime, base64.b64encode(read(file)).decode())
                    break
            except OSError:
                continue
    return images
