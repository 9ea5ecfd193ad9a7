"""A history that outgrows the model's window, in a whole gateway: what is folded, when, and what becomes of the turn."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nanobot.agent import compaction
from nanobot.events import TurnEnded
from nanobot.model import Failed, ModelRequest
from nanobot.models.scripted import Reply
from nanobot.testing import Hang, ScriptedModel
from tests.gateway_in_memory import InMemory, World, life

LONG = "They spoke of ferries and lighthouses at length. " * 100  # about 1,200 tokens


class Talker:
    """A model with a small window; `summaries` is what it answers when it is asked to condense."""

    def __init__(self, *summaries: Reply) -> None:
        self.summaries = list(summaries)
        self.condensing = asyncio.Event()
        self.model = ScriptedModel(self.reply, context_window=10_000)

    def reply(self, request: ModelRequest) -> Reply:
        if "<conversation>" not in str(request.messages[-1]["content"]):
            return "Yes."
        self.condensing.set()
        return self.summaries.pop(0)

    def told(self) -> list[str]:
        """What the last call of a turn was given."""
        asked = [
            one for one in self.model.requests if "<conversation>" not in str(one.messages[-1]["content"])
        ]
        return [str(line["content"]) for line in asked[-1].messages]


async def talk(gateway: InMemory, talker: Talker) -> int:
    """Say long things until something is condensed; returns how often."""
    for count in range(1, 12):
        await gateway.say(f"{count}: {LONG}")
        await gateway.answers(count)
        await gateway.actors.ended("fake:c")
        if talker.condensing.is_set():
            return count
    raise AssertionError("nothing was ever folded")


async def test_old_turns_are_folded_after_the_answer_and_the_next_turn_is_told_the_summary(
    tmp_path: Path,
) -> None:
    talker = Talker("They like ferries.")
    async with life(World(tmp_path, talker.model)) as gateway:
        count = await talk(gateway, talker)
        before = await gateway.history()
        await gateway.say("and then?")
        await gateway.answers(count + 1)
        preface, *rest = talker.told()
        assert "They like ferries." in preface
        assert rest[-1] == "and then?"
        assert not any(text.startswith("1: ") for text in rest)
        assert (await gateway.history())[: len(before)] == before


@pytest.mark.parametrize("refusal", [[Failed("overloaded", "no")], "x" * (compaction.MAX_SUMMARY + 1)])
async def test_where_the_model_gives_no_summary_a_plain_one_stands_in(tmp_path: Path, refusal: Any) -> None:
    talker = Talker(refusal)
    async with life(World(tmp_path, talker.model)) as gateway:
        count = await talk(gateway, talker)
        await gateway.say("and then?")
        await gateway.answers(count + 1)
        assert "User: 1: They spoke of ferries" in talker.told()[0]


async def test_a_stop_ends_the_folding_so_that_the_next_message_is_answered(tmp_path: Path) -> None:
    talker = Talker([Hang()], "They like ferries.")
    async with life(World(tmp_path, talker.model)) as gateway:
        talking = asyncio.create_task(talk(gateway, talker))
        await talker.condensing.wait()
        await gateway.channel.until(lambda channel: isinstance(channel.shown[-1], TurnEnded))
        assert await gateway.port.stop("fake:c")
        count = await talking
        await gateway.say("and then?")
        assert (await gateway.answers(count + 1))[-1] == "Yes."
