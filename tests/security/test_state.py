"""What a gateway that has worked leaves on the disk and in its log: private files, no secrets."""

import asyncio
import os
import stat
import sys
from pathlib import Path

import aiohttp

from nanobot.security import sandbox
from tests.crash.client import Client
from tests.crash.process import ROOT
from tests.emulators.openai import OpenAIServer

KEY = "sk-proj-4f9a1c77d2e04b6e"
TOKEN = "owner-token-71c3e0"


async def test_what_is_written_is_private_and_no_secret_is_in_log_answers_or_state(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "config.md").write_text("a file to send")
    async with OpenAIServer() as model:
        (workspace / "config.toml").write_text(
            f'[agent]\nmodel = "test/echo"\n[models.test]\nkind = "openai"\napi_key = "{KEY}"\nbase_url = "{model.url}"\n'
            f'[http]\nport = 0\n[channels.websocket]\nenabled = true\ntoken = "{TOKEN}"\n'
            '[security]\nallow_unsandboxed = true\n[logs]\nlevel = "debug"\n'
        )
        with (tmp_path / "log").open("wb") as log:
            gateway = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "nanobot", "gateway", "-w", str(workspace),
                stdout=asyncio.subprocess.PIPE, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT)},
                umask=0,
            )  # fmt: skip
        try:
            assert gateway.stdout
            async with asyncio.timeout(30):
                url = (await gateway.stdout.readline()).decode().split()[1]
            answers = await work(url)
        finally:
            gateway.terminate()
            async with asyncio.timeout(30):
                await gateway.wait()
    state = workspace / ".nanobot"
    places = [state, *state.rglob("*")]
    files = [path for path in places if path.is_file()]
    assert {path.name for path in files} >= {"gateway.db", "audit.jsonl", "audit.head", "search.db"}
    assert [path.parent for path in files if path.parent.name in ("outgoing", "websocket")]
    assert [str(path) for path in places if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
    for secret in (KEY, TOKEN):
        assert secret not in (tmp_path / "log").read_text()
        assert all(secret not in answer for answer in answers)
        assert [str(path) for path in files if secret.encode() in path.read_bytes()] == []


async def work(url: str) -> list[str]:
    """Use every kind of door, rightly and wrongly; returns what was answered."""
    answers: list[str] = []
    async with aiohttp.ClientSession() as http:
        for token in (TOKEN, "wrong"):
            for path in (
                "/api/sessions",
                "/api/search?q=hello",
                f"/api/sessions?token={token}",
                "/healthz",
                "/metrics",
                "/api/x",
            ):
                async with http.get(url + path, headers={"Authorization": f"Bearer {token}"}) as answer:
                    answers.append(await answer.text())
        async with http.post(
            f"{url}/api/media?name=a.txt", data=b"a file", headers={"Authorization": f"Bearer {TOKEN}"}
        ) as answer:
            answers.append(await answer.text())
    async with asyncio.timeout(25), Client(url, query=f"token={TOKEN}") as client:
        await client.send("c1", "hello", "m1")
        look = "env; cat config.toml .nanobot/gateway.lock" if sandbox.usable() else "env"
        await client.send("c2", f'TOOL exec {{"command": "{look}"}}\nlook', "m2")
        await client.send("c3", "STATUS 401\nrefused", "m3")
        await client.until(lambda one: one.total() == 3)
        await client.send("c4", 'TOOL message {"text": "see", "files": ["config.md"]}\nsend it', "m4")
        await client.until(lambda one: any("see" in text for text in one.texts("c4")))
        answers += [text for chat in ("c1", "c2", "c3") for text in client.texts(chat)]
    return answers
