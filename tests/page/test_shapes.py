"""Screens, scripts and eyes of every kind: touch, short windows, right to left, wide tables, forced colours."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from nanobot.channel import Applicant, Command
from nanobot.testing_port import line
from tests.page.conftest import OpenPage, until
from tests.page.server import SAMPLE, Play, Stage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
TABLET: dict[str, Any] = {"viewport": {"width": 820, "height": 1180}, "has_touch": True}
ARABIC = "مرحبا، كيف حالك اليوم؟"
DIRECTION = "(one) => getComputedStyle(one).direction"
MIXED = f"""{ARABIC} مع `code`.

- {ARABIC}
- شيء آخر

Left to right again.

```py
x = 1
```

| اسم | قيمة |
|---|---|
| واحد | ١ |
"""
WIDE = """| Name | Description of the thing | Qty | Price | Supplier | Country | Notes |
|---|---|--:|--:|---|:-:|---|
| Bolt | A long description that should wrap within its cell | 12 | 1.20 | Harbour & Sons | DE | fine |
| Nut | Short | 12000 | 0.05 | x | FR | a_very_long_token_that_nobody_could_break_well |
"""


async def box(place: Locator) -> dict[str, float]:
    found = await place.bounding_box()
    assert found is not None
    x, y, width, height = found["x"], found["y"], found["width"], found["height"]
    return {"x": x, "y": y, "width": width, "height": height, "right": x + width, "bottom": y + height}


async def hold(play: Play) -> None:
    await play.say("Working on it.")
    await asyncio.Event().wait()


async def test_a_text_is_read_in_the_direction_of_its_letters(stage: Stage, visit: OpenPage) -> None:
    stage.fill("websocket:a", line("user", ARABIC, "1"), line("assistant", MIXED, "1"))
    page = await visit("#websocket:a")
    blocks = page.locator(".md > *")
    directions = [await blocks.nth(at).evaluate(DIRECTION) for at in range(5)]

    assert directions == ["rtl", "rtl", "ltr", "ltr", "rtl"]
    assert await page.locator(".md code").first.evaluate(DIRECTION) == "ltr"
    text = await box(blocks.nth(0))
    item = (
        await blocks.nth(1)
        .locator("li")
        .first.evaluate(
            "(one) => { const range = document.createRange(); range.selectNodeContents(one); return range.getBoundingClientRect().right; }"
        )
    )
    assert text["right"] - 40 < item < text["right"] - 10  # its bullet stands at the right
    assert await page.get_by_role("heading", level=1).evaluate(DIRECTION) == "rtl"
    assert await page.locator(".rows .title").evaluate(DIRECTION) == "rtl"
    message = page.get_by_role("textbox", name="Message")
    await message.fill(ARABIC)
    assert await message.evaluate(DIRECTION) == "rtl"


@pytest.mark.parametrize("width", [390, 1280])
async def test_a_wide_table_scrolls_instead_of_breaking_words(
    stage: Stage, visit: OpenPage, width: int
) -> None:
    stage.fill("websocket:a", line("user", "A table", "1"), line("assistant", WIDE, "1"))
    page = await visit("#websocket:a", viewport={"width": width, "height": 800})
    heads = page.locator("th")
    heights = [(await box(heads.nth(at)))["height"] for at in (0, 2, 3, 4, 5, 6)]
    lines = "(one) => { const range = document.createRange(); range.selectNodeContents(one); return range.getClientRects().length; }"

    assert await heads.nth(0).evaluate(lines) == 1
    assert await page.locator("td", has_text="12000").evaluate(lines) == 1
    assert await page.evaluate("document.documentElement.scrollWidth") == width
    table = page.locator(".table")
    assert await table.evaluate("(one) => one.scrollWidth > one.clientWidth") == (width == 390)
    assert len(set(heights)) == 1


async def test_on_a_tablet_nothing_waits_for_a_pointer_to_hover(stage: Stage, visit: OpenPage) -> None:
    stage.fill("websocket:a", line("user", "A chat", "1"), line("assistant", "An answer.", "1"))
    page = await visit("#websocket:a", **TABLET)
    for name in ("Copy message", "Ask again", "Edit and send again", "More about A chat"):
        button = page.get_by_role("button", name=name).first
        size = await box(button)
        assert await button.evaluate("(one) => getComputedStyle(one).opacity") == "1", name
        assert min(size["width"], size["height"]) >= 36, name
    for name in ("Send", "Attach a file"):
        assert (await box(page.get_by_role("button", name=name, exact=True)))["height"] >= 44
    assert (await box(page.get_by_role("link", name="A chat")))["height"] >= 44


async def test_a_finger_writes_several_lines_and_adds_to_what_runs(stage: Stage, visit: OpenPage) -> None:
    stage.scripts["hold"] = hold
    page = await visit(**PHONE)
    message = page.get_by_role("textbox", name="Message")
    await message.press_sequentially("hold on\nand wait")
    await expect(message).to_have_value("hold on\nand wait")
    assert stage.port.accepted == []
    await page.get_by_role("button", name="Send", exact=True).tap()
    await expect(page.locator(".md")).to_have_text("Working on it.")
    add = page.get_by_role("button", name="Add to what runs")
    await expect(add).to_have_count(0)
    await message.fill("and then this")
    await add.tap()

    await expect(page.get_by_role("article", name="You said")).to_have_count(2)
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await message.fill("with a real keyboard")
    await message.press("Control+Enter")
    await expect(page.get_by_role("article", name="You said")).to_have_count(3)


async def test_a_short_window_cuts_nothing_off(
    stage: Stage, visit: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [Command(f"word{at}", f"/word{at}", "What it does") for at in range(14)]
    monkeypatch.setattr(stage.port, "commands", lambda: commands)
    for at in range(6):
        stage.fill(f"websocket:{at}", line("user", f"Chat {at}", f"{at}"))
    page = await visit(viewport={"width": 640, "height": 400})  # 200 % zoom of 1280 by 800
    await expect(page.get_by_role("heading", name="What shall we do?")).to_be_in_viewport(ratio=1)
    message = page.get_by_role("textbox", name="Message")
    await message.fill("/w")
    menu = page.get_by_role("listbox", name="Commands")
    await expect(menu).to_be_in_viewport(ratio=1)
    await message.fill("a line\n" * 20)
    assert (await box(page.locator(".thread")))["height"] >= 100
    await page.get_by_role("button", name="Sessions", exact=True).click()
    for at in range(6):
        await page.get_by_role("button", name=f"More about Chat {at}").click()
        await expect(page.get_by_role("menu")).to_be_in_viewport(ratio=1)
        await page.keyboard.press("Escape")
    await page.mouse.move(100, 250)
    await page.get_by_role("button", name="More about Chat 1").click()
    await page.mouse.wheel(0, 40)
    await expect(page.get_by_role("menu")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 320])
async def test_a_note_never_covers_what_is_being_written(stage: Stage, visit: OpenPage, width: int) -> None:
    stage.fill("websocket:a", line("user", "Gone " * 40, "1"))
    page = await visit(viewport={"width": width, "height": 700})
    if width < 760:
        await page.get_by_role("button", name="Sessions", exact=True).click()
    await page.get_by_role("link", name="Gone").focus()
    await page.keyboard.press("Delete")
    if width < 760:
        await page.keyboard.press("Escape")
    await page.get_by_role("textbox", name="Message").fill("a line\n" * 20)
    note, card = await box(page.locator(".note")), await box(page.locator(".card"))

    assert note["bottom"] <= card["y"]
    assert note["x"] >= 0
    assert note["right"] <= width


@pytest.mark.parametrize("width", [390, 1280])
async def test_a_chat_with_formulas_does_not_move_while_it_opens(
    stage: Stage, visit: OpenPage, width: int
) -> None:
    stage.fill("websocket:a", line("user", "Formulas", "1"), line("assistant", SAMPLE, "1"))
    page = await visit("#websocket:a", viewport={"width": width, "height": 800})
    await until(page, "[...document.querySelectorAll('.maths')].every((one) => one.childNodes.length)")
    await until(page, "getComputedStyle(document.querySelector('.column')).opacity === '1'")

    assert await page.evaluate("seen.shift") <= 0.01


async def test_a_long_piece_of_code_keeps_its_head_and_its_button(stage: Stage, visit: OpenPage) -> None:
    code = "```py\n" + "\n".join(f"line{at} = {at}" for at in range(200)) + "\n```"
    stage.fill("websocket:a", line("user", "Long", "1"), line("assistant", code, "1"))
    page = await visit("#websocket:a")
    await page.locator(".scroll").evaluate("(view) => (view.scrollTop = view.scrollHeight / 2)")

    await expect(page.get_by_role("button", name="Copy code")).to_be_in_viewport(ratio=1)


async def test_forced_colours_show_the_focus_the_choice_and_what_runs(stage: Stage, visit: OpenPage) -> None:
    stage.scripts["hold"] = hold
    page = await visit(forced_colors="active")
    message = page.get_by_role("textbox", name="Message")
    await message.fill("hold")
    await message.press("Enter")
    outline = "(one) => getComputedStyle(one).outlineStyle"
    assert await page.locator(".card").evaluate(outline) == "solid"
    back = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    paint = "(one) => getComputedStyle(one).backgroundColor"
    await expect(page.locator(".rows .dot")).to_be_visible()
    assert await page.locator(".rows .dot").evaluate(paint) != back
    await message.fill("/s")

    assert await page.get_by_role("option", selected=True).evaluate(outline) == "solid"
    assert await page.get_by_role("option", selected=False).first.evaluate(outline) == "none"


async def test_the_goals_button_keeps_its_name_while_its_clock_runs(stage: Stage, visit: OpenPage) -> None:
    """A screen reader would read a focused button anew whenever its name changes."""
    goal = {"status": "active", "objective": "Count the ferries", "started_at": 1_000}
    stage.fill("websocket:a", line("user", "Count", "1"))
    stage.port.sessions.metadata["websocket:a"] = {"goal_state": goal}
    page = await visit("#websocket:a")
    button = page.get_by_role("button", name="Goal Count the ferries Active", exact=True)
    shown = await button.locator("time").inner_text()
    await expect(button.locator("time")).not_to_have_text(shown)

    await expect(button).to_be_visible()


async def test_more_contrast_is_given_to_who_asks_for_it(visit: OpenPage) -> None:
    edges = []
    for contrast in ("no-preference", "more"):
        page = await visit(contrast=contrast)
        edges.append(await page.locator(".filter").evaluate("(one) => getComputedStyle(one).borderColor"))

    assert edges[1] == "rgb(27, 28, 30)"
    assert edges[0] != edges[1]


async def test_the_owners_dialog_keeps_the_focus_when_its_buttons_go(stage: Stage, visit: OpenPage) -> None:
    now = datetime.now(UTC)
    stage.port.office.people = [
        Applicant("telegram", "77", "Ann", "ABCD2345", "pending", now, now + timedelta(minutes=9))
    ]
    page = await visit()
    opener = page.get_by_role("button", name="1 thing waits for you")
    await opener.focus()
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Let Ann in").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Revoke Ann")).to_be_visible()
    await until(page, "document.activeElement.closest('dialog')")
    await expect(opener).to_have_count(0)
    await page.keyboard.press("Escape")

    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()


async def test_the_list_of_keys_fits_a_narrow_screen(visit: OpenPage) -> None:
    page = await visit(viewport={"width": 320, "height": 568})
    await page.locator(".scroll").focus()
    await page.keyboard.press("?")
    sheet = page.get_by_role("dialog", name="Keys")
    await expect(sheet).to_be_visible()
    edge = (await box(sheet))["right"] - 20

    for words in await sheet.locator("dd").all():
        assert (await box(words))["right"] <= edge


async def test_paper_has_the_whole_loaded_chat_in_light_colours(stage: Stage, visit: OpenPage) -> None:
    for at in range(60):
        answer = "A paragraph of an answer.\n\n" * 9
        stage.fill("websocket:a", line("user", f"Q{at}", f"{at}"), line("assistant", answer, f"{at}"))
    page = await visit("#websocket:a", color_scheme="dark")
    empty = "[...document.querySelectorAll('.chunk')].filter((one) => !one.children.length).length"
    await page.evaluate("""async () => {
      const view = document.querySelector('.scroll');
      while (document.querySelector('.earlier')) {
        view.scrollTop = 0;
        await new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
      }
    }""")
    await until(page, f"{empty} > 0")
    await page.emulate_media(media="print")
    await page.evaluate("dispatchEvent(new Event('beforeprint'))")
    await until(page, f"{empty} === 0")

    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert await page.evaluate("document.documentElement.scrollHeight") > 10_000
    await expect(page.get_by_role("navigation", name="Sessions")).to_be_hidden()
    await expect(page.locator(".composer")).to_be_hidden()
    await page.evaluate("dispatchEvent(new Event('afterprint'))")
    await page.emulate_media(media="screen")
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(23, 24, 26)"
