"""What a demanding person tries: the back button, a hasty Escape, plain HTTP, no connection, very many sessions."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Page, Route, expect

from nanobot.testing_port import line
from tests.page.conftest import OpenPage, until
from tests.page.server import Play, Stage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

NOW = datetime.now(UTC)
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
    await page.unroute("**/actions.js")
    await page.keyboard.press("Delete")
    await expect(page.get_by_role("link", name="The first chat")).to_have_count(0)


async def test_a_slow_history_is_announced_by_a_word(stage: Stage, visit: OpenPage) -> None:
    three_chats(stage)
    page = await visit()
    go = asyncio.Event()

    async def wait(route: Route) -> None:
        await go.wait()
        await route.continue_()

    await page.route("**/messages?*", wait)
    await page.get_by_role("link", name="The first chat").click()
    await expect(page.get_by_text("Loading…")).to_be_visible()
    go.set()

    await expect(page.locator(".md")).to_have_text("x")
    await expect(page.get_by_text("Loading…")).to_have_count(0)


async def test_what_is_typed_behind_a_shortcut_is_for_what_it_opens(stage: Stage, visit: OpenPage) -> None:
    three_chats(stage)
    page = await visit("#websocket:second")
    go = asyncio.Event()

    async def wait(route: Route) -> None:
        await go.wait()
        await route.continue_()

    await page.route("**/search.js", wait)
    message = page.locator("#message")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("no")
    await page.keyboard.press("Escape")
    await expect(message).to_be_focused()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("the fir")
    go.set()
    search = page.get_by_role("combobox", name="Search all messages")
    await expect(search).to_be_focused()
    await page.keyboard.type("st")

    await expect(search).to_have_value("the first")
    await expect(page.get_by_role("option")).to_have_count(1)
    await expect(message).to_have_value("")


async def test_of_very_many_sessions_the_newest_are_listed_and_the_rest_on_request(
    stage: Stage, visit: OpenPage
) -> None:
    for at in range(230):
        stage.fill(f"websocket:{at}", line("user", f"Chat {at}.", f"{at}", NOW - timedelta(hours=at)))
    page = await visit("#websocket:222")
    rows = page.locator(".rows a")
    await expect(rows).to_have_count(201)
    await expect(rows.last).to_have_attribute("aria-current", "page")
    await page.get_by_role("searchbox", name="Filter sessions").fill("chat 215.")
    await expect(rows).to_have_count(1)
    await page.get_by_role("searchbox", name="Filter sessions").fill("")
    await page.get_by_role("button", name="Show all 230").press("Enter")

    await expect(rows).to_have_count(230)
    await expect(page.get_by_role("link", name="Chat 200.")).to_be_focused()


async def test_enter_in_the_filter_opens_the_first_that_is_left(stage: Stage, visit: OpenPage) -> None:
    three_chats(stage)
    page = await visit("#websocket:first")
    box = page.get_by_role("searchbox", name="Filter sessions")
    await box.press("Enter")
    await heading(page, "The first chat")
    await box.fill("third")
    await box.press("Enter")

    await heading(page, "The third chat")


async def test_of_a_long_text_that_was_pasted_the_beginning_is_shown(stage: Stage, visit: OpenPage) -> None:
    text = "\n".join(f"line {at}" for at in range(400))
    stage.fill("websocket:a", line("user", text, "1"), line("assistant", "Seen.", "1"))
    page = await visit("#websocket:a")
    bubble = page.locator(".bubble")
    await expect(bubble).not_to_contain_text("line 13")
    await page.get_by_role("button", name="Show all").click()

    await expect(bubble).to_contain_text("line 399")
    await expect(page.get_by_role("button", name="Show all")).to_have_count(0)
