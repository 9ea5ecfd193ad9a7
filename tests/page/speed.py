"""How fast the page is, measured alone on an idle machine: `python -m tests.page.speed` prints each figure and its bar.

Exit code 1 where one is missed. Best of three, because a busy machine only ever makes it slower.
"""

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from tests.page.conftest import FLAGS, WATCH, until
from tests.page.server import SAMPLE, Play, Stage

TOKEN = 4  # characters
RUNS = 3
FRAMES = """
window.long = []; window.frames = [];
new PerformanceObserver((list) => long.push(...list.getEntries().map((one) => one.duration))).observe({type: 'longtask', buffered: true});
"""
COUNT = "(() => { let last = performance.now(); const look = (now) => { frames.push(now - last); last = now; requestAnimationFrame(look); }; requestAnimationFrame(look); })()"
# name → (bar, unit)
BARS = {
    "core, compressed": (60.0, "kB"),
    "first paint, warm": (500.0, "ms"),
    "interactive, warm": (800.0, "ms"),
    "shift of the load": (0.01, ""),
    "200 tokens/s: long tasks": (0.0, ""),
    "200 tokens/s: slowest of 100 frames": (50.0, "ms"),
    "200 tokens/s: shift": (0.02, ""),
    "1,000 tokens/s: long tasks": (0.0, ""),
}


async def stream(page: Page, rate: int) -> dict[str, float]:
    await page.evaluate("long.length = 0; seen.shift = 0")
    await page.evaluate(COUNT)
    done = await page.locator("article.turn.done").count()
    await page.get_by_role("textbox", name="Message").fill(f"tell {rate}")
    await page.keyboard.press("Enter")
    async with asyncio.timeout(60):
        while await page.locator("article.turn.done").count() == done:
            await asyncio.sleep(0.1)
    found: dict[str, float] = await page.evaluate(
        "({tasks: long.length, p99: frames.sort((a, b) => a - b)[Math.floor(frames.length * 0.99)], shift: seen.shift})"
    )
    return found


async def once(browser: Browser, stage: Stage) -> dict[str, float]:
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    await context.add_init_script(WATCH + FRAMES)
    page = await context.new_page()
    await page.goto(stage.url)
    await until(page, "performance.getEntriesByName('ready').length")
    core = await page.evaluate(
        "performance.getEntriesByType('resource').filter((one) => !one.name.includes('/api/')).reduce((sum, one) => sum + one.encodedBodySize, 0)"
        " + performance.getEntriesByType('navigation')[0].encodedBodySize"
    )
    await page.reload()
    await until(page, "performance.getEntriesByName('ready').length")
    paint = await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    ready = await page.evaluate("performance.getEntriesByName('ready')[0].startTime")
    load = await page.evaluate("seen.shift")
    slow = await stream(page, 200)
    fast = await stream(page, 1_000)
    await context.close()
    figures = (core / 1_000, paint, ready, load, slow["tasks"], slow["p99"], slow["shift"], fast["tasks"])
    return dict(zip(BARS, figures, strict=True))


async def main() -> int:
    async def script(play: Play) -> None:
        rate = int(play.words)
        text = SAMPLE * 9
        await play.say(text[: TOKEN * (2_400 if rate == 200 else 6_000)], rate, TOKEN)

    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        stage.scripts["tell"] = script
        await stage.start()
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=FLAGS.split()
            )
            runs = [await once(browser, stage) for _ in range(RUNS)]
            await browser.close()
        await stage.close()
    missed = 0
    for name, (bar, unit) in BARS.items():
        best = min(run[name] for run in runs)
        missed += best > bar
        shown = " ".join(f"{run[name]:.4g}" for run in runs)
        print(f"{name:38} {best:8.4g} {unit:3} bar {bar:g}{'' if best <= bar else '  MISSED'}   ({shown})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
