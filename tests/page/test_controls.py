"""What surrounds a chat: commands, files, the list of sessions, the theme, a small screen."""

import pytest
from playwright.async_api import expect

from nanobot.events import SessionUpdated
from nanobot.messages import Address, Line
from nanobot.testing_port import line
from tests.page.conftest import OpenPage
from tests.page.server import Stage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PASTE = """([how, size]) => {
  const bytes = Uint8Array.from(atob('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='), (c) => c.charCodeAt(0));
  const files = new DataTransfer();
  files.items.add(new File([bytes, new Uint8Array(size)], 'dot.png', {type: 'image/png'}));
  const more = {bubbles: true, cancelable: true};
  if (how === 'paste') document.querySelector('textarea').dispatchEvent(new ClipboardEvent('paste', {clipboardData: files, ...more}));
  else if (how === 'drop') document.querySelector('.card').dispatchEvent(new DragEvent('drop', {dataTransfer: files, ...more}));
  else { const input = document.querySelector('input[type=file]'); input.files = files.files; input.dispatchEvent(new Event('change', more)); }
}"""


async def test_a_slash_opens_the_commands_and_the_keyboard_picks_one(stage: Stage, visit: OpenPage) -> None:
    page = await visit()
    box = page.get_by_role("textbox", name="Message")
    await box.press_sequentially("/s")
    menu = page.get_by_role("listbox", name="Commands")

    await expect(menu.get_by_role("option")).to_have_text(
        ["/stopStop what runs", "/statusWhat runs and what it cost", "/sessionsList the sessions"]
    )
    await box.press("ArrowDown")
    await expect(menu.get_by_role("option", selected=True)).to_contain_text("/status")
    assert await box.get_attribute("aria-activedescendant") == "command-1"
    await box.press("Enter")
    await expect(box).to_have_value("/status ")
    await box.fill("/s")
    await box.press("Escape")
    await expect(menu).to_have_count(0)
    await box.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    await expect(box).to_have_value("/s")
    assert stage.port.accepted == []


@pytest.mark.parametrize("how", ["paste", "drop", "pick"])
async def test_an_image_is_shown_sent_and_kept_however_it_comes(
    stage: Stage, visit: OpenPage, how: str
) -> None:
    page = await visit()
    await page.evaluate(PASTE, [how, 7_000_000])
    await expect(page.get_by_role("alert")).to_contain_text("at most 6 MB")
    await expect(page.get_by_role("img", name="Image to send")).to_have_count(0)
    await page.evaluate(PASTE, [how, 0])
    await expect(page.get_by_role("img", name="Image to send")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)
    await page.get_by_role("button", name="Remove image").click()
    await expect(page.get_by_role("img", name="Image to send")).to_have_count(0)
    await page.evaluate(PASTE, [how, 0])
    await page.get_by_role("textbox", name="Message").fill("what is this?")
    await page.get_by_role("button", name="Send", exact=True).click()

    await expect(page.get_by_role("article", name="You said").get_by_role("img")).to_be_visible()
    await expect(page.get_by_role("img", name="Image to send")).to_have_count(0)
    await page.wait_for_selector("article.turn.done")
    assert [one.mime for one in stage.port.accepted[0].media] == ["image/png"]


async def test_a_deleted_session_comes_back_with_undo_and_is_gone_without(
    stage: Stage, visit: OpenPage
) -> None:
    stage.fill("websocket:a", line("user", "Keep me", "1"))
    stage.fill("telegram:b", line("user", "Drop me", "2"))
    page = await visit()
    rows = page.get_by_role("navigation").get_by_role("link")
    await expect(rows).to_have_count(2)
    await expect(rows.filter(has_text="Drop me")).to_contain_text("Telegram")
    await rows.filter(has_text="Keep me").focus()
    await page.keyboard.press("Delete")
    await expect(rows).to_have_count(1)
    await page.get_by_role("button", name="Undo").click()
    await expect(rows).to_have_count(2)
    await page.clock.install()
    await page.get_by_role("button", name="More about Drop me").click()
    await page.get_by_role("menuitem", name="Delete").click()
    async with page.expect_response(lambda answer: answer.request.method == "DELETE"):
        await page.clock.run_for(9_000)

    await expect(rows).to_have_text(["Keep me"])
    assert list(stage.port.sessions.lines) == ["websocket:a"]


async def test_sessions_of_every_channel_are_listed_and_read(stage: Stage, visit: OpenPage) -> None:
    names = {"slack": "Slack", "telegram": "Telegram", "cli": "Terminal", "matrix": "matrix", "websocket": ""}
    for channel in names:
        stage.fill(f"{channel}:b", line("user", f"On {channel}", "2"), line("assistant", "I **will**.", "2"))
    page = await visit()
    links = page.get_by_role("navigation", name="Sessions").get_by_role("link")
    await expect(links).to_have_count(len(names))
    for channel, name in names.items():
        await expect(links.filter(has_text=f"On {channel}")).to_have_text(f"On {channel}{name}")
    link = links.filter(has_text="On telegram")
    await link.click()

    await expect(page.locator(".md strong")).to_have_text("will")
    await expect(link).to_have_attribute("aria-current", "page")
    await expect(page.locator("[aria-current=page]")).to_have_count(1)
    await expect(page.get_by_role("textbox", name="Message")).to_have_count(0)
    await expect(page.get_by_role("button", name="Continue here")).to_be_visible()


async def test_another_channels_turn_is_followed_while_it_runs(stage: Stage, visit: OpenPage) -> None:
    def step(number: int, name: str) -> Line:
        asked = line("assistant", "", "2")
        function = {"name": name, "arguments": "{}"}
        asked["tool_calls"] = [{"id": f"c{number}", "type": "function", "function": function}]
        return asked

    place = Address("telegram", "b")
    stage.fill("telegram:b", line("user", "Look around", "2"), step(1, "list_dir"))
    stage.port.sessions.running.add("telegram:b")
    page = await visit("#telegram:b")
    await expect(page.get_by_role("button", name="list_dir")).to_be_visible()
    result = line("tool", "nothing", "2")
    result["tool_call_id"] = "c1"
    stage.fill("telegram:b", result, step(2, "read_file"))
    await expect(page.get_by_role("button", name="read_file")).to_be_visible()
    await expect(page.locator("article.turn")).to_have_attribute("aria-busy", "true")
    stage.port.sessions.running.clear()
    stage.fill("telegram:b", line("assistant", "There is nothing.", "2"))
    stage.channel.show(SessionUpdated("telegram:b", "2", place))

    await expect(page.locator("article.turn.done .md")).to_have_text("There is nothing.")
    await expect(page.locator("article")).to_have_count(2)


async def test_the_theme_follows_the_system_until_it_is_chosen(visit: OpenPage) -> None:
    page = await visit(color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    assert await page.evaluate(colour) == "rgb(23, 24, 26)"
    await page.get_by_role("button", name="System theme; change").click()
    assert await page.evaluate(colour) == "rgb(255, 255, 255)"
    await page.reload()
    await expect(page.get_by_role("button", name="Light theme; change")).to_be_visible()
    assert await page.evaluate(colour) == "rgb(255, 255, 255)"


async def test_a_draft_survives_a_reload_and_belongs_to_its_chat(stage: Stage, visit: OpenPage) -> None:
    stage.fill("websocket:a", line("user", "Another chat", "1"))
    page = await visit()
    box = page.get_by_role("textbox", name="Message")
    await box.fill("half a thought")
    await page.reload()
    await expect(box).to_have_value("half a thought")
    await page.get_by_role("link", name="Another chat").click()
    await expect(box).to_have_value("")


async def test_on_a_phone_the_sessions_are_a_drawer(stage: Stage, visit: OpenPage) -> None:
    stage.fill("websocket:a", line("user", "Another chat", "1"), line("assistant", "x" * 400, "1"))
    page = await visit("#websocket:a", is_mobile=True, has_touch=True)
    await page.set_viewport_size({"width": 390, "height": 844})
    link = page.get_by_role("link", name="Another chat")
    await expect(link).to_be_hidden()
    assert await page.evaluate("document.documentElement.scrollWidth") == 390
    opener = page.get_by_role("button", name="Sessions", exact=True)
    await opener.click()
    await expect(link).to_be_visible()
    await page.wait_for_function(
        "document.querySelector('main').inert && document.activeElement.closest('nav')"
    )
    for _ in range(12):
        await page.keyboard.press("Tab")
        assert await page.evaluate("!!document.activeElement.closest('nav')")
    await page.keyboard.press("Escape")
    await expect(link).to_be_hidden()
    await expect(opener).to_be_focused()
