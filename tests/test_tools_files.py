import os
from pathlib import Path

import pytest

from tests.tools_support import Desk, Settings


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_file_is_written_read_and_edited(desk: Desk) -> None:
    made = await desk.call("write_file", path="src/a.py", content="one\ntwo\nthree\n")
    again = await desk.call("write_file", path="src/a.py", content="one\ntwo\nthree\n")
    edited = await desk.call("edit_file", path="src/a.py", old_text="two", new_text="2")
    assert (made.text, again.text) == ("Created src/a.py: 14 bytes", "Replaced src/a.py: 14 bytes")
    assert edited.text == "Edited src/a.py: 1 replacement"
    assert (await desk.call("read_file", path="src/a.py")).text == "     1\tone\n     2\t2\n     3\tthree"


async def test_reading_goes_on_where_it_stopped(desk: Desk) -> None:
    (desk.workspace / "long.txt").write_text("".join(f"line {n}\n" for n in range(1, 10_001)))
    seen, offset = 0, 1
    while True:
        text = (await desk.call("read_file", path="long.txt", offset=offset)).text
        assert len(text) < 16_000
        rows = [row for row in text.splitlines() if "\t" in row]
        assert rows[0] == f"{offset:>6}\tline {offset}"
        seen += len(rows)
        if "continue with offset=" not in text:
            break
        offset = int(text.rpartition("offset=")[2].rstrip("]"))
    assert seen == 10_000


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "(the file is empty)"),
        (b"\n", "     1\t"),
        (b"a\r\nb", "     1\ta\n     2\tb"),
        (b"\xff", "     1\t\ufffd"),
    ],
)
async def test_odd_files_are_read(desk: Desk, content: bytes, told: str) -> None:
    (desk.workspace / "odd").write_bytes(content)
    assert (await desk.call("read_file", path="odd")).text == told


async def test_what_cannot_be_read_is_told(desk: Desk) -> None:
    (desk.workspace / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (desk.workspace / "big").write_bytes(b"x" * ((10 << 20) + 1))
    os.mkfifo(desk.workspace / "pipe")
    told = {
        path: (await desk.call("read_file", path=path)).text
        for path in ("image.png", "big", "pipe", ".", "no", "")
    }
    assert "binary" in told["image.png"]
    assert "more than" in told["big"]
    assert "regular" in told["pipe"]
    assert "list_dir" in told["."]
    assert "does not exist" in told["no"]
    assert "empty" in told[""]


@pytest.mark.parametrize(
    ("old", "told"),
    [
        ("def  run(self)", "nearest line is 2: 'def run(self):'"),
        ("    return 1", "occurs 2 times in a.py (lines 3, 5)"),
        ("class Zebra", "was not found"),
        ("def run(self):", "are the same"),
    ],
)
async def test_an_edit_that_does_not_fit_says_why(desk: Desk, old: str, told: str) -> None:
    text = "class A:\ndef run(self):\n    return 1\ndef stop(self):\n    return 1\n"
    (desk.workspace / "a.py").write_text(text)
    result = await desk.call("edit_file", path="a.py", old_text=old, new_text="def run(self):")
    assert result.error
    assert told in result.text
    assert (desk.workspace / "a.py").read_text() == text


async def test_an_edit_of_all_places_and_of_a_file_with_carriage_returns(desk: Desk) -> None:
    (desk.workspace / "a.txt").write_bytes(b"x\r\ny\r\nx\r\n")
    both = await desk.call("edit_file", path="a.txt", old_text="x\n", new_text="z\n", replace_all=True)
    assert both.text == "Edited a.txt: 2 replacements"
    assert (desk.workspace / "a.txt").read_bytes() == b"z\r\ny\r\nz\r\n"


async def test_a_file_that_is_not_text_is_not_edited(desk: Desk) -> None:
    (desk.workspace / "a").write_bytes(b"caf\xe9")
    assert "not UTF-8" in (await desk.call("edit_file", path="a", old_text="caf", new_text="tea")).text


async def test_too_much_is_not_written(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Settings(max_file_mb=1))
    result = await desk.call("write_file", path="big", content="x" * ((1 << 20) + 1))
    assert "max_file_mb" in result.text
    assert not (desk.workspace / "big").exists()


async def test_folders_are_listed_without_what_is_hidden(desk: Desk) -> None:
    for path in ("src/a.py", "node_modules/x/y.js", "src/deep/b.py"):
        await desk.call("write_file", path=path, content="x")
    (desk.workspace / "link").symlink_to("src")
    flat = (await desk.call("list_dir")).text
    deep = (await desk.call("list_dir", recursive=True)).text
    assert [row.split()[-1] for row in flat.splitlines()] == ["link@", "node_modules/", "src/"]
    assert [row.split()[-1] for row in deep.splitlines()] == [
        "link@",
        "src/",
        "src/a.py",
        "src/deep/",
        "src/deep/b.py",
    ]
    assert (await desk.call("list_dir", path="src/a.py")).error


async def test_a_very_full_folder_is_listed_in_part(desk: Desk) -> None:
    for number in range(700):
        (desk.workspace / f"{number:04}").touch()
    text = (await desk.call("list_dir")).text
    assert len(text) < 16_000
    assert "more; list a folder below" in text


@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file", "list_dir", "find_files", "grep"])
@pytest.mark.parametrize("path", [".nanobot", "config.toml", "channels", "../outside.txt", "/etc"])
async def test_no_tool_reaches_what_is_hidden_or_outside(desk: Desk, name: str, path: str) -> None:
    more = {
        "write_file": {"content": "evil"},
        "edit_file": {"old_text": "secret", "new_text": "evil"},
        "find_files": {"pattern": "*"},
        "grep": {"pattern": "secret"},
    }
    result = await desk.call(name, path=path, **more.get(name, {}))
    assert result.error
    assert result.text.startswith(("Refused:", "Error: Refused:"))
    assert "a.jsonl" not in result.text
