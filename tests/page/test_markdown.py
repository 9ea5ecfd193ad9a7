"""Markdown as it is being written, run inside the page that uses it."""

import random

import pytest

from tests.page.conftest import OpenPage
from tests.page.server import Play, Stage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PIECES = (
    "# Title\n", "text **bold** and `code`\n", "\n", "\n\n", "- item\n", "  - nested\n", "1. one\n", "2. two\n", "> quote\n",
    "```py\nx = 1\n\ny = 2\n```\n", "```\nopen\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "$$\na\n+ b\n$$\n", "text $x^2$ end\n", "---\n",
    "===\n", "<div>\nhtml\n</div>\n", "<!-- c\n\nd -->\n", "<script>\n\nx\n", "[a](http://x.y)\n", "![i](http://x/y.png)\n",
    "    indented\n", "\ttab\n", "  \n", "* star\n", "+ plus\n", "[ref]: http://d.e\n", "[ref]\n", "~~s~~\n", "\\[ z \\]\n", "#tag\n",
    "- [ ] task\n", "a\r\nb\r\n", "$$ open\n", "1) p\n", "***\n", "\\(q\\) r\n", "line\\\nbreak  \nx\n", "> - a\n>   b\n",
    "![", "](", "**", "`", "$", "&amp; &lt;b&gt;\n",
)  # fmt: skip


async def test_any_split_of_any_document_gives_the_tokens_of_the_whole(visit: OpenPage) -> None:
    luck = random.Random(11)
    documents = ["".join(luck.choices(PIECES, k=luck.randrange(3, 30))) for _ in range(150)]
    cuts = [[luck.choice((1, 2, 3, 17, 40)) for _ in document] for document in documents]
    page = await visit()
    wrong = await page.evaluate(
        """async ([documents, cuts]) => {
          const {LiveLexer, lex} = await import('/md.js');
          const wrong = [];
          documents.forEach((text, number) => {
            const live = new LiveLexer();
            for (let at = 0, i = 0; at < text.length; i++) {
              live.push(text.slice(at, at += cuts[number][i]));
              live.preview();
              const so_far = text.slice(0, at).replace(/\\r$/, '');
              if (JSON.stringify(live.tokens()) !== JSON.stringify(lex(so_far))) return wrong.push(so_far);
            }
            if (JSON.stringify(live.finish()) !== JSON.stringify(lex(text))) wrong.push(text);
          });
          return wrong;
        }""",
        [documents, cuts],
    )

    assert wrong == []


async def test_half_written_markup_is_closed_or_hidden(visit: OpenPage) -> None:
    halves = {
        "hello **wor": "hello **wor**",
        "a `co": "a `co`",
        "see [the notes](https://exa": "see the notes",
        "text ![alt](http": "text ",
        "- ": "",
        "para\n--": "para\n",
        "text\n\n| a | b |\n": "text\n\n",
        "t\n\n| a | b |\n|---|---|\n| 1 |": "t\n\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3": "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "text\n\n$$\na + b": "text\n\n",
        "text\n\n$$\na + b\n$": "text\n\n",
        "text\n\n$$\na + b\n$$": "text\n\n$$\na + b\n$$",
        "costs $5 and": "costs $5 and",
        "**a _b": "**a _b_**",
        "```py\nx\n``": "```py\nx\n",
        "```py\nx = **not bold": "```py\nx = **not bold",
    }
    page = await visit()
    script = "async (halves) => { const {mend} = await import('/md.js'); return halves.map(mend); }"
    mended = await page.evaluate(script, list(halves))

    assert dict(zip(halves, mended, strict=True)) == halves


async def test_code_is_coloured_by_the_highlighters_own_tree(visit: OpenPage) -> None:
    """The tree comes from an interface that the highlighter does not promise: a new version must still pass this."""
    page = await visit()
    found = await page.evaluate(
        """async () => {
          const {colour, load, languageOf} = await import('/highlight.js');
          const shown = {};
          for (const [info, text] of [['py', 'def f():\\n    return "x"  # c'], ['html', '<p class="a">b<script>let c = 1</script></p>']]) {
            const name = languageOf(info);
            await load(name);
            if (name === 'xml') await load('javascript');
            const place = document.createElement('div');
            place.append(...colour(text, name));
            shown[info] = [place.textContent === text, [...new Set([...place.querySelectorAll('span')].map((one) => one.className))].sort()];
          }
          return shown;
        }"""
    )

    assert found["py"] == [True, ["c-comment", "c-keyword", "c-string", "c-title"]]
    assert found["html"][0] is True
    assert {"c-keyword", "c-tag", "c-string"} <= set(found["html"][1])


async def test_the_lines_of_an_answer_stay_lines(stage: Stage, visit: OpenPage) -> None:
    async def script(play: Play) -> None:
        await play.say("idle\nModel: echo\nSession: a")

    stage.scripts["lines"] = script
    page = await visit()
    await page.get_by_role("textbox", name="Message").fill("lines")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("article.turn.done")
    assert await page.locator(".md p").last.inner_text() == "idle\nModel: echo\nSession: a"
