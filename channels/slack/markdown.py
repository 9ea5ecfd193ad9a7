"""A reply's markdown for Slack: nobody is pinged by it, and a long one becomes several messages. Pure."""

import re

from .wire import clean

LIMIT = 12_000  # characters of markdown that one message holds
ROOM = 200  # kept free for fences that are closed and opened again
# Characters of the text for notifications and old clients, escaped. An edit takes 4,000 at most.
FALLBACK = 3_000
EMPTY = "(empty)"

# A zero-width space behind the bracket: people see no difference, Slack sees no mention. Entities would be shown
# literally inside code.
_PING = re.compile(r"<(?=!(?:channel|here|everyone|group|subteam)|@[A-Z]|#[A-Z])")
_OPEN_ENTITY = re.compile(r"&[a-z]{0,3}$")
_OPEN_END = re.compile(r"<(?:[!@#][a-z]{0,9})?$")
_FENCE = re.compile(r" {0,3}(?:>\s?)*\s*(?P<marks>`{3,}|~{3,})(?P<info>[^\n]*)")


def neutral(text: str) -> str:
    """A model's text with what would ping people or link channels made inert."""
    return _PING.sub("<\u200b", clean(text))


def settled(text: str) -> str:
    """The part of a text still growing whose neutral form will not change."""
    return neutral(_OPEN_END.sub("", text))


def escaped(text: str) -> str:
    """Text for a field in Slack's own markup, shown as it is."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def fallback(text: str) -> str:
    """What notifications show of a message."""
    return _OPEN_ENTITY.sub("", escaped(text[:FALLBACK])[:FALLBACK])


def split(text: str, limit: int = LIMIT) -> list[str]:
    """Cut a reply into messages, always the same for the same text.

    Cuts lie between paragraphs where that leaves parts of a fair size, else between lines, else between words. A code
    block that is cut is closed and opened again with its language.
    """
    rest = neutral(text).strip("\n")
    parts: list[str] = []
    while len(rest) > limit:
        at, fence = _cut(rest, limit - ROOM)
        head, rest = rest[:at], rest[at:]
        if fence:
            opener, marks = fence
            head = f"{head.removesuffix(chr(10))}\n{marks}"
            rest = f"{opener}\n{rest}"
        else:
            head, rest = head.rstrip("\n"), rest.lstrip("\n")
        if head.strip():
            parts.append(head)
    if rest.strip() or not parts:
        parts.append(rest if rest.strip() else EMPTY)
    return parts


def _cut(text: str, limit: int) -> tuple[int, tuple[str, str] | None]:
    """Where to cut within the limit, and the fence (its first line, its marks) that is open there."""
    paragraph = line = 0
    open_fence: tuple[str, str] | None = None
    at_line: tuple[str, str] | None = None
    at = 0
    while at < limit:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end + 1
        if end > limit:
            break
        row = text[at:end]
        # A fence's first line alone is no place to cut behind: the block would begin twice.
        opened = open_fence
        open_fence = _fence(row, open_fence)
        at = end
        if opened is None and open_fence is not None:
            continue
        line, at_line = at, open_fence
        if open_fence is None and not row.strip():
            paragraph = at
    if paragraph > limit // 3:
        return paragraph, None
    if line > limit // 8:
        return line, at_line
    # One very long line, perhaps behind some short ones.
    inside = at_line if line else None
    inside = open_fence if at > line else inside
    start = max(at, 0)
    space = text.rfind(" ", max(start, limit // 2), limit)
    return (space + 1 if space > 0 else _whole(text, limit)), inside


def _whole(text: str, at: int) -> int:
    """A place near `at` that does not part a character from its marks or joiners."""
    for back in range(16):
        left, right = text[at - back - 1], text[at - back]
        if right not in "\u200d\ufe0f\u20e3" and left != "\u200d" and not _mark(right):
            return at - back
    return at


def _mark(letter: str) -> bool:
    code = ord(letter)
    return 0x300 <= code <= 0x36F or 0x1F3FB <= code <= 0x1F3FF or 0xE0020 <= code <= 0xE007F


def _fence(row: str, fence: tuple[str, str] | None) -> tuple[str, str] | None:
    """The fence that is open after this line."""
    found = _FENCE.match(row)
    if found is None:
        return fence
    marks, info = found["marks"], found["info"].strip()
    if fence is None:
        if marks[0] == "`" and "`" in info:
            return None
        # A fence with a very long info string is reopened without it: the part has little room for it.
        return (f"{marks}{info}" if len(info) <= 40 else marks)[:60], marks[:40]
    if marks[0] == fence[1][0] and len(marks) >= len(fence[1]) and not info:
        return None
    return fence
