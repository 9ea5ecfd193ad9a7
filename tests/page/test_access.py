"""For everyone: axe in every state, keyboard alone, small screens, zoom, high contrast, still pictures."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from nanobot.testing_port import line
from tests.page.conftest import OpenPage, until
from tests.page.server import SAMPLE, Play, Stage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

AXE = (Path(__file__).parent / "vendor" / "axe.js").read_text()
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


async def faults(page: Page) -> list[str]:
    """What axe finds wrong, of any impact, best practice included."""
    await page.evaluate(AXE)
    found: list[str] = await page.evaluate(
        """async () => (await axe.run(document, {resultTypes: ['violations']})).violations.flatMap(
          (one) => one.nodes.map((node) => `${one.impact} ${one.id}: ${node.target} ${node.failureSummary}`))"""
    )
    return found


def fill(stage: Stage) -> None:
    stage.fill("websocket:a", line("user", "Explain the bucket", "1"), line("assistant", SAMPLE, "1"))
    stage.fill("telegram:b", line("user", "Remind me of the dentist", "2"), line("assistant", "I will.", "2"))
    asked = line("assistant", "", "3")
    call = {"name": "exec", "arguments": '{"command": "make test"}'}
    asked["tool_calls"] = [{"id": "c", "type": "function", "function": call}]
    result = line("tool", "2 failed", "3")
    result.update(tool_call_id="c", error=True)
    stage.fill(
        "websocket:a", line("user", "And the tests?", "3"), asked, result, line("assistant", "Two fail.", "3")
    )


@pytest.mark.parametrize("look", ["light", "dark", "forced", "phone"])
async def test_axe_finds_nothing(stage: Stage, visit: OpenPage, look: str) -> None:
    fill(stage)
    options: dict[str, Any] = {
        "light": {"color_scheme": "light"},
        "dark": {"color_scheme": "dark"},
        "forced": {"forced_colors": "active", "reduced_motion": "reduce"},
        "phone": PHONE,
    }[look]
    page = await visit("#websocket:a", **options)
    await until(page, "document.querySelectorAll('.code code > *').length > 0")
    assert await faults(page) == []
    await page.get_by_role("button", name="Worked through 1 step").click()
    await page.locator("button.call").click()
    assert await faults(page) == []
    if look == "phone":
        await page.get_by_role("button", name="Sessions", exact=True).click()
        await until(page, "document.querySelector('.side').getBoundingClientRect().left === 0")
    assert await faults(page) == []
    await page.get_by_role("button", name="More about Explain the bucket").click()
    await expect(page.get_by_role("menu")).to_be_visible()
    assert await faults(page) == []
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Keys").click()
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert await faults(page) == []
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="People and undelivered replies").click()
    await expect(page.get_by_role("dialog", name="For the owner")).to_be_visible()
    assert await faults(page) == []
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Search all messages").click()
    await page.get_by_role("combobox", name="Search all messages").fill("the")
    await expect(page.get_by_role("option").first).to_be_visible()
    assert await faults(page) == []
    await page.keyboard.press("Escape")
    if look == "phone":
        await page.keyboard.press("Escape")
    box = page.get_by_role("textbox", name="Message")
    await box.fill("/s")
    await expect(page.get_by_role("listbox", name="Commands")).to_be_visible()
    assert await faults(page) == []


async def test_axe_finds_nothing_while_a_turn_runs_in_a_goal(stage: Stage, visit: OpenPage) -> None:
    written, go = asyncio.Event(), asyncio.Event()

    async def script(play: Play) -> None:
        play.goal("Make every test of the limits pass")
        await play.think("Let me look first.")
        await play.tool("exec", {"command": "false"}, "exit status 1", error=True)
        await play.say("Half of an answ")
        written.set()
        await go.wait()

    stage.scripts["work"] = script
    page = await visit()
    assert await faults(page) == []
    box = page.get_by_role("textbox", name="Message")
    await box.fill("work")
    await box.press("Enter")
    await written.wait()
    await expect(page.locator(".md")).to_contain_text("Half")
    assert await faults(page) == []
    await page.get_by_role("region", name="Goal").get_by_role("button").click()
    await expect(page.get_by_role("dialog", name="Goal")).to_be_visible()
    assert await faults(page) == []
    await page.keyboard.press("Escape")
    go.set()
    await page.wait_for_selector("article.turn.done")
    assert await faults(page) == []


async def test_axe_finds_nothing_in_a_chat_of_another_channel(stage: Stage, visit: OpenPage) -> None:
    fill(stage)
    page = await visit("#telegram:b")
    await expect(page.get_by_role("button", name="Continue here")).to_be_visible()

    assert await faults(page) == []


WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SMALL = """(least) => [...document.querySelectorAll('button, a[href], input, textarea, summary')]
  .filter((one) => one.checkVisibility({visibilityProperty: true}) && !one.closest('.md') && !one.matches('.skip'))
  .map((one) => [one.getAttribute('aria-label') || one.textContent, one.getBoundingClientRect()])
  .filter(([, box]) => box.width > 0 && (box.width < least || box.height < least)).map(([name, box]) => `${name} ${box.width}x${box.height}`)"""


@pytest.mark.parametrize(("width", "height"), [(390, 844), (320, 568), (640, 400)])
async def test_a_small_screen_and_a_large_zoom_lose_nothing(
    stage: Stage, visit: OpenPage, width: int, height: int
) -> None:
    """640 by 400 is what 200 % zoom leaves of 1280 by 800."""
    fill(stage)
    page = await visit("#websocket:a", viewport={"width": width, "height": height}, has_touch=True)

    assert await page.evaluate(WIDE) <= 0
    assert await page.evaluate(SMALL, 24) == []
    send = await page.get_by_role("button", name="Send", exact=True).bounding_box()
    assert send is not None
    assert min(send["width"], send["height"]) >= 44
    assert send["x"] + send["width"] <= width
    assert send["y"] + send["height"] <= height
    await page.get_by_role("button", name="Sessions", exact=True).click()
    link = page.get_by_role("link", name="Explain the bucket")
    await expect(link).to_be_in_viewport()
    assert await page.evaluate(SMALL, 24) == []
    assert ((await link.bounding_box()) or {"height": 0})["height"] >= 44
    await page.get_by_role("button", name="Keys").click()
    dialog = page.get_by_role("dialog", name="Keys")
    await expect(dialog.get_by_role("button", name="Close")).to_be_in_viewport()
    assert await page.evaluate(WIDE) <= 0


async def test_the_keyboard_reaches_everything_in_order(stage: Stage, visit: OpenPage) -> None:
    fill(stage)
    page = await visit("#websocket:a")
    await until(page, "document.querySelectorAll('.rows a').length === 2")
    await page.evaluate("document.activeElement.blur()")
    seen: list[str] = []
    for _ in range(60):
        await page.keyboard.press("Tab")
        name, ring = await page.evaluate("""() => {
          const one = document.activeElement;
          const style = getComputedStyle(one.closest('.card, .filter') && one.matches('input, textarea') ? one.closest('.card, .filter') : one);
          const ring = parseFloat(style.outlineWidth) >= 2 && style.outlineStyle !== 'none' || /0px 0px 0px 1px/.test(style.boxShadow);
          return [one === document.body ? 'body' : one.getAttribute('aria-label') || one.textContent.trim().slice(0, 40), ring];
        }""")
        assert ring, f"{name!r} shows no focus"
        seen.append(name)
        if name == "Attach a file":
            break
    assert "body" not in seen
    order = [
        "Skip to the message box",
        "New chat",
        "Filter sessions",
        "Explain the bucket",
        "Keys",
        "Messages",
        "Copy code",
        "Message",
        "Attach a file",
    ]
    places = [next((at for at, name in enumerate(seen) if wanted in name), -1) for wanted in order]
    assert places == sorted(places), seen
    await page.get_by_role("button", name="Copy code").first.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Copied").first).to_be_focused()
    await page.get_by_role("link", name="Remind me of the dentist").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Remind me of the dentist")).to_be_visible()
    await page.get_by_role("button", name="More about Explain the bucket").focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("End")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("link", name="Explain the bucket")).to_have_count(0)
    await page.get_by_role("button", name="Undo").press("Enter")
    await expect(page.get_by_role("link", name="Explain the bucket")).to_be_visible()


async def test_the_first_paint_has_the_chosen_theme(visit: OpenPage) -> None:
    page = await visit(color_scheme="light")
    await page.evaluate("localStorage.setItem('nanobot.theme', 'dark')")
    await page.add_init_script(
        "requestAnimationFrame(function look() { if (!document.body) return requestAnimationFrame(look);"
        " window.first = getComputedStyle(document.body).backgroundColor; })"
    )
    await page.reload()
    await until(page, "window.first")

    assert await page.evaluate("first") == "rgb(23, 24, 26)"
