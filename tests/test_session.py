import asyncio
from pathlib import Path
from typing import Any

import pytest

from nanobot.events import Steered, TextReset
from nanobot.messages import Inbound
from nanobot.model import Failed, Finished, Restarted, Text, ToolCall
from nanobot.stores.memory import MemoryStore
from nanobot.testing import ScriptedModel
from tests.gateway_in_memory import World, life
from tests.turn_support import Bench, call, ended, roles


async def test_a_message_is_answered_and_both_are_in_the_history(tmp_path: Path) -> None:
    async with life(World(tmp_path, ScriptedModel(["Hello to you."]))) as gateway:
        accepted = await gateway.say("hello")
        assert await gateway.answers(1) == ["Hello to you."]
        user, answer = await gateway.history()
        assert (user["role"], user["content"], user["turn"]) == ("user", "hello", accepted.id)
        assert (answer["role"], answer["content"], answer["turn"]) == (
            "assistant",
            "Hello to you.",
            accepted.id,
        )
        assert isinstance(answer["latency_ms"], int)
        assert answer["model"] == "scripted/test"


async def test_quick_messages_of_one_chat_are_answered_one_by_one_in_order(tmp_path: Path) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        texts = [f"number {n}" for n in range(30)]
        for text in texts:
            await gateway.say(text)
        assert await gateway.answers(30) == [f"echo: {text}" for text in texts]


async def test_the_same_message_id_is_answered_once(tmp_path: Path) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        first = await gateway.say("once", id="m1")
        again = await gateway.say("once", id="m1")
        await gateway.say("another")
        assert again.duplicate
        assert again.id == first.id
        assert await gateway.answers(2) == ["echo: once", "echo: another"]


async def test_a_tool_call_is_in_the_history_before_it_runs_and_its_result_after(tmp_path: Path) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[Text("Let me see."), call("act", "x")], "Done."])
    async with life(World(tmp_path, model, bench.tools)) as gateway:
        await gateway.say("do x")
        await bench.started.wait()
        assert roles(await gateway.history()) == ["user", "assistant"]
        bench.go_on.set()
        assert await gateway.answers(1) == ["Done."]
        lines = await gateway.history()
        assert roles(lines) == ["user", "assistant", "tool", "assistant"]
        assert (lines[2]["tool_call_id"], lines[2]["content"]) == ("c1", "did act x")


async def test_calls_of_one_answer_run_side_by_side(tmp_path: Path) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[call("look", "a", "c1"), call("look", "b", "c2")], "Both seen."])
    async with life(World(tmp_path, model, bench.tools)) as gateway:
        await gateway.say("look twice")
        async with asyncio.timeout(5):
            while len(bench.runs) < 2:  # the second started although the first is held
                await asyncio.sleep(0)
        bench.go_on.set()
        assert await gateway.answers(1) == ["Both seen."]


async def test_a_message_during_a_tool_steers_the_turn(tmp_path: Path) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[call("act", "x")], "Blue it is."])
    async with life(World(tmp_path, model, bench.tools)) as gateway:
        first = await gateway.say("paint it")
        await bench.started.wait()
        second = await gateway.say("in blue")
        bench.go_on.set()
        assert await gateway.answers(1) == ["Blue it is."]
        assert [line["content"] for line in model.requests[1].messages if line["role"] == "user"] == [
            "paint it",
            "in blue",
        ]
        assert [event.answers for event in ended(gateway.channel)] == [(first.id, second.id)]
        assert any(isinstance(event, Steered) for event in gateway.channel.shown)
        assert await gateway.store.inbox.pending("fake:c") == []


async def test_with_followup_a_message_during_a_tool_waits_for_its_own_turn(tmp_path: Path) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[call("act", "x")], "Painted.", "Too late for blue."])
    async with life(World(tmp_path, model, bench.tools, steering=False)) as gateway:
        await gateway.say("paint it")
        await bench.started.wait()
        await gateway.say("in blue")
        bench.go_on.set()
        assert await gateway.answers(2) == ["Painted.", "Too late for blue."]


async def test_results_that_wait_together_are_answered_together(tmp_path: Path) -> None:
    model = ScriptedModel(["Both are here."])
    world = World(tmp_path, model)
    earlier = MemoryStore(world.clock, world.state)
    for number in range(2):
        await earlier.inbox.accept(
            Inbound("fake", f"m{number}", "c", f"result {number}", kind="child_result")
        )
    async with life(world) as gateway:
        assert await gateway.answers(1) == ["Both are here."]
        assert [line["content"] for line in model.requests[0].messages] == ["result 0", "result 1"]
        assert len(model.requests) == 1


async def test_commands_are_shown_to_people_and_never_to_the_model(tmp_path: Path) -> None:
    model = ScriptedModel(["Hi."])
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("/version")
        await gateway.say("hello")
        await gateway.answers(2)
        contents = [line["content"] for line in await gateway.history()]
        assert "/version" in contents
        assert [line["content"] for line in model.requests[0].messages] == ["hello"]


async def test_new_starts_over_and_archives_what_was_said(tmp_path: Path) -> None:
    model = ScriptedModel(["One.", "Two."])
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("first")
        await gateway.answers(1)
        await gateway.say("/new")
        await gateway.answers(2)
        await gateway.say("second")
        assert (await gateway.answers(3))[-1] == "Two."
        assert [line["content"] for line in model.requests[1].messages] == ["second"]
        page = await gateway.transcripts.page("fake:c", limit=50)
        assert [line["content"] for line in page.messages][::2] == ["/new", "second"]
        assert b'"first"' in (await gateway.transcripts.exported("fake:c") or b"")


async def test_a_failed_model_is_told_to_the_user_and_not_to_the_next_call(tmp_path: Path) -> None:
    model = ScriptedModel([[Failed("auth", "The key is wrong.")], "Better now."])
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("hello")
        assert await gateway.answers(1) == ["The key is wrong."]
        assert gateway.channel.delivered[0].kind == "error"
        await gateway.say("again")
        assert (await gateway.answers(2))[-1] == "Better now."
        assert "The key is wrong." not in [line["content"] for line in model.requests[1].messages]


async def test_commands_and_errors_come_to_the_model_by_no_summary_either(tmp_path: Path) -> None:
    model = ScriptedModel([[Failed("auth", "The key is wrong.")], "Hi.", "Ok.", "They greeted."])
    async with life(World(tmp_path, model)) as gateway:
        for number, text in enumerate(("hello", "/version", "again", "more", "/compact"), 1):
            await gateway.say(text)
            await gateway.answers(number)
        asked = str(model.requests[-1].messages[-1]["content"])
        assert "hello" in asked
        assert "again" in asked
        assert "/version" not in asked
        assert "The key is wrong." not in asked
        kept = (await gateway.transcripts.open("fake:c")).get_history()
        assert [one["content"] for one in kept] == ["again", "Hi.", "more", "Ok."]


async def test_a_context_overflow_is_tried_once_more_with_less(tmp_path: Path) -> None:
    replies: list[Any] = [f"answer {n}" for n in range(8)]
    model = ScriptedModel([*replies, [Failed("context_overflow", "too long")], "It fits."])
    async with life(World(tmp_path, model)) as gateway:
        for n in range(8):
            await gateway.say(f"question {n} " + "x" * 400)
        await gateway.answers(8)
        await gateway.say("and now?")
        assert (await gateway.answers(9))[-1] == "It fits."
        whole, shrunk = model.requests[-2].messages, model.requests[-1].messages
        assert len(shrunk) < len(whole)
        assert shrunk[-1]["content"] == "and now?"


async def test_a_second_overflow_ends_the_turn_with_a_sentence(tmp_path: Path) -> None:
    model = ScriptedModel([[Failed("context_overflow", "Too long for the model.")]] * 2)
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("hello")
        assert await gateway.answers(1) == ["Too long for the model."]
        assert len(model.requests) == 2


async def test_an_answer_cut_by_the_output_limit_is_continued_into_one(tmp_path: Path) -> None:
    model = ScriptedModel([[Text("The first half "), Finished("length")], "and the second."])
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("tell me")
        assert await gateway.answers(1) == ["The first half and the second."]
        assert roles(await gateway.history()) == ["user", "assistant"]


async def test_an_empty_answer_is_asked_again_and_then_given_up(tmp_path: Path) -> None:
    model = ScriptedModel(
        [[Finished("stop")], "Here I am.", [Finished("stop")], [Finished("stop")], [Finished("stop")]]
    )
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("one")
        assert await gateway.answers(1) == ["Here I am."]
        await gateway.say("two")
        assert "empty answer 3 times" in (await gateway.answers(2))[1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (ToolCall("c1", "lok", "{}"), "did you mean"),
        (ToolCall("c1", "look", '{"text": '), "not valid JSON"),
        (ToolCall("c1", "look", "[]"), "must be a JSON object"),
        (ToolCall("c1", "look", '{"text": {"a": 1}}'), "look"),
        (ToolCall("c1", "hang", "{}"), "did not finish within"),
    ],
    ids=["unknown tool", "malformed JSON", "not an object", "wrong type", "hangs"],
)
async def test_a_wrong_call_goes_back_to_the_model_as_a_result(
    tmp_path: Path, wrong: ToolCall, said: str
) -> None:
    model = ScriptedModel([[wrong], "Mended."])
    async with life(World(tmp_path, model, Bench().tools)) as gateway:
        await gateway.say("go")
        assert await gateway.answers(1) == ["Mended."]
        result = model.requests[1].messages[-1]
        assert result["role"] == "tool"
        assert said in result["content"]


async def test_the_step_limit_ends_with_an_answer_made_without_tools(tmp_path: Path) -> None:
    def script(request: Any) -> Any:
        return [call("look", "again", f"c{len(request.messages)}")] if request.tools else "Out of steps."

    model = ScriptedModel(script)
    async with life(World(tmp_path, model, Bench().tools, max_steps=3)) as gateway:
        await gateway.say("loop")
        assert await gateway.answers(1) == ["Out of steps."]
        assert len(model.requests) == 4


async def test_text_streamed_by_a_call_that_is_made_again_is_taken_back(tmp_path: Path) -> None:
    model = ScriptedModel([[Text("Wrong st"), Restarted("Overloaded."), Text("Right start.")]])
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("go")
        assert await gateway.answers(1) == ["Right start."]
        assert any(isinstance(event, TextReset) for event in gateway.channel.shown)


async def test_an_unknown_sender_gets_a_code_and_after_approval_an_answer(tmp_path: Path) -> None:
    world = World(tmp_path, ScriptedModel(), channel={"allow_from": ["owner"]})
    async with life(world) as gateway:
        assert await gateway.port.accept(Inbound("fake", "m1", "c", "hi", sender="stranger")) is None
        (told,) = await gateway.answers(1)
        code = next(word for word in told.replace(",", " ").split() if len(word) == 9 and word[4] == "-")
        await gateway.say(f"/pairing approve {code}", sender="owner", chat="o")
        await gateway.answers(3)  # the owner's answer, and word to the one who was let in
        await gateway.say("hi again", sender="stranger")
        assert (await gateway.answers(4))[-1] == "echo: hi again"


async def test_a_stranger_in_a_group_is_met_with_silence(tmp_path: Path) -> None:
    world = World(tmp_path, ScriptedModel(), channel={"allow_from": ["owner"]})
    async with life(world) as gateway:
        stranger = Inbound("fake", "m1", "g", "hi", sender="stranger", private=False)
        assert await gateway.port.accept(stranger) is None
        await gateway.say("hello", sender="owner", chat="g", private=False)
        assert await gateway.answers(1) == ["echo: [owner] hello"]
