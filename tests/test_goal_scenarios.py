"""What happens to goals, as people see it on the page and in Telegram, with whole gateways and a scripted provider."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from nanobot import SessionManager
from tests.emulators.model_server import Call, Reply
from tests.goal_seat import Seat, at
from tests.goal_worker import Scripted

pytestmark = pytest.mark.parametrize("channel", ["websocket", "telegram"])

KEYS = {"websocket": "websocket:c", "telegram": "telegram:11"}
PLATFORM = 0.3  # seconds that the emulated platform and the machine may take besides


def call(name: str, **arguments: Any) -> Reply:
    return Reply(calls=(Call(f"call_{name}", name, json.dumps(arguments)),))


def line(number: int) -> list[Reply]:
    """A turn that adds a line to a file and says so."""
    return [
        call("exec", command=f"echo line {number} >> lines.txt"),
        Reply(f"Line {number} is written, {number + 1} follows."),
    ]


def done(recap: str = "All lines are there.") -> Reply:
    return call("complete_goal", recap=recap, evidence="lines.txt")


FINISHED = Reply("Finished.")


def goal_of(workspace: Path, seat: Seat) -> dict[str, Any]:
    """The goal as the session's file has it; read after the gateway has ended."""
    return dict(SessionManager(workspace).get_or_create(seat.key).metadata["goal_state"])


async def test_it_is_completed_in_five_turns(channel: str, tmp_path: Path) -> None:
    turns = [*line(1), *line(2), *line(3), *line(4), done(), FINISHED]
    async with Scripted(*turns) as model, at(channel, tmp_path, model) as seat:
        seat.say("/goal Write\nfour lines")
        await seat.until(lambda: seat.status() == "completed" and len(seat.texts()) == 2)
        begun, ended = seat.texts()
        assert "Write four lines" in begun
        assert "Goal completed" in ended
        assert "All lines are there." in ended
        assert "lines.txt" in ended
        assert "5 of 50 turns" in ended
    assert (tmp_path / "lines.txt").read_text() == "line 1\nline 2\nline 3\nline 4\n"


async def test_it_asks_with_one_message_until_it_is_answered(channel: str, tmp_path: Path) -> None:
    turns = [
        call("ask_user", question="Red or blue?"),
        Reply("I wait."),
        Reply("Blue it is."),
        done(),
        FINISHED,
    ]
    async with Scripted(*turns) as model, at(channel, tmp_path, model) as seat:
        seat.say("/goal Paint it")
        await seat.until(lambda: seat.status() == "waiting_user" and len(seat.texts()) == 2)
        asked = model.counters["requests"]
        assert "Red or blue?" in seat.texts()[1]
        seat.say("/status")  # a round through the gateway, in which a second message would have come
        await seat.until(lambda: len(seat.texts()) == 3)
        assert model.counters["requests"] == asked
        seat.say("blue")
        await seat.until(lambda: seat.status() == "completed" and len(seat.texts()) == 5)
        assert seat.texts()[3] == "Blue it is."


async def test_it_stands_still_and_is_halted_with_one_message(channel: str, tmp_path: Path) -> None:
    turns = [Reply("I would begin with the colour."), Reply("I would begin with the colour.")]
    async with Scripted(*turns) as model, at(channel, tmp_path, model) as seat:
        seat.say("/goal Paint it")
        await seat.until(lambda: seat.status() == "blocked" and len(seat.texts()) == 2)
        assert "no progress" in seat.texts()[1]
        seat.say("/goal cancel")
        await seat.until(lambda: seat.status() == "cancelled" and len(seat.texts()) == 3)


@pytest.mark.parametrize("budget", ["max_turns = 3", "max_tokens = 9000"])
async def test_it_uses_up_its_turns_or_tokens_and_sums_up(channel: str, tmp_path: Path, budget: str) -> None:
    summary = Reply("Two of nine lines are there; the rest is missing.")
    turns = [*line(1), *line(2), summary] if "turns" in budget else [*line(1), summary, summary]
    async with Scripted(*turns) as model, at(channel, tmp_path, model, "[goals]", budget) as seat:
        seat.say("/goal Write nine lines")
        await seat.until(lambda: seat.status() == "exhausted" and len(seat.texts()) == 2)
        assert "Goal out of budget" in seat.texts()[1]
        assert "Two of nine lines are there" in seat.texts()[1]
        assert "/goal resume" in seat.texts()[1]


async def test_it_uses_up_its_minutes_and_sums_up(channel: str, tmp_path: Path) -> None:
    summary = Reply("Two of nine lines are there; the rest is missing.")
    manager = SessionManager(tmp_path)
    session = manager.get_or_create(KEYS[channel])
    session.metadata["goal_state"] = {
        "status": "paused",
        "objective": "Write nine lines",
        "started_at": "2026-11-01T08:00:00+00:00",
        "budget": {"turns": 50, "tokens": 100_000, "minutes": 60},
        "spent": {"turns": 7, "tokens": 20_000, "minutes": 58.0},
    }
    manager.save(session)
    async with Scripted(summary) as model, at(channel, tmp_path, model) as seat:
        seat.say("/goal resume")
        await seat.until(lambda: any("Goal out of budget" in text for text in seat.texts()))
        assert "58 of 60 minutes are used" in seat.texts()[-1]
        assert "Two of nine lines are there" in seat.texts()[-1]
        assert len(seat.texts()) == 2


async def test_it_is_refused_by_the_verifier_and_then_passes(channel: str, tmp_path: Path) -> None:
    turns = [*line(1), done("One line."), *line(2), done("Two lines."), FINISHED]
    verdicts = [Reply("VERDICT: FAIL: the second line is missing"), Reply("VERDICT: PASS")]
    async with Scripted(*turns, verdicts=verdicts) as model, at(channel, tmp_path, model) as seat:
        seat.say("/goal Write two lines")
        await seat.until(lambda: seat.status() == "completed" and len(seat.texts()) == 2)
        assert "Two lines." in seat.texts()[1]
    assert goal_of(tmp_path, seat)["refusals"] == ["the second line is missing"]


async def test_it_is_refused_by_its_check_and_then_passes(channel: str, tmp_path: Path) -> None:
    turns = [done("It is there."), *line(1), done("Now it is there."), FINISHED]
    async with Scripted(*turns) as model, at(channel, tmp_path, model) as seat:
        seat.say("/goal Write a line\ncheck: grep -q 'line 1' lines.txt")
        await seat.until(lambda: seat.status() == "completed" and len(seat.texts()) == 2)
        assert "Now it is there." in seat.texts()[1]
    [refusal] = goal_of(tmp_path, seat)["refusals"]
    assert "grep -q 'line 1' lines.txt" in refusal


async def test_a_word_meanwhile_is_answered_and_the_goal_goes_on(channel: str, tmp_path: Path) -> None:
    slow = call("exec", command="echo started > started; while [ ! -e go ]; do sleep 0.02; done")
    turns = [slow, Reply("Understood, in blue."), *line(1), done("Blue lines."), FINISHED]
    async with Scripted(*turns) as model, at(channel, tmp_path, model) as seat:
        seat.say("/goal Write lines")
        await seat.until(lambda: len(seat.texts()) == 1)
        seat.say("in blue, please")
        seat.say("/status")  # answered beside the turn, once what was said before it is accepted
        await seat.until(lambda: len(seat.texts()) == 2)
        (tmp_path / "go").touch()
        await seat.until(lambda: seat.status() == "completed" and len(seat.texts()) == 4)
        assert seat.texts()[2] == "Understood, in blue."
        assert "Blue lines." in seat.texts()[3]


async def test_it_is_paused_resumed_and_cancelled(channel: str, tmp_path: Path) -> None:
    turns = [*line(1), Reply(hang=True), *line(2), Reply(hang=True)]
    async with Scripted(*turns) as model, at(channel, tmp_path, model) as seat:
        seat.say("/goal Write lines")
        await model.until(lambda: len(model.turns) == 3)
        seat.say("/goal pause")
        await seat.until(lambda: seat.status() == "paused" and len(seat.texts()) == 2)
        seat.say("/goal resume")
        await model.until(lambda: not model.turns)
        assert seat.texts()[2].startswith("Going on")
        seat.say("/goal cancel")
        await seat.until(lambda: seat.status() == "cancelled" and len(seat.texts()) == 4)
    assert (tmp_path / "lines.txt").read_text() == "line 1\nline 2\n"


async def test_stop_pauses_it_at_once(channel: str, tmp_path: Path) -> None:
    async with Scripted(Reply(hang=True)) as model, at(channel, tmp_path, model) as seat:
        seat.say("/goal Write lines")
        await model.until(lambda: not model.turns)
        began = time.monotonic()
        seat.say("/stop")
        await seat.until(lambda: len(seat.texts()) == 2)
        assert time.monotonic() - began < 0.2 + PLATFORM
        assert "/goal resume" in seat.texts()[1]
        await seat.until(lambda: seat.status() == "paused")


@pytest.mark.parametrize("way", ["silent", "after the headers"])
async def test_a_provider_that_hangs_costs_a_deadline_and_the_goal_goes_on(
    channel: str, tmp_path: Path, way: str
) -> None:
    hangs = Reply(hang=True) if way == "silent" else Reply(stall=True)
    turns = [*line(1), hangs, *line(2), done(), FINISHED]
    limits = "timeout = 0.5\nidle_timeout = 0.3"
    async with Scripted(*turns) as model, at(channel, tmp_path, model, limits=limits) as seat:
        seat.say("/goal Write lines")
        await seat.until(lambda: seat.status() == "completed" and len(seat.texts()) == 2)
    assert goal_of(tmp_path, seat)["spent"]["turns"] == 3
    assert (tmp_path / "lines.txt").read_text() == "line 1\nline 2\n"


async def test_a_tool_that_hangs_ends_at_its_time_and_the_goal_goes_on(channel: str, tmp_path: Path) -> None:
    hangs = call("exec", command="echo begun >> lines.txt; sleep 1000", timeout=1)
    turns = [hangs, Reply("It hung; another way then."), *line(2), done(), FINISHED]
    async with Scripted(*turns) as model, at(channel, tmp_path, model) as seat:
        seat.say("/goal Write lines")
        await seat.until(lambda: seat.status() == "completed" and len(seat.texts()) == 2)
    assert (tmp_path / "lines.txt").read_text() == "begun\nline 2\n"


async def test_ten_wrong_completions_end_in_one_message(channel: str, tmp_path: Path) -> None:
    wrong = Reply(calls=(Call("c", "complete_goal", '{"recp": "All is there."}'),))
    turns = [*[wrong] * 10, Reply("I cannot."), Reply("No.")]
    async with Scripted(*turns) as model, at(channel, tmp_path, model) as seat:
        seat.say("/goal Write lines")
        await seat.until(lambda: seat.status() == "blocked" and len(seat.texts()) == 2)
        assert "did it wrong" in seat.texts()[1]
        seat.say("/goal done")
        await seat.until(lambda: seat.status() == "completed" and len(seat.texts()) == 3)
    assert goal_of(tmp_path, seat)["spent"]["turns"] == 1
