"""The page's modules as one file: the same program, and a refusal by name where that is not certain."""

import shutil
import subprocess
from pathlib import Path

import pytest

from channels.websocket import slim
from channels.websocket.assets import Maker
from channels.websocket.join import Unjoinable, join

WEB = Path(slim.__file__).parent / "web"

MODULES = {
    "app.js": 'import { say, SIGN as sign } from "./lib/words.js";\nimport "./side.js";\nglobalThis.out.push(say("b") + sign);\n',
    "lib/words.js": 'import twice from "../vendor/twice.js";\nexport { once } from "../once.js";\nconst own = 1;\nexport const SIGN = "!";\n'
    "export function say(word) {\nreturn twice(word);\n}\nexport async function later() {}\nexport class Box {}\nexport { own as mine };\n",
    "once.js": 'export const once = (a) => a;\nglobalThis.out.push("once");\n',
    "side.js": 'import { once } from "./once.js";\nconst own = once("side");\nglobalThis.out.push(own);\n',
    "vendor/twice.js": "var n=function(a){return a+a};export default function(a){return n(a)}",
    "late.js": 'import { mine, Box } from "./lib/words.js";\nimport { more } from "./more.js";\nglobalThis.out.push(typeof Box, mine, more);\n',
    "more.js": "export const more = 2;\n",
}


def run(folder: Path, files: dict[str, str], script: str) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "run.js").write_text(f"globalThis.out = [];\n{script}\nconsole.log(out.join());\n")
    done = subprocess.run(
        ["node", str(folder / "run.js")], capture_output=True, text=True, timeout=20, check=False
    )
    return done.stdout.strip() + done.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")
def test_joined_and_apart_they_do_the_same(tmp_path: Path) -> None:
    joined = join("app.js", MODULES.__getitem__)
    files = {
        "app.js": joined.text,
        "late.js": joined.beside("late.js", MODULES["late.js"]),
        "more.js": MODULES["more.js"],
        "vendor/twice.js": joined.stub("vendor/twice.js"),
        "once.js": joined.stub("once.js"),
    }
    script = 'await import("./app.js");\nawait import("./late.js");\nconst { once } = await import("./once.js");\nconst { default: twice } = await import("./vendor/twice.js");\nout.push(once(twice(3)));'

    apart = run(tmp_path / "apart", MODULES, script)
    assert apart == "once,side,bb!,function,1,2,6"
    assert run(tmp_path / "joined", files, script) == apart


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('import { b } from "./b.js";', "circle"),
        ('import * as b from "./c.js";', "not understood"),
        ("export let a = 1;", "not understood"),
        ('export * from "./c.js";', "not understood"),
        ('import { c } from "preact";', "no path"),
        ('import { c } from "../../c.js";', "outside"),
        ('import { other } from "./c.js";', "does not export other"),
    ],
)
def test_a_module_that_cannot_be_joined_is_named(text: str, words: str) -> None:
    files = {"app.js": text, "b.js": 'import { a } from "./app.js";\n', "c.js": "export const c = 1;\n"}

    with pytest.raises(Unjoinable, match=words):
        join("app.js", files.__getitem__)


def test_what_cannot_be_joined_is_sent_module_by_module(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "app.js").write_text('import * as a from "./a.js";\n')
    (tmp_path / "a.js").write_text("export const a = 1; // one\n")
    maker = Maker(tmp_path)

    assert maker.make("a.js").sources.keys() >= {"a.js"}
    assert "app.js: 'import * as a" in caplog.text
    (tmp_path / "app.js").write_text('import { a } from "./a.js";\n')
    asset = maker.make("app.js")
    assert asset.sources.keys() == {"app.js", "a.js"}
    (tmp_path / "a.js").write_text("export const a = 2; // two\n")
    assert not maker.current(asset)


def test_the_modules_of_the_page_can_be_joined(caplog: pytest.LogCaptureFixture) -> None:
    maker = Maker(WEB)
    for path in sorted(WEB.glob("*.js")):
        maker.make(path.name)

    assert caplog.text == ""
