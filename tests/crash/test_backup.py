"""A backup taken from a running gateway, unpacked beside it, and started after the first one was killed."""

import asyncio
import io
import os
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanobot import SessionManager
from nanobot.cli import backup
from tests.crash.client import Client
from tests.crash.process import GatewayProcess
from tests.emulators.openai import OpenAIServer


@pytest.fixture
async def model() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


def back_up(workspace: Path, file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nanobot", "backup", "-w", str(workspace), str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


async def test_a_backup_of_a_running_gateway_answers_what_waited_and_repeats_nothing(
    tmp_path: Path, model: OpenAIServer
) -> None:
    first = GatewayProcess(tmp_path / "first", model.url)
    second = GatewayProcess(tmp_path / "second", model.url)
    file = tmp_path / "backup.tar.gz"
    try:
        await first.start()
        async with Client(first.url) as client:
            await client.send("c", "answered before", "m1")
            await client.until(lambda one: one.total() == 1)
            await client.send("c", "DELAY 2\nwaiting", "m2")
            await client.until(lambda one: "m2" in one.accepted)
            done = await asyncio.to_thread(back_up, first.workspace, file)
            assert done.returncode == 0, done.stderr
            await first.kill()
        with tarfile.open(file) as archive:
            archive.extractall(second.workspace, filter="data")
        await second.start()
        async with Client(second.url) as client:
            await client.send("c", "after", "m3")
            await client.until(lambda one: one.total() == 2)
            assert client.texts("c") == ["echo: waiting", "echo: after"]
        await second.terminate()
    finally:
        await first.kill()
        await second.kill()
    lines = SessionManager(second.workspace).get_or_create("websocket:c").messages
    said = [line["content"] for line in lines if line["role"] == "user"]
    assert [text.splitlines()[-1] for text in said] == ["answered before", "waiting", "after"]


def test_a_backup_is_private_and_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "bot" / "memory").mkdir(parents=True)
    (tmp_path / "bot" / "config.toml").write_text("[agent]\n")
    file = tmp_path / "backup.tar.gz"
    assert back_up(tmp_path / "bot", file).returncode == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = back_up(tmp_path / "bot", file)
    assert (again.returncode, "exists" in again.stderr) == (2, True)
    nothing = back_up(tmp_path / "elsewhere", tmp_path / "other.tar.gz")
    assert (nothing.returncode, "no workspace" in nothing.stderr) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.tar.gz", "bot"]


def test_a_file_that_became_a_pipe_holds_up_no_backup(tmp_path: Path) -> None:
    """A command of the agent can put it there between the listing and the opening."""
    os.mkfifo(tmp_path / "pipe")
    with tarfile.open(fileobj=io.BytesIO(), mode="w") as archive:
        added = threading.Thread(target=backup.add, args=(archive, tmp_path / "pipe", "pipe"), daemon=True)
        added.start()
        added.join(10)
        assert not added.is_alive()
        assert archive.getnames() == []
