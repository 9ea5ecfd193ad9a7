import asyncio
import os
from pathlib import Path

import pytest

from nanobot.tools import search
from tests.tools_support import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    files = {
        "readme.md": "Hello\nneedle here\n",
        "src/main.py": "import os\n\n\ndef needle():\n    pass\n\n\ndef other():\n    needle()\n",
        "src/deep/er/test_main.py": "NEEDLE = 1\n",
        "src/deep/util.py": "nothing\n",
        "node_modules/x/index.js": "needle\n",
        ".git/config": "needle\n",
    }
    for path, text in files.items():
        (desk.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (desk.workspace / path).write_text(text)
    (desk.workspace / "data.bin").write_bytes(b"needle\0\1\2")
    (desk.workspace / "link").symlink_to("src")
    return desk


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("*.py", ".", {"src/main.py", "src/deep/util.py", "src/deep/er/test_main.py"}),
        ("src/*.py", ".", {"src/main.py"}),
        ("**/*.py", ".", {"src/main.py", "src/deep/util.py", "src/deep/er/test_main.py"}),
        ("src/**/test_*.py", ".", {"src/deep/er/test_main.py"}),
        ("src/**/main.py", ".", {"src/main.py"}),
        ("deep/**", "src", {"src/deep/util.py", "src/deep/er/test_main.py"}),
        ("**/er/**", ".", {"src/deep/er/test_main.py"}),
        ("[rd]*.[mb]*", ".", {"readme.md", "data.bin"}),
        ("*.rs", ".", {"no file matches"}),
        ("*", "link", {"src/main.py", "src/deep/util.py", "src/deep/er/test_main.py"}),
    ],
)
async def test_files_are_found_by_name(desk: Desk, pattern: str, path: str, found: set[str]) -> None:
    result = await desk.call("find_files", pattern=pattern, path=path)
    assert set(result.text.splitlines()) == found


async def test_the_newest_file_comes_first(desk: Desk) -> None:
    os.utime(desk.workspace / "src/deep/util.py", (2e9, 2e9))
    result = await desk.call("find_files", pattern="*.py")
    assert result.text.splitlines()[0] == "src/deep/util.py"


async def test_lines_are_found_with_their_places(desk: Desk) -> None:
    result = await desk.call("grep", pattern=r"needle")
    assert result.text == (
        "readme.md:2:needle here\nsrc/main.py:4:def needle():\nsrc/main.py:9:    needle()\n"
        "[3 matching lines in 2 files]"
    )


async def test_context_case_and_file_names_narrow_and_widen(desk: Desk) -> None:
    around = await desk.call("grep", pattern="needle", path="src/main.py", context=1)
    assert around.text.splitlines()[:-1] == [
        "src/main.py-3-",
        "src/main.py:4:def needle():",
        "src/main.py-5-    pass",
        "--",
        "src/main.py-8-def other():",
        "src/main.py:9:    needle()",
    ]
    anyhow = await desk.call("grep", pattern="needle", files="test_*", ignore_case=True)
    assert anyhow.text.splitlines()[0] == "src/deep/er/test_main.py:1:NEEDLE = 1"
    assert (await desk.call("grep", pattern="absent")).text == "no match"


async def test_a_wrong_expression_and_a_missing_folder_are_told(desk: Desk) -> None:
    assert "the regular expression is wrong" in (await desk.call("grep", pattern="(")).text
    assert "does not exist" in (await desk.call("grep", pattern="x", path="no/where")).text


async def test_very_many_matches_are_shown_in_part_and_counted_whole(desk: Desk) -> None:
    (desk.workspace / "many.txt").write_text("needle in a line\n" * 50_000)
    text = (await desk.call("grep", pattern="needle in")).text
    assert len(text) < 16_000
    assert text.endswith("[50,000 matching lines in 1 files; not all are shown]")


async def test_a_hard_link_to_the_state_is_not_searched(desk: Desk) -> None:
    os.link(desk.secret, desk.workspace / "innocent.txt")
    assert (await desk.call("grep", pattern="secret")).text == "no match"
    assert (await desk.call("grep", pattern="secret", path="innocent.txt")).error


async def test_an_expression_that_never_ends_is_stopped_and_holds_up_nobody(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SECONDS", 1.0)
    (desk.workspace / "a.txt").write_text("a" * 60 + "b\n")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    result = await desk.call("grep", pattern="(a+)+$", path="a.txt")
    ticking.cancel()
    assert "took more than 1 s" in result.text
    assert ticks > 20
