"""Scripts and styles on their way out: smaller, and the same program."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from channels.websocket import slim

WEB = Path(slim.__file__).parent / "web"
SCRIPTS = sorted(WEB.glob("*.js"))

KEPT = (
    'a="// no comment"',
    "a='/* nor this */'",
    r'a="quoted \" // still"',
    "a=`// in a template\n    with its   spaces`",
    "a=`x${b?`// ${c}`:'}'}y // z`",
    r"a=/[/*]+\/\/x/g.test(b)",
    "return /\\/\\*x/.exec(a)",
    "a=b / c / d",
    "a=(b)/ 2",
    "a=b + +c - -d",
    "a++ + b",
    "if(a){b=`{`}c={}",
    "x=>/`/.test(x)",
    "a=`{ b }`,c=' ; '",
)


@pytest.mark.parametrize("text", KEPT)
def test_what_only_looks_like_a_comment_stays(text: str) -> None:
    assert slim.script(text) == text + "\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("// head\na = 1; // tail\n\n\n    b = 2;", "a=1;b=2;\n"),
        ("/** @param {string} a */\nfunction f(a) {}", "function f(a){}\n"),
        ("return /* so */ a", "return a\n"),
        ("return /* a\n line */ a", "return\na\n"),
        ("a\n// kept apart\n(b)", "a\n(b)\n"),
        ("a = {\n  b,\n  c,\n}\nd()\n++e", "a={b,c,}\nd()\n++e\n"),
        ("f(\n  a,\n)\n;[\n  b\n]", "f(a,);[b]\n"),
        ("if (a) {\n  return\n}\nb", "if(a){return}\nb\n"),
        ("a = 1 /* one */\n+ 2", "a=1\n+ 2\n"),
        ("a = b /* half */ / c", "a=b / c\n"),
        ("if (a && b) { c = [ 1, 2 ] ; return (d) }", "if(a&&b){c=[1,2];return(d)}\n"),
        (
            "a = html`<p>\n    ${x && html`\n  <b>c  d</b>`}\n  </p>`",
            "a=html`<p>\n${x&&html`\n<b>c  d</b>`}\n</p>`\n",
        ),
        ("const f = async ({ a }) => a ? .5 : !b", "const f=async({a})=>a?.5:!b\n"),
    ],
)
def test_comments_and_idle_blanks_go_and_statements_stay_apart(text: str, left: str) -> None:
    assert slim.script(text) == left


@pytest.mark.parametrize("text", ["a = `open", "a = 'open\n", "/* open", "a = {", "a }", "a = `${b"])
def test_what_cannot_be_read_is_left_alone(text: str) -> None:
    assert slim.script(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            '/* head */\na::before {\n  content: "/* shown */  ; }";\n}\n',
            'a::before{content:"/* shown */  ; }"}\n',
        ),
        ("a b > c, d :is(e, f) { margin: 0 -1px }", "a b > c,d :is(e,f){margin:0 -1px}\n"),
        (
            "@media (a: b) and (c) {\n x { y: calc(1px + 2px) ; }\n}",
            "@media (a:b) and (c){x{y:calc(1px + 2px)}}\n",
        ),
        ("a {\n  b: 1;\n  c: /* half */ 2;\n}\nd { e: f; }", "a{b:1;c:2}d{e:f}\n"),
    ],
)
def test_a_style_loses_comments_and_idle_blanks_and_keeps_strings(text: str, left: str) -> None:
    assert slim.style(text) == left


def test_every_script_of_the_page_gets_smaller() -> None:
    for path in SCRIPTS:
        text = path.read_text()
        assert len(slim.script(text)) < len(text), path.name


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")
def test_a_parser_accepts_every_script_of_the_page() -> None:
    for path in SCRIPTS:
        code = slim.script(path.read_text())
        run = subprocess.run(
            ["node", "--input-type=module", "--check"],
            input=code,
            text=True,
            capture_output=True,
            timeout=20,
            check=False,
        )
        assert run.returncode == 0, f"{path.name}: {run.stderr}"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")
def test_a_program_says_the_same_before_and_after() -> None:
    program = r"""
    // patterns, templates and divisions beside each other
    const half = (a) => a / 2 /* two */ / 1;
    const say = (x) => `<${ x ? `"${x}" // ` : "none" }>  /* text */
      two`;
    const found = "a//b /* c */".replace(/\/\*.*?\*\//g, "").split(/\//);
    console.log(JSON.stringify([half(8), say("s"), say(), found, /[`'"]/.test("`")]));
    """
    said = [
        json.loads(subprocess.run(["node", "-e", text], text=True, capture_output=True, check=True).stdout)
        for text in (program, slim.script(program))
    ]
    assert said[0] == said[1]
