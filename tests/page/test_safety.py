"""What hostile text, names and addresses can do to the page: nothing."""

import pytest
from playwright.async_api import expect

from nanobot.testing_port import line
from tests.page.conftest import OpenPage, until
from tests.page.server import Stage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

# Each tries to run `__xss`, to load something from elsewhere, or to break out of where it stands.
PAYLOADS = (
    "<script>window.__xss = 1</script>",
    '<img src=x onerror="window.__xss = 1">',
    '<svg onload="window.__xss = 1"><animate onbegin="window.__xss = 1"></svg>',
    '<iframe srcdoc="<script>parent.__xss = 1</script>"></iframe>',
    '<details open ontoggle="window.__xss = 1">x</details>',
    '<form action="https://evil.example/"><button formaction="javascript:window.__xss = 1">go</button></form>',
    "<style>@import 'https://evil.example/x.css';</style><base href='https://evil.example/'>",
    "[click](javascript:window.__xss=1)",
    "[click](JaVa\tScRiPt:window.__xss=1)",
    "[click](javascript&colon;window.__xss=1) [x](&#106;avascript:window.__xss=1)",
    "[click](data:text/html;base64,PHNjcmlwdD4=) [v](vbscript:msgbox) [f](file:///etc/passwd)",
    '[t](https://evil.example/ "x\\" onmouseover=\\"window.__xss=1") <https://evil.example/a>',
    '```py"><img src=x onerror=window.__xss=1>\ncode\n```',
    "```__proto__\nx\n```\n```constructor\ny\n```",
    "![exfiltrate](https://evil.example/secret.png?q=1)",
    r"$\href{javascript:window.__xss=1}{x}$ and $\htmlData{a=b}{x}$ and $\includegraphics{https://evil.example/a.png}$",
    r"$\def\a{\a\a}\a$ and $\frac{$",
    "[ref]\n\n[ref]: javascript:window.__xss=1",
    "<math><mtext><table><mglyph><style><img src onerror=window.__xss=1></style></mglyph></table></mtext></math>",
    "photo\u202egpj.exe and <a href='https://evil.example'>link</a>",
)


async def test_hostile_markdown_and_names_run_nothing_and_load_nothing(stage: Stage, visit: OpenPage) -> None:
    for number, payload in enumerate(PAYLOADS):
        stage.fill("websocket:evil", line("user", payload, f"q{number}"))
        asked = line("assistant", "", f"q{number}")
        call = {"name": payload, "arguments": '{"command": "' + "<img src=x onerror=window.__xss=1>" + '"}'}
        asked["tool_calls"] = [{"id": f"c{number}", "type": "function", "function": call}]
        result = line("tool", payload, f"q{number}")
        result["tool_call_id"] = f"c{number}"
        stage.fill("websocket:evil", asked, result, line("assistant", payload, f"q{number}"))
        stage.port.sessions.titles[f"websocket:t{number}"] = payload
        stage.fill(f"websocket:t{number}", line("user", "x", "x"))
    goal = {"status": "active", "objective": "<script>window.__xss=1</script>", "started_at": 1}
    stage.port.sessions.metadata["websocket:evil"] = {"goal_state": goal}
    page = await visit()
    asked_for: list[str] = []
    dialogs: list[str] = []
    page.on("request", lambda request: asked_for.append(request.url))
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    await page.goto(stage.url + "#websocket:evil")
    await page.reload()
    await expect(page.get_by_role("region", name="Goal")).to_be_visible()
    for _ in range(10):
        await page.evaluate("document.querySelector('.scroll').scrollTop = 0")
        await page.wait_for_timeout(60)
    await page.evaluate("document.querySelectorAll('.line').forEach((one) => one.click())")
    await until(page, "document.querySelectorAll('.md').length >= 20")
    await page.mouse.move(600, 400)

    assert await page.evaluate("window.__xss") is None
    assert dialogs == []
    assert [url for url in asked_for if not url.startswith(stage.url)] == []
    bad = "script, iframe, form, style, base, object, embed, svg[onload], img:not([alt])"
    assert await page.evaluate(f"document.querySelectorAll('main :is({bad})').length") == 0
    handlers = "[...document.querySelectorAll('main *, nav *')].flatMap((one) => [...one.attributes]).filter((one) => one.name.startsWith('on')).length"
    assert await page.evaluate(handlers) == 0
    links = await page.evaluate(
        "[...new Set([...document.querySelectorAll('.md a')].map((one) => one.href))]"
    )
    assert links
    assert all(link.startswith("https://evil.example/") for link in links)
    assert "\u202e" not in await page.evaluate(
        "[...document.querySelectorAll('.md')].map((one) => one.textContent).join()"
    )


async def test_a_remote_image_is_a_link_that_names_its_host(stage: Stage, visit: OpenPage) -> None:
    stage.fill(
        "websocket:pic",
        line("user", "show", "q"),
        line("assistant", "![a cat](https://evil.example/cat.png)", "q"),
    )
    page = await visit("#websocket:pic")
    link = page.locator(".md a")

    await expect(link).to_have_text("Image from evil.example: a cat")
    await expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    assert await page.locator(".md img").count() == 0


async def test_the_policy_has_no_holes_and_markup_cannot_be_written(stage: Stage, visit: OpenPage) -> None:
    page = await visit()
    response = await page.request.get(stage.url)
    policy = response.headers["content-security-policy"]
    source = await response.text()

    assert "unsafe" not in policy
    assert "trusted-types 'none'" in policy
    assert "style=" not in source
    assert "<style" not in source
    assert source.count("<script") == source.count("<script src=") + source.count(
        '<script type="module" src='
    )
    thrown = await page.evaluate(
        "(() => { try { document.body.innerHTML = 'x'; } catch (e) { return e.name; } })()"
    )
    assert thrown == "TypeError"
    # The attempt itself is reported; it is the only one.
    assert len(await page.evaluate("seen.violations.splice(0)")) == 1


async def test_a_server_with_a_token_asks_for_it_once(stage: Stage, visit: OpenPage) -> None:
    await stage.stop()
    stage.port.settings = {"token": "open sesame ü"}
    await stage.start()
    page = await visit(ready=False)
    dialog = page.get_by_role("dialog", name="Sign in")
    await dialog.get_by_label("Token").fill("wrong")
    await dialog.get_by_role("button", name="Sign in").click()
    await expect(dialog).to_contain_text("not accepted")
    await dialog.get_by_label("Token").fill("open sesame ü")
    await dialog.get_by_role("button", name="Sign in").click()
    await expect(dialog).to_be_hidden()
    box = page.get_by_role("textbox", name="Message")
    await box.fill("hello")
    await box.press("Enter")

    await expect(page.locator("article.turn.done")).to_contain_text("You said: hello")
    await page.reload()
    await expect(page.locator("article.turn.done")).to_contain_text("You said: hello")
