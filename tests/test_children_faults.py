"""What outside agents do wrong, seen by the one who delegated: a result with an error and a hint, and nothing left."""

from pathlib import Path

import pytest

from nanobot.executors.run import ExecutorRun
from nanobot.security import tree
from tests.gateway_in_memory import life
from tests.test_children import use, world_of


@pytest.mark.parametrize(
    ("task", "error"),
    [
        ("GARBAGE\nEXIT 0", "without a result"),
        ("FLOOD 1024", "printed more than 1 MB"),
        ("STUBBORN\nSLEEP 60", "longer than 1 s"),
        ("DAEMON {daemon}\nSLEEP 60", "longer than 1 s"),
        ("EXIT 2", "exit code 2"),
    ],
)
@pytest.mark.parametrize("tool", ["codex", "claude"])
async def test_whatever_a_tool_does_wrong_is_a_result_with_a_hint_and_leaves_nothing(
    tmp_path: Path, tool: str, task: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanobot.executors.run.INTERRUPT_SECONDS", 0.2)
    monkeypatch.setattr("nanobot.executors.run.TERMINATE_SECONDS", 0.3)
    defaults = {**(ExecutorRun.__init__.__kwdefaults__ or {}), "output_limit": 1 << 20}
    monkeypatch.setattr(ExecutorRun.__init__, "__kwdefaults__", defaults)
    daemon = tmp_path / "daemon.pid"
    limit = 1.0 if "SLEEP" in task else 30.0
    async with life(world_of(tmp_path, None, tool, timeout=limit)) as gateway:
        found = await use(gateway, "delegate", task=task.format(daemon=daemon), executor=tool)
        assert found["success"] is False
        assert error in found["error"]
        assert found["hint"]
        child = gateway.children.records.all()[0]
        assert child.process
        assert [one for one in tree.marked(child.process.marker) if one.state not in "ZX"] == []
        files = list((tmp_path / "work" / ".nanobot" / "children" / child.id).iterdir())
        assert sum(one.stat().st_size for one in files) < 5 << 20
