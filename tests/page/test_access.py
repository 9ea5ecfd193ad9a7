"""For everyone: axe in every state, keyboard alone, small screens, zoom, high contrast, still pictures."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from nanobot.channel import About
from nanobot.testing_port import line
from tests.page.conftest import OpenPage, until
from tests.page.server import SAMPLE, Play, Stage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

AXE = (Path(__file__).parent / "vendor" / "axe.js").read_text()
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


async def faults(page: Page) -> list[str]:
    """What axe finds wrong, of any impact, best practice included; once nothing moves any more."""
    await page.evaluate(
        "Promise.all(document.getAnimations().filter((one) => one.effect.getComputedTiming().endTime !== Infinity).map((one) => one.finished.catch(() => {})))"
    )
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
    result = line("tool", "2 failed\n7 passed", "3")
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
    await expect(page.get_by_role("dialog")).to_have_count(0)
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


async def test_axe_finds_nothing_in_another_channels_chat_and_in_a_sub_session(
    stage: Stage, visit: OpenPage
) -> None:
    fill(stage)
    key = "sub:8e7f437b-5bcc-5e4c-a610-8ff38efcc7cc"
    stage.fill(key, line("user", "mend it", "s"), line("assistant", "Mended.", "s"))
    stage.port.sessions.metadata[key] = {"parent": "websocket:a"}
    stage.port.sessions.abouts[key] = About("executor/codex", parent="websocket:a", parent_title="Bucket")
    details = [{"kind": "command", "id": "1", "text": "make", "output": "no\nrule", "state": "failed"}]
    stage.port.tasks.rows["websocket:a"] = [{"id": key.removeprefix("sub:"), "details": details}]
    stage.port.sessions.running.add(key)
    page = await visit("#telegram:b")
    await expect(page.get_by_role("button", name="Continue here")).to_be_visible()
    assert await faults(page) == []
    await page.goto(f"{stage.url}#{key}")
    await expect(page.get_by_role("button", name="Stop it")).to_be_visible()
    assert await faults(page) == []
    await page.get_by_role("button", name="Its steps").click()
    await page.get_by_role("dialog", name="Steps").get_by_role("button", name="command make").click()

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
    for name in ("Sessions", "Attach a file"):
        place = await page.get_by_role("button", name=name, exact=True).bounding_box()
        assert place is not None
        assert min(place["width"], place["height"]) >= 44, name
    assert send["x"] + send["width"] <= width
    assert send["y"] + send["height"] <= height
    await page.get_by_role("button", name="Sessions", exact=True).click()
    link = page.get_by_role("link", name="Explain the bucket")
    await expect(link).to_be_in_viewport()
    assert await page.evaluate(SMALL, 24) == []
    assert ((await link.bounding_box()) or {"height": 0})["height"] >= 44
    for opener, name in (("Keys", "Keys"), ("Search all messages", "Search"), ("People", "For the owner")):
        await page.get_by_role("button", name=opener).click()
        dialog = page.get_by_role("dialog", name=name)
        await expect(dialog.get_by_role("button", name="Close")).to_be_in_viewport(ratio=1)
        assert await page.evaluate(WIDE) <= 0
        assert await page.evaluate(SMALL, 24) == []
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.get_by_role("button", name="More about Explain the bucket").click()
    await expect(page.get_by_role("menuitem", name="Delete")).to_be_in_viewport(ratio=1)
    await page.keyboard.press("Escape")
    await link.click()
    box = page.get_by_role("textbox", name="Message")
    await box.fill("/s")
    await expect(page.get_by_role("option").first).to_be_in_viewport(ratio=1)
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_in_viewport(ratio=1)
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
    await expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    await page.keyboard.press("End")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("link", name="Explain the bucket")).to_have_count(0)
    await page.get_by_role("button", name="Undo").press("Enter")
    await expect(page.get_by_role("link", name="Explain the bucket")).to_be_visible()


async def test_a_whole_conversation_needs_no_mouse_and_never_loses_the_focus(
    stage: Stage, visit: OpenPage
) -> None:
    go = asyncio.Event()

    async def script(play: Play) -> None:
        await play.tool("exec", {"command": "make test"}, "2 failed\n7 passed")
        await play.say("Half of an answer, ")
        await go.wait()

    stage.scripts["work"] = script
    fill(stage)
    stage.fill("websocket:c", line("user", "A third chat", "9"))
    page = await visit("#websocket:a")
    keys = page.keyboard
    focus = "document.activeElement === document.body ? 'body' : document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"

    async def press(key: str, *, on: Any = None, then: str) -> None:
        if on is not None:
            await on.focus()
        await keys.press(key)
        await until(page, f"({focus}).includes({then!r})")

    def button(name: str) -> Any:
        return page.get_by_role("button", name=name, exact=True)

    box = page.get_by_role("textbox", name="Message")
    await box.fill("work")
    await press("Enter", then="Message")
    await expect(page.locator("article.turn").last).to_contain_text("Half of an answer")
    await press("Enter", on=button("Stop"), then="Message")
    await expect(page.locator("article.turn").last).to_contain_text("Stopped")
    await box.fill("work again")
    await press("Enter", then="Message")
    await expect(button("Stop")).to_be_visible()
    await press("Escape", then="Message")
    await expect(button("Stop")).to_have_count(0)
    steps = page.get_by_role("button", name="Worked through 1 step").last
    await press("Enter", on=steps, then="Worked through")
    await expect(steps).to_have_attribute("aria-expanded", "true")
    await press("Enter", on=page.locator("button.call").last, then="exec")
    await press("Home", on=page.locator(".scroll"), then="Messages")
    await press("Enter", on=button("Jump to latest"), then="Messages")
    row = page.get_by_role("link", name="Explain the bucket")
    await press("F2", on=row, then="Name of the session")
    await page.get_by_role("textbox", name="Name of the session").fill("Buckets")
    await press("Enter", then="Buckets")
    await press("Delete", on=page.get_by_role("link", name="A third chat"), then="Remind me")
    await press("Enter", on=button("Undo"), then="A third chat")
    await press("Control+k", then="Search all messages")
    await keys.type("bucket")
    await expect(page.get_by_role("option").first).to_be_visible()
    await press("Escape", then="A third chat")
    await press("Enter", on=button("System theme; change"), then="Light theme")
    await press("Enter", on=page.get_by_role("link", name="A third chat"), then="Message")


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
