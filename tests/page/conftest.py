"""One browser for all page tests; a fresh server and browser profile for each."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

from tests.page.server import Stage

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
# Noted before any script of the page runs: what the policy refused, how much the layout moved, what threw.
WATCH = """
window.seen = {violations: [], shift: 0, errors: [], you: []};
addEventListener('securitypolicyviolation', (e) => seen.violations.push(`${e.violatedDirective} ${e.blockedURI}`));
addEventListener('error', (e) => seen.errors.push(String(e.message)));
addEventListener('unhandledrejection', (e) => seen.errors.push(String(e.reason)));
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) seen.shift += entry.value;
}).observe({type: 'layout-shift', buffered: true});
"""


async def until(page: Page, expression: str) -> None:
    """Wait in the page for an expression; `wait_for_function` would need eval, which the page's policy forbids."""
    loop = f"async () => {{ while (!({expression})) await new Promise((next) => setTimeout(next, 10)); }}"
    async with asyncio.timeout(10):
        await page.evaluate(loop)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium on this machine")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS.split())
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    await stage.start()
    yield stage
    await stage.close()


OpenPage = Callable[..., Awaitable[Page]]


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, stage: Stage) -> AsyncIterator[OpenPage]:
    """Open the page in a profile of its own; at the end nothing may have thrown or broken the policy."""
    pages: list[Page] = []
    async with AsyncExitStack() as stack:

        async def open_page(fragment: str = "", *, ready: bool = True, **options: Any) -> Page:
            context = await browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
            stack.push_async_callback(context.close)
            await context.add_init_script(WATCH)
            page = await context.new_page()
            page.set_default_timeout(10_000)
            pages.append(page)
            await page.goto(stage.url + fragment)
            if ready:
                await until(page, "performance.getEntriesByName('ready').length")
            return page

        yield open_page
        for page in pages:
            seen = await page.evaluate("seen")
            assert seen["violations"] == []
            assert seen["errors"] == []
