"""The page on a real gateway process with an emulated model, killed in the middle of a turn."""

import asyncio
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from nanobot.stores.sessions import SessionManager
from nanobot.testing_port import line
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


async def said(page: Page) -> list[str]:
    """What the articles say, without times: a message's own is when it was written, the history's when it came."""
    texts = await page.locator("article").all_inner_texts()
    return [re.sub(r"\d\d?:\d\d\s[AP]M", "", text) for text in texts]


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
            live = await said(page)
            await page.reload()
            await expect(texts).to_have_count(3)
            again = await said(page)
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
        await expect(page.get_by_role("button", name="Remember that I like short answers")).to_be_visible()
        for count, text in enumerate(("the old lighthouse", "the harbour"), 1):
            await box.fill(text)
            await box.press("Enter")
            await expect(done).to_have_count(count)
        await expect(page.locator(".composer .model")).to_be_visible()
        await page.get_by_role("button", name="Continue in a copy from here").first.click()
        await expect(said).to_have_text(["the old lighthouse"])
        await page.go_back()
        await expect(said).to_have_text(["the old lighthouse", "the harbour"])
        await box.fill("SLOW 10\nLONG 15")
        await box.press("Enter")
        await expect(page.locator("article.turn .md").last).to_contain_text("word1")
        await box.fill("/status")
        await box.press("Enter")
        await expect(done).to_have_count(4)
        order = await page.evaluate("[...document.querySelectorAll('article')].map((one) => one.dataset.id)")
        await page.reload()
        await expect(done).to_have_count(4)
        again = await page.evaluate("[...document.querySelectorAll('article')].map((one) => one.dataset.id)")
        # A message has the server's id after a reload; its answer always had.
        assert again[1::2] == order[1::2]
        texts = [text.split("\n")[0] for text in await page.locator("article").all_inner_texts()]
        assert texts[4:7:2] == ["SLOW 10", "/status"]
        assert texts[5].startswith("word0 word1")
        await page.keyboard.press("Control+k")
        await page.get_by_role("combobox", name="Search all messages").fill("LIGHTHOUSE old")
        # Said and answered, in the chat and in its copy.
        await expect(page.get_by_role("option")).to_have_count(4)
        await page.keyboard.press("Escape")
        await box.fill("/new")
        await box.press("Enter")
        await expect(said).to_have_text(["/new"])
        await page.reload()
        await expect(said).to_have_text(["/new"])
    await context.close()


async def test_a_delegated_task_is_read_along_and_leads_back(tmp_path: Path, browser: Browser) -> None:
    init = await asyncio.create_subprocess_exec(
        *nanobot("init", str(tmp_path / "bot")), stdout=asyncio.subprocess.DEVNULL
    )
    assert await init.wait() == 0
    context = await browser.new_context()
    page = await context.new_page()
    box = page.get_by_role("textbox", name="Message")
    async with (
        OpenAIServer() as model,
        gateway(tmp_path / "bot", free_port(), model.url, signal.SIGTERM) as url,
    ):
        await page.goto(url)
        await box.fill("Ask somebody\n" r'TOOL delegate {"task": "SLOW 20\nLONG 60\ncount the ferries"}')
        await box.press("Enter")
        parent = page.get_by_role("link", name="Ask somebody")
        child = page.locator(".rows").get_by_role("link").filter(has_text="Sub-session")
        await expect(
            child.get_by_role("img", name="running")
        ).to_be_visible()  # while its parent waits for it
        await page.get_by_role("button", name="Worked through 1 step").click()
        await page.get_by_role("link", name="Open the sub-session").click()
        await expect(page.locator(".md")).to_contain_text("word59")
        await expect(child).to_have_attribute("aria-current", "page")
        rows = await page.locator(".rows li").evaluate_all("(all) => all.map((one) => one.className)")
        assert rows == ["", "nested"]
        await expect(box).to_have_count(0)
        crumb = page.get_by_role("navigation", name="Where this comes from")
        await crumb.get_by_role("link").click()
        await expect(page.locator("article.turn .md")).to_contain_text("result:")
        await expect(parent).to_have_attribute("aria-current", "page")
        if os.environ.get("LOOK"):
            await page.screenshot(path=os.environ["LOOK"])
            print(await page.locator("article.turn .md").inner_text())
    await context.close()


async def test_a_sub_session_that_runs_too_long_is_stopped_from_its_page(
    tmp_path: Path, browser: Browser
) -> None:
    init = await asyncio.create_subprocess_exec(
        *nanobot("init", str(tmp_path / "bot")), stdout=asyncio.subprocess.DEVNULL
    )
    assert await init.wait() == 0
    context = await browser.new_context()
    page = await context.new_page()
    async with (
        OpenAIServer() as model,
        gateway(tmp_path / "bot", free_port(), model.url, signal.SIGTERM) as url,
    ):
        await page.goto(url)
        await page.get_by_role("textbox", name="Message").fill(
            "Ask somebody\n" r'TOOL delegate {"task": "SLOW 5\nLONG 3000"}'
        )
        await page.keyboard.press("Enter")
        await page.locator(".rows .nested").get_by_role("link").click()
        await page.get_by_role("button", name="Stop it").click()
        await expect(page.get_by_role("button", name="Stop it")).to_have_count(0)
        await page.get_by_role("link", name="Back to the chat it works for").click()
        await expect(page.locator("article.turn .md")).to_contain_text("killed")
    await context.close()


async def test_search_goes_to_a_message_far_up_in_five_thousand_also_in_the_archive(
    tmp_path: Path, browser: Browser
) -> None:
    init = await asyncio.create_subprocess_exec(
        *nanobot("init", str(tmp_path / "bot")), stdout=asyncio.subprocess.DEVNULL
    )
    assert await init.wait() == 0
    sessions = SessionManager(tmp_path / "bot")
    for first in range(0, 2_500, 500):
        lines = []
        for number in range(first, first + 500):
            text = "the hidden lighthouse" if number == 77 else f"answer {number}"
            lines += [line("user", f"question {number}", f"q{number}"), line("assistant", text, f"q{number}")]
        await sessions.append("telegram:long", lines)
    assert (await sessions.open("telegram:long")).archived[1] > 1_000
    await sessions.close()
    context = await browser.new_context()
    page = await context.new_page()
    async with (
        OpenAIServer() as model,
        gateway(tmp_path / "bot", free_port(), model.url, signal.SIGTERM) as url,
    ):
        await page.goto(url)
        await page.keyboard.press("Control+k")
        await page.get_by_role("combobox", name="Search all messages").fill("lighthouse hidden")
        await page.get_by_role("option").click()
        found = page.locator("article.found")
        await expect(found).to_contain_text("the hidden lighthouse")
        await expect(found).to_be_in_viewport()
        await expect(page.get_by_text("answer 2499")).to_have_count(0)
        await page.get_by_role("button", name="Jump to latest").click()
        await expect(page.get_by_text("answer 2499")).to_be_in_viewport()
        await expect(page.get_by_role("button", name="Continue here")).to_be_visible()
    await context.close()
