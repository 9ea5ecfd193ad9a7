"""One chat as its clients see it: events become numbered frames, in order, for those attached and for replay."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nanobot.channel import (
    Address,
    Event,
    GoalChanged,
    Notice,
    Outbound,
    ReasoningDelta,
    ReasoningEnded,
    Steered,
    TextDelta,
    TextEnded,
    TextReset,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)

from .connection import Connection, Served
from .replay import Ring
from .turns import Turn, end_fields
from .wire import encode

JOIN_SECONDS = 0.016  # deltas are joined this long, once the first has gone out
MAX_TURNS = 8  # that wait for their last frame
MAX_WRITTEN = 64  # ids of finals remembered, for an end of turn that comes after them

Fields = Mapping[str, Any]


class Chat:
    """State of a chat while someone is attached or was lately. Everything here happens on one event loop."""

    __slots__ = (
        "_flushed_at",
        "_grown",
        "_loop",
        "_pending",
        "_pending_head",
        "_recording",
        "_timer",
        "_written",
        "address",
        "connections",
        "ring",
        "seq",
        "turns",
    )

    def __init__(self, address: Address, seq: int, grown: Callable[[int], None]) -> None:
        self.address = address
        self.seq = seq
        self.ring = Ring(seq)
        self.connections: set[Connection] = set()
        self.turns: dict[str, Turn] = {}
        self._recording = False  # nobody was ever attached: nothing can be replayed, so nothing is encoded
        self._grown = grown  # told by how many bytes the ring grew
        self._pending: list[str] = []
        self._pending_head: tuple[str, str, str] = ("", "", "")  # event, turn, stream of the pending deltas
        self._timer: asyncio.Handle | None = None
        self._flushed_at = 0.0
        self._written: dict[str, None] = {}
        self._loop = asyncio.get_running_loop()

    # Clients.

    def attach(self, connection: Connection, after: int | None, head: Fields) -> None:
        """Let a client in: what it missed where the ring still has that, else the state so far."""
        self.flush()
        self._recording = True
        missed = None if after is None or after > self.seq else self.ring.after(after)
        if missed is not None:
            self._greet(connection, {**head, "seq": after, "snapshot": False})
            for seq, text in missed:
                connection.push(text, self.address.chat_id, seq)
        else:
            self._settle_before_snapshot()
            self._greet(connection, {**head, "seq": self.seq, "snapshot": True})
            for turn in self.turns.values():
                for event, fields in turn.so_far():
                    connection.push(self._number(event, fields))
        self.connections.add(connection)

    def join(self, connection: Connection) -> None:
        """Let in a client that opened this chat and knows that it is new."""
        self._recording = True
        self.connections.add(connection)

    def _greet(self, connection: Connection, fields: Fields) -> None:
        connection.push(encode("attached", {"chat_id": self.address.chat_id, **fields}))

    def _settle_before_snapshot(self) -> None:
        """A turn that has ended and waits with nobody here is told as a `message`: forget what was streamed."""
        if self.connections:
            return
        for turn in self.turns.values():
            if turn.ended is not None:
                self._unshow(turn)

    def _unshow(self, turn: Turn) -> None:
        """Forget what a turn showed, so that its reply will be a `message`."""
        turn.close_text()
        turn.close_reasoning()

    # Frames.

    def emit(
        self, event: str, fields: Fields, *, skip: Connection | None = None, served: Served | None = None
    ) -> int:
        """Send a frame to everyone attached and keep it for replay; returns its number."""
        self.flush()
        return self._emit(event, fields, skip, served)

    def _emit(
        self, event: str, fields: Fields, skip: Connection | None = None, served: Served | None = None
    ) -> int:
        if not self._recording:
            return self.seq
        text = self._number(event, fields)
        chat_id = self.address.chat_id
        for connection in tuple(self.connections):
            if connection is not skip:
                connection.push(text, chat_id, self.seq, served)
        self._grown(self.ring.add(self.seq, text))
        return self.seq

    def _number(self, event: str, fields: Fields) -> str:
        self.seq += 1
        return encode(event, {"chat_id": self.address.chat_id, "seq": self.seq, **fields})

    # Deltas: those that arrive together leave together.

    def _join(self, event: str, turn: str, stream: str, text: str) -> None:
        head = (event, turn, stream)
        if self._pending and head != self._pending_head:
            self.flush()
        self._pending_head = head
        self._pending.append(text)
        if self._timer is None:
            wait = self._flushed_at + JOIN_SECONDS - self._loop.time()
            self._timer = (
                self._loop.call_soon(self.flush) if wait <= 0 else self._loop.call_later(wait, self.flush)
            )

    def flush(self) -> None:
        """Send the deltas that were held back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pending:
            return
        event, turn, stream = self._pending_head
        text = "".join(self._pending)
        self._pending = []
        self._flushed_at = self._loop.time()
        self._emit(event, {"turn_id": turn, "stream_id": stream, "text": text})

    # Events of turns.

    def show(self, event: Event) -> None:
        """Turn an event into frames."""
        match event:
            case TextDelta():
                self._turn(event.turn).add_text(event.stream, event.text)
                self._join("delta", event.turn, event.stream, event.text)
            case ReasoningDelta():
                self._turn(event.turn).add_reasoning(event.stream, event.text)
                self._join("reasoning_delta", event.turn, event.stream, event.text)
            case TextEnded():
                self._turn(event.turn).close_text()
                fields = {"stream_id": event.stream, "text": event.text, "resuming": True}
                self.emit("stream_end", {"turn_id": event.turn, **fields})
            case TextReset():
                self._reset(event)
            case ReasoningEnded():
                self._turn(event.turn).close_reasoning()
                self.emit("reasoning_end", {"turn_id": event.turn, "stream_id": event.stream})
            case ToolStarted() | ToolProgress() | ToolEnded():
                fields = self._turn(event.turn).add_tool(event)
                self.emit("tool_event", {"turn_id": event.turn, **fields})
            case TurnStarted():
                self._start(event)
            case Steered():
                self.emit("steered", {"turn_id": event.turn, "answers": event.answers})
            case Notice():
                self.emit("notice", {"turn_id": event.turn, "text": event.text})
            case GoalChanged():
                self.emit("goal_state", {"turn_id": event.turn, "goal_state": event.goal})
            case TurnEnded():
                self._turn(event.turn).end(event)
                self._finish(event.turn)
            case _:
                pass  # a kind of event that this channel does not show

    def _turn(self, id: str) -> Turn:
        turn = self.turns.get(id)
        if turn is None:
            turn = self.turns[id] = Turn(id)
            if len(self.turns) > MAX_TURNS:
                del self.turns[next(iter(self.turns))]
        return turn

    def _start(self, event: TurnStarted) -> None:
        self.turns.pop(event.turn, None)
        turn = self._turn(event.turn)
        turn.started = True
        turn.started_at = event.started_at
        fields = {"status": "running", "started_at": event.started_at, "answers": event.answers}
        self.emit("goal_status", {"turn_id": event.turn, **fields})

    def _reset(self, event: TextReset) -> None:
        turn = self._turn(event.turn)
        turn.close_text()
        turn.close_reasoning()
        if self._pending and self._pending_head[1:] == (event.turn, event.stream):
            self._pending = []  # never sent, so there is less to take back
        fields = {"stream_id": event.stream, "text": "", "reset": True}
        self.emit("stream_end", {"turn_id": event.turn, **fields})

    def _finish(self, id: str) -> None:
        """Say that a turn is over, once its replies are written."""
        turn = self.turns[id]
        ended = turn.ended
        if ended is None:
            return
        if not turn.owed <= self._written.keys():
            if not self.connections:
                self._unshow(turn)
            return
        if turn.stream:
            self.emit("stream_end", {"turn_id": id, "stream_id": turn.stream, "text": "".join(turn.text)})
        if ended.goal is not None:
            self.emit("goal_state", {"turn_id": id, "goal_state": ended.goal})
        self.emit("turn_end", end_fields(ended))
        del self.turns[id]
        if turn.started and not any(other.started for other in self.turns.values()):
            self.emit("goal_status", {"turn_id": id, "status": "idle", "started_at": None})

    # Replies.

    def post(self, message: Outbound, media: Sequence[Fields], served: Served) -> None:
        """Send a committed reply: as the end of its stream where clients saw that, else as a message."""
        turn = self.turns.get(message.turn)
        fields: dict[str, Any] = {"turn_id": message.turn, "message_id": message.id, "text": message.text}
        if media:
            fields["media"] = media
        self.flush()
        if message.streamed and turn is not None and turn.stream:
            fields["stream_id"] = turn.stream
            turn.close_text()
            self.emit("stream_end", fields, served=served)
        else:
            fields["kind"] = message.kind
            self.emit("message", fields, served=served)
        self._written[message.id] = None
        if len(self._written) > MAX_WRITTEN:
            del self._written[next(iter(self._written))]
        if turn is not None:
            self._finish(message.turn)


def running(turns: Iterable[Turn]) -> Turn | None:
    """The newest turn that clients were told of and that has not ended."""
    return next((turn for turn in reversed(list(turns)) if turn.started and turn.ended is None), None)
