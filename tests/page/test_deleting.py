"""Deleting sessions: undone together, whole in their time, and carried out when the page is left."""

import pytest
from playwright.async_api import expect

from tests.page.conftest import OpenPage
from tests.page.server import Stage
from tests.page.test_manners import heading, three_chats

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


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
    async with page.expect_response(lambda answer: answer.url.endswith("/api/sessions")):
        async with page.expect_response(lambda answer: answer.request.method == "DELETE"):
            await page.clock.run_for(4_000)
        await expect(page.get_by_role("button", name="Undo")).to_have_count(0)
        await page.clock.resume()

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
