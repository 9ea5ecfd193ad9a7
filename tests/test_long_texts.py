"""Texts of strangers and expressions: none takes longer than a moment, since nothing can interrupt an expression."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.executor import Step
from nanobot.goal_commands import objective_of
from nanobot.schedule import split
from nanobot.task_files import TODO, scan
from nanobot.watch import Seen, delegation, quality
from tests.security_support import security_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FILLS = (
    "\n",
    " ",
    "\t",
    " \n",
    "- ",
    "1",
    "1.",
    "a ",
    "every ",
    " at ",
    "check: ",
    "printf:",
    "tee ",
    "sed -",
    "<<",
)


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.parametrize("fill", FILLS)
def test_no_text_holds_up_everything(tmp_path: Path, fill: str) -> None:
    long = fill * (1_000_000 // len(fill))
    (tmp_path / TODO).write_text(long)
    security = security_of(tmp_path)
    assert seconds(lambda: scan(security, NOW)) < 2
    assert seconds(lambda: split(f"x{long}", NOW)) < 2
    assert seconds(lambda: objective_of(f"x{long[:11_000]}")) < 2
    seen = Seen(
        [Step("files", changes=[{"path": "a"}]), Step("command", text=long), Step("message", text="done")]
    )
    assert seconds(lambda: (delegation()(seen), quality()(seen))) < 2


def test_boxes_checks_and_times_are_still_found(tmp_path: Path) -> None:
    (tmp_path / TODO).write_text("# To do\n\n- [ ] one\n  * [x] two\n\n3) [ ] three\n")
    todo = scan(security_of(tmp_path), NOW).todo
    assert (todo.open_items, todo.done_items) == (2, 1)
    assert objective_of("reach it\n\n  check: make test\nCHECK:  true\n") == (
        "reach it",
        ("make test", "true"),
    )
    text, when = split("y" * 5_000 + " report   every 0 9 * * 1-5 Europe/Berlin", NOW)
    assert text.endswith("y report")
    assert when
    assert (when.cron, when.zone) == ("0 9 * * 1-5", "Europe/Berlin")
