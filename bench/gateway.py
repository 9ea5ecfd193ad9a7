"""The targets: something that can be started on a fake model and spoken to by WebSocket. The floor and nanobot."""

import shutil
import sys
from pathlib import Path
from typing import Protocol

import msgspec

from bench import processes
from bench.floor import past
from bench.processes import Server

NANOBOT = Path(sys.executable).with_name("nanobot")

# queue = "steer" is the default. The window is made large so that the whole history is sent, as the others send it.
CONFIG = """\
[agent]
model = "bench/{model}"
context_window = 1000000

[models.bench]
kind = "openai"
api_key = "none-needed"
base_url = "{llm}"

[http]
host = "127.0.0.1"
port = 0

[channels.websocket]
enabled = true

[logs]
level = "warning"
"""


class Past(msgspec.Struct, frozen=True):
    """What chats hold before the gateway starts: so many messages in each of these."""

    chats: tuple[str, ...]
    messages: int


CAP = 1_900  # messages; the default cap is 2,000


class Target(Protocol):
    """A gateway under test. `disk` tells whether it keeps anything over a restart."""

    name: str
    disk: bool
    slow: bool  # so much slower that it gets less to do

    async def start(self, folder: Path, llm: str, model: str, past: Past | None = None) -> Server:
        """Start it on this folder, which keeps its state from one start to the next."""
        ...

    def version_command(self) -> list[str]:
        """What is timed as the shortest command there is."""
        ...

    def answers(self, folder: Path) -> list[str]:
        """The texts of all answers on the disk."""
        ...


class Floor:
    name = "floor"
    disk = False
    slow = False

    async def start(self, folder: Path, llm: str, model: str, past: Past | None = None) -> Server:
        messages = past.messages if past else 0
        command = [sys.executable, "-m", "bench.floor", llm, model, str(messages)]
        return await processes.start(command, folder / "floor.log")

    def version_command(self) -> list[str]:
        return [sys.executable, "-c", "pass"]

    def answers(self, folder: Path) -> list[str]:  # noqa: ARG002 - it has no disk
        return []


class Nanobot:
    name = "ours"
    disk = True
    slow = False

    async def start(
        self, folder: Path, llm: str, model: str, past: Past | None = None, *, more: str = ""
    ) -> Server:
        """`more` goes to the end of config.toml."""
        folder.mkdir(parents=True, exist_ok=True)
        config = f"{CONFIG.format(model=model, llm=llm)}\n{more}"
        if past and past.messages > CAP:  # what is beyond the cap would move to the archive
            config += f"\n[sessions]\nmax_messages = {2 * past.messages}\n"
        (folder / "config.toml").write_text(config)
        if past and past.messages:
            write_history(folder / ".nanobot" / "sessions", past)
        command = [str(NANOBOT), "gateway", "-w", str(folder)]
        return await processes.start(command, folder / "gateway.log")

    def version_command(self) -> list[str]:
        return [str(NANOBOT), "version"]

    def answers(self, folder: Path) -> list[str]:
        found: list[str] = []
        for path in (folder / ".nanobot" / "sessions").glob("*.jsonl"):
            lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
            found += [str(line["content"]) for line in lines if line.get("role") == "assistant"]
        return found


def write_history(sessions: Path, wanted: Past) -> None:
    """Session files of nanobot, written by its own SessionManager."""
    from nanobot.messages import Line
    from nanobot.stores.sessions import SessionManager

    sessions.mkdir(mode=0o700, parents=True, exist_ok=True)
    (sessions.parent).chmod(0o700)
    manager = SessionManager(directory=sessions, max_messages=max(2000, wanted.messages))
    for chat in wanted.chats:
        session = manager.get_or_create(f"websocket:{chat}")
        for number, message in enumerate(past(wanted.messages)):
            line: Line = session.add_message(message["role"], message["content"])
            line["turn"] = f"past{number // 2:06d}"
        manager.save(session, fsync=False)
        manager.invalidate(session.key)
    manager.flush_all()
    again = SessionManager(directory=sessions).get_or_create(f"websocket:{wanted.chats[0]}")
    assert len(again.messages) == wanted.messages, "the prepared history is not read back"


def fresh(folder: Path) -> Path:
    """An empty folder of this name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
