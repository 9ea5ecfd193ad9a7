"""A conversation in a terminal: a prompt that stays while the agent writes above it."""

import asyncio
import os
import shutil
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from nanobot.cli.client import Client
from nanobot.cli.screen import Screen, spoken
from nanobot.clock import SystemClock

KEYS = "Enter sends, Alt-Enter breaks the line, Ctrl-C stops, Ctrl-D leaves, /help"
PARTING = ("/exit", "/quit")


class Talk:
    """Reads what is typed and what the gateway says at the same time.

    There is one prompt from the beginning to the end: between two, the terminal would take Ctrl-D and Ctrl-C for itself.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._drawn = asyncio.Event()
        self._typed: asyncio.Queue[str] = asyncio.Queue()
        dim = not os.environ.get("NO_COLOR")
        self._screen = Screen(
            self._put, lambda: shutil.get_terminal_size().columns - 1, SystemClock(), dim=dim
        )
        self._said = InMemoryHistory()
        self._prompt: PromptSession[str] = PromptSession(
            self._message,
            history=self._said,
            key_bindings=self._keys(),
            erase_when_done=True,
            refresh_interval=1.0,  # the seconds of what is waited for
        )
        self._prompt.app.after_render += lambda _: self._drawn.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until Ctrl-D. Raises NanobotError where the gateway does not let us in."""
        prompting = asyncio.create_task(self._prompting())
        reading = asyncio.create_task(self._read())
        sending = asyncio.create_task(self._send())
        tasks = (prompting, reading, sending)
        try:
            await asyncio.wait((prompting, reading), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for text in (*self._client.unsent, *self._waiting()):
                await self._screen.note(f"not sent: {text}")
            if self._screen.running:
                await self._screen.note("what is unfinished goes on; nanobot chat shows it")

    async def _prompting(self) -> None:
        with suppress(EOFError):
            await self._prompt.prompt_async()

    async def _read(self) -> None:
        await self._drawn.wait()
        first = True
        async for frame in self._client.frames():
            await self._screen.show(frame)
            if first:
                first = False
                self._remember(frame["messages"])
                await self._screen.note(KEYS)
            self._prompt.app.invalidate()

    def _remember(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """What was said in earlier chats is behind the arrow up."""
        for line in lines:
            if line["role"] == "user" and spoken(line):
                self._said.append_string(line["content"])
        buffer = self._prompt.default_buffer
        buffer.reset(buffer.document)  # it reads the history anew

    async def _send(self) -> None:
        while True:
            text = await self._typed.get()
            await self._screen.line(f"> {text}")
            await self._client.say(text)

    def _waiting(self) -> list[str]:
        return [self._typed.get_nowait() for _ in range(self._typed.qsize())]

    async def _put(self, text: str) -> None:
        """Write above the prompt, which is drawn anew below."""
        app = self._prompt.app
        if app.is_running:
            app.renderer.erase()
        app.output.write_raw(text)
        app.output.flush()
        app.invalidate()

    def _message(self) -> str:
        row = self._screen.row
        return f"{row}\n> " if row else "> "

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            text = event.current_buffer.text.strip()
            if text in PARTING:
                event.app.exit(exception=EOFError)
                return
            event.current_buffer.reset(append_to_history=bool(text))
            if text:
                self._typed.put_nowait(text)

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            if self._screen.running:
                self._spawn(self._client.stop())
            else:
                event.current_buffer.reset()

        return keys
