"""`nanobot chat` by its real process: in a terminal of its own, in a pipe, and with a gateway that dies meanwhile."""

import asyncio
import contextlib
import json
import os
import pty
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets
from websockets.asyncio.server import ServerConnection

from nanobot.cli.screen import filled
from nanobot.stores.lock import StateLock
from tests.crash.client import Client
from tests.crash.process import GatewayProcess
from tests.emulators.openai import OpenAIServer

ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("NANOBOT_", "OPENAI_", "ANTHROPIC_", "SLACK_", "TELEGRAM_"))
}
SECONDS = 30.0
CTRL_C, CTRL_D, UP, ALT_ENTER = b"\x03", b"\x04", b"\x1b[A", b"\x1b\r"
KEYS = "/help"  # the end of what is told at the start


class Terminal:
    """A terminal with `nanobot chat` in it; what stood on its screen at any time is searched in order."""

    def __init__(self, workspace: Path, *words: str) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:  # the child
            os.environ.clear()
            os.environ.update(ENVIRONMENT, TERM="xterm")
            os.execv(sys.executable, [sys.executable, "-m", "nanobot", "chat", "-w", str(workspace), *words])
        self._seen, self._mark = b"", 0
        self._news = asyncio.Event()
        self._ended = False
        asyncio.get_running_loop().add_reader(self._terminal, self._read)

    def press(self, keys: bytes | str) -> None:
        os.write(self._terminal, keys.encode() if isinstance(keys, str) else keys)

    def say(self, text: str) -> None:
        """Paste a text of any number of lines, and send it."""
        self.press(f"\x1b[200~{text}\x1b[201~\r")

    async def until(self, wanted: str) -> None:
        """Wait until this was shown, after what was waited for before."""
        try:
            async with asyncio.timeout(SECONDS):
                while wanted not in self.text()[self._mark :]:
                    assert not self._ended, self.text()
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{wanted!r} was not shown:\n{self.text()}") from None
        self._mark = self.text().index(wanted, self._mark) + len(wanted)

    async def end(self) -> int:
        """Wait until it has ended; returns the exit code."""
        async with asyncio.timeout(SECONDS):
            while not self._ended:
                self._news.clear()
                await self._news.wait()
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def text(self) -> str:
        """All that was ever written; where only the cursor moved on, a blank stood already."""
        text = re.sub(r"\x1b\[C", " ", self._seen.decode(errors="replace"))
        return re.sub(r"\x1b\[[?\d;]*[a-zA-Z]?", "", text)

    def close(self) -> None:
        if not self._ended:
            asyncio.get_running_loop().remove_reader(self._terminal)
        os.close(self._terminal)
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def _read(self) -> None:
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # its program has ended
            data = b""
        if not data:
            self._ended = True
            asyncio.get_running_loop().remove_reader(self._terminal)
        if b"\x1b[6n" in data:  # asked where its cursor is
            self.press(b"\x1b[1;1R")
        self._seen += data
        self._news.set()


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    async with OpenAIServer() as model:
        process = GatewayProcess(tmp_path / "bot", model.url)
        await process.start()
        yield process
        await process.kill()


@asynccontextmanager
async def chat(workspace: Path) -> AsyncIterator[Terminal]:
    terminal = Terminal(workspace)
    try:
        await terminal.until(KEYS)
        yield terminal
    finally:
        terminal.close()


async def test_an_answer_is_stopped_by_ctrl_c_and_the_chat_left_by_ctrl_d(gateway: GatewayProcess) -> None:
    async with chat(gateway.workspace) as terminal:
        terminal.say("good day")
        await terminal.until("> good day\r\n")
        await terminal.until("echo: good day\r\n")
        terminal.say("HANG")
        await terminal.until("· working, ")
        terminal.press("typed meanwhile")
        await terminal.until("typed meanwhile")
        terminal.press(CTRL_C)
        await terminal.until("· stopped")
        terminal.press("\r")  # what was typed is still there
        await terminal.until("echo: typed meanwhile\r\n")
        terminal.press(CTRL_D)
        assert await terminal.end() == 0


async def test_a_reply_arrives_once_in_the_open_chat_although_the_gateway_is_killed_in_its_middle(
    gateway: GatewayProcess,
) -> None:
    async with chat(gateway.workspace) as terminal:
        terminal.say("SLOW 20\nLONG 40")
        await terminal.until("word3")
        await gateway.kill()
        await terminal.until("· the gateway is away; waiting for it")
        terminal.say("are you there?")  # into nothing
        await terminal.until("> are you there?")
        await gateway.start()
        await terminal.until("· the gateway is back")
        await terminal.until("word0 ")
        await terminal.until("word39")
        await terminal.until("echo: are you there?\r\n")
        terminal.press(CTRL_D)
        assert await terminal.end() == 0
        assert terminal.text().count("echo: are you there?\r\n") == 1
        assert terminal.text().count("word39\r\n") == 1


async def test_a_reply_that_is_under_way_is_seen_by_who_comes_back(gateway: GatewayProcess) -> None:
    async with chat(gateway.workspace) as terminal:
        terminal.say("SLOW 20\nLONG 40")
        await terminal.until("word3")
        terminal.press(CTRL_D)
        await terminal.until("· what is unfinished goes on")
        assert await terminal.end() == 0
    async with chat(gateway.workspace) as terminal:
        await terminal.until("word39")
        terminal.press(UP)  # what was said last time
        await terminal.until("SLOW 20")


async def test_what_others_say_and_hear_in_the_chat_is_shown_beside_an_idle_prompt(
    gateway: GatewayProcess,
) -> None:
    async with chat(gateway.workspace) as terminal, Client(gateway.url) as page:
        terminal.press("half a sentence")
        await terminal.until("half a sentence")
        await page.send("cli", "from the page", "m1")
        await terminal.until("> from the page\r\n")
        await terminal.until("echo: from the page\r\n")
        terminal.press(" goes on\r")
        await terminal.until("echo: half a sentence goes on\r\n")


async def test_a_line_is_broken_by_alt_enter_and_what_is_written_meanwhile_steers(
    gateway: GatewayProcess,
) -> None:
    async with chat(gateway.workspace) as terminal:
        terminal.press(b"one" + ALT_ENTER + b"two\r")
        await terminal.until("> one\r\ntwo\r\n")
        await terminal.until("echo: one\r\n")
        await terminal.until("two\r\n")
        terminal.say('TOOL exec {"command": "sleep 1"}')
        await terminal.until("· exec ")
        terminal.say("and this")
        await terminal.until("echo: and this\r\n")


async def test_what_was_not_sent_is_named_at_the_end(gateway: GatewayProcess) -> None:
    async with chat(gateway.workspace) as terminal:
        await gateway.kill()
        await terminal.until("· the gateway is away")
        terminal.say("lost words")
        await terminal.until("> lost words")
        terminal.press(CTRL_D)
        await terminal.until("· not sent: lost words")
        assert await terminal.end() == 0


async def test_who_waits_for_one_answer_sees_that_it_is_worked_on(gateway: GatewayProcess) -> None:
    terminal = Terminal(gateway.workspace, "-m", "DELAY 2.5\nslow")
    try:
        await terminal.until("· working, 1 s")
        await terminal.until("\r" + " " * 30 + "\recho: slow\r\n")
        assert await terminal.end() == 0
    finally:
        terminal.close()


async def run(workspace: Path, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "nanobot", "chat", "-w", str(workspace), *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=ENVIRONMENT,
    )


@pytest.mark.parametrize("away", [False, True])
async def test_one_question_is_answered_although_the_gateway_is_killed(
    gateway: GatewayProcess, away: bool
) -> None:
    """`away`: the one that asks hears nothing until all is over, and reads the answer from the history."""
    async with Client(gateway.url) as watcher:
        await watcher.send("cli", "hello", "m1")
        await watcher.until(lambda one: one.total() == 1)
        process = await run(gateway.workspace, "-m", "SLOW 20\nLONG 30")
        await watcher.until(lambda one: one.deltas > 5)
        if away:
            process.send_signal(signal.SIGSTOP)
        await gateway.kill()
        await gateway.start()
        if away:
            await watcher.until(lambda one: one.total() == 2)
            process.send_signal(signal.SIGCONT)
        async with asyncio.timeout(SECONDS):
            out, errors = await process.communicate()
    assert process.returncode == 0, errors
    assert out.decode().split() == [f"word{number}" for number in range(30)]


class Gateway:
    """The other end of the socket: it says what it is told, and hangs up when it is told."""

    def __init__(self, script: Callable[["Gateway", int, ServerConnection], Awaitable[None]]) -> None:
        self._script = script
        self._connections = 0

    async def hear(self, connection: ServerConnection, kind: str) -> dict[str, Any]:
        """The client's next frame, which must be of this type."""
        frame: dict[str, Any] = json.loads(await connection.recv())
        assert frame["type"] == kind, frame
        return frame

    async def say(self, connection: ServerConnection, event: str, **fields: Any) -> None:
        await connection.send(json.dumps({"event": event, "chat_id": "cli", **fields}))

    async def opened(self, connection: ServerConnection) -> None:
        await self.hear(connection, "attach")
        await self.hear(connection, "history")
        await self.say(connection, "attached", epoch=f"e{self._connections}", seq=0, running=False)

    async def history(self, connection: ServerConnection, *lines: dict[str, str]) -> None:
        await self.say(connection, "history", messages=lines, before=None, total=len(lines))

    @asynccontextmanager
    async def running(self, workspace: Path) -> AsyncIterator[None]:
        workspace.mkdir()

        async def serve(connection: ServerConnection) -> None:
            self._connections += 1
            await self._script(self, self._connections, connection)

        async with websockets.serve(serve, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            with StateLock(workspace / ".nanobot") as lock:
                lock.set_address(f"http://127.0.0.1:{port}")
                yield


def line(role: str, text: str, message: str) -> dict[str, str]:
    return {"role": role, "content": text, "message_id": message}


async def test_a_question_whose_receipt_was_lost_finds_its_answer_in_the_history(tmp_path: Path) -> None:
    async def script(gateway: Gateway, number: int, connection: ServerConnection) -> None:
        await gateway.opened(connection)
        lines = [line("user", "question", "m1"), line("assistant", "the answer", "m1.0")]
        await gateway.history(connection, *(lines if number > 1 else []))
        asked = await gateway.hear(connection, "message")
        if number > 1:
            await gateway.say(connection, "accepted", id=asked["id"], message_id="m1", duplicate=True)
            await gateway.hear(connection, "history")
            await gateway.history(connection, *lines)
            await connection.wait_closed()

    async with Gateway(script).running(tmp_path / "bot"):
        process = await run(tmp_path / "bot", "-m", "question")
        async with asyncio.timeout(SECONDS):
            out, errors = await process.communicate()
    assert (process.returncode, out) == (0, b"the answer\n"), errors


async def test_a_reply_that_stands_in_the_history_is_not_shown_again(tmp_path: Path) -> None:
    async def script(gateway: Gateway, number: int, connection: ServerConnection) -> None:
        await gateway.opened(connection)
        # The reply waited for a reader: it is handed over first, and the history has it too.
        await gateway.say(connection, "message", seq=1, turn_id="m1", message_id="m1.0", text="once only")
        await gateway.history(connection, line("user", "q", "m1"), line("assistant", "once only", "m1.0"))
        assert (await gateway.hear(connection, "ack"))["seq"] == 1
        await gateway.say(connection, "message", seq=2, turn_id="m2", message_id="m2.0", text="and this")
        await gateway.hear(connection, "ack")
        await connection.wait_closed()

    async with Gateway(script).running(tmp_path / "bot"), chat(tmp_path / "bot") as terminal:
        await terminal.until("and this")
        assert terminal.text().count("once only") == 1
        assert terminal.text().index("> q") < terminal.text().index("once only")


async def test_lines_that_are_no_utf8_are_asked_all_the_same(gateway: GatewayProcess) -> None:
    process = await run(gateway.workspace)
    async with asyncio.timeout(SECONDS):
        out, errors = await process.communicate(b"caf\xe9\nsecond\n")
    assert (process.returncode, out.decode()) == (0, "echo: caf�\necho: second\n"), errors


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "'' is no name for a chat"),
        ("two words", "'two words' is no name for a chat"),
        ("telegram:123", "`nanobot sessions show telegram:123` prints it"),
    ],
)
async def test_a_chat_that_cannot_be_is_refused_at_once(gateway: GatewayProcess, key: str, said: str) -> None:
    process = await run(gateway.workspace, "-m", "hi", "-s", key)
    async with asyncio.timeout(SECONDS):
        out, errors = await process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert said in errors.decode()


def test_a_row_is_broken_between_words() -> None:
    assert filled("one two three", 20) == ("", "one two three")
    assert filled("one two three", 8) == ("one two\n", "three")
    assert filled("one\ntwo\n", 8) == ("one\ntwo\n", "")
    assert filled("x" * 20, 8) == ("x" * 8 + "\n" + "x" * 8 + "\n", "x" * 4)
