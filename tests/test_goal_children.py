"""What a goal's sub-sessions bring back: it joins the goal's turns, and the chat keeps its one progress message."""

import asyncio
import json
from pathlib import Path
from typing import Any

from nanobot.channel import Capabilities
from nanobot.events import TextDelta, TurnEnded
from nanobot.model import ModelRequest, Text, ToolCall
from nanobot.testing import ScriptedModel
from tests.gateway_in_memory import InMemory, World, life
from tests.test_children import Delegation
from tests.test_goals import call, done, goal_of, until

PROGRESS = Capabilities(live=True, repeatable=True, progress=True)


class Crew:
    """A model that is the agent, its verifier and its helpers.

    The agent gives two tasks away in a goal's first turn, and completes the goal once `needed` of them are reported.
    """

    def __init__(self, *, needed: int = 2, then: str = "") -> None:
        self.needed = needed
        self.then = then  # what it asks of the user after it gave the tasks away
        self.let_go = asyncio.Event()  # the helpers answer once this is set

    def __call__(self, request: ModelRequest) -> Any:
        if "VERDICT" in request.system:
            return "VERDICT: PASS"
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


async def results(gateway: InMemory, count: int) -> None:
    """Wait until so many results are in the history."""
    async with asyncio.timeout(10):
        while len([one for one in await gateway.history() if one.get("injected") == "child_result"]) < count:
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


async def test_cancelling_a_goal_ends_what_it_delegated(tmp_path: Path) -> None:
    async with life(world(tmp_path, Crew())) as gateway:
        await gateway.say("/goal Make a whole")
        await resting(gateway)
        assert gateway.children.records.running("fake:c") == 2
        await gateway.say("/goal cancel")
        await gateway.channel.until(lambda _: "Cancelled" in posted(gateway)[-1])
        assert gateway.children.records.running("fake:c") == 0
        assert len(posted(gateway)) == 2


async def test_a_result_that_comes_after_the_goals_end_is_noted_and_posts_nothing(tmp_path: Path) -> None:
    crew = Crew(needed=0)
    async with life(world(tmp_path, crew)) as gateway:
        await gateway.say("/goal Make a whole")
        await until(gateway, "completed")
        await gateway.channel.until(lambda _: len(posted(gateway)) == 2)
        assert gateway.children.records.running("fake:c") == 2
        asked = len(gateway.world.model.requests)  # type: ignore[attr-defined]
        crew.let_go.set()
        await results(gateway, 2)
        assert len(posted(gateway)) == 2
        assert len(gateway.world.model.requests) == asked  # type: ignore[attr-defined]
