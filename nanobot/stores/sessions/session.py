"""One session in memory: its messages, its metadata, and what of both is not on the disk yet."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from nanobot import history
from nanobot.clock import Clock, SystemClock, stamp
from nanobot.messages import Line

RECENT = 8  # messages that stay in the history although they are consolidated
DERIVED = ("summary", "_last_summary")  # metadata that speaks of the messages: ours, and the reference's
FIELDS = ("tool_calls", "tool_call_id", "name", "reasoning_content", "thinking_blocks")  # what models read


class Retained(msgspec.Struct, frozen=True):
    """What `retain_recent_legal_suffix` let go; so many of the first of it were consolidated already."""

    dropped: Sequence[Line]
    already_consolidated_count: int

    @property
    def consolidated(self) -> int:
        """The count by its shorter name."""
        return self.already_consolidated_count


class Session:
    """A conversation. `messages` are the file's, as they were written; `get_history` makes them fit for a model.

    Add with `add_message` (or append to `messages`); the manager's `save` writes what is new. Lines that were changed
    in place are written by `save` only after `rewrite()`.
    """

    def __init__(
        self,
        key: str,
        messages: Iterable[Line] = (),
        metadata: dict[str, Any] | None = None,
        *,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
        last_consolidated: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self.key = key
        self.messages: list[Line] = list(messages)
        self.metadata: dict[str, Any] = metadata if metadata is not None else {}
        self.created_at = created_at or self._clock.now()
        self.updated_at = updated_at or self.created_at
        self.last_consolidated = last_consolidated
        self.archived = (0, 0)  # segments, and the messages in them
        # What the file holds: its messages are `messages[:saved]`, or those of them that `kept` lists by position.
        self.saved = 0
        self.kept: list[int] | None = None
        self.stale = False  # the file is to be written anew from memory
        self.leaving: list[Line] = []  # dropped by the cap into nobody's hands: the next save archives them
        self._last_saved: Line | None = None

    def add_message(self, role: str, content: Any, **fields: Any) -> Line:
        """Append a message with the present time; not on the disk until it is saved."""
        line = Line(role=role, content=content, timestamp=stamp(self._clock.now()))
        line.update(fields)
        self.messages.append(line)
        self.updated_at = self._clock.now()
        return line

    def get_history(
        self, max_messages: int = 0, max_tokens: int = 0, include_timestamps: bool = False
    ) -> list[dict[str, Any]]:
        """The legal tail that fits, as plain messages for a model; 0 means no limit.

        Begins where consolidation ended, but never later than at the turn of the last few messages. With
        `include_timestamps` a user's text begins with the time it was written.
        """
        spoken = history.for_models(self.messages[self._unfolded() :])
        return [
            _plain(line, include_timestamps) for line in history.window(spoken, 0, max_messages, max_tokens)
        ]

    def clear(self) -> None:
        """Forget the messages and what was derived from them; title, goal and settings stay."""
        self._keep([])
        self.last_consolidated = 0
        for name in DERIVED:
            self.metadata.pop(name, None)
        self.updated_at = self._clock.now()

    def retain_recent_legal_suffix(self, max_messages: int) -> Retained:
        """Keep the last messages, so many or fewer, beginning with a user line, and let the others go.

        A last turn longer than that keeps its question and what fits of its end.
        """
        keep = self._suffix(max_messages)
        kept = set(keep)
        dropped = [index for index in range(len(self.messages)) if index not in kept]
        consolidated = sum(1 for index in dropped if index < self.last_consolidated)
        lines = [self.messages[index] for index in dropped]
        if dropped:
            self._keep(keep)
            self.last_consolidated -= consolidated
        return Retained(lines, consolidated)

    def enforce_file_cap(
        self, on_archive: Callable[[list[Line]], object] | None = None, limit: int = 2000
    ) -> Retained:
        """Drop what is beyond `limit` messages, after `on_archive` took the part that is not consolidated.

        Without an archiver the next save moves all of it to the session's archive; one that raises leaves everything
        as it was. A limit of 0 is none.
        """
        if limit <= 0 or len(self.messages) <= limit:
            return Retained((), 0)
        kept = set(self._suffix(limit))
        if on_archive is not None:
            fresh = [
                line
                for index, line in enumerate(self.messages)
                if index not in kept and index >= self.last_consolidated
            ]
            if fresh:
                on_archive(fresh)
        retained = self.retain_recent_legal_suffix(limit)
        if on_archive is None:
            self.leaving += retained.dropped
        return retained

    def rewrite(self) -> None:
        """Have the next save write the whole file: messages were changed in place."""
        self.stale = True

    @property
    def unsaved(self) -> Sequence[Line]:
        """Lines that are not in the file yet."""
        return self.messages if self._replaced() else self.messages[self.saved :]

    def mark_saved(self, count: int) -> None:
        """The first `count` messages are the file's now."""
        self.saved = count
        self.kept = None
        self.stale = False
        self._last_saved = self.messages[count - 1] if count else None

    def drop_saved(self, count: int) -> None:
        """The file's first `count` messages went to the archive; forget them here too."""
        del self.messages[:count]
        self.saved = max(0, self.saved - count)
        self._last_saved = self.messages[self.saved - 1] if self.saved else None
        self.last_consolidated = max(0, self.last_consolidated - count)

    def needs_rewrite(self) -> bool:
        return self.kept is not None or bool(self.leaving) or self._replaced()

    def _replaced(self) -> bool:
        """Whether somebody changed the list's saved part directly; then the file is written anew from memory."""
        if self.stale:
            return True
        if not self.saved or self._last_saved is None:
            return False
        return len(self.messages) < self.saved or self.messages[self.saved - 1] is not self._last_saved

    def _keep(self, indices: Sequence[int]) -> None:
        stale = self._replaced()
        saved = [index for index in indices if index < self.saved]
        previous = self.kept if self.kept is not None else range(self.saved)
        self.messages[:] = [self.messages[index] for index in indices]
        if stale:
            self.stale = True
        elif len(saved) != self.saved or self.kept is not None:
            self.kept = [previous[index] for index in saved]
        self.saved = len(saved)
        self._last_saved = self.messages[len(saved) - 1] if saved else None

    def _suffix(self, n: int) -> list[int]:
        """Positions of the messages to keep."""
        messages, end = self.messages, len(self.messages)
        if n <= 0:
            return []
        if n >= end:
            return list(range(end))
        first = end - n
        for index in range(first, end):
            if messages[index].get("role") == "user":
                return list(range(index, end))
        while first < end and messages[first].get("role") == "tool":
            first += 1
        for index in range(end - n - 1, -1, -1):
            if messages[index].get("role") == "user":
                tail = max(first, end - n + 1)
                while tail < end and messages[tail].get("role") == "tool":
                    tail += 1
                return [index, *range(tail, end)]
        return list(range(first, end))

    def _unfolded(self) -> int:
        """Where the history for a model begins: at a user line near consolidation's end, before the recent messages."""
        messages, end = self.messages, len(self.messages)
        recent = max(0, end - RECENT)
        start = min(self.last_consolidated, recent)
        for index in range(start, recent):
            if messages[index].get("role") == "user":
                return index
        while start > 0 and messages[start].get("role") != "user":
            start -= 1
        return start


def merge(metadata: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Put changes into metadata; None removes a key."""
    for name, value in changes.items():
        if value is None:
            metadata.pop(name, None)
        else:
            metadata[name] = value


def _plain(line: Line, timestamps: bool) -> dict[str, Any]:
    """A line as a model's API has it."""
    message: dict[str, Any] = {"role": line["role"], "content": line.get("content")}
    for field in FIELDS:
        if line.get(field):
            message[field] = line[field]
    if line["role"] == "user" and isinstance(message["content"], str):
        shown = [f"[image: {path}]" for path in _paths(line.get("media"))]
        message["content"] = "\n".join([*shown, message["content"]] if message["content"] else shown)
        if timestamps and line.get("timestamp"):
            message["content"] = f"[{line['timestamp']}] {message['content']}"
    return message


def _paths(media: Any) -> list[str]:
    if not isinstance(media, list):
        return []
    paths = [item.get("path") if isinstance(item, dict) else item for item in media]
    return [path for path in paths if isinstance(path, str)]
