"""What a person does beside chatting: find, rename, copy, export, steer a goal, decide as the owner."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Page, expect

from nanobot.channel import About, Applicant, DeadLetter
from nanobot.events import Usage
from nanobot.testing_port import line
from tests.page.conftest import OpenPage, until
from tests.page.server import Play, Stage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

NOW = datetime.now(UTC)
CHILD = "8e7f437b-5bcc-5e4c-a610-8ff38efcc7cc"


async def send(page: Page, text: str) -> None:
    box = page.get_by_role("textbox", name="Message")
    await box.fill(text)
    await box.press("Enter")


async def test_search_finds_a_message_far_up_and_goes_to_it(stage: Stage, visit: OpenPage) -> None:
    for number in range(2_500):
        text = "the hidden lighthouse" if number == 37 else f"answer {number}"
        stage.fill(
            "websocket:long",
            line("user", f"question {number}", f"q{number}"),
            line("assistant", text, f"q{number}"),
        )
    page = await visit()
    await page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Search all messages")
    await expect(box).to_be_focused()
    await box.fill("hidden lighthouse")
    hit = page.get_by_role("listbox", name="Messages found").get_by_role("option")
    await expect(hit).to_have_count(1)
    await expect(hit.locator("mark")).to_have_text(["hidden", "lighthouse"])
    await box.press("Enter")
    target = page.locator("article.found")

    await expect(target).to_contain_text("the hidden lighthouse")
    await expect(target).to_be_in_viewport()
    await expect(target).to_be_focused()
    await expect(page.get_by_text("answer 2499")).to_have_count(0)
    await page.get_by_role("button", name="Jump to latest").click()
    await expect(page.get_by_text("answer 2499")).to_be_in_viewport()


async def test_a_session_gets_a_name_with_f2_that_stays(stage: Stage, visit: OpenPage) -> None:
    stage.fill("websocket:a", line("user", "Old words", "1"))
    page = await visit("#websocket:a")
    await page.get_by_role("link", name="Old words").focus()
    await page.keyboard.press("F2")
    box = page.get_by_role("textbox", name="Name of the session")
    await expect(box).to_be_focused()
    await box.fill("Quarterly figures")
    await box.press("Enter")

    await expect(page.get_by_role("heading", name="Quarterly figures")).to_be_visible()
    await expect(page.get_by_role("link", name="Quarterly figures")).to_be_focused()
    await page.reload()
    link = page.get_by_role("link", name="Quarterly figures")
    await link.focus()
    await page.keyboard.press("F2")
    await box.fill("something else")
    await box.press("Escape")
    await expect(link).to_be_visible()
    assert stage.port.sessions.titles == {"websocket:a": "Quarterly figures"}


async def test_another_channels_session_goes_on_here_in_a_copy(stage: Stage, visit: OpenPage) -> None:
    stage.fill("telegram:b", line("user", "Remind me", "2"), line("assistant", "I will.", "2"))
    page = await visit("#telegram:b")
    await page.get_by_role("button", name="Continue here").click()
    await expect(page.locator(".md")).to_have_text("I will.")
    await send(page, "thanks")
    await expect(page.locator("article.turn.done").nth(1)).to_contain_text("You said: thanks")

    assert len(stage.port.sessions.lines["telegram:b"]) == 2
    key = f"websocket:{stage.port.accepted[0].chat_id}"
    assert len(stage.port.sessions.lines[key]) == 4


async def test_a_message_is_edited_in_a_copy_and_an_answer_is_asked_for_again(
    stage: Stage, visit: OpenPage
) -> None:
    for number in (1, 2):
        stage.fill(
            "websocket:a",
            line("user", f"question {number}", f"q{number}"),
            line("assistant", f"answer {number}", f"q{number}"),
        )
    page = await visit("#websocket:a")
    await page.get_by_role("button", name="Ask again").nth(1).click()
    await expect(page.locator("article.turn.done").nth(2)).to_contain_text("You said: question 2")
    await (
        page.get_by_role("article", name="You said")
        .nth(1)
        .get_by_role("button", name="Edit and send again")
        .click()
    )
    box = page.get_by_role("textbox", name="Message")
    await expect(box).to_have_value("question 2")
    await expect(page.locator("article")).to_have_count(2)
    await box.fill("question two")
    await box.press("Enter")

    await expect(page.locator("article.turn.done").nth(1)).to_contain_text("You said: question two")
    await page.go_back()
    await expect(page.locator("article")).to_have_count(6)
    await (
        page.locator("article.turn").first.get_by_role("button", name="Continue in a copy from here").click()
    )
    await expect(page.locator("article")).to_have_count(2)


async def test_a_session_is_exported_as_a_file(stage: Stage, visit: OpenPage) -> None:
    stage.fill("websocket:a", line("user", "Keep me", "1"))
    page = await visit("#websocket:a")
    await page.get_by_role("button", name="More about Keep me").click()
    async with page.expect_download() as waiting:
        await page.get_by_role("menuitem", name="Export").click()
    download = await waiting.value

    assert download.suggested_filename == "websocket-a.jsonl"
    assert json.loads((await download.path()).read_text())["content"] == "Keep me"


async def test_a_goal_is_shown_in_full_and_steered_by_its_buttons(stage: Stage, visit: OpenPage) -> None:
    async def script(play: Play) -> None:
        play.goal("Make every test of the limits pass")
        await play.say("On it.")

    async def command(play: Play) -> None:
        if play.words == "pause":
            play.goal("Make every test of the limits pass", "paused")
        await play.say("Noted.")

    stage.scripts.update({"start": script, "/goal": command})
    page = await visit()
    await expect(page.get_by_role("region", name="Goal")).to_have_count(0)
    await send(page, "start")
    strip = page.get_by_role("region", name="Goal")
    clock = strip.locator("time")
    await expect(clock).to_have_text("0:12:35")
    width = await clock.evaluate("(one) => one.getBoundingClientRect().width")
    await expect(clock).to_have_text("0:12:36")
    assert await clock.evaluate("(one) => one.getBoundingClientRect().width") == width
    await stage.restart()
    await page.reload()
    await expect(strip).to_contain_text("Active")
    shown = await clock.inner_text()
    await expect(clock).not_to_have_text(shown)
    assert await clock.inner_text() > shown
    assert await clock.evaluate("(one) => one.getBoundingClientRect().width") == width
    await strip.get_by_role("button").click()
    sheet = page.get_by_role("dialog", name="Goal")
    await expect(sheet).to_contain_text("Make every test of the limits pass")
    await sheet.get_by_role("button", name="Pause").click()

    await expect(strip).to_contain_text("Paused")
    assert [one.text for one in stage.port.accepted] == ["start", "/goal pause"]
    await page.reload()
    await expect(strip).to_contain_text("Paused")
    await strip.get_by_role("button").click()
    await sheet.get_by_role("button", name="Edit").click()
    await sheet.get_by_role("textbox", name="Objective").fill("Only the fast ones")
    await sheet.get_by_role("button", name="Save").click()
    await expect(sheet).to_be_hidden()
    await until(page, "document.querySelectorAll('article.turn.done').length === 3")
    assert stage.port.accepted[-1].text == "/goal edit Only the fast ones"


async def test_the_owner_lets_people_in_and_sends_dead_letters_again(stage: Stage, visit: OpenPage) -> None:
    office = stage.port.office
    office.people = [
        Applicant("telegram", "77", "<b>Ann</b>", "ABCD2345", "pending", NOW, NOW + timedelta(minutes=9))
    ]
    office.letters = [DeadLetter(3, "telegram:1", "The report", "blocked by the user", "dead", NOW)]
    page = await visit()
    await page.get_by_role("button", name="2 things wait for you").click()
    desk = page.get_by_role("dialog", name="For the owner")
    await desk.get_by_role("button", name="Let <b>Ann</b> in").click()
    await expect(desk.get_by_role("button", name="Revoke <b>Ann</b>")).to_be_visible()
    await desk.get_by_role("button", name="Send reply 3 again").click()
    await expect(desk).to_contain_text("None.")
    await page.keyboard.press("Escape")

    await expect(desk).to_be_hidden()
    await expect(page.get_by_role("button", name="things wait for you")).to_have_count(0)
    assert (office.people[0].status, office.resent) == ("approved", [3])


async def test_the_status_names_the_model_how_full_its_context_is_and_what_it_cost(
    stage: Stage, visit: OpenPage
) -> None:
    stage.port.sessions.abouts["websocket:a"] = About(
        "openai/gpt-5.5", 200_000, 50_000, spent=Usage(12_345, 67)
    )
    stage.fill("websocket:a", line("user", "hello", "1"))
    answer = line("assistant", "hi", "1")
    answer["usage"] = {"input": 12_345, "output": 67, "total": 12_412}
    stage.fill("websocket:a", answer)
    page = await visit("#websocket:a")

    status = page.locator(".composer .model")
    await expect(status).to_have_text("gpt-5.5 · 25 % · 12k tokens")
    stage.port.sessions.abouts["websocket:a"] = About(
        "openai/gpt-5.5", 200_000, 50_000, spent=Usage(12_345, 67), dollars=0.0161
    )
    await send(page, "and what does it cost?")
    await expect(status).to_have_text("gpt-5.5 · 25 % · $0.016")
    await expect(page.locator("article.turn .cost").first).to_have_text("12k in · 67 out")


async def test_a_message_tells_how_far_it_got(stage: Stage, visit: OpenPage) -> None:
    go = asyncio.Event()

    async def script(play: Play) -> None:
        await go.wait()

    stage.scripts["hold"] = script
    page = await visit()
    await send(page, "hold")
    said = page.get_by_role("article", name="You said")
    await expect(said.first).to_contain_text("Being answered")
    await send(page, "and another")
    await expect(said.nth(1)).to_contain_text("Waiting for its turn")
    go.set()

    await expect(said.nth(1).locator(".stage.done")).to_have_count(1)
    await expect(said.first.locator(".stage.done")).to_have_count(1)


async def test_a_sub_session_is_reached_from_its_step_and_leads_back(stage: Stage, visit: OpenPage) -> None:
    async def script(play: Play) -> None:
        await play.tool(
            "delegate",
            {"task": "read the log"},
            json.dumps({"success": True, "session_id": CHILD, "status": "completed"}),
        )
        await play.say("It is fine.")

    stage.scripts["ask"] = script
    page = await visit()
    await send(page, "ask somebody")
    await page.get_by_role("button", name="Worked through 1 step").click()
    key = f"websocket:{stage.port.accepted[0].chat_id}"
    stage.fill(f"sub:{CHILD}", line("user", "read the log", "s1"), line("assistant", "Nothing odd.", "s1"))
    stage.port.sessions.abouts[f"sub:{CHILD}"] = About(parent=key, parent_title="ask somebody")
    await page.get_by_role("link", name="Open the sub-session").click()

    await expect(page.locator(".md")).to_have_text("Nothing odd.")
    await expect(page.get_by_role("textbox", name="Message")).to_have_count(0)
    crumb = page.get_by_role("navigation", name="Where this comes from")
    await crumb.get_by_role("link", name="ask somebody").click()
    await expect(page.locator(".md")).to_have_text("It is fine.")


async def test_what_an_outside_agent_did_is_shown_step_by_step(stage: Stage, visit: OpenPage) -> None:
    key = f"sub:{CHILD}"
    stage.fill(key, line("user", "mend it", "s1"), line("assistant", "Mended.", "s1"))
    stage.port.sessions.abouts[key] = About("executor/codex", parent="websocket:a", parent_title="Chat")
    details = [
        {"kind": "thinking", "text": "Where is it? <img src=x onerror=alert(1)>"},
        {
            "kind": "command",
            "id": "1",
            "text": "make test",
            "output": "2 failed\n7 passed",
            "state": "failed",
        },
        {"kind": "files", "id": "2", "changes": [{"path": "a.py", "kind": "update"}]},
        {"kind": "message", "text": "Mended."},
    ]
    stage.port.tasks.rows["websocket:a"] = [{"id": CHILD, "details": details}]
    page = await visit(f"#{key}")
    await page.get_by_role("button", name="Its steps").click()
    steps = page.get_by_role("dialog", name="Steps").locator(".step")

    await expect(steps).to_have_count(4)
    await expect(steps.nth(0)).to_contain_text("Where is it? <img")
    await expect(steps.nth(1)).to_contain_text("commandmake testfailed")
    await steps.nth(1).get_by_role("button").click()
    await expect(steps.nth(1).get_by_role("region")).to_contain_text("7 passed")
    await expect(steps.nth(2)).to_contain_text("filesupdate a.pydone")


async def test_an_edit_shows_what_changed(stage: Stage, visit: OpenPage) -> None:
    async def script(play: Play) -> None:
        edit = {
            "path": "a.py",
            "old_text": "def f():\n    return 1\n",
            "new_text": "def f():\n    return 2\n    # two\n",
        }
        await play.tool("edit_file", edit, "edited a.py")
        await play.say("Done.")

    stage.scripts["edit"] = script
    page = await visit()
    await send(page, "edit")
    await page.get_by_role("button", name="Worked through 1 step").click()
    step = page.locator(".step")
    await expect(step.locator(".counts")).to_have_text("+2 −1")
    await step.get_by_role("button").click()

    change = page.get_by_role("region", name="edit_file: what changed")
    await expect(change.locator(".minus")).to_have_text("-     return 1")
    await expect(change.locator(".plus")).to_have_count(2)


async def test_a_new_conversation_leaves_nothing_of_the_old_one_on_the_screen(
    stage: Stage, visit: OpenPage
) -> None:
    async def script(play: Play) -> None:
        own = play.lines[-1]
        play.lines.clear()
        play.lines.append(own)
        play.begin_anew()
        await play.say("A new conversation.")

    stage.scripts["/new"] = script
    page = await visit()
    await send(page, "an old thing")
    await page.wait_for_selector("article.turn.done")
    await send(page, "/new")

    await expect(page.get_by_text("A new conversation.")).to_be_visible()
    await expect(page.locator(".bubble")).to_have_text(["/new"])
    await expect(page.locator("article")).to_have_count(2)


async def test_the_keys_work_without_a_mouse(stage: Stage, visit: OpenPage) -> None:
    stage.fill("websocket:a", line("user", "First chat", "1"))
    stage.fill("websocket:b", line("user", "Second chat", "2"))
    page = await visit("#websocket:b")
    await expect(page.get_by_role("link", name="First chat")).to_be_visible()
    await page.keyboard.press("Alt+ArrowDown")
    await expect(page.get_by_role("heading", name="First chat")).to_be_visible()
    await page.locator(".scroll").focus()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Search all messages")
    await page.keyboard.press("Escape")
    await expect(page.locator(".scroll")).to_be_focused()
    await page.keyboard.press("/")
    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    await page.keyboard.press("Control+Shift+o")
    await expect(page.get_by_role("heading", name="New chat")).to_be_visible()


async def test_a_hidden_tab_says_in_its_title_that_a_turn_ended(stage: Stage, visit: OpenPage) -> None:
    page = await visit()
    await page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => !window.shown, configurable: true})"
    )
    await send(page, "hello")
    await until(page, "document.title.startsWith('(1) ')")
    await page.evaluate("window.shown = true; document.dispatchEvent(new Event('visibilitychange'))")
    await until(page, "!document.title.startsWith('(')")
