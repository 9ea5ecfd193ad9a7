"""Server-sent events on bytes: chunks of a response in, the data of whole events out."""

MAX_EVENT = 8 * 1024 * 1024  # bytes; a provider never sends one near this size


class EventTooLong(ValueError):
    """An event grew past MAX_EVENT without an end."""


class Splitter:
    """Splits a stream of `text/event-stream` bytes, cut at any place, into its events' data.

    Lines are never decoded: JSON text holds no raw line break, so an event ends at an empty line and that is all
    there is to find. Names, ids and comments are dropped, since both protocols repeat the type in the data.
    """

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes; returns the data of the events they complete."""
        buffer = self._tail + chunk if self._tail else chunk
        held = b""
        if b"\r" in buffer:
            if buffer.endswith(b"\r"):  # its line feed may be in the next chunk
                buffer, held = buffer[:-1], b"\r"
            buffer = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *events, tail = buffer.split(b"\n\n")
        self._tail = tail + held
        if len(self._tail) > MAX_EVENT:
            raise EventTooLong(f"an event of the stream is longer than {MAX_EVENT} bytes")
        return [data for event in events if (data := _data(event))]

    def end(self) -> list[bytes]:
        """The stream ended: the data of an event whose empty line never came."""
        data = _data(self._tail.strip())
        self._tail = b""
        return [data] if data else []


def _data(event: bytes) -> bytes:
    if b"\n" not in event:
        return _value(event) if event.startswith(b"data:") else b""
    return b"\n".join([_value(line) for line in event.split(b"\n") if line.startswith(b"data:")])


def _value(line: bytes) -> bytes:
    return line[6:] if line[5:6] == b" " else line[5:]
