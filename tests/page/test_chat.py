"""A chat on the page: sending, streaming, stopping, coming back."""

import asyncio

import pytest
from playwright.async_api import Page, expect

from nanobot.testing_port import line
from tests.page.conftest import OpenPage, until
from tests.page.server import SAMPLE, Play, Stage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

IDS = "[...document.querySelectorAll('article')].map((one) => one.dataset.id)"


async def send(page: Page, text: str) -> None:
    box = page.get_by_role("textbox", name="Message")
    await box.fill(text)
    await box.press("Enter")


async def html(page: Page) -> str:
    """The last reply as it is drawn, once it is over and colours and formulas are there."""
    await page.wait_for_selector("article.turn.done", timeout=20_000)
    await until(
        page,
        "!document.querySelector('[aria-busy]') && "
        "[...document.querySelectorAll('.maths')].every((one) => one.childNodes.length) && "
        "[...document.querySelectorAll('.code code')].every((one) => one.children.length)",
    )
    found: str = await page.evaluate("[...document.querySelectorAll('.md')].at(-1).innerHTML")
    return found


async def test_the_page_opens_with_its_landmarks_and_asks_nobody_else(stage: Stage, visit: OpenPage) -> None:
    page = await visit()

    await expect(page.get_by_role("navigation", name="Sessions")).to_be_visible()
    await expect(page.get_by_role("main")).to_be_visible()
    await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    loads = await page.evaluate(
        "performance.getEntriesByType('resource').map((one) => [one.name, one.transferSize])"
    )
    assert all(name.startswith(stage.url) for name, _ in loads)
    assert sum(size for _, size in loads) <= 120_000  # bytes on the wire
    assert await page.evaluate("seen.shift") <= 0.01


@pytest.mark.parametrize(("typed", "words"), [("", "quick hands"), ("/", "/stop")])
async def test_enter_that_comes_before_the_words_are_drawn_sends_them(
    visit: OpenPage, typed: str, words: str
) -> None:
    page = await visit()
    box = page.get_by_role("textbox", name="Message")
    await box.press_sequentially(typed)
    await page.evaluate(
        """(words) => {
          const box = document.querySelector("#message");
          box.value = words;
          box.dispatchEvent(new InputEvent("input", {bubbles: true}));
          box.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true}));
        }""",
        words,
    )

    await expect(page.locator("article").first).to_contain_text(words)
    await expect(box).to_have_value("")


async def test_a_first_reply_needs_few_bytes_of_script_and_style(stage: Stage, visit: OpenPage) -> None:
    """The core: all that is fetched, compressed, until a reply is drawn, without what the gateway itself answers."""
    page = await visit()
    await send(page, "hello")
    await page.wait_for_selector("article.turn.done")
    loads = await page.evaluate(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".filter((one) => !one.name.includes('/api/')).map((one) => [one.name, one.encodedBodySize])"
    )

    assert all(size for _, size in loads), loads
    assert sum(size for _, size in loads) <= 60_000


async def test_a_streamed_reply_is_drawn_as_it_is_after_a_reload_and_without_moving(
    stage: Stage, visit: OpenPage
) -> None:
    async def script(play: Play) -> None:
        await play.say(SAMPLE, 400)

    stage.scripts["tell"] = script
    page = await visit()
    await send(page, "tell me")
    live = await html(page)
    shift = await page.evaluate("seen.shift")
    await page.reload()
    await page.wait_for_selector(".md > *")
    again = await html(page)

    assert live == again
    assert "<table" in live
    assert "katex" in live
    assert 'class="c-keyword"' in live
    assert shift <= 0.02


TABLES = "\n\n".join(
    f"Table {number} follows, with *some* words.\n\n| name | size of it |\n|:--|--:|\n| a{number} | 1 |\n| b | `2` |\n\nAnd text after it.\n\n---\n\n- one\n- two"
    for number in range(6)
)


@pytest.mark.parametrize(("text", "rate"), [(SAMPLE, 300), (TABLES, 1_000)])
async def test_blocks_above_the_one_being_written_never_change(
    stage: Stage, visit: OpenPage, text: str, rate: int
) -> None:
    async def script(play: Play) -> None:
        await play.say(text, rate)

    stage.scripts["tell"] = script
    page = await visit()
    await page.evaluate("""() => {
      window.flicker = [];
      window.settled = new Map();
      new MutationObserver((records) => {
        for (const {target, removedNodes} of records) {
          if (!target.classList?.contains('md')) continue;
          for (const node of removedNodes) flicker.push(node.outerHTML);
        }
        // Formulas are drawn when they are there; all other words stay as they are once another block follows.
        const blocks = [...document.querySelectorAll('.md > *')].slice(0, -1).filter((one) => !one.matches('.maths') && !one.querySelector('.maths'));
        for (const one of blocks) {
          if (settled.has(one) && settled.get(one) !== one.textContent) flicker.push(`${settled.get(one)} → ${one.textContent}`);
          settled.set(one, one.textContent);
        }
      }).observe(document.querySelector('#app'), {childList: true, characterData: true, subtree: true});
    }""")
    await send(page, "tell me")
    await html(page)

    assert await page.evaluate("flicker") == []
    assert await page.evaluate("settled.size") > 5


async def test_stop_takes_the_place_of_send_and_ends_the_turn_at_once(stage: Stage, visit: OpenPage) -> None:
    async def script(play: Play) -> None:
        await play.say("Counting: ")
        await play.say("1 2 3 " * 400, 50)

    stage.scripts["count"] = script
    page = await visit()
    box = page.get_by_role("textbox", name="Message")
    turns = page.locator("article.turn")
    took = []
    for number in range(3):
        await send(page, "count")
        await expect(turns.nth(number).locator(".md")).to_contain_text("1 2 3")
        await expect(page.get_by_role("button", name="Send", exact=True)).to_have_count(0)
        took.append(
            await page.evaluate("""async () => {
              const start = performance.now();
              document.querySelector('[aria-label=Stop]').click();
              while (document.querySelector('[aria-label=Stop]')) await new Promise(requestAnimationFrame);
              return performance.now() - start;
            }""")
        )
        await expect(turns.nth(number)).to_contain_text("Stopped")
        await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()

    assert min(took) <= 200
    await send(page, "count again")
    await expect(turns.nth(3)).to_contain_text("1 2 3")
    await box.press("Escape")
    await expect(turns.nth(3)).to_contain_text("Stopped")
    await expect(page.get_by_role("button", name="Stop")).to_have_count(0)


async def test_a_cut_socket_loses_nothing_and_repeats_nothing(stage: Stage, visit: OpenPage) -> None:
    text = " ".join(f"word{number}" for number in range(300))
    middle = asyncio.Event()
    back = asyncio.Event()

    async def script(play: Play) -> None:
        await play.say(text[:800], 2_000)
        middle.set()
        await play.say(text[800:1_400], 100)
        await back.wait()
        await play.say(text[1_400:], 2_000)

    stage.scripts["tell"] = script
    page = await visit()
    await page.evaluate("""() => {
      window.states = [];
      const place = document.querySelector('.connection');
      new MutationObserver(() => states.push([performance.now(), place.textContent])).observe(place, {childList: true, characterData: true, subtree: true});
    }""")
    await send(page, "tell me")
    await middle.wait()
    cut = await page.evaluate("performance.now()")
    stage.drop()
    await until(page, "states.length === 2")
    states = await page.evaluate("states")
    assert [text for _, text in states] == ["Reconnecting…", ""]
    assert states[0][0] - cut <= 1_000
    back.set()
    await page.wait_for_selector("article.turn.done")

    assert await page.locator(".md").inner_text() == text
    ids = await page.evaluate(IDS)
    assert len(ids) == len(set(ids)) == 2


async def test_a_message_sent_while_the_server_is_down_is_answered_once_after_a_restart(
    stage: Stage, visit: OpenPage
) -> None:
    page = await visit()
    await send(page, "first")
    await page.wait_for_selector("article.turn.done")
    before = await page.locator("article").all_inner_texts()
    await stage.stop()
    await expect(page.get_by_role("status").filter(has_text="Reconnecting…")).to_be_visible()
    await send(page, "second")
    await expect(page.get_by_text("Sending…")).to_be_visible()
    await stage.start()

    await expect(page.locator("article.turn.done")).to_have_count(2, timeout=15_000)
    await expect(page.get_by_text("Sending…")).to_have_count(0)
    texts = await page.locator("article").all_inner_texts()
    assert [text.split("\n")[0] for text in texts] == [
        "first",
        "You said: first",
        "second",
        "You said: second",
    ]
    assert texts[:2] == before
    assert [one.text for one in stage.port.accepted] == ["first", "second"]
    ids = await page.evaluate(IDS)
    assert len(ids) == len(set(ids))


async def test_an_unsent_message_survives_a_reload(stage: Stage, visit: OpenPage) -> None:
    page = await visit()
    await page.evaluate("window.WebSocket.prototype.send = () => {}")  # the network swallows it
    await send(page, "do not lose me")
    await expect(page.get_by_text("Sending…")).to_be_visible()
    await page.reload()

    await page.wait_for_selector("article.turn.done")
    assert [one.text for one in stage.port.accepted] == ["do not lose me"]
    assert await page.locator("article").count() == 2


async def test_a_sent_message_never_flashes(visit: OpenPage) -> None:
    page = await visit()
    await page.evaluate("""() => {
      window.counts = [];
      const look = () => {
        counts.push(document.querySelectorAll('article[aria-label="You said"]').length);
        requestAnimationFrame(look);
      };
      look();
    }""")
    await send(page, "hello")
    await page.wait_for_selector("article.turn.done")

    counts = await page.evaluate("counts")
    assert counts == sorted(counts)
    assert counts[-1] == 1


async def test_a_restarted_turn_replaces_what_its_first_life_streamed(stage: Stage, visit: OpenPage) -> None:
    go = asyncio.Event()

    async def script(play: Play) -> None:
        await play.say("A half sentence that was interr")
        await go.wait()
        play.streams, play.text = play.streams + 7, ""
        await play.say("The whole sentence.")

    stage.scripts["tell"] = script
    page = await visit()
    await send(page, "tell me")
    await expect(page.locator(".md")).to_contain_text("half sentence")
    go.set()
    await page.wait_for_selector("article.turn.done")

    assert await page.locator(".md").all_inner_texts() == ["The whole sentence."]


async def test_two_tabs_show_one_copy_of_everything_and_the_same_stream(
    stage: Stage, visit: OpenPage
) -> None:
    go = asyncio.Event()

    async def script(play: Play) -> None:
        await play.say("The first half, ", 200)
        await go.wait()
        await play.say("and the second.", 200)

    stage.scripts["tell"] = script
    first = await visit()
    await send(first, "hello")
    await first.wait_for_selector("article.turn.done")
    second = await visit(await first.evaluate("location.hash"))
    await send(second, "and from here")
    await expect(first.locator("article.turn.done")).to_have_count(2)
    await expect(second.locator("article.turn.done")).to_have_count(2)

    for page in (first, second):
        texts = await page.locator("article").all_inner_texts()
        heads = [text.split("\n")[0] for text in texts]
        assert heads == ["hello", "You said: hello", "and from here", "You said: and from here"]
    await send(first, "tell both")
    for page in (first, second):
        await expect(page.locator(".md").nth(2)).to_have_text("The first half,")
    go.set()
    for page in (first, second):
        await expect(page.locator("article.turn.done")).to_have_count(3)
        await expect(page.locator(".md").nth(2)).to_have_text("The first half, and the second.")
        assert await page.locator("article").count() == 6


async def test_tools_are_one_quiet_line_that_opens(stage: Stage, visit: OpenPage) -> None:
    go = asyncio.Event()

    async def script(play: Play) -> None:
        await play.think("Let me look first.")
        await play.tool("read_file", {"path": "notes.md"}, "three lines")
        await play.tool("exec", {"command": "false"}, "exit status 1", error=True)
        running = asyncio.create_task(play.tool("exec", {"command": "make test"}, "ok", 0.2))
        await go.wait()
        await running
        await play.say("All done.")

    stage.scripts["work"] = script
    page = await visit()
    await send(page, "work")
    await expect(page.get_by_role("button", name="exec make test")).to_have_attribute(
        "aria-expanded", "false"
    )
    go.set()
    summary = page.get_by_role("button", name="Worked through 3 steps")
    await page.wait_for_selector("article.turn.done")
    await page.set_viewport_size({"width": 1280, "height": 340})  # so that opening makes it scroll
    places = "[...document.querySelectorAll('.bubble, .line')].map((one) => one.getBoundingClientRect().top)"
    await until(
        page,
        "(() => { const v = document.querySelector('.scroll'); return v.scrollHeight - v.scrollTop - v.clientHeight < 2; })()",
    )
    before = await page.evaluate(places)
    await summary.click()
    steps = page.locator(".step")

    await expect(steps).to_have_count(4)
    assert await page.evaluate(places) == before
    await expect(steps.nth(0)).to_have_text("Let me look first. ")
    for at, words in ((1, "read_filenotes.mddone"), (2, "execfalsefailed"), (3, "execmake testdone")):
        await expect(steps.nth(at).locator(".call")).to_contain_text(words)
    await summary.click()
    await expect(steps).to_have_count(0)
    assert await page.evaluate(places) == before
    await page.set_viewport_size({"width": 1280, "height": 800})
    await page.reload()
    await page.get_by_role("button", name="Worked through 3 steps").click()
    await expect(steps.nth(1)).to_contain_text("three lines")


async def test_a_steering_message_stands_between_the_two_halves_of_the_turn(
    stage: Stage, visit: OpenPage
) -> None:
    steered = asyncio.Event()

    async def script(play: Play) -> None:
        await play.say("First half.")
        await steered.wait()
        more = await play.stage._queues[play.inbound.key].get()
        play.steer(more)
        await play.say("Second half.")

    stage.scripts["work"] = script
    page = await visit()
    await send(page, "work")
    await expect(page.locator(".md")).to_have_text("First half.")
    await send(page, "no, differently")
    steered.set()
    await page.wait_for_selector("article.turn.done")
    order = ["work", "First half.", "no, differently", "Second half."]

    assert [text.split("\n")[0] for text in await page.locator("article").all_inner_texts()] == order
    live = await page.evaluate(IDS)
    await page.reload()
    await page.wait_for_selector("article.turn.done")
    assert [text.split("\n")[0] for text in await page.locator("article").all_inner_texts()] == order
    assert (await page.evaluate(IDS))[1::2] == live[1::2]


async def test_older_messages_come_without_moving_what_is_read(stage: Stage, visit: OpenPage) -> None:
    for number in range(120):
        said = f"question {number} " + "and more words " * (number % 40)
        stage.fill(
            "websocket:long", line("user", said, f"q{number}"), line("assistant", SAMPLE, f"q{number}")
        )
    page = await visit("#websocket:long")
    moved = await page.evaluate("""async () => {
      const view = document.querySelector('.scroll');
      const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      for (let i = 0; i < 40; i++) await frame();
      const worst = [];
      for (let round = 0; round < 14; round++) {
        view.scrollTop = Math.max(0, view.scrollTop - 2500);
        await frame();
        const edge = view.getBoundingClientRect().top;
        const first = [...document.querySelectorAll('.md > *, .bubble')].find((one) => one.getBoundingClientRect().bottom > edge + 5);
        const at = first.getBoundingClientRect().top;
        const before = document.querySelectorAll('.chunk').length;
        for (let i = 0; i < 12 && document.querySelectorAll('.chunk').length === before; i++) await frame();
        for (let i = 0; i < 3; i++) await frame();
        if (first.isConnected) worst.push(Math.abs(first.getBoundingClientRect().top - at));
      }
      return [Math.max(...worst), document.querySelectorAll('.chunk').length];
    }""")

    assert moved[0] <= 2  # pixels
    assert moved[1] >= 3
    ids = await page.evaluate(IDS)
    assert len(ids) == len(set(ids))


async def test_reading_above_is_not_disturbed_by_the_stream(stage: Stage, visit: OpenPage) -> None:
    go = asyncio.Event()

    async def script(play: Play) -> None:
        await play.say(SAMPLE)
        await go.wait()
        await play.say(SAMPLE, 1_500)

    stage.scripts["tell"] = script
    page = await visit()
    await send(page, "tell me")
    await expect(page.get_by_text("That is all")).to_be_visible()
    await page.locator(".scroll").hover()
    await page.mouse.wheel(0, -500)
    jump = page.get_by_role("button", name="Jump to latest")
    await expect(jump).to_be_visible()
    await page.evaluate("""async () => {
      const view = document.querySelector('.scroll');
      for (let top = -1; top !== view.scrollTop; await new Promise((next) => setTimeout(next, 150))) top = view.scrollTop;
    }""")
    top = await page.evaluate("document.querySelector('.scroll').scrollTop")
    go.set()
    await page.wait_for_selector("article.turn.done")

    assert await page.evaluate("document.querySelector('.scroll').scrollTop") == top
    await jump.click()
    await expect(jump).to_have_count(0)
    rest = "(() => { const v = document.querySelector('.scroll'); return v.scrollHeight - v.scrollTop - v.clientHeight; })()"
    assert await page.evaluate(rest) < 2


async def test_the_announcer_says_when_work_begins_and_ends_and_nothing_between(
    stage: Stage, visit: OpenPage
) -> None:
    async def script(play: Play) -> None:
        await play.say("word " * 60, 200)

    stage.scripts["tell"] = script
    page = await visit()
    await page.evaluate("""() => {
      window.said = [];
      const place = document.querySelector('.unseen[role=status]');
      new MutationObserver(() => said.push(place.textContent)).observe(place, {childList: true, characterData: true, subtree: true});
    }""")
    await send(page, "tell me")
    await expect(page.locator("article.turn")).to_have_attribute("aria-busy", "true")
    await expect(page.get_by_role("log")).to_have_attribute("aria-live", "off")
    await page.wait_for_selector("article.turn.done")

    await expect(page.locator(".unseen[role=status]")).to_have_text("Reply finished")
    assert await page.evaluate("said") == ["Working", "Reply finished"]


async def test_a_message_that_waits_for_its_turn_stays_on_the_page_through_a_restart(
    stage: Stage, visit: OpenPage
) -> None:
    go = asyncio.Event()

    async def script(play: Play) -> None:
        await play.say("Working on it.")
        await go.wait()

    stage.scripts["hold"] = script
    page = await visit()
    await send(page, "hold")
    await expect(page.locator(".md")).to_have_text("Working on it.")
    await send(page, "next")
    await expect(page.get_by_text("Sending…")).to_have_count(0)
    await stage.restart()
    await expect(page.get_by_role("status").filter(has_text="Reconnecting…")).to_have_count(0)
    await expect(page.get_by_role("article", name="You said")).to_have_count(2)
    go.set()
    await expect(page.locator("article.turn.done")).to_have_count(2)

    heads = [text.split("\n")[0] for text in await page.locator("article").all_inner_texts()]
    assert heads == ["hold", "Working on it.", "next", "You said: next"]
