import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nanobot.errors import Refused, ToolError
from nanobot.model import ToolCall
from nanobot.security.audit import verify
from nanobot.stores.media import MediaFiles
from nanobot.tool import FunctionTool, ToolContext, ToolResult, tool
from nanobot.tools import spill
from nanobot.tools.toolbox import run_tool
from tests.tools_support import Desk


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    pass


def answering(
    name: str, text: str = "", error: BaseException | None = None, timeout: float = 5
) -> FunctionTool[Nothing]:
    @tool(name, "For this test.", timeout=timeout)
    async def function(arguments: Nothing, context: ToolContext) -> ToolResult:
        if timeout < 1:
            await asyncio.Event().wait()
        if error:
            raise error
        return ToolResult(text)

    return function


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def last_entry(desk: Desk) -> dict[str, Any]:
    return dict(json.loads(desk.audit.path.read_text().splitlines()[-1]))


async def use(desk: Desk, given: FunctionTool[Nothing], call: str = "c1") -> ToolResult:
    return await run_tool(
        desk.toolbox.extended([given]), ToolCall(call, given.spec.name, "{}"), desk.context(call)
    )


def test_the_standard_tools_are_named_and_their_specs_are_one_object(desk: Desk) -> None:
    assert set(desk.toolbox.names) == {
        "read_file", "write_file", "edit_file", "list_dir", "find_files", "grep", "exec", "web_fetch", "message",
        "remember", "forget",
    }  # fmt: skip
    assert desk.toolbox.specs is desk.toolbox.specs
    assert desk.toolbox.get("nothing") is None
    for spec in desk.toolbox.specs:
        assert spec.parameters["type"] == "object"
        assert "$ref" not in json.dumps(spec.parameters)


def test_only_what_changes_nothing_says_that_it_may_run_again(desk: Desk) -> None:
    tools = [desk.toolbox.get(name) for name in desk.toolbox.names]
    assert {t.spec.name for t in tools if t and t.read_only} == {
        "read_file", "list_dir", "find_files", "grep", "web_fetch"
    }  # fmt: skip
    assert {t.spec.name for t in tools if t and not t.idempotent} == {"edit_file", "exec", "message"}


def test_a_toolbox_can_be_extended_and_narrowed_without_changing(desk: Desk) -> None:
    wider = desk.toolbox.extended([answering("goal")])
    assert wider.names == (*desk.toolbox.names, "goal")
    assert wider.only(["goal", "grep"]).names == ("grep", "goal")
    assert "goal" not in desk.toolbox.names


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("read_file", '{"path": "a.txt"', "not valid JSON"),
        ("read_file", '{"path": "a\nb"}', "not valid JSON"),
        ("read_file", '["a.txt"]', "must be a JSON object"),
        ("read_file", '"a.txt"', "must be a JSON object"),
        ("read_file", "", "missing required field `path`"),
        ("read_file", '{"path": 3}', "Expected `str`, got `int` - at `$.path`"),
        ("read_file", '{"path": "a", "offset": 0}', ">= 1"),
        ("read_file", '{"path": "a", "lines": 3}', "unknown field `lines`"),
        ("read_flie", '{"path": "a"}', "did you mean read_file"),
        ("teleport", "{}", "did you mean read_file, write_file"),
    ],
)
async def test_a_wrong_call_is_answered_with_what_to_mend(
    desk: Desk, name: str, arguments: str, told: str
) -> None:
    result = await desk.raw(name, arguments)
    assert result.error
    assert told in result.text


async def test_numbers_sent_as_text_are_understood(desk: Desk) -> None:
    (desk.workspace / "a.txt").write_text("one\ntwo\n")
    result = await desk.raw("read_file", '{"path": "a.txt", "offset": "2", "limit": "1"}')
    assert result.text == "     2\ttwo"


@pytest.mark.parametrize(
    ("error", "told", "outcome"),
    [
        (ToolError("no such thing", "try another"), "Error: no such thing\nHint: try another", "error"),
        (Refused("not allowed"), "Refused: not allowed", "refused"),
        (ZeroDivisionError("a defect"), "Error: odd failed: ZeroDivisionError: a defect", "error"),
        (asyncio.CancelledError("not ours"), "Error: odd failed: CancelledError: not ours", "error"),
    ],
)
async def test_what_a_tool_raises_becomes_its_result(
    desk: Desk, error: BaseException, told: str, outcome: str
) -> None:
    result = await use(desk, answering("odd", error=error))
    assert (result.text, result.error) == (told, True)
    assert last_entry(desk)["outcome"] == outcome


async def test_a_tool_that_hangs_ends_at_its_deadline(desk: Desk) -> None:
    result = await use(desk, answering("slow", timeout=0.05))
    assert result.error
    assert "slow did not finish within 0.05 s" in result.text
    assert last_entry(desk)["outcome"] == "timeout"


async def test_a_cancelled_call_is_cancelled_and_recorded(desk: Desk) -> None:
    task = asyncio.create_task(use(desk, answering("slow", timeout=0.9)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert last_entry(desk)["outcome"] == "cancelled"


async def test_every_call_leaves_an_entry_that_holds_no_arguments(desk: Desk) -> None:
    await desk.call("write_file", path="a.txt", content="sk-private-key")
    await desk.call("read_file", path="/etc/passwd")
    text = desk.audit.path.read_text()
    assert verify(desk.audit.path).entries == 2
    assert "sk-private-key" not in text
    assert "passwd" not in text
    first, second = (json.loads(line) for line in text.splitlines())
    assert (first["tool"], first["outcome"], first["session"]) == ("write_file", "ok", "telegram:7:topic:1")
    assert (second["tool"], second["outcome"], second["turn"]) == ("read_file", "refused", "t1")


async def test_a_trail_that_cannot_be_written_does_not_stop_the_work(desk: Desk) -> None:
    desk.audit.path.mkdir()
    assert not (await desk.call("list_dir")).error


async def test_a_long_result_is_kept_in_a_file_and_shown_at_both_ends(desk: Desk) -> None:
    text = "".join(f"line {number}\n" for number in range(5_000))
    result = await use(desk, answering("long", text), call="../../evil")
    assert len(result.text) < 5_000
    assert "line 0\n" in result.text
    assert "line 4999" in result.text
    (kept,) = (desk.workspace / spill.FOLDER).rglob("*.txt")
    assert str(kept.relative_to(desk.workspace)) in result.text
    assert kept.read_text() == text
    shown = await desk.call("read_file", path=str(kept.relative_to(desk.workspace)), offset=2_500, limit=1)
    assert shown.text.startswith("  2500\tline 2499")


async def test_a_result_at_the_limit_stays_whole(desk: Desk) -> None:
    result = await use(desk, answering("long", "x" * spill.LIMIT))
    assert result.text == "x" * spill.LIMIT


async def test_with_an_encrypted_state_a_long_result_is_shown_and_written_nowhere(desk: Desk) -> None:
    files = MediaFiles(desk.state)
    files.sealed = True
    desk.reopen(files)
    result = await use(desk, answering("long", "x" * 20_000))
    assert "kept nowhere" in result.text
    assert len(result.text) < 5_000
    assert not (desk.workspace / spill.FOLDER).exists()


async def test_a_folder_of_results_that_became_a_link_leads_nowhere(desk: Desk, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (desk.workspace / spill.FOLDER).symlink_to(victim)
    result = await use(desk, answering("long", "x" * 20_000))
    assert "the rest is lost" in result.text
    assert list(victim.iterdir()) == []


async def test_a_long_result_of_a_tool_that_removed_the_workspace_is_a_result(desk: Desk) -> None:
    @tool("wreck", "For this test.")
    async def wreck(arguments: Nothing, context: ToolContext) -> ToolResult:
        await asyncio.to_thread(shutil.rmtree, desk.workspace)
        return ToolResult("x" * 20_000)

    result = await use(desk, wreck)
    assert "the rest is lost" in result.text


async def test_old_and_too_many_results_are_removed(desk: Desk) -> None:
    (desk.workspace / spill.FOLDER / "s").mkdir(parents=True)
    for number in range(spill.KEEP_FILES + 5):
        (desk.workspace / spill.FOLDER / "s" / f"{number}.txt").touch()
    kept = await asyncio.to_thread(spill.prune, desk.security.boundary)
    assert kept == 5
    assert len(list((desk.workspace / spill.FOLDER / "s").iterdir())) == spill.KEEP_FILES
    later = (desk.workspace / spill.FOLDER / "s").stat().st_mtime + spill.KEEP_SECONDS + 60
    assert await asyncio.to_thread(spill.prune, desk.security.boundary, later) == spill.KEEP_FILES


def test_safe_names_are_distinct_short_and_plain() -> None:
    keys: list[Any] = ["a:b", "a_b", "A:b", "x" * 500, "x" * 501, "../..", "", "ключ", "."]
    names = [spill.safe_name(key) for key in keys]
    assert len(set(names)) == len(keys)
    assert all(len(name) <= 97 and "/" not in name and not name.startswith(".") for name in names)


async def test_names_that_are_not_text_do_not_spoil_a_result(desk: Desk) -> None:
    (desk.workspace / "bad-\udcff.txt").write_text("x")
    for name, arguments in (
        ("list_dir", {}),
        ("find_files", {"pattern": "bad*"}),
        ("grep", {"pattern": "x"}),
    ):
        result = await desk.raw(name, json.dumps(arguments))
        assert "bad-?.txt" in result.text, name
        result.text.encode()
