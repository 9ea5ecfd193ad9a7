"""Content folders: the nearest owner comes first."""

from pathlib import Path

from nanobot import content


def test_a_checkout_reads_its_content_in_place() -> None:
    root = Path(content.__file__).parent.parent
    assert content.bundled("channels") == root / "channels"
    assert {"slack", "telegram", "websocket"} <= set(content.find("channels", None))


def test_a_workspace_folder_replaces_the_shipped_one(tmp_path: Path) -> None:
    mine = tmp_path / "channels" / "slack"
    mine.mkdir(parents=True)
    found = content.find("channels", tmp_path)
    assert found["slack"] == mine
    assert found["telegram"] == content.bundled("channels") / "telegram"
    assert list(found) == sorted(found)


def test_roots_name_the_workspace_first_and_only_what_exists(tmp_path: Path) -> None:
    assert content.roots("channels", tmp_path) == [content.bundled("channels")]
    (tmp_path / "channels").mkdir()
    assert content.roots("channels", tmp_path) == [tmp_path / "channels", content.bundled("channels")]


def test_hidden_folders_and_files_are_no_content(tmp_path: Path) -> None:
    for name in (".git", "__pycache__"):
        (tmp_path / "skills" / name).mkdir(parents=True)
    (tmp_path / "skills" / "README.md").write_text("x")
    assert not {".git", "__pycache__", "README.md"} & set(content.find("skills", tmp_path))
