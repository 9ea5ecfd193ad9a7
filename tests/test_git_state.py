"""What is known of real git repositories, of every kind."""

import os
import time
from pathlib import Path

import pytest

from nanobot import git_state as reading
from nanobot.git_state import GitState, git_state
from nanobot.security import process, sandbox
from tests.git_support import commit, git, repository
from tests.security_support import security_of


async def look(place: Path) -> GitState:
    return await git_state(security_of(place))


async def test_where_there_is_no_repository_no_process_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert await look(tmp_path) == GitState(str(tmp_path))
    assert (await look(tmp_path)).told() == ""
    assert (await look(tmp_path)).identifier == f"project_{tmp_path.name}"


async def test_an_unborn_branch_has_a_name_and_no_commit(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "new").write_text("x")
    state = await look(tmp_path)
    assert (state.is_repository, state.branch, state.commit, state.commits) == (True, "main", "", 0)
    assert state.unborn
    assert state.told() == "main, no commit yet, 1 changed file"


@pytest.mark.parametrize(("kind", "length"), [("sha1", 40), ("sha256", 64)])
async def test_commits_are_named_in_either_format(tmp_path: Path, kind: str, length: int) -> None:
    repository(tmp_path, kind=kind)
    commit(tmp_path)
    commit(tmp_path, "b")
    git(tmp_path, "remote", "add", "origin", "https://user:secret@example.org/x.git")
    state = await look(tmp_path)
    assert len(state.commit) == length
    assert state.commit == git(tmp_path, "rev-parse", "HEAD").strip()
    assert (state.commits, state.branch, state.remote) == (2, "main", "https://example.org/x.git")
    assert state.last_commit_at
    assert state.size_mb >= 0
    assert state.clean
    assert state.told() == f"main at {state.commit[:8]}, clean"
    (tmp_path / "a").write_text("other")
    (tmp_path / "new file\nwith a line break").write_text("x")
    changed = await look(tmp_path)
    assert (changed.dirty, changed.changes, changed.clean) == (True, 2, False)
    assert changed.identifier == state.identifier


async def test_a_detached_head_has_no_branch(tmp_path: Path) -> None:
    commit(repository(tmp_path))
    git(tmp_path, "checkout", "-q", "--detach")
    state = await look(tmp_path)
    assert state.detached
    assert state.told().startswith(f"detached at {state.commit[:8]}")


async def test_looking_changes_nothing_in_the_tree(tmp_path: Path) -> None:
    """A filter that the repository names runs where it can write nothing; and no cover is left lying about."""
    place = repository(tmp_path)
    commit(place)
    git(place, "config", "filter.x.clean", "touch ran .git/ran; cat")
    (place / ".gitattributes").write_text("* filter=x\n")
    (place / "a").write_text("changed")
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    assert (await look(place)).changes == 2
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before


async def test_what_is_nanobots_own_is_no_change(tmp_path: Path) -> None:
    commit(repository(tmp_path))
    for name in (".nanobot", "channels"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("x")
    (tmp_path / "config.toml").write_text("")
    assert (await look(tmp_path)).clean


async def test_what_a_repository_names_to_be_run_is_not_run_outside(tmp_path: Path) -> None:
    place = repository(tmp_path / "work")
    commit(place)
    outside = tmp_path / "ran"
    for key in ("core.fsmonitor", "gpg.program", "core.pager", "core.sshCommand"):
        git(place, "config", key, f"touch {outside}")
    git(place, "config", "log.showSignature", "true")
    git(place, "config", "filter.x.clean", f"touch {outside}; cat")
    (place / ".gitattributes").write_text("* filter=x\n")
    (place / "a").write_text("changed")
    await look(place)
    assert not outside.exists()


async def test_without_a_sandbox_only_the_changes_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository(tmp_path))
    monkeypatch.setattr(sandbox, "usable", lambda: False)
    state = await look(tmp_path)
    assert state.commit
    assert state.dirty is None
    assert state.told() == f"main at {state.commit[:8]}"


async def test_a_directory_below_a_repository_has_its_state_if_tools_may_reach_it(tmp_path: Path) -> None:
    work = repository(tmp_path / "work")
    commit(work)
    (work / "sub").mkdir()
    commit(work, "sub/b")
    (work / "a").write_text("changed above")
    inside = security_of(work, allowed_dirs=[str(work / "sub")]).within(work / "sub")
    state = await git_state(inside)
    assert (state.is_repository, state.branch, state.changes) == (True, "main", 0)
    (work / "sub" / "b").write_text("changed")
    assert (await git_state(inside)).changes == 1
    alone = await look(work / "sub")  # a workspace of its own inside somebody's repository
    assert not alone.is_repository
    assert "outside what tools may reach" in alone.told()


async def test_a_worktree_whose_store_is_elsewhere_says_so(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    commit(main)
    git(main, "worktree", "add", "-q", str(tmp_path / "tree"))
    state = await look(tmp_path / "tree")
    if sandbox.usable():
        assert not state.is_repository
        assert "not a git repository" in state.told()


async def test_a_broken_repository_and_a_missing_git_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    assert "not a git repository" in (await look(tmp_path)).told()
    commit(repository(tmp_path / "b"))
    (tmp_path / "b" / ".git" / "HEAD").write_text("nonsense\n")
    assert (await look(tmp_path / "b")).problem
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setattr(sandbox, "usable", lambda: False)
    monkeypatch.setattr("nanobot.security.environment.PATH", str(empty))
    assert (await look(tmp_path / "b")).told() == "no repository: git is not installed"


async def test_a_repository_of_100000_files_is_told_within_seconds(tmp_path: Path) -> None:
    place = repository(tmp_path)
    blob = git(place, "hash-object", "-w", "--stdin", stdin=b"x").strip()
    entries = "".join(f"100644 {blob}\t{n // 1000}/{n}\n" for n in range(100_000))
    git(place, "update-index", "--index-info", stdin=entries.encode())
    git(place, "commit", "-q", "-m", "many")
    started = time.monotonic()
    state = await look(place)
    seconds = time.monotonic() - started
    assert (state.branch, state.commits) == ("main", 1)
    assert state.changes == reading.MOST_CHANGES  # none of them is there, and counting ends
    assert "1000+ changed files" in state.told()
    assert seconds < 5


async def test_a_git_that_does_not_end_is_stopped_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository(tmp_path / "work"))
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nsleep 4242.4242\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sandbox, "usable", lambda: False)
    monkeypatch.setattr("nanobot.security.environment.PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(reading, "GIT_SECONDS", 0.3)
    state = await look(tmp_path / "work")
    assert not state.is_repository
    assert state.problem == "git took too long"
    assert process.of_session("") == {}


def test_a_state_that_cannot_be_is_refused() -> None:
    for wrong in (
        {"path": "relative"},
        {"path": "/x", "is_repository": True},
        {"path": "/x", "commit": "abc"},
        {"path": "/x", "is_repository": True, "branch": "main", "commits": -1},
    ):
        with pytest.raises(ValueError, match=r"."):
            GitState(**wrong)
