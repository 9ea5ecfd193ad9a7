"""What a chat looks like in a terminal: lines that stay, and below them a row that is still being written."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nanobot.cli.client import Frame
from nanobot.cli.common import cut
from nanobot.clock import Clock
from nanobot.plain import clean, printable

PAST = 10  # messages shown at the start
DIM, PLAIN = "\x1b[2m", "\x1b[0m"

Put = Callable[[str], Awaitable[None]]  # writes lines above the row that is being written


class Screen:
    """Shows frames."""

    def __init__(self, put: Put, width: Callable[[], int], clock: Clock, *, dim: bool = True) -> None:
        self.running = False
        self.away = False
        self._put = put
        self._width = width
        self._clock = clock
        self._dim = dim
        self._since = 0.0  # when what runs began
        self._row = ""  # the end of the stream, as far as no line is full
        self._streamed = ""  # what of the current stream was shown
        self._stream = ""
        self._goal: tuple[Any, ...] = ()
        self._opened = False

    @property
    def row(self) -> str:
        """What stands below the lines now: words as they come, or that there is something to wait for."""
        if self._row:
            return self._row
        if self.away:
            return "· the gateway is away; waiting for it"
        seconds = int(self._clock.monotonic() - self._since)
        return f"· working, {seconds} s" if self.running and seconds else ""

    async def show(self, frame: Frame) -> None:
        match frame["event"]:
            case "history":
                await self._history(frame)
            case "lost":
                await self._flush()
                self.running, self.away = False, True
            case "delta":
                await self._words(frame)
            case "stream_end":
                await self._end(frame)
            case "message" if not frame.get("known"):
                await self.line(frame["text"])
            case "user_message" if not frame.get("known"):
                await self.line(f"> {frame['text']}")
            case "tool_event" if frame.get("phase") == "start":
                await self.note(f"{frame['name']} {cut(clean(str(frame.get('arguments') or '')), 90)}")
            case "tool_event" if frame.get("phase") == "error":
                await self.note(f"{frame['name']} failed: {cut(clean(str(frame.get('error'))), 90)}")
            case "goal_status":
                self._run(frame["status"] == "running")
            case "turn_end" if frame.get("status") == "stopped":
                await self.note("stopped")
            case "goal_state":
                await self._show_goal(frame["goal_state"])
            case "notice":
                await self.note(frame["text"])
            case "error":
                await self.note(f"The gateway refused: {frame['detail']} ({frame['code']})")
            case _:
                pass  # nothing a terminal shows

    async def line(self, text: str, *, dim: bool = False) -> None:
        """A line that stays."""
        await self._flush()
        text = printable(text)
        await self._put(f"{DIM}{text}{PLAIN}\n" if dim and self._dim else f"{text}\n")

    async def note(self, text: str) -> None:
        """A line of ours, not of the conversation."""
        await self.line(f"· {text}", dim=True)

    async def _history(self, frame: Frame) -> None:
        if self.away:
            self.away = False
            await self.note("the gateway is back")
        shown = [line for line in frame["fresh"] if spoken(line)]
        if not self._opened:
            shown = shown[-PAST:]
        elif shown:  # what was missed; lines without an id were seen or belong to a turn that runs
            shown = [line for line in shown if line.get("message_id")]
        for line in shown:
            mark = "> " if line["role"] == "user" else ""
            await self.line(mark + line["content"], dim=not self._opened)
        self._opened = True

    def _run(self, running: bool) -> None:
        if running and not self.running:
            self._since = self._clock.monotonic()
        self.running = running

    async def _show_goal(self, goal: Mapping[str, Any]) -> None:
        news = (goal["id"], goal["status"], goal.get("step"))
        if news != self._goal:
            self._goal = news
            step = f" ({clean(goal['step'])})" if goal.get("step") else ""
            await self.note(f"goal {goal['status']}: {cut(clean(goal['ui_summary']), 60)}{step}")

    async def _words(self, frame: Frame) -> None:
        if frame["stream_id"] != self._stream or frame.get("replay"):  # a replay has the whole text so far
            await self._flush()
            self._stream, self._streamed = frame["stream_id"], ""
        self._streamed += frame["text"]
        self._row += printable(frame["text"])
        full, self._row = filled(self._row, self._width())
        if full:
            await self._put(full)

    async def _end(self, frame: Frame) -> None:
        """The stream is complete; where the final text is another than what was streamed, it is printed whole."""
        if frame.get("reset"):
            await self.note("starting again")
            return
        shown = self._streamed if frame["stream_id"] == self._stream else ""
        await self._flush()
        text = frame.get("text") or ""
        if text.strip() != shown.strip() and not frame.get("known"):
            await self.line(text)

    async def _flush(self) -> None:
        """The row stays as it is; what the stream says next begins another."""
        row, self._row = self._row, ""
        if row:
            await self._put(row + "\n")


def spoken(line: Mapping[str, Any]) -> bool:
    """Whether a person or the agent said this line to the other."""
    text, kind = line.get("content"), line.get("injected")
    if not isinstance(text, str) or not text:
        return False
    return line["role"] == "assistant" or (line["role"] == "user" and kind in (None, "", "command"))


def filled(row: str, width: int) -> tuple[str, str]:
    """The full lines of a row that grows, broken between words, and the rest of it."""
    *lines, rest = row.split("\n")
    full = "".join(f"{line}\n" for line in lines)
    while len(rest) > width:
        at = rest.rfind(" ", 0, width + 1)
        at = at if at > 0 else width
        full, rest = f"{full}{rest[:at]}\n", rest[at:].removeprefix(" ")
    return full, rest
