"""What goes wrong around a page: hostile words in every place, files of all kinds, other tabs, other tokens, odd clocks."""

import pytest
from playwright.async_api import Page, expect

from nanobot.channel import About, Applicant, Command, DeadLetter
from nanobot.testing_port import line
from tests.page.conftest import OpenPage, until
from tests.page.server import Play, Stage
from tests.page.test_safety import PAYLOADS

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HOSTILE = PAYLOADS[1] + PAYLOADS[2] + " photo\u202egpj.exe " + PAYLOADS[7]


async def send(page: Page, text: str) -> None:
    box = page.get_by_role("textbox", name="Message")
    await box.fill(text)
    await box.press("Enter")


async def harmless(page: Page, allowed: str) -> None:
    assert await page.evaluate("window.__xss") is None
    assert (
        await page.evaluate(
            "document.querySelectorAll('#app :is(script, iframe, form:not(dialog form), base, object, img)').length"
        )
        == 0
    )
    away = "performance.getEntriesByType('resource').map((one) => one.name)"
    assert [url for url in await page.evaluate(away) if not url.startswith(allowed)] == []


async def test_hostile_words_do_nothing_in_any_place(
    stage: Stage, visit: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(play: Play) -> None:
        play.show_goal({"status": HOSTILE, "objective": HOSTILE, "ui_summary": HOSTILE, "reason": HOSTILE, "checks": [HOSTILE],
                        "recap": HOSTILE, "refusals": [HOSTILE], "started_at": HOSTILE, "budget": {"turns": 1}, "spent": {"turns": 0}})  # fmt: skip
        await play.think(HOSTILE)
        edit = {"path": HOSTILE, "old_text": HOSTILE, "new_text": HOSTILE + "\nmore"}
        await play.tool("edit_file", edit, HOSTILE)
        await play.tool(HOSTILE, {HOSTILE: HOSTILE}, HOSTILE, error=True)
        await play.say(HOSTILE)

    monkeypatch.setattr(stage.port, "commands", lambda: [Command("evil", "/evil", HOSTILE)])
    stage.scripts["go"] = script
    stage.port.office.people = [
        Applicant(HOSTILE, HOSTILE, HOSTILE, HOSTILE, "pending", *[stage.port.clock.now()] * 2)
    ]
    stage.port.office.letters = [DeadLetter(1, HOSTILE, HOSTILE, HOSTILE, "dead", stage.port.clock.now())]
    stage.fill("websocket:a", line("user", f"findme {HOSTILE}", "1"), line("assistant", "x", "1"))
    stage.port.sessions.titles["websocket:a"] = HOSTILE
    stage.port.sessions.abouts["websocket:a"] = About(HOSTILE, 10, 5, parent="sub:evil", parent_title=HOSTILE)
    page = await visit("#websocket:a")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    await send(page, "go")
    await page.wait_for_selector("article.turn.done:nth-of-type(2), article.turn.done ~ article.turn.done")
    await page.get_by_role("button", name="Worked through 2 steps").click()
    for call in await page.locator("button.call").all():
        await call.click()
    await page.get_by_role("region", name="Goal").get_by_role("button").click()
    await expect(page.get_by_role("dialog", name="Goal")).to_contain_text("onerror")
    await harmless(page, stage.url)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.get_by_role("button", name="2 things wait for you").click()
    await expect(page.get_by_role("dialog", name="For the owner")).to_contain_text("onerror")
    await harmless(page, stage.url)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Search all messages").fill("findme")
    await expect(page.get_by_role("option").first).to_contain_text("onerror")
    await harmless(page, stage.url)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.get_by_role("textbox", name="Message").fill("/e")
    await expect(page.get_by_role("listbox", name="Commands")).to_contain_text("onerror")
    await harmless(page, stage.url)
    assert dialogs == []
    assert "\u202e" not in await page.evaluate("document.body.innerText")


FILES = """([kind, name, size]) => {
  const files = new DataTransfer();
  files.items.add(new File([new Uint8Array(size)], name, {type: 'text/plain'}));
  if (kind === 'drop') document.querySelector('.card').dispatchEvent(new DragEvent('drop', {dataTransfer: files, bubbles: true, cancelable: true}));
  else { const input = document.querySelector('input[type=file]'); input.files = files.files; input.dispatchEvent(new Event('change', {bubbles: true})); }
}"""


@pytest.mark.parametrize("kind", ["drop", "pick"])
async def test_files_come_by_drop_and_by_the_picker(stage: Stage, visit: OpenPage, kind: str) -> None:
    page = await visit()
    await page.evaluate(FILES, [kind, "huge.txt", 6_500_000])
    await expect(page.get_by_role("alert")).to_contain_text("6 MB")
    await page.evaluate(FILES, [kind, "none.txt", 0])
    await expect(page.get_by_role("alert")).to_contain_text("empty")
    await page.evaluate(FILES, [kind, "evil\u202etxt.exe", 9])
    await expect(page.locator(".tiles .file")).to_have_text("eviltxt.exe")
    await page.get_by_role("button", name="Send", exact=True).click()

    await page.wait_for_selector("article.turn.done")
    await expect(page.get_by_role("article", name="You said").locator(".file")).to_have_count(1)
    assert [one.size for one in stage.port.accepted[0].media] == [9]


async def test_a_chat_deleted_in_another_window_is_left(stage: Stage, visit: OpenPage) -> None:
    stage.fill("websocket:a", line("user", "Soon gone", "1"))
    first = await visit("#websocket:a")
    await expect(first.get_by_role("link", name="Soon gone")).to_be_visible()
    second = await visit()
    answer = await second.evaluate(
        "fetch('/api/sessions/websocket:a', {method: 'DELETE'}).then((one) => one.status)"
    )

    assert answer == 200
    await expect(first.get_by_text("This chat was deleted in another window.")).to_be_visible()
    await expect(first.get_by_role("link", name="Soon gone")).to_have_count(0)
    await expect(second.get_by_role("link", name="Soon gone")).to_have_count(0)
    await send(first, "and on we go")
    await expect(first.locator("article.turn.done")).to_contain_text("You said: and on we go")


async def test_a_token_that_is_no_longer_valid_asks_for_another_and_nothing_is_lost(
    stage: Stage, visit: OpenPage
) -> None:
    page = await visit()
    await send(page, "before")
    await page.wait_for_selector("article.turn.done")
    await stage.stop()
    await send(page, "in between")
    stage.port.settings = {"token": "new-secret"}
    await stage.start()
    dialog = page.get_by_role("dialog", name="Sign in")
    await expect(dialog).to_be_visible(timeout=10_000)
    await dialog.get_by_label("Token").fill("new-secret")
    await dialog.get_by_role("button", name="Sign in").click()

    await expect(page.locator("article.turn.done")).to_have_count(2, timeout=10_000)
    assert [one.text for one in stage.port.accepted] == ["before", "in between"]


async def test_a_clock_that_jumps_changes_no_order_and_no_sign(stage: Stage, visit: OpenPage) -> None:
    async def script(play: Play) -> None:
        play.goal("Count")
        await play.say("Counting.")

    stage.scripts["count"] = script
    page = await visit()
    await page.evaluate("const now = Date.now; Date.now = () => now() - 7200000")
    await send(page, "count")
    await page.wait_for_selector("article.turn.done")
    await expect(page.get_by_role("region", name="Goal").locator("time")).to_have_text("0:00:00")
    await page.evaluate("const then = Date.now; Date.now = () => then() + 90000000")
    await send(page, "again")
    await until(page, "document.querySelectorAll('article.turn.done').length === 2")

    heads = [text.split("\n")[0] for text in await page.locator("article").all_inner_texts()]
    assert heads[::2] == ["count", "again"]


async def test_a_draft_outlives_a_restart_of_the_server(stage: Stage, visit: OpenPage) -> None:
    stage.fill("websocket:a", line("user", "Here", "1"))
    page = await visit("#websocket:a")
    await page.get_by_role("textbox", name="Message").fill("half a thought")
    await stage.restart()
    await page.reload()

    await expect(page.get_by_role("textbox", name="Message")).to_have_value("half a thought")
