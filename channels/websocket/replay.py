"""The recent frames of a chat, so that a client that was away for a moment misses nothing."""

from collections import deque

MAX_FRAMES = 512  # of one chat
MAX_BYTES = 256 * 1024
FRAME_COST = 120  # bytes that keeping a frame costs besides its text


class Ring:
    """Frames with their rising numbers. What is older than `base` is gone."""

    __slots__ = ("base", "frames", "size")

    def __init__(self, base: int) -> None:
        self.base = base
        self.size = 0
        self.frames: deque[tuple[int, str]] = deque()

    def add(self, seq: int, text: str) -> int:
        """Keep a frame; returns by how many bytes the ring grew."""
        before = self.size
        self.frames.append((seq, text))
        self.size += len(text) + FRAME_COST
        while self.size > MAX_BYTES or len(self.frames) > MAX_FRAMES:
            self._drop()
        return self.size - before

    def clear(self, seq: int) -> int:
        """Forget all frames up to `seq`; returns how many bytes that freed."""
        freed = self.size
        self.frames.clear()
        self.size = 0
        self.base = seq
        return freed

    def after(self, seq: int) -> list[tuple[int, str]] | None:
        """The frames newer than `seq`, or None where some of them are gone."""
        if seq < self.base:
            return None
        return [frame for frame in self.frames if frame[0] > seq]

    def _drop(self) -> None:
        seq, text = self.frames.popleft()
        self.size -= len(text) + FRAME_COST
        self.base = seq
