"""What a demanding person tries: the back button, files from anywhere, a hasty Escape, plain HTTP, two deletions."""

import asyncio

import pytest
from playwright.async_api import Page, expect

from nanobot.testing_port import line
from tests.page.conftest import OpenPage, until
from tests.page.server import Play, Stage

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
NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', {value: undefined});"
FOCUS = "document.activeElement === document.body ? 'body' : document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"


def three_chats(stage: Stage) -> None:
    for name in ("first", "second", "third"):
        stage.fill(f"websocket:{name}", line("user", f"The {name} chat", name), line("assistant", "x", name))


async def heading(page: Page, name: str) -> None:
    await expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()


async def test_the_back_button_leads_back_through_every_chat(stage: Stage, visit: OpenPage) -> None:
    three_chats(stage)
    page = await visit()
    await page.get_by_role("link", name="The first chat").click()
    await page.get_by_role("link", name="The second chat").click()
    await page.get_by_role("button", name="New chat").click()
    await heading(page, "New chat")
    await page.go_back()
    await heading(page, "The second chat")
    await page.go_back()
    await heading(page, "The first chat")
    await page.go_back()
    await heading(page, "New chat")
    await expect(page.get_by_text("What shall we do?")).to_be_visible()
    await page.go_forward()
    await heading(page, "The first chat")


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


async def test_two_deletions_are_taken_back_together_also_by_key(stage: Stage, visit: OpenPage) -> None:
    three_chats(stage)
    page = await visit("#websocket:second")
    rows = page.get_by_role("navigation", name="Sessions").get_by_role("link")
    for name in ("first", "second"):
        await page.get_by_role("link", name=f"The {name} chat").focus()
        await page.keyboard.press("Delete")
    await expect(page.get_by_text("Deleted 2 chats")).to_be_visible()
    await expect(rows).to_have_count(1)
    await heading(page, "New chat")
    await page.get_by_role("button", name="Undo").click()
    await expect(rows).to_have_count(3)
    await heading(page, "The second chat")
    await page.get_by_role("link", name="The third chat").focus()
    await page.keyboard.press("Delete")
    await expect(rows).to_have_count(2)
    await page.keyboard.press("Control+z")
    await expect(rows).to_have_count(3)

    assert len(stage.port.sessions.lines) == 3


async def test_a_later_deletion_keeps_its_whole_time_and_a_deleted_row_never_comes_back(
    stage: Stage, visit: OpenPage
) -> None:
    three_chats(stage)
    page = await visit()
    rows = page.get_by_role("navigation", name="Sessions").get_by_role("link")
    await expect(rows).to_have_count(3)
    await page.clock.install()
    await page.evaluate("""() => {
      window.counts = [];
      new MutationObserver(() => counts.push(document.querySelectorAll('.rows a').length)).observe(document.querySelector('.rows'), {childList: true, subtree: true});
    }""")
    for name in ("first", "second"):
        await page.get_by_role("link", name=f"The {name} chat").focus()
        await page.keyboard.press("Delete")
        await expect(page.get_by_role("link", name=f"The {name} chat")).to_have_count(0)
        await page.clock.run_for(5_000)
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()
    async with page.expect_response(lambda answer: answer.request.method == "DELETE"):
        await page.clock.run_for(4_000)
    await expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    async with page.expect_response(lambda answer: answer.url.endswith("/api/sessions")):
        await page.clock.run_for(1_000)

    await expect(rows).to_have_text(["The third chat"])
    counts = await page.evaluate("counts")
    assert counts == sorted(counts, reverse=True)
    assert list(stage.port.sessions.lines) == ["websocket:third"]


async def test_who_leaves_the_page_meant_the_deletion(stage: Stage, visit: OpenPage) -> None:
    three_chats(stage)
    page = await visit()
    await page.get_by_role("link", name="The first chat").focus()
    await page.keyboard.press("Delete")
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()
    other = await visit("#websocket:second")
    await expect(other.get_by_role("link", name="The first chat")).to_be_visible()
    await page.reload()

    await expect(other.get_by_role("link", name="The first chat")).to_have_count(0)
    assert "websocket:first" not in stage.port.sessions.lines


@pytest.mark.parametrize("panel", ["Keys", "Search all messages"])
async def test_two_quick_escapes_close_two_things_and_stop_nothing(
    stage: Stage, visit: OpenPage, panel: str
) -> None:
    go = asyncio.Event()

    async def script(play: Play) -> None:
        await play.say("Working on it.")
        await go.wait()

    stage.scripts["hold"] = script
    page = await visit(viewport={"width": 390, "height": 844})
    box = page.get_by_role("textbox", name="Message")
    await box.fill("hold")
    await box.press("Enter")
    await expect(page.locator(".md")).to_have_text("Working on it.")
    opener = page.get_by_role("button", name="Sessions", exact=True)
    drawer, dialog = page.get_by_role("navigation", name="Sessions"), page.get_by_role("dialog")
    for presses, open_drawers in ((1, 1), (2, 0)):
        await opener.click()
        await page.get_by_role("button", name=panel).click()
        await expect(dialog).to_be_visible()
        await asyncio.gather(*[page.keyboard.press("Escape") for _ in range(presses)])
        await expect(dialog).to_have_count(0)
        await expect(drawer).to_have_count(open_drawers)
        if open_drawers:
            await until(page, f"({FOCUS}).includes({panel!r})")
            await page.keyboard.press("Escape")
        await expect(opener).to_be_focused()
    await expect(page.get_by_role("button", name="Stop")).to_be_enabled()
    go.set()


async def test_copying_without_a_secure_context_keeps_the_focus_and_never_lies(
    stage: Stage, visit: OpenPage
) -> None:
    stage.fill("websocket:a", line("user", "Show me", "1"), line("assistant", "```\nx = 1\n```", "1"))
    page = await visit("#websocket:a")
    await page.add_init_script(
        NO_CLIPBOARD + "addEventListener('copy', () => (window.copied = getSelection().toString()));"
    )
    await page.reload()
    button = page.get_by_role("button", name="Copy code")
    await button.focus()
    await page.keyboard.press("Enter")
    await until(page, "window.copied === 'x = 1'")
    await expect(page.get_by_role("button", name="Copied")).to_be_focused()
    await expect(page.locator(".unseen[role=status]")).to_have_text("Copied")
    await page.evaluate("document.execCommand = () => false")
    message = page.get_by_role("button", name="Copy message").last
    await message.focus()
    await page.keyboard.press("Enter")

    await expect(page.get_by_role("alert")).to_contain_text("does not let this page copy")
    await expect(message).to_be_focused()


async def test_stop_without_a_connection_is_kept_until_there_is_one(stage: Stage, visit: OpenPage) -> None:
    go = asyncio.Event()

    async def script(play: Play) -> None:
        await play.say("Working on it.")
        await go.wait()

    stage.scripts["hold"] = script
    page = await visit()
    box = page.get_by_role("textbox", name="Message")
    await box.fill("hold")
    await box.press("Enter")
    await expect(page.locator(".md")).to_have_text("Working on it.")
    await stage.stop()
    await expect(page.get_by_text("Reconnecting…")).to_be_visible()
    stop = page.get_by_role("button", name="Stop")
    await stop.click()
    await expect(stop).to_be_disabled()
    await stage.start()

    await expect(page.locator("article.turn")).to_contain_text("Stopped")
    await expect(stop).to_have_count(0)


async def test_a_browser_that_forbids_notifications_is_named(visit: OpenPage) -> None:
    page = await visit()
    await page.evaluate("Notification.requestPermission = async () => 'denied'")
    bell = page.get_by_role("button", name="Notify me when a turn ends unseen")
    await bell.click()

    await expect(page.get_by_role("status").get_by_text("does not let this page notify")).to_be_visible()
    await expect(bell).to_have_attribute("aria-pressed", "false")


async def test_an_action_that_cannot_be_loaded_says_so(stage: Stage, visit: OpenPage) -> None:
    three_chats(stage)
    page = await visit()
    await page.route("**/actions.js", lambda route: route.abort())
    await page.get_by_role("link", name="The first chat").focus()
    await page.keyboard.press("Delete")

    await expect(page.get_by_role("alert")).to_contain_text("could not be loaded")
    await expect(page.get_by_role("link", name="The first chat")).to_be_visible()


async def test_a_slow_history_is_announced_by_a_word(stage: Stage, visit: OpenPage) -> None:
    three_chats(stage)
    page = await visit()
    go = asyncio.Event()

    async def wait(route: object) -> None:
        await go.wait()
        await route.continue_()  # type: ignore[attr-defined]

    await page.route("**/messages?*", wait)
    await page.get_by_role("link", name="The first chat").click()
    await expect(page.get_by_text("Loading…")).to_be_visible()
    go.set()

    await expect(page.locator(".md")).to_have_text("x")
    await expect(page.get_by_text("Loading…")).to_have_count(0)
