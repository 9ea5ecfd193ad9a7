import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nanobot.errors import Refused, ToolError
from nanobot.security.paths import Boundary


@pytest.fixture
def boundary(tmp_path: Path) -> Boundary:
    work = tmp_path / "work"
    for folder in (".nanobot/sessions", "channels/echo", "templates", "a/b"):
        (work / folder).mkdir(parents=True)
    for file in (".nanobot/sessions/s.jsonl", "channels/echo/adapter.py", "config.toml"):
        (work / file).write_text("secret")
    (work / "templates/system.md.j2").write_text("template")
    (work / "a/b/file.txt").write_text("inside")
    (tmp_path / "work2").mkdir()
    (tmp_path / "work2/file.txt").write_text("secret")
    return Boundary(work)


@pytest.mark.parametrize(
    "path",
    [
        "../work2/file.txt",
        "a/../../work2/file.txt",
        "a/b/../../../work2/file.txt",
        "/etc/passwd",
        "/",
        "..",
        "~/.ssh/id_rsa",
        "~root/x",
        "//etc/passwd",
        "/proc/self/environ",
        "/dev/stdin",
    ],
)
def test_a_path_outside_is_refused(boundary: Boundary, path: str) -> None:
    with pytest.raises(Refused):
        boundary.read(path, 1_000)
    with pytest.raises(Refused):
        boundary.write(path, b"x")


@pytest.mark.parametrize(
    "path",
    [
        ".nanobot/sessions/s.jsonl",
        "a/../.nanobot/sessions/s.jsonl",
        ".nanobot",
        ".nanobot/new",
        ".NanoBot/new",
        "config.toml",
        "Config.TOML",
        "channels/echo/adapter.py",
        "channels/evil/__init__.py",
        "./channels",
    ],
)
def test_what_belongs_to_nanobot_is_neither_read_nor_written(boundary: Boundary, path: str) -> None:
    with pytest.raises(Refused):
        boundary.read(path, 1_000)
    with pytest.raises(Refused):
        boundary.write(path, b"x")
    with pytest.raises(Refused):
        boundary.read(str(boundary.root / path), 1_000)


def test_a_folder_whose_name_only_begins_like_the_workspace_is_outside(boundary: Boundary) -> None:
    with pytest.raises(Refused):
        boundary.read(f"{boundary.root}2/file.txt", 1_000)


def test_an_absolute_path_inside_and_one_through_dots_are_the_same_file(boundary: Boundary) -> None:
    assert boundary.read(f"{boundary.root}/a/b/file.txt", 1_000) == b"inside"
    assert boundary.read("a/../a/b/./file.txt", 1_000) == b"inside"


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../work2/file.txt", ".nanobot/sessions/s.jsonl", "config.toml"]
)
def test_a_symbolic_link_is_judged_by_where_it_leads(boundary: Boundary, target: str) -> None:
    (boundary.root / "link").symlink_to(target)
    with pytest.raises(Refused):
        boundary.read("link", 1_000)
    with pytest.raises(Refused):
        boundary.write("link", b"x")


def test_a_link_that_stays_inside_is_followed(boundary: Boundary) -> None:
    (boundary.root / "link").symlink_to("a/b")
    assert boundary.read("link/file.txt", 1_000) == b"inside"
    assert boundary.write("link/file.txt", b"new") is False
    assert (boundary.root / "a/b/file.txt").read_bytes() == b"new"


def test_a_dangling_link_does_not_create_its_target_outside(boundary: Boundary, tmp_path: Path) -> None:
    (boundary.root / "link").symlink_to(tmp_path / "made")
    with pytest.raises(Refused):
        boundary.write("link", b"x")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("hidden", [".nanobot/sessions/s.jsonl", "config.toml", "channels/echo/adapter.py"])
def test_a_hard_link_to_a_hidden_file_is_refused(boundary: Boundary, hidden: str) -> None:
    os.link(boundary.root / hidden, boundary.root / "a/innocent.txt")
    with pytest.raises(Refused, match="second name"):
        boundary.read("a/innocent.txt", 1_000)
    with pytest.raises(Refused, match="second name"):
        boundary.write("a/innocent.txt", b"x")
    assert (boundary.root / hidden).read_text() == "secret"


def test_a_hard_link_made_after_an_earlier_look_is_refused_too(boundary: Boundary) -> None:
    os.link(boundary.root / "a/b/file.txt", boundary.root / "a/twin.txt")
    assert boundary.read("a/twin.txt", 1_000) == b"inside"
    fresh = boundary.root / ".nanobot/sessions/new.jsonl"
    fresh.write_text("secret")
    os.link(fresh, boundary.root / "a/new.txt")
    with pytest.raises(Refused):
        boundary.read("a/new.txt", 1_000)


def test_a_clock_that_was_set_back_makes_no_hard_link_older_than_the_look(
    boundary: Boundary, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.link(boundary.root / "a/b/file.txt", boundary.root / "a/twin.txt")
    fast = time.time() + 3_600
    with monkeypatch.context() as clock:
        clock.setattr(time, "time", lambda: fast)
        assert boundary.read("a/twin.txt", 1_000) == b"inside"
    fresh = boundary.root / ".nanobot/sessions/new.jsonl"
    fresh.write_text("secret")
    os.link(fresh, boundary.root / "a/new.txt")
    with pytest.raises(Refused):
        boundary.read("a/new.txt", 1_000)


def test_removing_what_is_not_there_is_well_and_what_is_no_file_an_error(boundary: Boundary) -> None:
    boundary.remove("a/nothing.txt")
    boundary.remove("nowhere/nothing.txt")
    with pytest.raises(ToolError, match=r"^a: "):
        boundary.remove("a")


def test_a_workspace_that_went_away_is_told_like_any_other_trouble(boundary: Boundary) -> None:
    boundary.root.rename(boundary.root.with_name("elsewhere"))
    for attempt in (
        lambda: boundary.read("a/b/file.txt", 1_000),
        lambda: boundary.write("new.txt", b"x"),
        lambda: boundary.scan(()),
        lambda: list(boundary.walk()),
    ):
        with pytest.raises(ToolError):
            attempt()


def test_a_state_directory_elsewhere_in_the_workspace_is_hidden_as_well(tmp_path: Path) -> None:
    state = tmp_path / "var" / "state"
    state.mkdir(parents=True)
    (state / "gateway.db").write_text("secret")
    boundary = Boundary(tmp_path, [state])
    with pytest.raises(Refused):
        boundary.read("var/state/gateway.db", 1_000)
    assert [entry.name for entry in boundary.scan(("var",))] == []


def test_another_working_tree_still_hides_the_state(boundary: Boundary, tmp_path: Path) -> None:
    wider = boundary.within(tmp_path)
    (tmp_path / "config.toml").write_text("a project's own")
    assert wider.read("config.toml", 1_000) == b"a project's own"
    assert wider.read("work2/file.txt", 1_000) == b"secret"
    for path in ("work/.nanobot/sessions/s.jsonl", "work/config.toml"):
        with pytest.raises(Refused):
            wider.read(path, 1_000)


def test_hidden_channels_behind_a_link_are_hidden_under_their_real_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/adapter.py").write_text("secret")
    (tmp_path / "channels").symlink_to("real")
    boundary = Boundary(tmp_path)
    for path in ("channels/adapter.py", "real/adapter.py"):
        with pytest.raises(Refused):
            boundary.write(path, b"x")


def test_a_folder_swapped_for_a_link_between_look_and_opening_is_refused(
    boundary: Boundary, tmp_path: Path
) -> None:
    parts = boundary.locate("a/b/file.txt")
    (boundary.root / "a/b").rename(boundary.root / "a/was")
    (boundary.root / "a/b").symlink_to(tmp_path / "work2")
    with pytest.raises(Refused, match="became a link"), boundary.file_at(parts):
        pass
    with pytest.raises(Refused, match="became a link"), boundary.directory(parts[:-1], create=True):
        pass


def test_a_file_swapped_for_a_link_between_look_and_opening_is_refused(
    boundary: Boundary, tmp_path: Path
) -> None:
    parts = boundary.locate("a/b/file.txt")
    (boundary.root / "a/b/file.txt").unlink()
    (boundary.root / "a/b/file.txt").symlink_to(tmp_path / "work2/file.txt")
    with pytest.raises(Refused, match="became a link"), boundary.file_at(parts):
        pass


SWAPPER = """
import contextlib, os, shutil, sys
place, aside, victim = sys.argv[1:]
while True:
    try:
        os.rename(place, aside)
        os.symlink(victim, place)
        os.unlink(place)
        os.rename(aside, place)
    except OSError:  # a write put a folder where the link was to be
        if not os.path.islink(place):
            shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rename(aside, place)
"""


def test_no_swapping_however_fast_lets_a_read_or_write_out(boundary: Boundary, tmp_path: Path) -> None:
    victim = tmp_path / "work2"
    names = [boundary.root / "a/b", boundary.root / "a/was", victim]
    outcomes: set[str] = set()
    with subprocess.Popen(
        [sys.executable, "-I", "-c", SWAPPER, *names], stderr=subprocess.DEVNULL
    ) as swapper:
        until = time.monotonic() + 10
        rounds = 0
        while time.monotonic() < until and (rounds < 500 or "Refused" not in outcomes):
            rounds += 1
            try:
                outcomes.add(boundary.read("a/b/file.txt", 1_000).decode())
                boundary.write("a/b/written.txt", b"x", durable=False)
            except ToolError as error:
                outcomes.add(type(error).__name__)
        swapper.kill()
    assert "secret" not in outcomes
    assert "Refused" in outcomes, "the race was not run"
    assert [path.name for path in victim.iterdir()] == ["file.txt"]


def test_a_fifo_and_a_folder_are_not_read(boundary: Boundary) -> None:
    os.mkfifo(boundary.root / "pipe")
    with pytest.raises(Refused, match="regular"):
        boundary.read("pipe", 1_000)
    with pytest.raises(ToolError, match="directory"):
        boundary.read("a", 1_000)
    with pytest.raises(ToolError, match="directory"):
        boundary.write("a", b"x")
    with pytest.raises(ToolError, match="not a directory"):
        boundary.read("a/b/file.txt/x", 1_000)


def test_templates_are_read_but_not_written(boundary: Boundary) -> None:
    assert boundary.read("templates/system.md.j2", 1_000) == b"template"
    with pytest.raises(Refused):
        boundary.write("templates/system.md.j2", b"{{ evil }}")


def test_writing_replaces_in_one_step_and_keeps_the_mode(boundary: Boundary) -> None:
    script = boundary.root / "run.sh"
    script.write_text("old")
    script.chmod(0o755)
    assert boundary.write("run.sh", b"new") is False
    assert boundary.write("deep/er/file", b"x") is True
    assert (script.read_text(), script.stat().st_mode & 0o777) == ("new", 0o755)
    assert [path.name for path in (boundary.root / "deep/er").iterdir()] == ["file"]


def test_a_file_above_the_limit_is_not_read(boundary: Boundary) -> None:
    with pytest.raises(ToolError, match="more than"):
        boundary.read("a/b/file.txt", 3)


def test_listing_and_walking_leave_out_what_is_hidden_and_follow_no_links(boundary: Boundary) -> None:
    (boundary.root / "loop").symlink_to(".")
    assert [(e.name, e.kind) for e in boundary.scan(())] == [
        ("a", "directory"),
        ("loop", "link"),
        ("templates", "directory"),
    ]
    assert ["/".join(parts) for parts, _ in boundary.walk()] == ["", "a", "a/b", "templates"]
