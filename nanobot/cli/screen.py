"""What a chat looks like in a terminal: words as they come, tools in one line each; or plain answers in a pipe."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nanobot.cli.client import Client
from nanobot.cli.common import cut
from nanobot.errors import NanobotError
from nanobot.plain import clean, printable

HISTORY = 10  # messages shown at the start
DIM, PLAIN = "\x1b[2m", "\x1b[0m"


async def ask(client: Client, text: str) -> bool:
    """Send one message and print the answer; False where the turn failed or was stopped."""
    answer = await _settle(client, text)
    out = sys.stdout if answer.completed else sys.stderr
    out.write(answer.text + "\n")
    return answer.completed


async def converse(client: Client, *, interactive: bool) -> bool:
    """Talk until the end of input; False where the last turn failed."""
    if interactive:
        await _interactive(client)
        return True
    fine = True
    async for line in _lines():
        fine = await ask(client, line)
    return fine


class Answer:
    """A settled turn."""

    def __init__(self, text: str, status: str) -> None:
        self.text = printable(text)
        self.completed = status == "completed"


async def _settle(client: Client, text: str) -> Answer:
    answer = Answer("", "failed")
    async for _, turn in client.turn(await client.say(text)):
        if turn.status:
            answer = Answer("\n\n".join(turn.replies.values()), turn.status)
    return answer


async def _lines() -> AsyncIterator[str]:
    """Lines of standard input; a thread reads them, so that the connection stays alive meanwhile."""
    while True:
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            return
        if line.strip():
            yield line.strip()


async def _interactive(client: Client) -> None:
    from prompt_toolkit import PromptSession  # noqa: PLC0415 - 0.2 s that a pipe does not need

    screen = Screen()
    await screen.history(client)
    prompt: PromptSession[str] = PromptSession()
    while True:
        try:
            text = (await prompt.prompt_async("> ")).strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text in ("/exit", "/quit"):
            return
        if text:
            with _ctrl_c(client):
                try:
                    async for frame, _ in client.turn(await client.say(text)):
                        screen.show(frame)
                except NanobotError as error:
                    screen.line(str(error))
                    if not client.open:
                        return


@contextmanager
def _ctrl_c(client: Client) -> Iterator[None]:
    """While a turn runs Ctrl-C stops it, not us."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    def stop() -> None:
        task = asyncio.create_task(client.stop())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Screen:
    """Prints frames."""

    def __init__(self) -> None:
        self._streamed = ""  # what of the current stream is on the screen
        self._stream = ""

    async def history(self, client: Client) -> None:
        """The chat's last messages, and replies that waited for us."""
        await client.send("history", limit=HISTORY)
        async for frame in client.frames():
            if frame["event"] == "history":
                for line in frame["messages"]:
                    self.past(line)
                return
            if frame["event"] == "error":
                self.line(str(frame.get("detail", "")))
                return
            self.show(frame)

    def past(self, line: Mapping[str, Any]) -> None:
        text = line.get("content")
        if isinstance(text, str) and text and line.get("role") in ("user", "assistant"):
            mark = "> " if line["role"] == "user" else ""
            self.line(mark + text, dim=True)

    def show(self, frame: Mapping[str, Any]) -> None:
        match frame["event"]:
            case "delta":
                self._word(frame["stream_id"], frame["text"])
            case "stream_end":
                self._end(frame)
            case "message":
                self.line(frame["text"])
            case "tool_event" if frame.get("phase") == "start":
                self.line(f"· {frame['name']} {cut(clean(str(frame.get('arguments') or '')), 90)}", dim=True)
            case "tool_event" if frame.get("phase") == "error":
                self.line(f"· {frame['name']} failed: {cut(clean(str(frame.get('error'))), 90)}", dim=True)
            case "turn_end" if frame.get("status") == "stopped":
                self.line("· stopped", dim=True)
            case "notice":
                self.line(f"· {frame['text']}", dim=True)
            case _:
                pass  # nothing a terminal shows

    def line(self, text: str, *, dim: bool = False) -> None:
        self._finish()
        text = printable(text)
        sys.stdout.write(f"{DIM}{text}{PLAIN}\n" if dim else f"{text}\n")
        sys.stdout.flush()

    def _word(self, stream: str, text: str) -> None:
        if stream != self._stream:
            self._finish()
            self._stream = stream
        self._streamed += text
        sys.stdout.write(printable(text))
        sys.stdout.flush()

    def _end(self, frame: Mapping[str, Any]) -> None:
        """The stream is complete; where the final text is another than what was streamed, it is printed whole."""
        if frame.get("reset"):
            self.line("· starting again", dim=True)
            return
        shown = self._streamed if frame["stream_id"] == self._stream else ""
        self._finish()
        text = frame.get("text") or ""
        if text.strip() != shown.strip():
            self.line(text)

    def _finish(self) -> None:
        if self._streamed and not self._streamed.endswith("\n"):
            sys.stdout.write("\n")
        self._streamed = self._stream = ""
