"""A person at the page, a real gateway process, a kill -9 in the middle of the reply, and the reply, once."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright, expect

from tests.crash.process import GatewayProcess
from tests.emulators.openai import OpenAIServer

pytestmark = pytest.mark.browser
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SECONDS = 30_000  # milliseconds a step may take on a busy machine


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    async with OpenAIServer() as model:
        process = GatewayProcess(tmp_path / "workspace", model.url)
        await process.start()
        yield process
        await process.kill()


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield await browser.new_page()
        await browser.close()


async def test_a_streamed_reply_arrives_once_although_the_gateway_is_killed_in_its_middle(
    gateway: GatewayProcess, page: Page
) -> None:
    await page.goto(gateway.url)
    await page.get_by_role("textbox", name="Message").fill("Good morning")
    await page.get_by_role("button", name="Send", exact=True).click()
    answers = page.get_by_role("article", name="nanobot said")
    await expect(answers).to_have_count(1, timeout=SECONDS)
    await expect(answers.first).to_contain_text("echo: Good morning", timeout=SECONDS)

    words = " ".join(f"word{n}" for n in range(30))
    await page.get_by_role("textbox", name="Message").fill(f"SLOW 20\n{words}")
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(answers.last).to_contain_text("word3", timeout=SECONDS)
    await gateway.kill()
    await expect(page.get_by_role("status").filter(has_text="Reconnecting")).to_be_visible(timeout=SECONDS)
    await gateway.start()
    await expect(answers.last).to_contain_text(f"echo: {words}", timeout=SECONDS)
    await expect(page.get_by_role("button", name="Stop")).to_have_count(0, timeout=SECONDS)
    await expect(answers).to_have_count(2)
    await expect(page.get_by_role("article", name="You said")).to_have_count(2)
    assert (await answers.last.inner_text()).count("word7") == 1

    await page.reload()
    await expect(answers).to_have_count(2, timeout=SECONDS)
    await expect(answers.last).to_contain_text(f"echo: {words}")
    await expect(page.get_by_role("article", name="You said")).to_have_count(2)
