"""When an outside agent did its steps, also one whose events name no time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanobot.executors.reader import LineReader
from nanobot.executors.times import TimeLog, times_of
from nanobot.executors.turns import read_turns
from nanobot.stores.turn_files import TurnFiles
from tests.executors.support import executor, job, run


@pytest.mark.parametrize("tool", ["codex", "claude"])
async def test_a_step_has_the_time_at_which_it_was_read(tmp_path: Path, tool: str) -> None:
    work = job(tmp_path, "SLEEP 1.2\nlate")
    before = datetime.now(UTC)
    await run(executor(tmp_path, tool), work)
    after = datetime.now(UTC)
    [step] = read_turns(TurnFiles(tmp_path), work.folder, tool).kept
    at = datetime.fromisoformat(step.at)
    assert before + timedelta(seconds=1.1) < at <= after


def test_each_event_gets_the_time_by_which_it_was_read(tmp_path: Path) -> None:
    file = tmp_path / "turn_1.jsonl"
    file.write_text('{"a":1}\n{"b":2}\n\n{"c":3,"timestamp":"its own"}\n{"d":4}')
    times = [(8, "first"), (16, "second"), (99, "last")]
    [*events] = [event for group in LineReader(file, times=times).read(final=True) for event in group]
    assert [event["timestamp"] for event in events] == ["first", "second", "its own", "last"]


def test_what_is_read_within_a_second_is_written_together_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    log = TimeLog(tmp_path / "turn_1.times")
    for offset in (10, 20, 30):
        log.note(offset)
    log.note(40, last=True)
    assert [offset for offset, _ in times_of(tmp_path / "turn_1.times")] == [10, 30, 40]


def test_a_log_that_cannot_be_written_or_read_costs_times_alone(tmp_path: Path) -> None:
    TimeLog(tmp_path / "gone" / "turn_1.times").note(10)
    assert times_of(tmp_path / "gone" / "turn_1.times") == ()
    (tmp_path / "odd").write_bytes(b"\xff\x00 x\n12\nx y\n7 t\n")
    assert times_of(tmp_path / "odd") == [(7, "t")]
