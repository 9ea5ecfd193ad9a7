"""What a goal's sub-sessions bring back: it joins the goal's turns, and the chat keeps its one progress message."""

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from nanobot.channel import Capabilities
from nanobot.clock import SystemClock
from nanobot.errors import StoreError
from nanobot.events import TextDelta, TurnEnded, Usage
from nanobot.goal import Budget
from nanobot.model import Finished, ModelRequest, Text, ToolCall
from nanobot.testing import ScriptedModel
from tests.gateway_in_memory import InMemory, World, life
from tests.test_children import Delegation
from tests.test_goals import call, done, goal_of, until

PROGRESS = Capabilities(live=True, repeatable=True, progress=True)


class Crew:
    """A model that is the agent, its verifier and its helpers.

    The agent gives two tasks away in a goal's first turn, and completes the goal once `needed` of them are reported.
    """

    def __init__(self, *, needed: int = 2, then: str = "", verdict: asyncio.Event | None = None) -> None:
        self.needed = needed
        self.verdict = verdict or asyncio.Event()  # the verifier answers once this is set
        if verdict is None:
            self.verdict.set()
        self.then = then  # what it asks of the user after it gave the tasks away
        self.let_go = asyncio.Event()  # the helpers answer once this is set

    def __call__(self, request: ModelRequest) -> Any:
        if "VERDICT" in request.system:
            return [self.verdict, Text("VERDICT: PASS")]
        text = str(request.messages[-1]["content"])
        if request.session.startswith("sub:"):
            return [self.let_go, Text(f"{text.capitalize()} is made.")]
        told = "\n".join(str(line["content"]) for line in request.messages if line["role"] == "user")
        if text.startswith("Delegate"):
            return delegated("a present")
        if "set a goal" in text:
            return delegated("the left half", "the right half")
        if told.count("is made.") >= self.needed:
            return done("The whole is made.") if "Accepted" not in text else "Finished."
        if (
            request.messages[-1]["role"] == "tool"
            and self.then
            and "Delegate" not in told
            and "Asked" not in text
        ):
            return call("ask_user", question=self.then)
        return f"So far {told.count('is made.')} are here, after {len(request.messages)} messages."


def delegated(*tasks: str) -> list[ToolCall]:
    return [
        ToolCall(f"d{number}", "delegate", json.dumps({"task": task, "mode": "async"}))
        for number, task in enumerate(tasks)
    ]


def world(tmp_path: Path, crew: Crew) -> World:
    made = World(tmp_path, ScriptedModel(crew), capabilities=PROGRESS)
    made.delegation = Delegation()
    return made


async def resting(gateway: InMemory) -> None:
    """Wait until the goal's first turn is over and it waits for its helpers."""
    await gateway.channel.until(
        lambda channel: any(
            isinstance(event, TurnEnded) and (event.goal or {}).get("spent", {}).get("turns")
            for event in channel.shown
        )
    )


def posted(gateway: InMemory) -> list[str]:
    return [message.text for message in gateway.channel.delivered if not message.ref]


async def results(gateway: InMemory, count: int) -> list[str]:
    """Wait until so many results are in the history."""
    async with asyncio.timeout(10):
        while True:
            found = [line for line in await gateway.history() if line.get("injected") == "child_result"]
            if len(found) >= count:
                return [str(line["content"]) for line in found]
            await asyncio.sleep(0.01)  # a history has no event of its own


async def test_results_join_the_goals_turns_and_nothing_is_posted_for_them(tmp_path: Path) -> None:
    crew = Crew()
    async with life(world(tmp_path, crew)) as gateway:
        await gateway.say("/goal Make a whole")
        await resting(gateway)
        crew.let_go.set()
        state = await until(gateway, "completed")
        await gateway.channel.until(lambda _: len(posted(gateway)) >= 2)
        begun, ended = posted(gateway)
        assert "Make a whole" in begun
        assert "The whole is made." in ended
        ends = [event for event in gateway.channel.shown if isinstance(event, TurnEnded)]
        own = [event for event in ends if event.session == "fake:c"]
        assert state["spent"]["turns"] == len(own)
        assert not [e for e in gateway.channel.shown if isinstance(e, TextDelta) and e.session == "fake:c"]
        assert not await gateway.store.inbox.pending("fake:c")


async def test_commands_begin_no_turn_while_a_goal_waits_for_its_helpers_and_say_that_it_does(
    tmp_path: Path,
) -> None:
    crew = Crew()
    async with life(world(tmp_path, crew)) as gateway:
        await gateway.say("/goal Make a whole")
        await resting(gateway)
        before = await goal_of(gateway)
        await gateway.say("/status")
        await gateway.channel.until(lambda _: len(posted(gateway)) == 2)
        assert "Goal: Make a whole (active, 1 of 50 turns" in posted(gateway)[1]
        assert "3 of 3 agents" not in posted(gateway)[1]  # it rests itself
        await gateway.say("/goal")
        await gateway.channel.until(lambda _: len(posted(gateway)) == 3)
        assert "It waits for 2 sub-sessions; `/tasks` lists them." in posted(gateway)[2]
        assert await gateway.store.inbox.pending("fake:c") == []
        [waiting] = await gateway.store.schedules.list()
        assert waiting.next_at is not None
        assert (await goal_of(gateway))["spent"] == before["spent"]
        await gateway.say("How is it going?")  # a person's word lets it go on
        await gateway.channel.until(lambda _: len(posted(gateway)) == 4)
        await gateway.channel.until(
            lambda channel: any(
                isinstance(e, TurnEnded) and (e.goal or {}).get("spent", {}).get("turns") == 2
                for e in channel.shown
            )
        )
        crew.let_go.set()
        await until(gateway, "completed")


async def test_a_pause_says_what_goes_on_besides(tmp_path: Path) -> None:
    async with life(world(tmp_path, Crew())) as gateway:
        await gateway.say("/goal Make a whole")
        await resting(gateway)
        await gateway.say("/goal pause")
        await gateway.channel.until(lambda _: len(posted(gateway)) == 2)
        assert posted(gateway)[1].endswith("2 sub-sessions still at work; `/stop` ends them too.")
        await gateway.say("/stop")
        await gateway.channel.until(lambda _: len(posted(gateway)) == 3)
        assert gateway.children.records.running("fake:c") == 0


class Ahead(SystemClock):
    """A clock that can be put forward."""

    by = timedelta()

    def now(self) -> datetime:
        return super().now() + self.by


async def test_the_time_its_helpers_work_is_the_goals(tmp_path: Path) -> None:
    crew = Crew()
    made = world(tmp_path, crew)
    made.clock = clock = Ahead()
    async with life(made) as gateway:
        await gateway.say("/goal Make a whole")
        await resting(gateway)
        clock.by = timedelta(minutes=20)
        crew.let_go.set()
        state = await until(gateway, "completed")
        assert 20 <= state["spent"]["minutes"] < 21


async def test_a_result_for_a_goal_that_waits_for_an_answer_is_noted_and_posts_nothing(
    tmp_path: Path,
) -> None:
    crew = Crew(then="Red or blue?")
    async with life(world(tmp_path, crew)) as gateway:
        await gateway.say("/goal Make a whole")
        state = await until(gateway, "waiting_user")
        asked = len(gateway.world.model.requests)  # type: ignore[attr-defined]
        crew.let_go.set()
        await results(gateway, 2)
        assert posted(gateway)[1:] == ["Red or blue?"]
        assert (await goal_of(gateway))["spent"] == state["spent"]
        assert len(gateway.world.model.requests) == asked  # type: ignore[attr-defined]
        await gateway.say("red")
        await until(gateway, "completed")
        await gateway.channel.until(lambda _: "The whole is made." in posted(gateway)[-1])


async def test_what_a_person_had_delegated_is_told_to_that_person_while_a_goal_is_halted(
    tmp_path: Path,
) -> None:
    crew = Crew(needed=9, then="Red or blue?")
    async with life(world(tmp_path, crew)) as gateway:
        await gateway.say("/goal Make a whole")
        await until(gateway, "waiting_user")
        await gateway.say("/goal pause")
        await gateway.channel.until(lambda _: "Paused" in posted(gateway)[-1])
        await gateway.say("Delegate a present")
        await gateway.channel.until(lambda _: len(posted(gateway)) == 4)
        crew.let_go.set()
        await results(gateway, 3)
        await gateway.channel.until(lambda _: len(posted(gateway)) == 5)
        assert "So far" in posted(gateway)[-1]
        assert len(posted(gateway)) == 5
        assert (await goal_of(gateway))["status"] == "paused"


async def test_cancelling_a_goal_ends_what_it_delegated_and_leaves_what_a_person_had_delegated(
    tmp_path: Path,
) -> None:
    crew = Crew(needed=9)
    async with life(world(tmp_path, crew)) as gateway:
        await gateway.say("/goal Make a whole")
        await resting(gateway)
        await gateway.say("Delegate a present")
        await gateway.channel.until(lambda _: len(posted(gateway)) == 2)
        assert gateway.children.records.running("fake:c") == 3
        await gateway.say("/goal cancel")
        await gateway.channel.until(lambda _: "Cancelled" in posted(gateway)[-1])
        [left] = [one for one in gateway.children.records.all() if not one.ended]
        assert left.task == "a present"
        crew.let_go.set()
        await gateway.channel.until(lambda _: len(posted(gateway)) == 4)
        assert (await results(gateway, 1))[0].endswith("A present is made.")


async def test_what_its_helpers_used_until_they_were_ended_is_in_a_goals_last_figures(tmp_path: Path) -> None:
    class Busy(Crew):
        def __call__(self, request: ModelRequest) -> Any:
            if request.session.startswith("sub:") and request.messages[-1]["role"] == "user":
                return [*call("list_sessions"), Finished("tool_calls", Usage(900, 100))]
            return super().__call__(request)

    made = world(tmp_path, Busy(needed=9))
    async with life(made) as gateway:
        await gateway.say("/goal Make a whole")
        await resting(gateway)
        async with asyncio.timeout(10):
            while sum(request.session.startswith("sub:") for request in made.model.requests) < 4:  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)  # until each has used its thousand
        await gateway.say("/goal cancel")
        await gateway.channel.until(lambda _: "Cancelled" in posted(gateway)[-1])
        assert "2k of 2M tokens" in posted(gateway)[-1]
        assert (await goal_of(gateway))["spent"]["tokens"] == 2_000


async def test_an_end_that_was_interrupted_by_a_kill_is_made_good_by_the_same_command(tmp_path: Path) -> None:
    async with life(world(tmp_path, Crew(needed=9))) as gateway:
        await gateway.say("/goal Make a whole")
        await resting(gateway)
        await gateway.goals.move("fake:c", "cancel")  # and there the kill came
        await gateway.say("/goal cancel")
        await gateway.channel.until(lambda _: "cancelled" in posted(gateway)[-1])
        assert gateway.children.records.running("fake:c") == 0


async def test_what_a_goal_delegated_does_not_outlive_its_budget(tmp_path: Path) -> None:
    made = world(tmp_path, Crew(needed=9))
    made.settings["budget"] = Budget(turns=1)
    async with life(made) as gateway:
        await gateway.say("/goal Make a whole")
        await until(gateway, "exhausted")
        assert {one.status for one in gateway.children.records.all()} == {"killed"}
        assert gateway.children.records.all()[0].error == "its goal is exhausted"


async def test_what_a_goal_delegated_ends_when_it_is_completed_without_it(tmp_path: Path) -> None:
    async with life(world(tmp_path, Crew(needed=0))) as gateway:
        await gateway.say("/goal Make a whole")
        await until(gateway, "completed")
        await gateway.channel.until(lambda _: len(posted(gateway)) == 2)
        assert {one.status for one in gateway.children.records.all()} == {"killed"}


async def test_a_goals_end_that_was_interrupted_ends_what_it_delegated_when_it_is_made_good(
    tmp_path: Path,
) -> None:
    failures = [StoreError("the disk is away for a moment")]

    async def leave(session: str, reason: str, goal: str) -> int:
        if failures:
            raise failures.pop()
        return await gateway.children.end_all(session, reason, goal)

    made = world(tmp_path, Crew(needed=0))
    made.settings["leave"] = leave
    async with life(made) as gateway:
        await gateway.say("/goal Make a whole")
        await until(gateway, "completed")
        assert {one.status for one in gateway.children.records.all()} == {"killed"}
        await gateway.channel.until(lambda _: len(posted(gateway)) == 2)


async def test_a_result_that_comes_while_the_goal_ends_is_noted_and_posts_nothing(tmp_path: Path) -> None:
    crew = Crew(needed=0, verdict=asyncio.Event())
    made = world(tmp_path, crew)
    made.settings["steering"] = False
    async with life(made) as gateway:
        await gateway.say("/goal Make a whole")
        crew.let_go.set()
        model = gateway.world.model
        assert isinstance(model, ScriptedModel)
        async with asyncio.timeout(10):
            # Until both results wait behind the turn, which is being verified; an inbox has no event.
            while len(await gateway.store.inbox.pending("fake:c")) < 3 or not any(
                "VERDICT" in request.system for request in model.requests
            ):
                await asyncio.sleep(0.01)
        asked = len(model.requests)
        crew.verdict.set()
        await until(gateway, "completed")
        await results(gateway, 2)
        assert len(posted(gateway)) == 2
        assert len(model.requests) == asked + 1


async def test_a_deleted_chat_takes_along_what_it_delegated_its_verifications_and_what_was_to_begin_later(
    tmp_path: Path,
) -> None:
    async with life(world(tmp_path, Crew(needed=0))) as gateway:
        await gateway.say("/goal Make a whole every 0 9 * * * UTC")
        await gateway.say("/goal Make a whole")
        await until(gateway, "completed")
        await gateway.say("Delegate a present")
        await gateway.channel.until(lambda _: len(posted(gateway)) == 4)
        sessions = [row.key for row in await gateway.port.sessions.list()]
        assert len([key for key in sessions if key.startswith("sub:")]) == 4  # three helpers and a verifier
        assert await gateway.port.sessions.delete("fake:c")
        assert await gateway.port.sessions.list() == []
        assert gateway.children.records.all() == []
        assert await gateway.store.keys("children").items() == []
        assert await gateway.store.schedules.list() == []


async def test_a_deleted_sub_session_is_forgotten_and_its_parent_stays(tmp_path: Path) -> None:
    async with life(world(tmp_path, Crew())) as gateway:
        await gateway.say("/goal Make a whole")
        await resting(gateway)
        one, other = gateway.children.records.all()
        assert await gateway.port.sessions.delete(one.key)
        assert gateway.children.records.all() == [other]
        assert {row.key for row in await gateway.port.sessions.list()} == {"fake:c", other.key}
