"""With an encrypted state a word that came in by any way lies in plain nowhere but where docs/security.md says so.

Every byte of the workspace, of the folder of temporary files, of a backup and of the log is looked at, while a gateway
works, after it was killed in the middle of its work, and after it ended.
"""

import asyncio
import base64
import gzip
import json
import os
import signal
import tarfile
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from nanobot.security import sandbox, state_key
from tests.crash.client import Client
from tests.crash.process import GatewayProcess
from tests.emulators.openai import OpenAIServer
from tests.emulators.slack import SlackServer
from tests.emulators.telegram import TelegramServer
from tests.executors.support import program
from tests.security.house import command

MARK = "plainword-7c41"
ANN, EVE = 11, 12
WROTE = "note.md"  # what the agent itself is told to write into the workspace


class House:
    """A gateway with an encrypted state, a model, platforms, outside agents and a folder for temporary files."""

    def __init__(
        self, folder: Path, gateway: GatewayProcess, telegram: TelegramServer, slack: SlackServer
    ) -> None:
        self.slack = slack
        self.folder = folder
        self.gateway = gateway
        self.telegram = telegram
        self.workspace = gateway.workspace
        self.state = gateway.workspace / ".nanobot"

    def plain(self, *more: str) -> set[str]:
        """Where the word lies in plain, but for what the agent wrote where it was told to."""
        found = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if held(path)}
        return found - {f"workspace/{name}" for name in (WROTE, *more)}


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    for name in ("state", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv(state_key.VARIABLE, state_key.new_master())
    monkeypatch.setenv("NANOBOT_SECURITY__ENCRYPT_STATE", "true")
    monkeypatch.setenv("NANOBOT_LOGS__LEVEL", "trace")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    async with OpenAIServer() as model, TelegramServer() as telegram, SlackServer() as slack:
        extra = (
            f'[channels.telegram]\nenabled = true\ntoken = "{telegram.token}"\napi_url = "{telegram.url}"\n'
            f'allow_from = ["{ANN}"]\npoll_timeout = 2\n[goals]\nmax_turns = 3\n[delivery]\nmax_age_hours = 1\n'
            f'[channels.slack]\nenabled = true\nbot_token = "{slack.bot_token}"\napp_token = "{slack.app_token}"\n'
            f'api_url = "{slack.api_url}"\nallow_from = ["U1"]\n'
        )
        for name in ("codex", "claude"):
            extra += f'[executors.{name}]\ncommand = "{program(tmp_path / "bin", name)}"\n'
        gateway = GatewayProcess(tmp_path / "workspace", model.url, extra=extra)
        yield House(tmp_path, gateway, telegram, slack)
        await gateway.kill()


def held(path: Path) -> bool:
    """Whether a file holds the word, or is called by it: as itself, in other codings, or packed."""
    if MARK in path.name:
        return True
    if path.is_symlink() or not path.is_file() or path.suffix == ".py":
        return False
    return any(has_word(data) for data in (path.read_bytes(), *unpacked(path)))


def has_word(data: bytes) -> bool:
    word = MARK.encode()
    shifted = [base64.b64encode(b" " * shift + word)[4:-4] for shift in range(3)]
    url_safe = [base64.urlsafe_b64encode(b" " * shift + word)[4:-4] for shift in range(3)]
    forms = (word, word[::-1], MARK.encode("utf-16-le"), word.hex().encode(), *shifted, *url_safe)
    return any(form in data for form in forms)


def unpacked(path: Path) -> list[bytes]:
    """What is inside of a packed file."""
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            files = [archive.extractfile(one) for one in archive if one.isfile()]
            return [one.read() for one in files if one]
    with suppress(OSError, EOFError, zlib.error):
        return [gzip.decompress(path.read_bytes())]
    with suppress(zlib.error):
        return [zlib.decompress(path.read_bytes())]
    return []


def delegated(executor: str, task: str, mode: str = "sync") -> str:
    return f"TOOL delegate {json.dumps({'task': task, 'executor': executor, 'mode': mode})}"


async def posted(url: str, name: str, data: bytes, mime: str) -> str:
    async with (
        aiohttp.ClientSession(url) as http,
        http.post(f"/api/media?name={name}", data=data, headers={"Content-Type": mime}) as answer,
    ):
        return str((await answer.json())["id"])


async def everything(house: House) -> None:
    """Bring the word in by every way there is."""
    url, telegram = house.gateway.url, house.telegram
    files = [
        {"id": await posted(url, f"{MARK}.{ending}", head + MARK.encode() * 50, mime)}
        for ending, head, mime in (
            ("png", b"\x89PNG\r\n\x1a\n", "image/png"),
            ("txt", b"", "text/plain"),
            ("ogg", b"OggS", "audio/ogg"),
            ("pdf", b"%PDF-1.7 ", "application/pdf"),
        )
    ]
    spoken = {
        "file_id": telegram.world.file("voice.oga", b"OggS" + MARK.encode() * 99),
        "file_unique_id": "u2",
    }
    document = {
        "file_id": telegram.world.file("a", MARK.encode() * 99),
        "file_name": f"about {MARK}.{MARK}",
        "file_unique_id": "u1",
    }
    telegram.say(ANN, f"{MARK} by telegram")
    telegram.say(ANN, voice={**spoken, "duration": 1, "mime_type": "audio/ogg"}, caption=MARK)
    telegram.say(ANN, document=document, caption=f"{MARK} see this")
    telegram.world.person(EVE, f"Eve {MARK}")
    telegram.say(EVE, f"let me in, {MARK}")
    slack = house.slack
    slack.person("U1", f"Ann {MARK}")
    slack.workspace.channel("C1")
    shared = slack.upload(f"{MARK}.{MARK}", MARK.encode() * 99, "text/plain")
    slack.say("DU1", "U1", f"{MARK} by slack", files=[shared])
    slack.say("C1", "U1", f"<@UBOT> {MARK} in a thread")
    loud = f"for i in 1 2 3 4 5 6 7 8 9; do printf '{MARK} %0999d' $i; printf '{MARK} %0999d' $i; done"
    said = [
        ("c1", f"hello {MARK}", {}),
        ("c1", f"look at these, {MARK}", {"media": files}),
        ("c1", f"{MARK} remember\nTOOL write_file {json.dumps({'path': WROTE, 'content': MARK})}", {}),
        ("c1", f"TOOL read_file {json.dumps({'path': WROTE})}\nread {MARK}", {}),
        ("c1", f"TOOL exec {json.dumps({'command': loud})}\n{MARK}", {}),
        ("c1", f"TOOL message {json.dumps({'text': MARK, 'files': [WROTE]})}\n{MARK}", {}),
        ("c1", f"TOOL no_such_tool {json.dumps({'text': MARK})}\n{MARK}", {}),
        ("c1", f"STATUS 400\n{MARK}", {}),
        ("c2", delegated("agent", f"{MARK} for ours"), {}),
        ("c2", delegated("codex", f"{MARK} for codex\nGARBAGE"), {}),
        ("c2", delegated("claude", f"{MARK} for claude"), {}),
        ("c2", delegated("codex", f"{MARK} fails\nEXIT 2"), {}),
        ("c2", delegated("agent", f"{MARK} long {'x' * 9_000} {MARK} {'y' * 9_000} {MARK}"), {}),
        ("c2", f"TOOL list_sessions {{}}\n{MARK}", {}),
        ("c3", f"{MARK} before\nREASON {MARK} thought", {}),
        ("c3", "/new", {}),
        ("c3", f"{MARK} after", {}),
        ("c4", f"/goal {MARK} is done at 2099-01-01 10:00 UTC", {}),
        ("c5", f"/goal {MARK} is done", {}),
    ]
    async with Client(url) as client:
        for number, (chat, text, fields) in enumerate(said):
            before = len(client.replies[chat])
            await client.send(chat, text, f"{os.urandom(4).hex()}-{number}", **fields)
            await client.until(lambda one, chat=chat, before=before: len(one.replies[chat]) > before)
    await telegram.until(lambda: telegram.texts(EVE))
    await telegram.until(lambda: len(telegram.texts(ANN)) >= 4, 30)
    await slack.workspace.until(lambda: slack.workspace.shown("DU1"), 30)
    async with aiohttp.ClientSession(url) as http:
        for place in (f"/api/search?q={MARK}", "/api/sessions/websocket:c1/export", f"/api/{MARK}"):
            async with http.get(place) as answer:
                await answer.read()
        async with http.patch("/api/sessions/websocket:c3", json={"title": f"title {MARK}"}) as answer:
            assert answer.status == 200


@pytest.mark.skipif(bool(sandbox.probe()), reason="no sandbox here")
async def test_no_way_in_leaves_a_word_in_plain(house: House) -> None:
    await house.gateway.start()
    await everything(house)
    assert has_word((house.workspace / WROTE).read_bytes()), "what the agent was told to write is there"
    assert house.plain() == set()
    backup = await asyncio.to_thread(
        command, house.workspace, "backup", str(house.folder / "state" / "b.tar.gz")
    )
    assert backup.returncode == 0, backup.stderr
    shown = await asyncio.to_thread(command, house.workspace, "sessions", "export", "websocket:c1")
    assert MARK in shown.stdout, "it is there, for who has the key"
    steps = await asyncio.to_thread(command, house.workspace, "children", "list", "--json")
    codex = next(
        one for one in json.loads(steps.stdout) if one["executor"] == "codex" and not one.get("error")
    )
    told = await asyncio.to_thread(command, house.workspace, "children", "trajectory", codex["id"])
    assert MARK in told.stdout, told.stderr
    assert house.plain() == {"state/b.tar.gz"}, "the backup has the agent's own file in it"
    (house.workspace / WROTE).unlink()
    (house.folder / "state" / "b.tar.gz").unlink()
    backup = await asyncio.to_thread(
        command, house.workspace, "backup", str(house.folder / "state" / "b.tar.gz")
    )
    assert backup.returncode == 0, backup.stderr
    assert house.plain() == set()
    assert await house.gateway.terminate() == 0
    assert house.plain() == set()
    assert MARK not in house.gateway.log()


@pytest.mark.parametrize("tool", ["codex", "claude"])
async def test_a_kill_leaves_only_the_running_turn_of_an_outside_agent_in_plain(
    house: House, tool: str
) -> None:
    await house.gateway.start()
    children = house.state / "children"
    async with Client(house.gateway.url) as client:
        await client.send("c", delegated(tool, f"SLEEP 3\n{MARK} works", "async"), "m1")
        await client.until(lambda one: one.total() == 1)
        await client.send("d", f"DELAY 5\n{MARK} waits", "m2")
        await client.until(lambda one: "m2" in one.accepted)
        async with asyncio.timeout(20):
            while not list(children.glob("*/turn_1.jsonl")):
                await asyncio.sleep(0.05)  # another process starts it
        await house.gateway.kill()
        running = {str(path.relative_to(house.folder)) for path in children.glob("*/turn_1.*")}
        assert house.plain() <= running
        async with asyncio.timeout(20):
            while not list(children.glob("*/turn_1.exit")):
                await asyncio.sleep(0.05)  # it goes on without a gateway
        assert house.plain() <= running
        assert house.plain(), "it wrote the word itself"
        await house.gateway.start()
        await client.until(lambda one: one.total() == 3, 40)
    assert house.plain() == set()
    listed = await asyncio.to_thread(command, house.workspace, "children", "list", "--json")
    [child] = json.loads(listed.stdout)
    told = await asyncio.to_thread(command, house.workspace, "children", "trajectory", child["id"])
    assert f"{MARK} works" in told.stdout, told.stderr
    assert child["status"] == "completed"
    os.kill(house.gateway.pid, signal.SIGKILL)
    assert house.plain() == set()
