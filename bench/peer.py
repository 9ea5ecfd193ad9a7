"""The peer: nanobot-ai 0.3.5, from a Python of its own that PEER_PY names. It is never installed here.

What runs by itself is off: heartbeat, dream, idle compaction, web and exec tools. Without internet its first turn
waits for a tokenizer's file; TIKTOKEN_CACHE_DIR, if it is set, is handed on. First turns are never measured.
"""

import asyncio
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from bench import processes
from bench.gateway import Past, fresh
from bench.micro import LISTED, LONG
from bench.processes import NotReady, Server

Figures = dict[str, float | str]

POLL_SECONDS = 0.02
HELPER_SECONDS = 120.0

# Runs in the peer's Python: session files, by its own classes.
HISTORY = """
import json, sys
from pathlib import Path
from nanobot.config.loader import load_config, set_config_path
from nanobot.session.manager import SessionManager
path = Path(sys.argv[1]); set_config_path(path)
wanted = json.load(sys.stdin)
manager = SessionManager(load_config(path).workspace_path)
for chat in wanted["chats"]:
    session = manager.get_or_create("websocket:" + chat)
    for number in range(wanted["messages"]):
        session.add_message(("user", "assistant")[number % 2], f"{number:05d} ".ljust(270, "x"))
    manager.save(session)
"""

MICRO = """
import json, sys, time
from pathlib import Path
from statistics import median
from nanobot.session.manager import SessionManager
root = Path(sys.argv[1])
wanted = json.load(sys.stdin)
def manager(name):
    (root / name / "work").mkdir(parents=True, exist_ok=True)
    return SessionManager(root / name / "work", sessions_root=root / name / "sessions")
def timed(work, times):
    taken = []
    for _ in range(times):
        began = time.perf_counter(); work(); taken.append(time.perf_counter() - began)
    return median(taken) * 1e3
long = manager("long"); session = long.get_or_create("bench:long")
for number in range(wanted["messages"]):
    session.add_message(("user", "assistant")[number % 2], f"{number:05d} ".ljust(270, "x"))
long.save(session)
load = timed(lambda: manager("long").get_or_create("bench:long"), 7)
def save():
    session.add_message("user", "x" * 270); session.add_message("assistant", "y" * 270)
    long.save(session, fsync=True)
saved = timed(save, 20)
many = manager("many")
for number in range(wanted["listed"]):
    one = many.get_or_create(f"bench:{number}"); one.add_message("user", "question"); many.save(one)
print(json.dumps({"micro.save_ms": saved, "micro.load_ms": load, "micro.list_ms": timed(many.list_sessions, 3)}))
"""


class Peer:
    name = "peer"
    disk = True
    slow = True
    about = "nanobot-ai 0.3.5; its saves were measured with fsync=True, which is not its default"

    def __init__(self, python: Path) -> None:
        self.python = python
        self._ports: tuple[int, int] | None = None

    async def start(self, folder: Path, llm: str, model: str, past: Past | None = None) -> Server:
        folder = folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        chat, health = free_port(), free_port()
        path = folder / "config.json"
        path.write_bytes(msgspec.json.encode(settings(folder, llm, model, chat, health)))
        env = self._env(folder)
        if past and past.messages:
            wanted = msgspec.json.encode({"chats": past.chats, "messages": past.messages})
            await self._run(HISTORY, path, folder, wanted)
        began = asyncio.get_running_loop().time()
        with (folder / "peer.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                str(self.python),
                *("-P", "-m", "nanobot", "gateway", "--foreground", "-c", str(path)),
                cwd=folder,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        server = Server(process, f"http://127.0.0.1:{chat}", 0.0)
        try:
            async with asyncio.timeout(processes.READY_SECONDS):
                while process.returncode is None and not (await accepts(chat) and await accepts(health)):
                    await asyncio.sleep(POLL_SECONDS)
        except BaseException:
            await server.kill()
            raise
        if process.returncode is not None:
            raise NotReady(f"the peer ended: {(folder / 'peer.log').read_text()[-2_000:]}")
        server.seconds = asyncio.get_running_loop().time() - began
        return server

    def version_command(self) -> list[str]:
        # -P: the package of this folder has the same name.
        return [str(self.python), "-P", "-m", "nanobot", "--version"]

    def answers(self, folder: Path) -> list[str]:
        found: list[str] = []
        for path in folder.rglob("sessions/**/*.jsonl"):
            for line in path.read_bytes().splitlines():
                message: dict[str, Any] = msgspec.json.decode(line)
                if message.get("role") == "assistant":
                    found.append(str(message.get("content")))
        return found

    async def micro(self, folder: Path, *, messages: int = LONG, listed: int = LISTED) -> Figures:
        """The same three figures of its session files."""
        fresh(folder)
        wanted = msgspec.json.encode({"messages": messages, "listed": listed})
        said = await self._run(MICRO, folder / "micro", folder, wanted)
        found: Figures = msgspec.json.decode(said.splitlines()[-1])
        return found

    def _env(self, folder: Path) -> dict[str, str]:
        return {**os.environ, "HOME": str(folder), "PYTHONUNBUFFERED": "1"}

    async def _run(self, script: str, argument: Path, folder: Path, stdin: bytes) -> bytes:
        def run() -> bytes:
            return subprocess.run(
                [str(self.python), "-P", "-c", script, str(argument)],
                input=stdin,
                cwd=folder,
                env=self._env(folder),
                stdout=subprocess.PIPE,
                timeout=HELPER_SECONDS,
                check=True,
            ).stdout

        try:
            return await asyncio.to_thread(run)
        except subprocess.SubprocessError as error:
            raise NotReady(f"the peer's helper failed: {error}") from error


def settings(folder: Path, llm: str, model: str, chat: int, health: int) -> dict[str, Any]:
    """The peer's config.json."""
    return {
        "agents": {
            "defaults": {
                "workspace": str(folder / "workspace"),
                "model": model,
                "provider": "custom",
                "contextWindowTokens": 1_000_000,
                "timezone": "UTC",
                "idleCompactAfterMinutes": 0,
                "dream": {"enabled": False},
            }
        },
        "providers": {"custom": {"apiKey": "none-needed", "apiBase": llm}},
        "channels": {
            "websocket": {
                "enabled": True,
                "host": "127.0.0.1",
                "port": chat,
                "websocketRequiresToken": False,
                "allowFrom": ["*"],
                "streaming": True,
            }
        },
        "gateway": {"host": "127.0.0.1", "port": health, "heartbeat": {"enabled": False}},
        "tools": {"web": {"enable": False}, "exec": {"enable": False}},
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
