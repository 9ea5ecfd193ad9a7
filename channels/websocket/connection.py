"""One socket's way out: a bounded queue, a writer that exists only while there is something to write, and receipts."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any

from nanobot.channel import Unreachable

MAX_QUEUED = 4 * 1024 * 1024  # characters that wait for a slow client before it is cut off
MAX_FRAMES = 2_048
SHARED = 16 * 1024  # characters up to which a frame's bytes are remembered for the next client
WRITE_SECONDS = 30.0  # a single frame that takes longer means that the client does not read

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def framed(text: str) -> bytes:
    """A text as a WebSocket frame; made once for all clients of a chat."""
    return _shared(text) if len(text) <= SHARED else _frame(text)


def _frame(text: str) -> bytes:
    data = text.encode()
    size = len(data)
    if size < 126:
        return bytes((0x81, size)) + data
    if size < 65_536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + data
    return b"\x81\x7f" + size.to_bytes(8, "big") + data


_shared = lru_cache(maxsize=8)(_frame)


class Served:
    """Whether a reply reached somebody: written to a client that never acks, or acked by one that does."""

    __slots__ = ("future", "open")

    def __init__(self) -> None:
        self.open = 0
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def reached(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def lost(self) -> None:
        """One connection went away before it had, or confirmed, the frame."""
        self.open -= 1
        if self.open == 0 and not self.future.done():
            self.future.set_exception(Unreachable("the client went away before it had the reply"))


class Connection:
    """A client that has been let in."""

    __slots__ = (
        "_abort",
        "_gone",
        "_queue",
        "_queued",
        "_send",
        "_unacked",
        "_write",
        "_writer",
        "acks",
        "chats",
        "client_id",
        "closed",
        "default",
        "principal",
    )

    def __init__(
        self,
        send: Send,
        abort: Callable[[], None],
        gone: Callable[["Connection"], None],
        principal: str,
        client_id: str,
        write: Callable[[bytes], bool],
    ) -> None:
        """`write` puts a ready frame out at once, and says False where `send`, which can wait, must do it."""
        self.principal = principal
        self.client_id = client_id
        self.default = ""  # the chat of plain text
        self.chats: set[str] = set()
        self.acks = False  # it has sent an ack, so its replies count once acked
        self.closed = False
        self._send = send
        self._write = write
        self._abort = abort
        self._gone = gone  # told once, when the connection takes nothing more
        self._queue: deque[tuple[str, int, str, Served | None]] | None = None  # made at the first frame
        self._queued = 0
        self._unacked: deque[tuple[str, int, Served]] | None = None
        self._writer: asyncio.Task[None] | None = None

    def push(self, text: str, chat_id: str = "", seq: int = 0, served: Served | None = None) -> None:
        """Queue a frame; a client that does not read is cut off, never buffered without limit."""
        if self.closed:
            return
        queue = self._queue
        if queue is None and self._writer is None and self._write(framed(text)):
            if served is not None:
                served.open += 1
                self._written(chat_id, seq, served)
            return
        if queue is None:
            queue = self._queue = deque()
        elif queue and (self._queued + len(text) > MAX_QUEUED or len(queue) >= MAX_FRAMES):
            self.cut()
            return
        if served is not None:
            served.open += 1
        queue.append((text, seq, chat_id, served))
        self._queued += len(text)
        if self._writer is None:
            self._writer = asyncio.create_task(self._drain())

    def ack(self, chat_id: str, seq: int) -> None:
        """The client has everything of this chat up to `seq`."""
        self.acks = True
        waiting = self._unacked
        if not waiting:
            return
        kept: deque[tuple[str, int, Served]] = deque()
        for entry in waiting:
            if entry[0] == chat_id and entry[1] <= seq:
                entry[2].reached()
            else:
                kept.append(entry)
        self._unacked = kept

    def owes(self, served: Served) -> bool:
        """Whether this client still has to take, or to confirm, that reply."""
        queued = any(entry[3] is served for entry in self._queue or ())
        return queued or any(entry[2] is served for entry in self._unacked or ())

    def cut(self) -> None:
        """End a connection whose client does not keep up; it comes back and replays."""
        self.close()
        self._abort()

    def close(self) -> None:
        """Take nothing more; whoever waits for a receipt from here learns that none will come."""
        if self.closed:
            return
        self.closed = True
        self._gone(self)
        if self._writer is not None and self._writer is not asyncio.current_task():
            self._writer.cancel()
        for _, _, _, served in self._queue or ():
            if served is not None:
                served.lost()
        for _, _, served in self._unacked or ():
            served.lost()
        self._queue = None
        self._unacked = None

    async def flush(self, seconds: float) -> None:
        """Wait so long until what is queued is written."""
        if self._writer is not None:
            await asyncio.wait((self._writer,), timeout=seconds)

    async def _drain(self) -> None:
        queue = self._queue
        try:
            while queue:
                text, seq, chat_id, served = queue[0]
                async with asyncio.timeout(WRITE_SECONDS):
                    await self._send({"type": "websocket.send", "text": text})
                if self.closed:
                    return
                queue.popleft()
                self._queued -= len(text)
                if served is not None:
                    self._written(chat_id, seq, served)
        except TimeoutError:
            self.cut()
        except (OSError, RuntimeError):  # the socket is gone; the reading side learns the same and cleans up
            self.close()
        finally:
            self._writer = None
            if not queue:
                self._queue = None  # most sockets are idle most of the time

    def _written(self, chat_id: str, seq: int, served: Served) -> None:
        if not self.acks:
            served.reached()
            return
        if self._unacked is None:
            self._unacked = deque()
        self._unacked.append((chat_id, seq, served))
