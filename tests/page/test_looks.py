"""Pictures of the page's states, for people to look at: `tests/artifacts/page/*.png`, made anew by every run."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from nanobot.channel import About, Applicant, DeadLetter
from nanobot.testing_port import line
from tests.page.conftest import OpenPage, until
from tests.page.server import SAMPLE, Play, Stage
from tests.page.test_controls import PASTE

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PLACE = Path(__file__).parent.parent / "artifacts" / "page"
KEY = "websocket:a"
CHILD = "sub:8e7f437b-5bcc-5e4c-a610-8ff38efcc7cc"


def furnish(stage: Stage) -> None:
    now = datetime.now(UTC)
    stage.fill(KEY, line("user", "The tests of the limits fail since yesterday. Why?", "1"))
    asked = line("assistant", "", "1")
    names = (
        ("exec", '{"command": "pytest -q tests/limits"}'),
        ("read_file", '{"path": "nanobot/limits.py"}'),
    )
    calls = [
        {"id": str(at), "type": "function", "function": {"name": name, "arguments": given}}
        for at, (name, given) in enumerate(names)
    ]
    results = [line("tool", "3 failed, 41 passed", "1") for _ in calls]
    for at, result in enumerate(results):
        result["tool_call_id"] = str(at)
    asked.update(tool_calls=calls, reasoning="The bucket is the first suspect.")
    stage.fill(
        KEY,
        asked,
        *results,
    )
    answer = line("assistant", SAMPLE, "1")
    answer.update(latency_ms=12_400, usage={"input": 41_200, "output": 1_310})
    stage.fill(KEY, answer)
    stage.port.sessions.abouts[KEY] = About(
        model="openai/gpt-5.5", context_window=200_000, context_tokens=46_000
    )
    rows = [("telegram:42", "Remind me of the dentist", 0), ("slack:C1", "Release notes for the harbour team", 0),
            ("websocket:b", "A plan for the garden", 1), ("slack:C2", "Numbers of the third quarter", 1),
            ("websocket:c", "What changed in Python 3.14", 4), (CHILD, "Read the logs of last night", 4), ("websocket:d", "Recipe with lentils and lemon", 20)]  # fmt: skip
    for key, title, days in rows:
        stage.fill(
            key,
            line("user", title, "q", now - timedelta(days=days, hours=1)),
            line("assistant", "Done.", "q", now - timedelta(days=days, hours=1)),
        )
        stage.port.sessions.titles[key] = title
    stage.port.sessions.titles[KEY] = "Tests of the limits"
    stage.port.sessions.metadata[CHILD] = {"parent": KEY}
    stage.port.sessions.running.add("slack:C1")


async def picture(page: Page, name: str) -> None:
    PLACE.mkdir(parents=True, exist_ok=True)
    await page.evaluate(
        "document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))))"
    )
    data = await page.screenshot(path=PLACE / f"{name}.png")
    assert len(data) > 10_000


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
async def test_a_chat(stage: Stage, visit: OpenPage, look: str) -> None:
    furnish(stage)
    options: dict[str, Any] = {"color_scheme": "dark" if look == "dark" else "light"}
    if look == "phone":
        options |= {"viewport": {"width": 390, "height": 844}, "has_touch": True, "device_scale_factor": 2}
    page = await visit(f"#{KEY}", **options)
    await until(
        page,
        "document.querySelectorAll('.code code > *').length > 0 && document.querySelectorAll('.katex').length > 2",
    )
    await picture(page, f"{look}-end")
    await page.get_by_role("button", name="Worked through 2 steps").click()
    await page.locator(".scroll").evaluate("(view) => view.scrollTop = 0")
    await picture(page, look)
    if look == "phone":
        await page.get_by_role("button", name="Sessions", exact=True).click()
        await page.wait_for_timeout(300)  # the drawer slides in; there is nothing else to wait for
        await picture(page, "phone-drawer")


async def test_streaming_with_a_goal(stage: Stage, visit: OpenPage) -> None:
    written, go = asyncio.Event(), asyncio.Event()

    async def script(play: Play) -> None:
        goal = {"status": "active", "objective": "Make every test of the limits pass, without slowing the gateway down", "started_at": play.began - 754,
                "budget": {"turns": 50, "tokens": 2_000_000, "minutes": 480}, "spent": {"turns": 4, "tokens": 310_000, "minutes": 12.5},
                "checks": ["pytest -q tests/limits"], "step": "The bucket is fixed, its table is next"}  # fmt: skip
        play.show_goal(goal)
        await play.think("Let me look first.")
        await play.tool("exec", {"command": "pytest -q tests/limits"}, "3 failed", 0.1)
        await play.say(SAMPLE[:900])
        written.set()
        await go.wait()

    furnish(stage)
    stage.scripts["work"] = script
    page = await visit()
    await page.get_by_role("textbox", name="Message").fill("work")
    await page.keyboard.press("Enter")
    await written.wait()
    await expect(page.locator(".md")).to_contain_text("refills twice")
    await page.wait_for_timeout(400)  # colours follow the text
    await picture(page, "streaming")
    await page.get_by_role("region", name="Goal").get_by_role("button").click()
    await expect(page.get_by_role("dialog", name="Goal")).to_be_visible()
    await picture(page, "goal")
    await page.keyboard.press("Escape")
    go.set()


async def test_search_sub_session_and_an_empty_chat(stage: Stage, visit: OpenPage) -> None:
    furnish(stage)
    stage.port.sessions.abouts[CHILD] = About(
        parent=KEY, parent_title="The tests of the limits", model="openai/gpt-5.5", context_window=9
    )
    page = await visit()
    await expect(page.get_by_role("link", name="A plan for the garden")).to_be_visible()
    await picture(page, "empty")
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Search all messages").fill("the")
    await expect(page.get_by_role("option").first).to_be_visible()
    await picture(page, "search")
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="Tests of the limits").click()
    await page.get_by_role("link", name="Read the logs").click()
    await expect(page.get_by_role("link", name="Back to the chat")).to_be_visible()
    await picture(page, "sub-session")
    await page.get_by_role("button", name="More about A plan").click()
    await picture(page, "menu")


async def test_trouble_and_what_asks_for_something(stage: Stage, visit: OpenPage) -> None:
    async def fail(play: Play) -> None:
        await play.tool("exec", {"command": "make deploy"}, "exit status 2: no such host", error=True)
        await play.say("The provider does not answer: 503 Service Unavailable, tried 3 times.")
        play.end("failed")

    async def edit(play: Play) -> None:
        change = {"path": "nanobot/limits.py", "old_text": "now = clock()\nif late:\n    refill(now)\n", "new_text": "now = clock()\nif late and not refilled:\n    refill(now)\n    refilled = True\n"}  # fmt: skip
        await play.tool("edit_file", change, "edited nanobot/limits.py", 0.1)
        await play.tool(
            "delegate",
            {"task": "Read the logs"},
            f'{{"success": true, "session_id": "{CHILD[4:]}", "response": "Nothing odd."}}',
            0.1,
        )
        await play.say("The refill happens once now.")

    furnish(stage)
    stage.scripts.update(fail=fail, edit=edit)
    now = datetime.now(UTC)
    soon = now + timedelta(minutes=9)
    stage.port.office.people = [Applicant("telegram", "77", "Ann Miller", "ABCD2345", "pending", now, soon)]
    stage.port.office.letters = [
        DeadLetter(3, "telegram:42", "Your report is ready.", "the bot was blocked by the user", "dead", now)
    ]
    page = await visit()
    box = page.get_by_role("textbox", name="Message")
    for count, text in enumerate(("edit it", "fail please"), 1):
        await box.fill(text)
        await box.press("Enter")
        await expect(page.locator("article.turn:not(.working)")).to_have_count(count)
    await page.get_by_role("button", name="Worked through 2 steps").click()
    await page.locator("button.call").first.click()
    await picture(page, "diff-and-failure")
    await page.get_by_role("button", name="2 things wait for you").click()
    await expect(page.get_by_role("dialog", name="For the owner")).to_contain_text("Ann")
    await picture(page, "owner")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Keys").click()
    await expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Search")
    await picture(page, "keys")
    await page.keyboard.press("Escape")
    await page.evaluate(PASTE, ["paste", 0])
    await expect(page.get_by_role("img", name="Image to send")).to_be_visible()
    await box.fill("/s")
    await expect(page.get_by_role("listbox", name="Commands")).to_be_visible()
    await picture(page, "commands-and-a-file")
    await box.fill("")
    await page.get_by_role("link", name="A plan for the garden").focus()
    await page.keyboard.press("Delete")
    await stage.stop()
    await expect(page.get_by_text("Reconnecting…")).to_be_visible()
    await box.fill("Are you there?")
    await box.press("Enter")
    await expect(page.get_by_text("Sending…")).to_be_visible()
    await picture(page, "without-a-server")
    stage.port.settings = {"token": "secret"}
    await stage.start()
    await expect(page.get_by_role("dialog", name="Sign in")).to_be_visible(timeout=15_000)
    await picture(page, "sign-in")


async def test_a_phone_in_the_dark_with_a_goal(stage: Stage, visit: OpenPage) -> None:
    written, go = asyncio.Event(), asyncio.Event()

    async def script(play: Play) -> None:
        play.show_goal({"status": "waiting_user", "objective": "Make every test of the limits pass, without slowing the gateway down",
                        "question": "May I change the public name of the bucket?", "started_at": play.began - 7_540})  # fmt: skip
        await play.tool(
            "exec", {"command": "pytest -q tests/limits -k 'bucket and not slow' --durations 5"}, "ok", 0.1
        )
        await play.say(SAMPLE[:300])
        written.set()
        await go.wait()

    furnish(stage)
    stage.scripts["work"] = script
    phone: dict[str, Any] = {
        "viewport": {"width": 390, "height": 844},
        "has_touch": True,
        "device_scale_factor": 2,
    }
    page = await visit(color_scheme="dark", **phone)
    await page.get_by_role("textbox", name="Message").fill("work")
    await page.get_by_role("button", name="Send", exact=True).click()
    await written.wait()
    await expect(page.locator(".md")).to_contain_text("refills twice")
    await picture(page, "phone-streaming-dark")
    await page.get_by_role("region", name="Goal").get_by_role("button").click()
    await expect(page.get_by_role("dialog", name="Goal")).to_be_visible()
    await picture(page, "phone-goal-dark")
    go.set()
