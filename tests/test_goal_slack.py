"""A goal in Slack: one progress message that is edited, its buttons, and the final message."""

from pathlib import Path

from tests.emulators.model_server import Reply
from tests.emulators.slack import BOT_USER
from tests.goal_seat import Desk, at
from tests.goal_worker import Scripted
from tests.test_goal_scenarios import FINISHED, call, done, line


def labels(seat: Desk) -> list[str]:
    """What can be pressed under the progress message."""
    blocks = seat.server.workspace.by_bot("DU1")[0].blocks
    return [
        str(one["text"]["text"])
        for block in blocks
        if block["type"] == "actions"
        for one in block["elements"]
    ]


async def test_slack_shows_one_message_that_is_edited_and_then_the_result(tmp_path: Path) -> None:
    turns = [
        *line(1), call("report_progress", text="The first line is written", percent=50), Reply(hang=True),
        *line(2), done(), FINISHED,
    ]  # fmt: skip
    async with Scripted(*turns) as model, at("slack", tmp_path, model) as seat:
        assert isinstance(seat, Desk)
        seat.say("/goal Write\ntwo lines")
        await model.until(lambda: len(model.turns) == 4)
        await seat.until(lambda: len(seat.texts()) == 1)
        assert "Write two lines" in seat.texts()[0]
        assert labels(seat) == ["Pause", "Stop", "Details"]
        seat.press("Details")
        await seat.until(lambda: len(seat.texts()) == 2)
        assert "50 %, The first line is written" in seat.texts()[1]
        seat.press("Pause")
        await seat.until(lambda: seat.status() == "paused" and len(seat.texts()) == 3)
        await seat.until(lambda: labels(seat) == ["Resume", "Stop", "Details"])
        seat.press("Resume")
        await seat.until(lambda: seat.status() == "completed" and len(seat.texts()) == 5)
        assert seat.texts()[3].startswith("Going on")
        assert "Goal completed" in seat.texts()[4]
        assert "All lines are there." in seat.texts()[4]
        assert labels(seat) == []
        posted = seat.server.counts()["chat.postMessage"]
        assert posted == 5


async def test_slacks_stop_button_ends_it(tmp_path: Path) -> None:
    async with Scripted(Reply(hang=True)) as model, at("slack", tmp_path, model) as seat:
        assert isinstance(seat, Desk)
        seat.say("!goal Write lines")
        await model.until(lambda: not model.turns)
        await seat.until(lambda: len(seat.texts()) == 1)
        seat.press("Stop")
        await seat.until(lambda: seat.status() == "cancelled" and len(seat.texts()) == 2)
        assert seat.texts()[1].startswith("Cancelled")
        assert labels(seat) == []


async def test_a_goal_in_a_thread_stays_there(tmp_path: Path) -> None:
    async with Scripted(*line(1), done(), FINISHED) as model, at("slack", tmp_path, model) as seat:
        assert isinstance(seat, Desk)
        workspace = seat.server.workspace
        workspace.channel("C1")
        asked, _ = seat.server.say("C1", "U1", f"<@{BOT_USER}> /goal Write a line", raw=True)
        await workspace.until(lambda: len(workspace.shown("C1", asked.ts)) == 2)
        begun, ended = workspace.shown("C1", asked.ts)
        assert "Write a line" in begun
        assert "Goal completed" in ended
        assert len(workspace.by_bot("C1")) == 2
