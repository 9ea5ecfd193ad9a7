"""Asking without a conversation: one message and its answer, alone, for scripts and pipes."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from nanobot.cli.client import Client, Frame
from nanobot.clock import SystemClock
from nanobot.errors import NanobotError
from nanobot.plain import printable

PATIENCE = 60.0  # seconds that a gateway may be away while an answer is waited for


async def ask(client: Client, text: str) -> bool:
    """Send one message and print the answer; False where the turn failed or was stopped."""
    waiting = asyncio.create_task(_tell_that_it_works())
    try:
        async with aclosing(client.frames(PATIENCE)) as frames:
            return await answered(client, frames, text, waiting)
    finally:
        waiting.cancel()


async def each_line(client: Client) -> bool:
    """Ask every line of standard input, one after another; False where the last turn failed."""
    fine = True
    async with aclosing(client.frames(PATIENCE)) as frames:
        # A thread reads them, so that the connection stays alive meanwhile.
        while sys.stdin is not None and (line := await asyncio.to_thread(sys.stdin.readline)):
            if line.strip():
                fine = await answered(client, frames, line.strip())
    return fine


async def _tell_that_it_works() -> None:
    """To a person who waits; cancelled, it wipes its words away."""
    if sys.stderr is None or not sys.stderr.isatty():
        return
    clock, seconds = SystemClock(), 0
    try:
        while True:
            await clock.sleep(1)
            seconds += 1
            sys.stderr.write(f"\r· working, {seconds} s")
            sys.stderr.flush()
    finally:
        sys.stderr.write("\r" + " " * 30 + "\r" if seconds else "")


async def answered(
    client: Client, frames: AsyncGenerator[Frame, None], text: str, waiting: asyncio.Task[None] | None = None
) -> bool:
    question = Question(await client.say(text))
    async for frame in frames:
        if frame["event"] == "lost":
            sys.stderr.write("The gateway went away; waiting for it.\n")
        if frame["event"] == "accepted" and frame.get("duplicate"):
            await client.look()  # accepted before the connection broke; it may be answered
        if question.take(frame):
            if waiting is not None:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            out = sys.stdout if question.status == "completed" else sys.stderr
            out.write(printable(question.answer) + "\n")
            out.flush()
            return question.status == "completed"
    return False


class Question:
    """A message that was sent, until its turn has ended."""

    def __init__(self, given: str) -> None:
        self.answer = ""
        self.status = ""  # completed, stopped or failed; "" while it runs
        self._given = given
        self._message = ""  # the gateway's id of it
        self._replies: dict[str, dict[str, str]] = {}  # by turn, then by their ids

    def take(self, frame: Frame) -> bool:
        """Whether that was the end. Raises NanobotError where the message is refused."""
        match frame["event"]:
            case "accepted" if frame["id"] == self._given:
                self._message = frame["message_id"]
            case "error" if frame.get("id", self._given) == self._given and frame["code"] != "stopping":
                raise NanobotError(f"The gateway refused: {frame['detail']} ({frame['code']})")
            case "message" | "stream_end" if frame.get("message_id"):
                self._replies.setdefault(frame["turn_id"], {})[frame["message_id"]] = frame["text"]
            case "turn_end" if self._message and self._message in frame["answers"]:
                self.answer = "\n\n".join(self._replies.get(frame["turn_id"], {}).values())
                self.status = frame["status"]
            case "history" if self._message:  # read again after the connection broke
                self._look_up(frame["messages"])
        return bool(self.status)

    def _look_up(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """A turn's final line follows the messages that it answers."""
        places = [place for place, line in enumerate(lines) if line.get("message_id") == self._message]
        for line in lines[places[0] + 1 :] if places else ():
            if line["role"] == "assistant" and line.get("message_id"):
                self.answer = str(line.get("content") or "")
                self.status = (
                    line["injected"] if line.get("injected") in ("stopped", "failed") else "completed"
                )
                return
