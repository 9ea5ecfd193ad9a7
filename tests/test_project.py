"""The workspace of a session: real git repositories of every kind, task files, processes, and the life of it all."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from nanobot.lifecycle import TABLE, IllegalStep, Stage, advance
from nanobot.project import GitState, git_state, metrics, project_summary, task_files
from nanobot.security import sandbox, tree
from nanobot.security.paths import Boundary


def git(place: Path, *arguments: str) -> None:
    line = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    subprocess.run(line, cwd=place, check=True, capture_output=True)


def commit(place: Path, name: str = "a") -> None:
    (place / name).write_text(name)
    git(place, "add", name)
    git(place, "commit", "-q", "-m", name)


async def look(place: Path) -> GitState:
    return await git_state(place, Boundary(place))


async def test_a_directory_without_a_repository_is_none(tmp_path: Path) -> None:
    assert await look(tmp_path) == GitState(str(tmp_path))


async def test_an_unborn_branch_has_a_name_and_no_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    state = await look(tmp_path)
    assert (state.is_repository, state.branch, state.commit, state.commits) == (True, "main", "", 0)


@pytest.mark.parametrize(("kind", "length"), [("sha1", 40), ("sha256", 64)])
async def test_commits_are_named_in_either_format(tmp_path: Path, kind: str, length: int) -> None:
    git(tmp_path, "init", "-q", "-b", "main", f"--object-format={kind}")
    commit(tmp_path)
    commit(tmp_path, "b")
    git(tmp_path, "remote", "add", "origin", "https://user:secret@example.org/x.git")
    state = await look(tmp_path)
    assert len(state.commit) == length
    assert (state.commits, state.branch, state.remote) == (2, "main", "https://example.org/x.git")
    assert state.last_commit_at
    if sandbox.usable():
        assert state.dirty is False
        (tmp_path / "a").write_text("other")
        assert (await look(tmp_path)).dirty is True


async def test_a_detached_head_has_no_branch(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    git(tmp_path, "checkout", "-q", "--detach")
    state = await look(tmp_path)
    assert state.detached
    assert state.commit


async def test_what_a_repository_names_to_be_run_is_not_run_outside(tmp_path: Path) -> None:
    place = tmp_path / "work"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    commit(place)
    outside = tmp_path / "ran"
    git(place, "config", "core.fsmonitor", f"touch {outside}")
    git(place, "config", "filter.x.clean", f"touch {outside}; cat")
    (place / ".gitattributes").write_text("* filter=x\n")
    (place / "a").write_text("changed")
    await look(place)
    assert not outside.exists()


def test_task_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "TODO.md").write_text("- [ ] one\n- [x] two\n* [X] three\n")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "b.md").write_text("")
    found = task_files(tmp_path)
    assert (found.open_items, found.done_items, found.tasks) == (1, 2, ("b.md",))
    assert task_files(tmp_path / "tasks").todo == ""


async def test_a_tree_of_processes_is_measured_as_one() -> None:
    shell = await asyncio.create_subprocess_exec("sh", "-c", "sleep 30 & sleep 30", start_new_session=True)
    root = tree.identify(shell.pid)
    assert root
    async with asyncio.timeout(5):
        while metrics(root).processes < 3:
            await asyncio.sleep(0.01)  # until the shell has started both
    assert metrics(root).memory_mb > 0
    await tree.kill_tree(root)
    await shell.wait()


async def test_the_summary_has_it_all(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    found = await project_summary(tmp_path, Boundary(tmp_path))
    assert found["git"]["branch"] == "main"
    assert found["files"] >= 1
    assert found["files_capped"] is False


def test_only_legal_stages_follow_each_other() -> None:
    life = (
        Stage.INITIALIZING,
        Stage.ACTIVE,
        Stage.IDLE,
        Stage.ACTIVE,
        Stage.ERROR,
        Stage.RECOVERING,
        Stage.ACTIVE,
    )
    present = Stage.CREATED
    for wanted in (*life, Stage.TERMINATING, Stage.TERMINATED):
        present = advance(present, wanted)
    for wanted in Stage:
        with pytest.raises(IllegalStep):
            advance(Stage.TERMINATED, wanted)
    for present, wanted in (
        (Stage.CREATED, Stage.ACTIVE),
        (Stage.ERROR, Stage.ACTIVE),
        (Stage.IDLE, Stage.IDLE),
    ):
        with pytest.raises(IllegalStep):
            advance(present, wanted)
    assert all(
        Stage.TERMINATING in following or stage.startswith("terminat") for stage, following in TABLE.items()
    )
