"""What the page is made of: vendored files as recorded, small modules, few bytes."""

import gzip
import re
import shutil
import subprocess
import sys
from pathlib import Path

from channels.websocket import slim

ROOT = Path(__file__).parents[2]
WEB = ROOT / "channels" / "websocket" / "web"
CORE = ("preact", "hooks", "htm", "signals", "signals-core", "marked")


def own_modules() -> list[Path]:
    return sorted(WEB.glob("*.js"))


def test_every_vendored_file_has_its_recorded_hash() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "vendor_web.py"), "--check"]
    result = subprocess.run(script, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout


def test_a_changed_vendored_file_is_found(tmp_path: Path) -> None:
    target = tmp_path / "channels" / "websocket" / "web" / "vendor"
    shutil.copytree(WEB / "vendor", target)
    shutil.copytree(ROOT / "tests" / "page" / "vendor", tmp_path / "tests" / "page" / "vendor")
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "vendor_web.py", tmp_path / "scripts")
    with (target / "preact.js").open("a") as file:
        file.write("//")
    script = [sys.executable, str(tmp_path / "scripts" / "vendor_web.py"), "--check"]
    result = subprocess.run(script, capture_output=True, text=True, check=False)

    assert result.returncode == 1
    assert "preact.js: changed by hand" in result.stdout


LAZY = {
    "actions.js",
    "goal_sheet.js",
    "highlight.js",
    "keys_sheet.js",
    "office.js",
    "panels.css",
    "search.js",
}


def test_what_is_loaded_before_a_reply_is_drawn_is_small() -> None:
    """As the server sends it: without comments, compressed."""
    texts = [slim.script(file.read_text()) for file in own_modules() if file.name not in LAZY]
    texts += [slim.style(file.read_text()) for file in WEB.glob("*.css") if file.name not in LAZY]
    texts += [(WEB / "vendor" / f"{name}.js").read_text() for name in CORE]
    texts.append((WEB / "index.html").read_text())

    assert sum(len(gzip.compress(text.encode(), 9)) for text in texts) <= 78_000  # bytes


def test_no_module_is_long_writes_markup_or_is_missing_from_the_preload_list() -> None:
    index = (WEB / "index.html").read_text()
    lazy = {"boot.js", *LAZY}
    for file in own_modules():
        text = file.read_text()
        assert text.count("\n") < 400, file.name
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySetInnerHTML|\beval\(", text
        ), file.name
        assert file.name in lazy or f'href="{file.name}"' in index, file.name
