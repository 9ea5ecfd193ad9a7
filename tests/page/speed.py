"""How fast the page is, measured alone on an idle machine: `make bench-web` prints each figure, its bar and what was measured.

Exit code 1 where a bar is missed. Best of three, because a busy machine only ever makes it slower.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, CDPSession, Page, async_playwright

from nanobot.testing_port import line
from tests.page.conftest import FLAGS, WATCH, until
from tests.page.server import SAMPLE, Play, Stage

TOKEN = 4  # characters
RUNS = 3
SLOWER = 4  # times, for the run that stands for a weak phone
FRAMES = """
window.long = []; window.frames = [];
new PerformanceObserver((list) => long.push(...list.getEntries().map((one) => one.duration))).observe({type: 'longtask', buffered: true});
"""
COUNT = "(() => { let last = performance.now(); const look = (now) => { frames.push(now - last); last = now; requestAnimationFrame(look); }; requestAnimationFrame(look); })()"
TO_THE_TOP = """async () => {
  const view = document.querySelector('.scroll');
  while (document.querySelector('.earlier')) {
    view.scrollTop = 0;
    await new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
  }
}"""
# name → (bar, unit)
BARS = {
    "core, compressed": (60.0, "kB"),
    "first contentful paint, warm": (500.0, "ms"),
    "interactive, warm": (800.0, "ms"),
    "interactive, warm, processor 4 times slower": (2_500.0, "ms"),
    "shift of the load": (0.01, ""),
    "200 tokens/s: long tasks": (0.0, ""),
    "200 tokens/s: slowest of 100 frames": (50.0, "ms"),
    "200 tokens/s: shift": (0.02, ""),
    "1,000 tokens/s: long tasks": (0.0, ""),
    "5,000 messages: ready": (1_500.0, "ms"),
    "5,000 messages: received until ready": (50.0, "kB"),
    "5,000 messages, all scrolled in: elements": (15_000.0, ""),
    "5,000 messages, all scrolled in: heap": (25.0, "MB"),
}
Figures = dict[str, float]


async def ready(page: Page) -> float:
    await until(page, "performance.getEntriesByName('ready').length")
    found: float = await page.evaluate("performance.getEntriesByName('ready')[0].startTime")
    return found


@asynccontextmanager
async def profile(browser: Browser) -> AsyncIterator[tuple[Page, CDPSession]]:
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    await context.add_init_script(WATCH + FRAMES)
    page = await context.new_page()
    yield page, await context.new_cdp_session(page)
    await context.close()


async def load(browser: Browser, url: str) -> Figures:
    async with profile(browser) as (page, devtools):
        await page.goto(url)
        await ready(page)
        core = await page.evaluate(
            "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
            ".filter((one) => !one.name.includes('/api/')).reduce((sum, one) => sum + one.encodedBodySize, 0)"
        )
        await page.reload()
        warm = await ready(page)
        await until(page, "performance.getEntriesByName('first-contentful-paint').length")
        paint = await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        shift = await page.evaluate("seen.shift")
        await devtools.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
        await page.reload()
        slow = await ready(page)
    return {
        "core, compressed": core / 1_000,
        "first contentful paint, warm": paint,
        "interactive, warm": warm,
        "interactive, warm, processor 4 times slower": slow,
        "shift of the load": shift,
    }


async def stream(browser: Browser, url: str, rate: int) -> Figures:
    async with profile(browser) as (page, _):
        await page.goto(url)
        await ready(page)
        await page.evaluate("long.length = 0; seen.shift = 0")
        await page.evaluate(COUNT)
        await page.get_by_role("textbox", name="Message").fill(f"tell {rate}")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("article.turn.done", timeout=60_000)
        tasks, p99, shift = await page.evaluate(
            "[long.length, frames.sort((a, b) => a - b)[Math.floor(frames.length * 0.99)], seen.shift]"
        )
    if rate > 200:
        return {"1,000 tokens/s: long tasks": tasks}
    return {
        "200 tokens/s: long tasks": tasks,
        "200 tokens/s: slowest of 100 frames": p99,
        "200 tokens/s: shift": shift,
    }


async def long_session(browser: Browser, url: str) -> Figures:
    received = 0

    def count(frame: str | bytes) -> None:
        nonlocal received
        received += len(frame)

    async with profile(browser) as (page, devtools):
        await page.goto(url)
        await ready(page)
        page.on("websocket", lambda socket: socket.on("framereceived", count))
        await page.goto(f"{url}#websocket:long")
        await page.reload()
        opened = await ready(page)
        answers = await page.evaluate(
            "performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/')).reduce((sum, one) => sum + one.transferSize, 0)"
        )
        before = received + answers
        await page.evaluate(TO_THE_TOP)
        await page.locator(".bubble", has_text="Question 0:").wait_for()
        elements = await page.evaluate("document.querySelectorAll('*').length")
        await devtools.send("HeapProfiler.collectGarbage")
        heap = (await devtools.send("Runtime.getHeapUsage"))["usedSize"]
    return {
        "5,000 messages: ready": opened,
        "5,000 messages: received until ready": before / 1_000,
        "5,000 messages, all scrolled in: elements": elements,
        "5,000 messages, all scrolled in: heap": heap / 1e6,
    }


def fill(stage: Stage) -> None:
    for number in range(2_500):
        said = f"Question {number}: what holds the **limits** together?"
        text = f"Answer {number}. " + "The bucket is refilled by the clock, once per call. " * (
            number % 9 + 1
        )
        stage.fill("websocket:long", line("user", said, f"q{number}"), line("assistant", text, f"q{number}"))


async def tell(play: Play) -> None:
    rate = int(play.words)
    await play.say((SAMPLE * 9)[: TOKEN * (2_400 if rate == 200 else 6_000)], rate, TOKEN)


async def main() -> int:
    runs: list[Figures] = []
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        stage.scripts["tell"] = tell
        await stage.start()
        async with async_playwright() as playwright:
            path = shutil.which("chromium")
            browser = await playwright.chromium.launch(executable_path=path, args=FLAGS.split())
            for _ in range(RUNS):
                run = await load(browser, stage.url)
                run |= await stream(browser, stage.url, 200) | await stream(browser, stage.url, 1_000)
                runs.append(run)
            fill(stage)
            for run in runs:
                run.update(await long_session(browser, stage.url))
            await browser.close()
        await stage.close()
    missed = 0
    print(f"{'figure':44} {'bar':>12} {'best':>9}   measured")
    for name, (bar, unit) in BARS.items():
        best = min(run[name] for run in runs)
        missed += best > bar
        shown = " ".join(f"{run[name]:.4g}" for run in runs)
        print(f"{name:44} {f'{bar:,g} {unit}':>12} {best:9.4g}   {shown}{'' if best <= bar else '   MISSED'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
