"""TODO.md and tasks/ of a working tree, followed by their times of change."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.task_files import MOST_TASKS, TaskFile, scan
from tests.security_support import security_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_boxes_are_counted_and_assignments_are_read(tmp_path: Path) -> None:
    (tmp_path / "TODO.md").write_text("- [ ] one\n- [x] two\n* [X] three\n1. [ ] four\n[ ] no box\n")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "b.md").write_text("# B\nAssigned to: claude\n\n- [ ] x\n")
    (tmp_path / "tasks" / "a.md").write_text("")
    found = scan(security_of(tmp_path), NOW)
    assert (found.todo.open_items, found.todo.done_items) == (2, 2)
    assert [one.name for one in found.tasks] == ["tasks/a.md", "tasks/b.md"]
    assert found.assignments == {"tasks/b.md": "claude"}
    assert found.told() == "TODO.md has 2 open and 2 done; tasks/ has 2 files with 1 open and 0 done"
    assert found.todo_file_path == str(tmp_path / "TODO.md")


def test_an_empty_directory_has_nothing_to_tell(tmp_path: Path) -> None:
    found = scan(security_of(tmp_path), NOW)
    assert (found.told(), found.tasks, found.todo) == ("", (), TaskFile("TODO.md"))


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    security = security_of(tmp_path)
    todo = tmp_path / "TODO.md"
    todo.write_text("- [ ] one\n")
    first = scan(security, NOW)
    assert not first.is_todo_modified(security.boundary)
    stamp = todo.stat()
    todo.write_text("- [x] one\n")
    os.utime(todo, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # as long as before, and as old
    assert scan(security, NOW, first).todo is first.todo
    os.utime(todo, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    assert first.is_todo_modified(security.boundary)
    assert scan(security, NOW, first).todo.done_items == 1
    todo.unlink()
    assert scan(security, NOW, first).todo.changed_at == ""


def test_task_files_that_lead_out_of_the_tree_are_not_read(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (outside / "secret.md").write_text("- [ ] secret\n")
    (work / "TODO.md").symlink_to(outside / "secret.md")
    (work / "tasks").symlink_to(outside)
    assert scan(security_of(work), NOW).told() == ""
    (work / "TODO.md").unlink()
    os.mkfifo(work / "TODO.md")
    assert scan(security_of(work), NOW).told() == ""


def test_a_flood_of_task_files_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tasks").mkdir()
    for number in range(MOST_TASKS + 5):
        (tmp_path / "tasks" / f"{number:04}.md").touch()
    found = scan(security_of(tmp_path), NOW)
    assert (len(found.tasks), found.left_out) == (MOST_TASKS, 5)
    assert found.told() == f"tasks/ has {MOST_TASKS + 5} files"
    monkeypatch.setattr("nanobot.task_files.MOST_SEEN", 100)
    assert scan(security_of(tmp_path), NOW).told() == "tasks/ has 100+ files"
