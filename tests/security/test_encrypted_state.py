"""Encrypted state on a real gateway: no word of anybody on the disk, whatever died when, and nothing without its key."""

import asyncio
import base64
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from nanobot import SessionManager
from nanobot.channel import Address
from nanobot.messages import Attachment, Inbound, Outbound
from nanobot.security import state_key
from nanobot.store import Pairing, Schedule
from nanobot.stores.media import MediaFiles
from nanobot.stores.reseal import remaining
from nanobot.stores.sqlite import SqliteStore
from nanobot.stores.turn_files import TurnFiles
from nanobot.testing import FakeClock
from tests.crash.client import Client
from tests.crash.process import ROOT, GatewayProcess
from tests.emulators.openai import OpenAIServer

MARK = "plaintext-marker-5d1"
CHAT = "websocket:c1"
TURNS = ("turn_1.try1.jsonl", "turn_1.jsonl", "turn_2.jsonl", "turn_2.stderr", "turn_2.prompt")
PICTURE = b"\x89PNG\r\n\x1a\n" + MARK.encode() * 20


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    key = state_key.new_master()
    monkeypatch.setenv(state_key.VARIABLE, key)
    return key


def marked(state: Path) -> list[str]:
    """The files in which the marker stands, as itself or in base64."""
    coded = [base64.b64encode(b" " * shift + MARK.encode())[4:-4] for shift in range(3)]
    found = []
    for path in state.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        if any(one in data for one in (MARK.encode(), *coded)):
            found.append(str(path.relative_to(state)))
    return found


def nanobot(workspace: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nanobot", *arguments, "-w", str(workspace)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    async with OpenAIServer() as model:
        process = GatewayProcess(tmp_path / "workspace", model.url)
        yield process
        await process.kill()


async def test_no_word_lies_on_the_disk_and_a_kill_loses_none(
    gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("NANOBOT_SECURITY__ENCRYPT_STATE", "true")
    state = gateway.workspace / ".nanobot"
    await gateway.start()
    async with Client(gateway.url) as client, aiohttp.ClientSession(gateway.url) as http:
        async with http.post(f"/api/media?name={MARK}.png", data=PICTURE) as answer:
            file = await answer.json()
        await client.send("c1", f"{MARK} one", "m1")
        await client.send("c2", f'TOOL list_dir {{"path": "."}}\n{MARK} two', "m2")
        await client.until(lambda one: one.total() == 2)
        await client.send("c1", f"DELAY 2\n{MARK} three", "m3")
        await client.until(lambda one: "m3" in one.accepted)
        await gateway.kill()
        assert marked(state) == []
        assert not (state / "search.db").exists()
        await gateway.start()
    async with aiohttp.ClientSession(gateway.url) as http:
        async with http.get("/api/search", params={"q": MARK}) as answer:
            hits = {hit["key"] for hit in (await answer.json())["hits"]}
        async with http.get(file["url"]) as answer:
            picture = await answer.read()
        async with http.get(f"/api/sessions/{CHAT}/messages") as answer:
            told = [line["content"] for line in (await answer.json())["messages"]]
    beside = await asyncio.to_thread(nanobot, gateway.workspace, "sessions", "export", CHAT)
    assert MARK in beside.stdout, beside.stderr
    assert hits == {CHAT, "websocket:c2"}
    assert picture == PICTURE
    assert f"{MARK} one" in told[0]
    await gateway.terminate()
    assert marked(state) == []
    shown = nanobot(gateway.workspace, "sessions", "export", CHAT)
    assert MARK in shown.stdout, shown.stderr

    for variable, sentence in (("", "its key is not here"), (state_key.new_master(), "is not the one")):
        before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
        refused = nanobot(gateway.workspace, "gateway", NANOBOT_STATE_KEY=variable)
        assert refused.returncode == 2
        assert sentence in refused.stderr
        assert refused.stderr.count("\n") == 1, "one sentence"
        changed = [
            str(path)
            for path, data in before.items()
            if path.name != "gateway.lock" and path.read_bytes() != data
        ]
        assert changed == []
    monkeypatch.delenv("NANOBOT_SECURITY__ENCRYPT_STATE")
    refused = nanobot(gateway.workspace, "gateway")
    assert refused.returncode == 2
    assert "Set encrypt_state = true" in refused.stderr
    assert key not in gateway.log()


async def filled(state: Path) -> None:
    """Something of everything, as a gateway leaves it."""
    manager = SessionManager(directory=state / "sessions", max_messages=10)
    for number in range(20):
        await manager.append(CHAT, [{"role": "user", "content": f"{MARK} {number}"}])  # type: ignore[list-item]
        await manager.append(CHAT, [{"role": "assistant", "content": "a", "latency_ms": 1}])  # type: ignore[list-item]
    manager.list_sessions()
    await manager.search(MARK)
    await manager.close()
    if state_key.read(state) is None:  # what kills and repairs leave
        folder = state / "sessions"
        (folder / "empty-0123456789abcdef.jsonl").touch()
        (folder / "torn-0123456789abcdef.jsonl").write_text(f'{{"role":"user","content":"{MARK}"}}\n{{"role"')
        (folder / "torn-0123456789abcdef.jsonl.corrupt-20260101T000000").write_text(f"{MARK} not json\n\n\0")
        (folder / f".{MARK}.0123.tmp").write_text(MARK)
    clock = FakeClock()
    store = SqliteStore(state, clock)
    await store.open()
    for number in range(5):
        await store.inbox.accept(Inbound("websocket", str(number), "c1", f"{MARK} {number}"))
        await store.outbox.add(Outbound(f"t{number}", 0, Address("websocket", "c1"), f"{MARK} {number}"))
    await store.keys("k").set("a", MARK)
    await store.pairings.put(Pairing("slack", "U1", MARK, "D1", MARK, "pending", clock.now(), clock.now()))
    await store.schedules.put(
        Schedule("s", CHAT, Address("websocket", "c1"), "goal", "*", "", MARK, clock.now(), None)
    )
    await store.close()
    path = state / "media" / "slack" / "f1"
    media = MediaFiles(state, state_key.found(state))
    media.write(path, PICTURE)
    media.write(path.with_name("f2"), PICTURE, keep=True)
    turns = TurnFiles(state, state_key.found(state))
    folder = turns.folder / "c1"
    folder.mkdir(parents=True)
    for name in TURNS:
        (folder / name).write_text(f"{MARK} {name}\n")
        turns.seal_turn(folder, int(name[5]))
    (folder / "turn_2.exit").write_text("0\n")
    if state_key.read(state) is None:
        (folder / ".turn_1.jsonl.0123.part").write_text(MARK)


async def read_back(state: Path) -> None:
    """Everything of `filled` is there."""
    manager = SessionManager(directory=state / "sessions", max_messages=10)
    page = await manager.page(CHAT, limit=100)
    assert [line["content"] for line in page.messages][::2] == [f"{MARK} {number}" for number in range(20)]
    await manager.close()
    store = SqliteStore(state)
    await store.open()
    rows = await store.inbox.pending(CHAT)
    replies = await store.outbox.waiting(Address("websocket", "c1"))
    assert [row.inbound.text for row in rows] == [f"{MARK} {number}" for number in range(5)]
    assert [one.message.text for one in replies] == [f"{MARK} {number}" for number in range(5)]
    assert await store.keys("k").get("a") == MARK
    [pairing] = await store.pairings.list()
    assert (pairing.name, pairing.code) == (MARK, MARK)
    [schedule] = await store.schedules.list()
    assert schedule.payload == MARK
    await store.close()
    media = MediaFiles(state, state_key.found(state))
    assert media.read(state / "media" / "slack" / "f1") == PICTURE
    assert media.read(state / "media" / "slack" / "f2") == PICTURE
    turns = TurnFiles(state, state_key.found(state))
    for name in TURNS:
        with turns.open(turns.folder / "c1" / name, live=False) as file:
            assert file.read() == f"{MARK} {name}\n".encode()


async def test_a_plain_state_is_sealed_by_rekey_and_made_plain_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = tmp_path / "workspace"
    state = workspace / ".nanobot"
    await filled(state)
    assert marked(state)
    done = nanobot(workspace, "security", "rekey")
    assert done.returncode == 0, done.stderr
    assert marked(state) == []
    await read_back(state)
    status = nanobot(workspace, "security", "status").stdout
    assert "0 rows and 0 files are not written with it yet" in status
    assert "ok    encryption: the state is encrypted, and the key opens it" in doctor(workspace, "true")
    assert "refuses to start" in doctor(workspace, "false")
    old, new = os.environ[state_key.VARIABLE], state_key.new_master()
    done = nanobot(workspace, "security", "rekey", NANOBOT_STATE_KEY_NEW=new)
    assert done.returncode == 0, done.stderr
    assert "is not the one" in nanobot(workspace, "sessions", "list").stderr
    monkeypatch.setenv(state_key.VARIABLE, new)
    await read_back(state)
    assert old not in "".join(path.read_text("latin-1") for path in state.rglob("*") if path.is_file())
    assert (state / "media" / "slack" / "f2").stat().st_mode & 0o777 == 0o400
    done = nanobot(workspace, "security", "rekey", "--plain")
    assert done.returncode == 0, done.stderr
    assert not (state / state_key.NAME).exists()
    await read_back(state)
    assert nanobot(workspace, "sessions", "export", CHAT, NANOBOT_STATE_KEY="").stdout.count(MARK) == 20


def doctor(workspace: Path, wanted: str) -> str:
    return nanobot(workspace, "doctor", "--no-model", NANOBOT_SECURITY__ENCRYPT_STATE=wanted).stdout


RUN_AND_DIE = """
import os, signal, sys
count = 0
def step(event, arguments):
    global count
    if event in ("os.rename", "os.remove", "sqlite3.connect") or (event == "open" and "{state}" in str(arguments[0])):
        count += 1
        if count == {moment}:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(step)
from nanobot.cli import main
sys.argv = ["nanobot", "security", "rekey", "-w", "{workspace}"]
sys.exit(main())
"""


def kills(first: int, step: int) -> Iterator[int]:
    moment = first
    while True:
        yield moment
        moment += step


@pytest.mark.parametrize("start", ["plain", "sealed"])
async def test_a_rekey_that_is_killed_at_any_moment_loses_nothing_and_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    """The kill comes before each file that is opened, renamed or removed, one run after another on the same state."""
    workspace = tmp_path / "workspace"
    state = workspace / ".nanobot"
    if start == "sealed":
        state_key.begin(state)
    await filled(state)
    assert bool(marked(state)) is (start == "plain")
    new = state_key.new_master()
    monkeypatch.setenv(state_key.NEW_VARIABLE, new)
    killed = 0
    for moment in kills(1, int(os.environ.get("NANOBOT_REKEY_STEP", "7"))):
        program = RUN_AND_DIE.format(state=state, workspace=workspace, moment=moment)
        run = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, cwd=ROOT, stdout=asyncio.subprocess.DEVNULL
        )
        async with asyncio.timeout(60):
            status = await run.wait()
        await read_back(state)
        if status != -signal.SIGKILL:
            assert status == 0
            break
        killed += 1
    assert killed > 3
    monkeypatch.setenv(state_key.VARIABLE, new)
    monkeypatch.delenv(state_key.NEW_VARIABLE)
    await read_back(state)
    assert marked(state) == []
    sealer = state_key.found(state)
    assert sealer is not None
    assert remaining(state, sealer) == (0, 0)
    ring = state_key.read(state)
    assert ring is not None
    assert ring.settled


async def test_an_image_that_came_in_is_sealed_and_still_shown_to_the_model(
    tmp_path: Path,
) -> None:
    state_key.begin(tmp_path)
    media = MediaFiles(tmp_path, state_key.found(tmp_path))
    path = tmp_path / "media" / "websocket" / "p1"
    media.write(path, PICTURE)
    assert MARK.encode() not in path.read_bytes()
    from nanobot.models.media import load_images

    attachment = {"path": str(path), "mime": "image/png"}
    line = {"role": "user", "content": "look", "media": [attachment]}
    _, images = await load_images([line], (tmp_path,), media.read)  # type: ignore[list-item]
    assert base64.b64decode(images[str(path)].base64) == PICTURE
    assert Attachment(str(path), "p", "image/png", len(PICTURE)).size == len(media.read(path))
    other = path.with_name("p2")
    other.write_bytes(path.read_bytes())
    with pytest.raises(OSError, match="changed, cut or moved"):
        media.read(other)
