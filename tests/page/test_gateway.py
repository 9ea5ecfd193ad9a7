"""The page on a real gateway process with an emulated model, killed in the middle of a turn."""

import asyncio
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.emulators.openai import OpenAIServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def gateway(workspace: Path, port: int, model: str, stop: signal.Signals) -> AsyncIterator[str]:
    settings = {"HTTP__PORT": str(port), "MODELS__OPENAI__API_KEY": "test", "MODELS__OPENAI__BASE_URL": model}
    process = await asyncio.create_subprocess_exec(
        *nanobot("gateway", "-w", str(workspace)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, **{f"NANOBOT_{name}": value for name, value in settings.items()}},
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            ready = (await process.stdout.readline()).decode().split()
        assert ready[0] == "ready"
        yield ready[1]
    finally:
        process.send_signal(stop)
        await process.wait()


def nanobot(*arguments: str) -> list[str]:
    found = shutil.which("nanobot", path=str(Path(sys.executable).parent))
    assert found is not None
    return [found, *arguments]


async def test_a_gateway_killed_in_a_turn_finishes_it_and_what_was_sent_meanwhile(
    tmp_path: Path, browser: Browser
) -> None:
    init = await asyncio.create_subprocess_exec(
        *nanobot("init", str(tmp_path / "bot")), stdout=asyncio.subprocess.DEVNULL
    )
    assert await init.wait() == 0
    port = free_port()
    context = await browser.new_context()
    page = await context.new_page()
    box = page.get_by_role("textbox", name="Message")
    busy = page.locator("article.turn[aria-busy]")
    texts = page.locator("article.turn .md")
    async with OpenAIServer() as model:
        async with gateway(tmp_path / "bot", port, model.url, signal.SIGKILL) as url:
            await page.goto(url)
            await box.fill('TOOL list_dir {"path": "."}')
            await box.press("Enter")
            await expect(page.get_by_role("button", name="Worked through 1 step")).to_be_visible()
            await box.fill("SLOW 40\nLONG 90")
            await box.press("Enter")
            await expect(texts.last).to_contain_text("word9")
        await box.fill("sent while nobody listened")
        await box.press("Enter")
        await expect(page.get_by_text("Sending…")).to_be_visible()
        async with gateway(tmp_path / "bot", port, model.url, signal.SIGTERM):
            await expect(texts).to_have_count(3, timeout=20_000)
            await expect(busy).to_have_count(0)
            await expect(page.get_by_text("Sending…")).to_have_count(0)
            live = await page.locator("article").all_inner_texts()
            await page.reload()
            await expect(texts).to_have_count(3)
            again = await page.locator("article").all_inner_texts()
    await context.close()

    answers = [text.strip().split("\n")[0] for text in live]
    assert answers[3] == " ".join(f"word{number}" for number in range(90))
    assert answers[4:] == ["sent while nobody listened", "echo: sent while nobody listened"]
    assert live == again


async def test_search_copies_and_a_new_conversation_on_a_real_gateway(
    tmp_path: Path, browser: Browser
) -> None:
    init = await asyncio.create_subprocess_exec(
        *nanobot("init", str(tmp_path / "bot")), stdout=asyncio.subprocess.DEVNULL
    )
    assert await init.wait() == 0
    context = await browser.new_context()
    page = await context.new_page()
    box = page.get_by_role("textbox", name="Message")
    done = page.locator("article.turn.done")
    said = page.locator(".bubble")
    async with (
        OpenAIServer() as model,
        gateway(tmp_path / "bot", free_port(), model.url, signal.SIGTERM) as url,
    ):
        await page.goto(url)
        for count, text in enumerate(("the old lighthouse", "the harbour"), 1):
            await box.fill(text)
            await box.press("Enter")
            await expect(done).to_have_count(count)
        await expect(page.locator(".composer .model")).to_be_visible()
        await page.get_by_role("button", name="Continue in a copy from here").first.click()
        await expect(said).to_have_text(["the old lighthouse"])
        await page.go_back()
        await expect(said).to_have_text(["the old lighthouse", "the harbour"])
        await page.keyboard.press("Control+k")
        await page.get_by_role("combobox", name="Search all messages").fill("LIGHTHOUSE old")
        await expect(page.get_by_role("option")).to_have_count(
            4
        )  # said and answered, in the chat and in its copy
        await page.keyboard.press("Escape")
        await box.fill("/new")
        await box.press("Enter")
        await expect(said).to_have_text(["/new"])
        await page.reload()
        await expect(said).to_have_text(["/new"])
    await context.close()
