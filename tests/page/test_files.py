"""Files on their way into a message: from anywhere, into their own chat, and never left behind."""

import pytest
from playwright.async_api import Route, expect

from nanobot.testing_port import line
from tests.page.conftest import OpenPage, until
from tests.page.server import Stage
from tests.page.test_manners import heading, three_chats

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

FILE = """([kind, place, types]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(9)], 'notes.txt', {type: 'text/plain'}));
  for (const type of types) data.setData(type, 'words');
  const more = {bubbles: true, cancelable: true};
  const event = kind === 'paste' ? new ClipboardEvent('paste', {clipboardData: data, ...more}) : new DragEvent(kind, {dataTransfer: data, ...more});
  return !document.querySelector(place).dispatchEvent(event);
}"""
SLOW_FILES = """
const read = FileReader.prototype.readAsDataURL;
FileReader.prototype.readAsDataURL = function (file) { window.letRead = () => read.call(this, file); };
"""


async def test_what_was_picked_for_one_chat_is_not_sent_in_another(stage: Stage, visit: OpenPage) -> None:
    three_chats(stage)
    page = await visit("#websocket:first")
    await page.evaluate(FILE, ["paste", "textarea", []])
    tile = page.locator(".tiles .file")
    await expect(tile).to_have_text("notes.txt")
    await page.get_by_role("link", name="The second chat").click()
    await heading(page, "The second chat")
    await expect(tile).to_have_count(0)
    await page.get_by_role("link", name="The first chat").click()

    await expect(tile).to_have_text("notes.txt")


async def test_a_file_may_be_dropped_or_pasted_anywhere_and_never_replaces_the_page(
    stage: Stage, visit: OpenPage
) -> None:
    three_chats(stage)
    stage.fill("telegram:t", line("user", "Elsewhere", "t"))
    page = await visit("#websocket:first")
    tiles = page.locator(".tiles li")
    box = page.get_by_role("textbox", name="Message")
    assert await page.evaluate(FILE, ["dragover", ".sidebar", []])
    await expect(box).to_have_attribute("placeholder", "Drop to attach")
    assert await page.evaluate(FILE, ["drop", ".sidebar", []])
    await expect(tiles).to_have_count(1)
    await expect(box).not_to_have_attribute("placeholder", "Drop to attach")
    await page.evaluate(FILE, ["paste", ".scroll", []])
    await expect(tiles).to_have_count(2)
    await page.get_by_role("link", name="Elsewhere").click()
    await expect(page.get_by_role("button", name="Continue here")).to_be_visible()

    assert await page.evaluate(FILE, ["drop", "main", []])


async def test_words_and_cells_are_pasted_as_text_a_picture_as_a_file(stage: Stage, visit: OpenPage) -> None:
    page = await visit()
    tiles = page.locator(".tiles li")
    assert not await page.evaluate(FILE, ["paste", "textarea", ["text/plain", "text/html"]])
    await page.evaluate(FILE, ["paste", "textarea", ["text/html"]])
    await expect(tiles).to_have_count(1)
    assert await page.evaluate(FILE, ["paste", "textarea", ["text/plain"]])  # else its name would be typed

    await expect(tiles).to_have_count(2)


async def test_a_hasty_message_waits_for_its_file(stage: Stage, visit: OpenPage) -> None:
    page = await visit()
    await page.add_init_script(SLOW_FILES)
    await page.reload()
    await page.evaluate(FILE, ["paste", "textarea", []])
    box = page.get_by_role("textbox", name="Message")
    await box.fill("what is in it?")
    await until(page, "window.letRead")
    await box.press("Enter")
    await box.press("Enter")
    await expect(box).to_have_value("what is in it?")
    await page.evaluate("letRead()")
    await page.wait_for_selector("article.turn.done")

    assert [len(one.media) for one in stage.port.accepted] == [1]


async def test_what_is_asked_again_or_edited_keeps_its_files(stage: Stage, visit: OpenPage) -> None:
    page = await visit()
    media = await page.evaluate(
        "fetch('/api/media?name=notes.txt', {method: 'POST', headers: {'Content-Type': 'text/plain'}, body: 'hello'}).then((one) => one.json())"
    )
    said = line("user", "What is in it?", "1")
    stage.fill("websocket:a", said, line("assistant", "A word.", "1"))
    await page.route("**/api/sessions/websocket%3Aa/messages?*", lambda route: _with_media(route, media))
    await page.goto(f"{stage.url}#websocket:a")
    await page.get_by_role("button", name="Ask again").click()
    await page.locator("article.turn.done").nth(1).wait_for()
    assert [one.size for one in stage.port.accepted[0].media] == [5]
    await page.get_by_role("button", name="Edit and send again").first.click()

    await expect(page.get_by_role("textbox", name="Message")).to_have_value("What is in it?")
    await expect(page.locator(".tiles .file")).to_have_text("notes.txt")


async def _with_media(route: Route, media: dict[str, object]) -> None:
    answer = await route.fetch()
    body = await answer.json()
    body["messages"][0]["media"] = [media]
    await route.fulfill(response=answer, json=body)
