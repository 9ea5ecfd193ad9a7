"""What the page is made of: vendored files as recorded, small modules, few bytes."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from channels.websocket.assets import Maker

ROOT = Path(__file__).parents[2]
WEB = ROOT / "channels" / "websocket" / "web"


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


def test_what_is_loaded_before_a_reply_is_drawn_is_small_and_is_one_script() -> None:
    """As the server sends it. `test_chat` counts what a browser really fetches."""
    maker = Maker(WEB)
    core = [maker.make(name) for name in ("index.html", "boot.js", "page.css", "app.js")]

    assert sum(len(asset.body) for asset in core) <= 60_000  # bytes
    assert len(core[3].sources) > 30


def test_no_module_is_long_or_writes_markup() -> None:
    for file in own_modules():
        text = file.read_text()
        assert text.count("\n") < 400, file.name
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySetInnerHTML|\beval\(", text
        ), file.name
