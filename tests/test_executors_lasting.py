"""A turn of an outside agent whose process dies or hangs: started again, bounded, told, and answered once."""

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nanobot.executor import Job, ProcessRecord, Result, Step
from nanobot.executors.lasting import LastingRun
from nanobot.executors.turns import read_turns
from nanobot.health import Health, HealthLimits, Vital, death
from nanobot.security import tree
from nanobot.stores.turn_files import TurnFiles
from tests.executors.support import executor, job

QUICK = HealthLimits(interval=0.05, restarts=2, backoff=0.01)
# As short as a stall can be told on a busy machine, where starting the fake alone may take a second.
WATCHED = HealthLimits(interval=0.1, stall=2.0, restarts=2, backoff=0.01)


class Kept:
    """What is told of a turn."""

    def __init__(self, limits: HealthLimits) -> None:
        self.limits = limits
        self.reasons: list[str] = []
        self.processes: list[ProcessRecord | None] = []
        self.threads: list[str] = []

    async def restarting(self, why: str, attempt: int) -> None:
        assert attempt == len(self.reasons) + 1
        self.reasons.append(why)

    async def restarted(self, process: ProcessRecord | None, thread: str) -> None:
        self.processes.append(process)
        self.threads.append(thread)


async def lasting(
    folder: Path, tool: str, work: Job, limits: HealthLimits = QUICK
) -> tuple[Result, list[Step], Kept]:
    kept, steps = Kept(limits), list[Step]()
    run = LastingRun(executor(folder, tool), work, steps.append, kept)
    await run.start()
    result = await run.wait()
    assert [one for one in tree.marked(work.marker) if one.state not in "ZX"] == []
    return result, steps, kept


def answers(steps: list[Step]) -> list[str]:
    return [step.text for step in steps if step.kind == "message"]


@pytest.mark.parametrize("tool", ["codex", "claude"])
async def test_one_that_is_killed_is_started_again_and_answers_once(tmp_path: Path, tool: str) -> None:
    work = job(tmp_path, f"ONCE {int(signal.SIGKILL)} {tmp_path / 'died'}")
    result, steps, kept = await lasting(tmp_path, tool, work)
    assert result.status == "completed"
    assert kept.reasons == ["its process was killed by signal 9"]
    assert len(answers(steps)) == 1
    assert "your process ended before you were done" in result.answer
    assert [step.text for step in steps if step.kind == "notice"] == [
        "started again in 0.01 s (try 2): its process was killed by signal 9"
    ]
    # codex told its thread before it died, so it goes on in it; the files of both tries are kept, in order
    assert kept.threads == ["00000000-0000-0000-0000-000000000007" if tool == "codex" else ""]
    assert (work.folder / "turn_1.try1.exit").read_text() == "137\n"
    assert [
        one.text for one in read_turns(TurnFiles(tmp_path), work.folder, tool).kept if one.kind == "message"
    ] == answers(steps)


async def test_one_that_says_and_does_nothing_is_started_again(tmp_path: Path) -> None:
    work = job(tmp_path, f"ONCE 0 {tmp_path / 'hung'}")
    result, _, kept = await lasting(tmp_path, "codex", work, WATCHED)
    assert result.status == "completed"
    assert len(kept.reasons) == 1
    assert kept.reasons[0].startswith("it said and did nothing for ")


async def test_what_a_dead_one_left_running_does_not_work_beside_the_next(tmp_path: Path) -> None:
    place = tmp_path / "daemon.pid"
    work = job(tmp_path, f"DAEMON {place}\nONCE 9 {tmp_path / 'died'}")
    result, _, kept = await lasting(tmp_path, "codex", work)
    assert (result.status, len(kept.reasons)) == ("completed", 1)


async def test_one_that_died_with_an_earlier_gateway_is_started_again(tmp_path: Path) -> None:
    gone = await asyncio.create_subprocess_exec("true")
    root = tree.identify(gone.pid) or tree.Identity(gone.pid, 1)
    await gone.wait()
    record = ProcessRecord(root.pid, root.started, tree.boot_id(), "test:gone")
    result, _, kept = await lasting(tmp_path, "codex", job(tmp_path, "hello", process=record))
    assert result.status == "completed"
    assert kept.reasons == ["its process died, and nobody saw how"]


async def test_the_restarts_are_bounded_and_their_end_is_a_failure(tmp_path: Path) -> None:
    result, _, kept = await lasting(tmp_path, "codex", job(tmp_path, "DIE 9"))
    assert len(kept.reasons) == 2
    assert result.status == "failed"
    assert "killed by signal 9" in kept.reasons[-1]
    assert "started again 2 times" in result.error


@pytest.mark.parametrize("prompt", ["EXIT 2", "EXIT 0", "hello", "FLOOD 64"])
async def test_one_that_ends_by_itself_or_by_our_limits_is_not_started_again(
    tmp_path: Path, prompt: str
) -> None:
    kept = Kept(QUICK)
    run = LastingRun(
        executor(tmp_path, "codex"), job(tmp_path, prompt), lambda _: None, kept, output_limit=4 << 20
    )
    await run.start()
    await run.wait()
    assert kept.reasons == []


async def test_no_restart_is_made_where_none_is_allowed(tmp_path: Path) -> None:
    never = HealthLimits(restarts=0)
    work = job(tmp_path, f"ONCE 9 {tmp_path / 'died'}")
    result, _, kept = await lasting(tmp_path, "codex", work, never)
    assert (result.status, kept.reasons) == ("failed", [])


async def test_a_stop_ends_it_while_it_waits_to_be_started_again(tmp_path: Path) -> None:
    kept = Kept(HealthLimits(restarts=5, backoff=20))
    told = asyncio.Event()

    def heard(step: Step) -> None:
        if step.kind == "notice":
            told.set()

    work = job(tmp_path, f"ONCE 9 {tmp_path / 'died'}")
    run = LastingRun(executor(tmp_path, "codex"), work, heard, kept)
    await run.start()
    waiting = asyncio.create_task(run.wait())
    async with asyncio.timeout(10):
        await told.wait()
        run.stop("killed", "enough")
        result = await waiting
    assert (result.status, kept.processes) == ("killed", [])


async def test_the_deadline_holds_for_all_tries_together(tmp_path: Path) -> None:
    began = time.monotonic()
    prompt = f"SLEEP 5\nONCE 9 {tmp_path / 'died'}\nSLEEP 600"
    result, _, kept = await lasting(tmp_path, "codex", job(tmp_path, prompt, timeout=6.0))
    assert (result.status, len(kept.reasons)) == ("timed_out", 1)
    assert time.monotonic() - began < 10.8  # and not 6 s for each; ending one takes up to 3 s


# --- the rules -----------------------------------------------------------------------------------------------------


def look(*vitals: Vital, limits: HealthLimits | None = None) -> str:
    health = Health(limits or HealthLimits(stall=100, stressed_looks=3), 0.0)
    return [health.look(one) for one in vitals][-1]


def test_words_or_work_are_progress_and_silence_is_not() -> None:
    silent = [Vital(float(at), 5, 1.0) for at in range(0, 130, 30)]
    assert "did nothing for 120 s" in look(*silent)
    assert look(*silent[:4]) == ""
    assert look(*silent[:4], Vital(120.0, 6, 1.0)) == ""
    assert look(*silent[:4], Vital(120.0, 5, 1.5)) == ""
    assert look(*silent[:4], Vital(120.0, 5, 1.1)) != ""  # less than a hundredth of a core


def test_stress_counts_only_when_it_lasts() -> None:
    def stressed(pattern: str) -> str:
        """x is a look under stress, in silence; X one at which it has said something."""
        said = [pattern[: n + 1].count("X") for n in range(len(pattern))]
        return look(*(Vital(float(n), said[n], n, one in "xX") for n, one in enumerate(pattern)))

    assert stressed(".xx.xx") == ""
    assert stressed(".xxXxx") == ""  # a build that goes on
    assert "more memory or processor time" in stressed(".x.xxx")


@pytest.mark.parametrize(
    ("said", "code", "died"),
    [
        (True, 137, False),
        (False, 0, False),
        (False, 1, False),
        (False, 137, True),
        (False, -9, True),
        (False, None, True),
    ],
)
def test_a_death_is_what_came_without_a_last_word_and_not_by_itself(
    said: bool, code: int | None, died: bool
) -> None:
    assert bool(death(said=said, exit_code=code)) is died


def test_each_restart_waits_longer_up_to_a_bound() -> None:
    delay: Callable[[int], float] = HealthLimits().delay
    assert [delay(n) for n in (1, 2, 3, 4, 9)] == [5, 20, 80, 300, 300]
