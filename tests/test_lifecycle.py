"""The life of a session: which stage may follow which, and who keeps it."""

import itertools

import pytest

from nanobot.clock import SystemClock
from nanobot.lifecycle import TABLE, IllegalStep, Stage, advance
from nanobot.lives import KEPT, Life, Lives, told_by
from nanobot.messages import Line


def test_only_legal_stages_follow_each_other() -> None:
    ended = {Stage.TERMINATING, Stage.TERMINATED}
    legal = {
        (Stage.CREATED, Stage.INITIALIZING),
        (Stage.INITIALIZING, Stage.ACTIVE),
        (Stage.ACTIVE, Stage.IDLE),
        (Stage.IDLE, Stage.ACTIVE),
        (Stage.ERROR, Stage.RECOVERING),
        (Stage.RECOVERING, Stage.ACTIVE),
        (Stage.TERMINATING, Stage.TERMINATED),
        *((stage, Stage.ERROR) for stage in set(Stage) - ended - {Stage.ERROR}),
        *((stage, Stage.TERMINATING) for stage in set(Stage) - ended),
    }
    for present, wanted in itertools.product(Stage, Stage):
        if (present, wanted) in legal:
            assert advance(present, wanted) is wanted
        else:
            with pytest.raises(IllegalStep):
                advance(present, wanted)
    assert TABLE.keys() == set(Stage)


def test_a_session_goes_to_work_and_back() -> None:
    lives = Lives(SystemClock())
    assert lives.of("a") == Life(Stage.CREATED)
    lives.opening("a")
    assert lives.of("a").stage is Stage.INITIALIZING
    lives.working("a")
    assert lives.of("a").stage is Stage.ACTIVE
    lives.rested("a", "completed")
    assert lives.of("a").stage is Stage.IDLE
    assert lives.of("a").since is not None
    lives.opening("a")
    lives.working("a")
    lives.rested("a", "failed", "no model")
    assert (lives.of("a").stage, lives.of("a").reason) == (Stage.ERROR, "no model")
    lives.opening("a")
    assert lives.of("a").stage is Stage.RECOVERING
    lives.working("a")
    assert lives.of("a").reason == ""
    lives.rested("a", "stopped")
    assert lives.of("a").stage is Stage.IDLE


def test_an_interrupted_turn_is_recovered_from() -> None:
    lives = Lives(SystemClock())
    lives.opening("a", resumed=True)
    assert lives.of("a").stage is Stage.RECOVERING
    lives.rested("a", "")  # interrupted again, or only to be committed
    lives.opening("a", resumed=True)
    lives.working("a")
    lives.rested("a", "completed")
    assert lives.of("a").stage is Stage.IDLE


def test_a_session_that_is_ended_stays_so_until_its_key_is_used_anew() -> None:
    lives = Lives(SystemClock())
    lives.opening("a")
    lives.working("a")
    lives.terminating("a", "it is deleted")
    lives.rested("a", "stopped")
    assert lives.of("a").stage is Stage.TERMINATING
    lives.terminated("a")
    lives.terminated("a")
    assert (lives.of("a").stage, lives.of("a").reason) == (Stage.TERMINATED, "it is deleted")
    lives.opening("a")
    lives.working("a")
    assert lives.of("a").stage is Stage.ACTIVE


def test_after_a_start_the_history_tells_how_a_session_rests() -> None:
    assert told_by([]).stage is Stage.CREATED
    assert told_by([Line(role="assistant", content="hi")]).stage is Stage.IDLE
    failed = told_by([Line(role="assistant", content="no key", injected="failed")])
    assert (failed.stage, failed.reason) == (Stage.ERROR, "no key")


def test_not_every_session_there_ever_was_is_remembered() -> None:
    lives = Lives(SystemClock())
    for number in range(KEPT + 1):
        lives.opening(str(number))
    assert lives.of("0").stage is Stage.CREATED
    assert lives.of("1").stage is Stage.INITIALIZING
