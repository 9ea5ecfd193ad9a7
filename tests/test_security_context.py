"""The one value that says what a session may do: for every tool, every outside agent, at every level."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nanobot.clock import SystemClock
from nanobot.errors import Refused, ToolError
from nanobot.executor import Executor
from nanobot.executors.claude import Claude
from nanobot.executors.codex import Codex
from nanobot.model import ToolCall
from nanobot.security import programs
from nanobot.security.context import SecurityContext
from nanobot.security.counting import FileCount
from nanobot.security.levels import SecurityLevel
from nanobot.tool import ToolResult
from nanobot.tools.project import project_tool
from nanobot.tools.toolbox import run_tool
from tests.executors.support import ClaudeSettings, CodexSettings, job, program
from tests.security_support import security_of
from tests.tools_support import Desk, Settings

# Every tool that names a place, and how it names one.
NAMING: dict[str, Any] = {
    "read_file": lambda path: {"path": path},
    "write_file": lambda path: {"path": path, "content": "x"},
    "edit_file": lambda path: {"path": path, "old_text": "secret", "new_text": "x"},
    "list_dir": lambda path: {"path": str(Path(path).parent)},
    "find_files": lambda path: {"path": str(Path(path).parent), "pattern": "*"},
    "grep": lambda path: {"path": path, "pattern": "secret"},
    "exec": lambda path: {"command": "cat *.txt", "working_dir": str(Path(path).parent)},
    "message": lambda path: {"text": "here", "files": [path]},
}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """Ways out of the workspace: each leads to a secret beside it."""
    work, sibling = tmp_path / "work", tmp_path / "work-2"
    sibling.mkdir()
    (sibling / "secret.txt").write_text("secret\n")
    work.mkdir()
    (work / "link").symlink_to(sibling)
    (work / "file.txt").symlink_to(sibling / "secret.txt")
    return {
        "dots": "../work-2/secret.txt",
        "absolute": str(sibling / "secret.txt"),
        "sibling": f"{work}-2/secret.txt",
        "link": "link/secret.txt",
        "dots behind a link": "link/../work-2/secret.txt",
        "state": ".nanobot/secret.txt",
        "home": "~/secret.txt",
    }


def desk_at(tmp_path: Path) -> Desk:
    (tmp_path / "work").rename(tmp_path / "kept")
    desk = Desk(tmp_path)
    for entry in (tmp_path / "kept").iterdir():
        entry.rename(desk.workspace / entry.name)
    return desk


@pytest.mark.parametrize("name", NAMING)
async def test_no_tool_leaves_the_workspace(name: str, tmp_path: Path, places: dict[str, str]) -> None:
    desk = desk_at(tmp_path)
    (desk.workspace / ".nanobot" / "secret.txt").write_text("secret\n")
    for way, path in places.items():
        result = await desk.call(name, **NAMING[name](path))
        assert result.error, way
        assert "secret\n" not in result.text, way
        assert not desk.sent, way
    assert (tmp_path / "work-2" / "secret.txt").read_text() == "secret\n"


async def in_directory(desk: Desk, place: Path, name: str, arguments: dict[str, Any]) -> ToolResult:
    """A tool called by a session that works in `place`, whatever its metadata was made to say."""
    context = msgspec.structs.replace(desk.context(), workspace=place)
    box = desk.toolbox.extended([project_tool(desk.security, SystemClock())])
    return await run_tool(box, ToolCall("c", name, msgspec.json.encode(arguments).decode()), context)


EVERY_TOOL: dict[str, dict[str, Any]] = {
    **{name: naming("secret.txt") for name, naming in NAMING.items()},
    "remember": {"text": "a fact"},
    "forget": {"text": "a fact"},
    "project_summary": {},
}


@pytest.mark.parametrize("name", EVERY_TOOL)
async def test_no_tool_works_in_a_directory_that_is_not_allowed(
    name: str, tmp_path: Path, places: dict[str, str]
) -> None:
    desk = desk_at(tmp_path)
    sibling = tmp_path / "work-2"
    wrong = [sibling, desk.workspace / "link", desk.workspace / ".." / "work-2", desk.state, Path("/")]
    for place in wrong:
        result = await in_directory(desk, place, name, EVERY_TOOL[name])
        assert result.error, place
        assert result.text.startswith("Refused:"), (place, result.text)
    assert sorted(one.name for one in sibling.iterdir()) == ["secret.txt"]


def test_every_tool_that_touches_files_is_tried_here(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert set(desk.toolbox.names) - {"web_fetch"} == EVERY_TOOL.keys() - {"project_summary"}


def outside_agents(folder: Path, security: SecurityContext) -> list[Executor]:
    codex = program(folder / "bin", "codex")
    claude = program(folder / "bin", "claude")
    return [
        Codex(CodexSettings(command=codex), security),
        Claude(ClaudeSettings(command=claude), security),
    ]


def test_no_outside_agent_starts_in_a_directory_that_is_not_allowed(tmp_path: Path) -> None:
    allowed, sibling = tmp_path / "allowed", tmp_path / "allowed-2"
    for place in (allowed / "sub", sibling):
        place.mkdir(parents=True)
    security = security_of(tmp_path / "work", allowed_dirs=[str(allowed)])
    given = job(tmp_path, "x")
    for agent in outside_agents(tmp_path, security):
        for right in (tmp_path / "work", allowed, allowed / "sub"):
            assert agent.command(msgspec.structs.replace(given, working_dir=right))
        for wrong in (sibling, tmp_path, allowed / ".." / "allowed-2", tmp_path / "work" / ".nanobot"):
            with pytest.raises(Refused):
                agent.command(msgspec.structs.replace(given, working_dir=wrong))
        # Allowed when it was chosen, and a link to elsewhere by the time the turn begins.
        (allowed / "later").symlink_to(sibling)
        with pytest.raises(Refused):
            agent.command(msgspec.structs.replace(given, working_dir=allowed / "later"))
        (allowed / "later").unlink()


def test_at_the_highest_level_no_outside_agent_works_beside_the_gateways_state(tmp_path: Path) -> None:
    for name in ("work/sub", "other"):
        (tmp_path / name).mkdir(parents=True)
    given = job(tmp_path, "x")
    for level in SecurityLevel:
        security = security_of(tmp_path / "work", level=level, allowed_dirs=["*"])
        for agent in outside_agents(tmp_path, security):
            for place in (tmp_path / "other", tmp_path / "work" / "sub"):
                assert agent.command(msgspec.structs.replace(given, working_dir=place))
            for place in (tmp_path / "work", tmp_path):
                if level is SecurityLevel.MAXIMUM:
                    with pytest.raises(Refused, match="outside agents may not work there"):
                        agent.command(msgspec.structs.replace(given, working_dir=place))
                else:
                    assert agent.command(msgspec.structs.replace(given, working_dir=place))


@pytest.mark.parametrize(
    ("allowed", "asked", "fits"),
    [
        ([], "", True),
        ([], "sub", False),
        ([], "../work-2", False),
        (["{root}/work/sub"], "sub", True),
        (["{root}/work/sub"], "sub/deeper", True),
        (["{root}/work/sub"], "sub-2", False),
        (["{root}/work/sub"], "link", False),
        (["*"], "/", True),
        (["*"], "../work-2", True),
        (["*"], ".nanobot", False),
        (["*"], "channels", False),
        (["*"], "gone", False),
        (["*"], "a\0b", False),
    ],
)
def test_a_working_directory_is_compared_by_its_real_path(
    tmp_path: Path, allowed: Sequence[str], asked: str, fits: bool
) -> None:
    work = tmp_path / "work"
    for name in ("work/sub/deeper", "work/sub-2", "work-2", "work/.nanobot", "work/channels"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (work / "link").symlink_to(tmp_path / "work-2")
    security = security_of(work, allowed_dirs=[one.format(root=tmp_path) for one in allowed])
    if fits:
        assert security.working_dir(asked, work) == Path(os.path.realpath(work / asked))
    else:
        with pytest.raises(ToolError):
            security.working_dir(asked, work)


# --- programs ------------------------------------------------------------------------------------------------------


def test_a_program_is_known_by_the_file_it_really_is(tmp_path: Path) -> None:
    """A harmless name for a program that changes rights is refused, and so is one more link to it."""
    rights = programs.of_rights()
    assert rights, "this machine has none of them"
    disguise = tmp_path / "codex"
    disguise.symlink_to(rights[0])
    for name in (str(disguise), str(rights[0]), rights[0].name):
        with pytest.raises(Refused, match="changes rights"):
            security_of(tmp_path / "work").program(name)
    assert security_of(tmp_path / "work", level="low").program(str(disguise)) == str(rights[0])


@pytest.mark.parametrize("level", SecurityLevel)
def test_a_program_that_tools_could_have_written_is_not_started(tmp_path: Path, level: str) -> None:
    work, shared = tmp_path / "work", tmp_path / "shared"
    planted, elsewhere = Path(program(work / "bin", "codex")), program(tmp_path / "bin", "codex")
    link = tmp_path / "bin" / "link"
    link.symlink_to(planted)
    security = security_of(work, level=level, allowed_dirs=[str(shared)])
    assert security.program(elsewhere, elsewhere) == elsewhere
    for one in (str(planted), str(link), program(shared, "claude")):
        if level == "low":
            assert security.program(one, one)
        else:
            with pytest.raises(Refused, match="where tools can write"):
                security.program(one, one)
    open_to_all = program(tmp_path / "open", "codex")
    Path(open_to_all).chmod(0o777)
    if level != "low":
        with pytest.raises(Refused, match="by anybody"):
            security.program(open_to_all, open_to_all)


def test_the_highest_level_starts_only_what_the_owner_named_by_its_path(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "codex")
    security = security_of(tmp_path / "work", level="maximum")
    assert security.program(path, path) == path
    with pytest.raises(Refused, match="no path to it is configured"):
        security.program(path, "codex")
    with pytest.raises(ToolError, match="not found"):
        security.program(str(tmp_path / "nothing"))


async def test_programs_that_change_rights_are_not_there_in_the_sandbox(tmp_path: Path) -> None:
    rights = programs.of_rights()
    line = " ".join(f"test -x {one} && echo there;" for one in rights)
    high, low = Desk(tmp_path / "high"), Desk(tmp_path / "low", Settings(level="low"))
    assert "there" not in (await high.call("exec", command=f"{line} true")).text
    assert (await low.call("exec", command=f"{line} true")).text.count("there") == len(rights)


async def test_a_sandbox_that_tools_could_have_written_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)
    planted = desk.workspace / "bin" / "bwrap"
    planted.parent.mkdir()
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted.parent}:{os.environ['PATH']}")
    result = await desk.call("exec", command="true")
    assert result.error
    assert "lies where tools can write" in result.text
    (desk.workspace / ".git").mkdir()
    await run_tool(
        desk.toolbox.extended([project_tool(desk.security, SystemClock())]),
        ToolCall("c", "project_summary", "{}"),
        desk.context(),
    )
    assert not (tmp_path / "ran").exists()


def test_keys_of_outside_agents_come_from_the_environment_up_to_the_highest_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "ours")
    monkeypatch.setenv("LD_PRELOAD", "/tmp/evil.so")
    settings = CodexSettings(env={"FAKE_KEY": "x"})
    for level in SecurityLevel:
        found = Codex(settings, security_of(tmp_path / "work", level=level)).environment()
        assert found["FAKE_KEY"] == "x"
        assert ("OPENAI_API_KEY" in found) is (level is not SecurityLevel.MAXIMUM)
        assert "LD_PRELOAD" not in found


# --- sizes and counts ----------------------------------------------------------------------------------------------


async def test_a_full_directory_takes_no_new_file_but_changes_of_old_ones(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    there = sum(len(files) for _, _, files in os.walk(desk.workspace))
    security = msgspec.structs.replace(desk.security, counts=FileCount(there + 2))
    for name in ("a", "b"):
        assert security.write(name, b"x")
    with pytest.raises(ToolError, match="files or more"):
        security.write("c", b"x")
    assert security.write("a", b"y") is False
    (desk.workspace / "b").unlink()
    assert security.write("c", b"x")


def test_a_new_file_that_is_too_large_is_refused_like_an_old_one(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    security = security_of(tmp_path / "work", max_file_mb=1)
    with pytest.raises(ToolError, match="max_file_mb"):
        security.write("new", b"x" * (1 << 20) + b"x")
    assert not (tmp_path / "work" / "new").exists()
