"""Goals in trouble: providers that stay silent, a stop that must not wait, times that meet a goal at work."""

import asyncio
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from nanobot.events import TurnEnded, Usage
from nanobot.goal import Budget, Spent, begin, stored
from nanobot.messages import Address, Inbound
from nanobot.model import Finished, Text
from nanobot.models.http import HttpClient
from nanobot.models.openai import OpenAIModel
from nanobot.stores.memory import MemoryStore
from nanobot.testing import Hang, Pause, ScriptedModel
from tests.emulators.model_server import Reply
from tests.emulators.settings import Settings
from tests.gateway_in_memory import World, life
from tests.goal_worker import Scripted
from tests.test_goals import PROGRESS, Script, Workshop, call, done, goal_of, until, world
from tests.test_schedule import swept


@pytest.mark.parametrize("silence", [Reply(hang=True), Reply(stall=True)], ids=["no bytes", "headers only"])
async def test_a_provider_that_stays_silent_is_told_in_the_progress_message_and_then_in_one_more(
    tmp_path: Path, silence: Reply
) -> None:
    pool = HttpClient()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(pool.close)
        server = await stack.enter_async_context(Scripted(*[silence] * 6))
        settings = Settings(base_url=server.url, timeout=0.2, idle_timeout=0.2)
        made = World(
            tmp_path,
            OpenAIModel("openai/silent", settings, pool, context_window=100_000),
            capabilities=PROGRESS,
        )
        async with life(made) as gateway:
            await gateway.say("/goal Something")
            state = await until(gateway, "blocked")
            await gateway.channel.until(
                lambda channel: len([one for one in channel.delivered if not one.ref]) == 2
            )
            posts = [message.text for message in gateway.channel.delivered if not message.ref]
            edits = [message.text for message in gateway.channel.delivered if message.ref]
        assert state["spent"]["turns"] == 6
        assert any("The last turn failed and is tried again by itself" in text for text in edits)
        assert len(posts) == 2
        assert "6 turns in a row failed" in posts[1]
        assert "0.2 s" in posts[1]


async def test_stop_is_answered_within_a_fifth_of_a_second_while_a_goal_is_at_work(tmp_path: Path) -> None:
    async with life(world(tmp_path, [[Text("at it"), Hang()]])) as gateway:
        await gateway.say("/goal Something")
        await gateway.channel.until(
            lambda channel: any(getattr(event, "text", "") == "at it" for event in channel.shown)
        )
        began = time.monotonic()
        await gateway.say("/stop")
        await gateway.answers(2)
        assert time.monotonic() - began < 0.2
        assert (await goal_of(gateway))["status"] == "paused"


async def test_a_stop_that_was_accepted_before_a_crash_halts_the_goal_that_is_taken_up_again(
    tmp_path: Path,
) -> None:
    made = world(tmp_path, [[Pause(0.5), Text("Never said.")]])
    now = made.clock.now()
    goal = begin("g1", "Something", now, budget=Budget(), address=Address("fake", "c"))
    await made.transcripts.update("fake:c", {"goal_state": stored(goal)})
    earlier = MemoryStore(made.clock, made.state)
    turn = Inbound(
        "fake", "goal:g1:1:1", "c", "Go on with the goal", kind="goal", meta={"goal": "g1", "number": 1}
    )
    await earlier.inbox.accept(turn)
    assert await earlier.inbox.claim("fake:c")
    await earlier.inbox.accept(Inbound("fake", "s1", "c", "/stop", session="control:fake:c"))
    async with life(made) as gateway:
        await gateway.channel.until(
            lambda channel: any("the goal is paused" in message.text for message in channel.delivered)
        )
        # Whether the turn was begun before it was stopped or not, it is over soon; an inbox has no event of its own.
        async with asyncio.timeout(10):
            while await gateway.store.inbox.pending("fake:c"):
                await asyncio.sleep(0.01)
        assert (await goal_of(gateway))["status"] == "paused"
        assert "Never said." not in [line.get("content") for line in await gateway.history()]


async def test_a_time_that_comes_while_a_goal_is_at_work_is_told_and_changes_nothing(tmp_path: Path) -> None:
    made, clock = swept(tmp_path)
    go_on = asyncio.Event()
    made.model = world(tmp_path, [[go_on, Text("Half of it is painted.")], [Hang()]]).model
    async with life(made) as gateway:
        await gateway.say("/goal sweep every 30 8 * * * UTC")
        await gateway.answers(1)
        await gateway.say("/goal Paint it")
        await gateway.answers(2)
        before = await goal_of(gateway)
        clock._elapsed += timedelta(minutes=31).total_seconds()
        await gateway.scheduler.tick()
        go_on.set()
        told = (await gateway.answers(3))[2]
        assert "A goal is active here already: Paint it" in told
        assert (await goal_of(gateway))["id"] == before["id"]
        await gateway.say("/stop")
        await gateway.answers(4)


async def test_a_goal_that_is_completed_in_the_answer_to_a_person_shows_so_in_its_message(
    tmp_path: Path,
) -> None:
    turns = [call("ask_user", question="Red or blue?"), "I wait.", done("It is blue."), "Blue it is."]
    async with life(world(tmp_path, turns, capabilities=PROGRESS)) as gateway:
        await gateway.say("/goal Paint it")
        await until(gateway, "waiting_user")
        await gateway.say("blue")
        await until(gateway, "completed")
        await gateway.channel.until(
            lambda channel: any(one.ref and "Completed" in one.text for one in channel.delivered)
        )
        posts = [one.text for one in gateway.channel.delivered if not one.ref]
        assert len(posts) == 3
        assert posts[2].startswith("Blue it is.\n\n**Goal completed**")


async def test_what_a_turn_used_before_it_was_interrupted_counts(tmp_path: Path) -> None:
    workshop = Workshop()
    workshop.go_on.clear()
    first = [*call("make", text="a"), Finished("tool_calls", Usage(1_000, 10))]
    made = world(tmp_path, [first], workshop=workshop)
    async with life(made) as gateway:
        await gateway.say("/goal Make a")
        await workshop.started.wait()
        asyncio.get_running_loop().call_later(0.1, workshop.go_on.set)  # while the gateway stops
    made.model = ScriptedModel(Script([[Text("Half of it."), Finished("stop", Usage(500, 5))], [Hang()]]))
    async with life(made) as gateway:
        await gateway.channel.until(
            lambda channel: any(isinstance(e, TurnEnded) and e.usage.input for e in channel.shown)
        )
        spent = (await goal_of(gateway))["spent"]
        assert (spent["turns"], spent["tokens"]) == (1, 1_515)
        assert spent["minutes"] > 0
        await gateway.say("/stop")
        await until(gateway, "paused")


async def test_a_tool_does_not_outlast_the_goals_minutes(tmp_path: Path) -> None:
    workshop = Workshop()
    workshop.go_on.clear()  # the tool would go on for ever
    made = world(tmp_path, [call("make", text="a"), "Half of a is there."], workshop=workshop)
    goal = begin("g1", "Make a", made.clock.now(), budget=Budget(minutes=60), address=Address("fake", "c"))
    goal = msgspec.structs.replace(goal, status="paused", spent=Spent(turns=3, minutes=59.99))
    await made.transcripts.update("fake:c", {"goal_state": stored(goal)})
    async with life(made) as gateway:
        await gateway.say("/goal resume")
        state = await until(gateway, "exhausted")
        assert state["reason"] == "60 of 60 minutes are used"
        [result] = [line["content"] for line in await gateway.history() if line["role"] == "tool"]
        assert "the goal's minutes are used up" in result
        assert "Half of a is there." in (await gateway.answers(2))[1]


async def test_a_goal_that_is_blocked_in_the_answer_to_a_person_says_each_thing_once(tmp_path: Path) -> None:
    turns = [call("ask_user", question="Red or blue?"), "I wait.", done(), done(), done(), "I cannot go on."]
    verdicts = [f"VERDICT: FAIL: {why}" for why in ("the left is bare", "the right is bare", "it drips")]
    async with life(world(tmp_path, turns, verdicts)) as gateway:
        await gateway.say("/goal Paint it")
        await until(gateway, "waiting_user")
        await gateway.say("blue")
        await until(gateway, "blocked")
        told = (await gateway.answers(3))[2]
        assert told.count("I cannot go on.") == 1
        assert (
            "Its completion was refused 3 times:\n- the left is bare\n- the right is bare\n- it drips\n"
            in told
        )
