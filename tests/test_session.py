import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nanobot.errors import DeadlineExceeded, StoreFull
from nanobot.events import Steered, TextReset, TurnEnded, TurnStarted
from nanobot.messages import Inbound, Line
from nanobot.model import Failed, Finished, ModelRequest, Restarted, Text, ToolCall
from nanobot.stores.memory import MemoryStore
from nanobot.testing import FakeChannel, FakeClock, Hang, ScriptedModel
from nanobot.tool import ToolContext, ToolResult, tool
from tests.gateway_in_memory import World, life


class Note(msgspec.Struct):
    text: str = ""


class Bench:
    """Two tools that tests can hold: `look` is read-only, `act` is not. Each run is noted."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.tools = [
            tool("look", "Look at something.", read_only=True)(self.look),
            tool("act", "Change something.")(self.act),
            tool("hang", "Never returns.", timeout=0.05)(self.hang),
        ]

    async def look(self, arguments: Note, context: ToolContext) -> ToolResult:
        return await self._run(f"look {arguments.text}")

    async def act(self, arguments: Note, context: ToolContext) -> ToolResult:
        return await self._run(f"act {arguments.text}")

    async def hang(self, arguments: Note, context: ToolContext) -> ToolResult:
        await asyncio.Event().wait()
        raise AssertionError

    async def _run(self, what: str) -> ToolResult:
        self.runs.append(what)
        self.started.set()
        await self.go_on.wait()
        return ToolResult(f"did {what}")


def call(name: str, text: str = "", id: str = "c1") -> ToolCall:
    return ToolCall(id, name, msgspec.json.encode({"text": text}).decode())


def roles(lines: list[Line]) -> list[str]:
    return [str(line["role"]) for line in lines]


def ended(channel: FakeChannel) -> list[TurnEnded]:
    return [event for event in channel.shown if isinstance(event, TurnEnded)]


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


async def test_stop_ends_a_hanging_model_call_and_keeps_what_was_said(tmp_path: Path) -> None:
    model = ScriptedModel([[Text("Once upon a time"), Hang()], "Fresh."])
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("a story")
        await gateway.channel.until(
            lambda channel: any("Once" in getattr(e, "text", "") for e in channel.shown)
        )
        await gateway.say("never answered")
        await gateway.say("/stop")
        texts = await gateway.answers(2)
        assert sorted(texts) == ["Once upon a time", "Stopped. 1 waiting message was dropped."]
        said = [line for line in await gateway.history() if line.get("injected") != "command"]
        assert (said[-1]["content"], said[-1]["injected"]) == ("Once upon a time", "stopped")
        await gateway.say("again")
        assert (await gateway.answers(3))[-1] == "Fresh."


async def test_stop_during_a_tool_leaves_a_legal_history(tmp_path: Path) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[call("act", "x")], "After the stop."])
    async with life(World(tmp_path, model, bench.tools)) as gateway:
        await gateway.say("do x")
        await bench.started.wait()
        assert await gateway.port.stop("fake:c")
        await gateway.channel.until(lambda channel: bool(ended(channel)))
        lines = await gateway.history()
        assert roles(lines) == ["user", "assistant", "tool", "assistant"]
        assert "stopped by the user" in lines[2]["content"]
        await gateway.say("go on")
        assert await gateway.answers(1) == ["After the stop."]


async def test_a_turn_that_a_stopping_gateway_holds_up_goes_on_in_the_next_life_uncounted(
    tmp_path: Path,
) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[call("act", "x")], "Done."])
    world = World(tmp_path, model, bench.tools)
    async with life(world) as gateway:
        await gateway.say("do x", id="m1")
        await bench.started.wait()
        asyncio.get_running_loop().call_soon(bench.go_on.set)  # the tool ends while the gateway stops
    assert (len(model.requests), world.channel.delivered) == (1, [])
    async with life(world) as gateway:
        assert await gateway.answers(1) == ["Done."]
        row = await gateway.store.inbox.find("fake", "m1")
        assert row
        assert (row.attempts, bench.runs) == (1, ["act x"])


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


async def test_stop_with_nothing_running_says_so(tmp_path: Path) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        await gateway.say("/stop")
        assert await gateway.answers(1) == ["Nothing is running."]


async def test_a_session_that_is_deleted_while_its_turn_runs_stays_deleted(tmp_path: Path) -> None:
    model = ScriptedModel([[Text("Once upon a time"), Hang()]])
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("a story")
        await model.started.wait()
        append, loop = gateway.transcripts.append, asyncio.get_running_loop()

        async def late(key: str, lines: list[Line]) -> None:
            later = loop.create_future()
            loop.call_later(0.05, later.set_result, None)  # longer than the deletion takes
            await later
            await append(key, lines)

        gateway.transcripts.append = late  # type: ignore[method-assign, assignment]
        assert await gateway.port.sessions.delete("fake:c")
        await gateway.channel.until(lambda channel: bool(ended(channel)))
        assert not gateway.transcripts.exists("fake:c")


async def test_status_answers_while_a_turn_hangs(tmp_path: Path) -> None:
    model = ScriptedModel([[Hang()]])
    async with life(World(tmp_path, model)) as gateway:
        await gateway.say("hang")
        await model.started.wait()
        await gateway.say("/status")
        assert "**working**" in (await gateway.answers(1))[0]
        await gateway.port.stop("fake:c")


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


async def test_a_turn_whose_final_line_is_written_is_only_committed(tmp_path: Path) -> None:
    model = ScriptedModel()
    world = World(tmp_path, model)
    earlier = MemoryStore(world.clock, world.state)
    accepted = await earlier.inbox.accept(Inbound("fake", "m1", "c", "hello"))
    assert await earlier.inbox.claim("fake:c")
    await world.transcripts.append(
        "fake:c",
        [
            Line(role="user", content="hello", timestamp="2026-01-01T00:00:00+00:00", turn=accepted.id),
            Line(
                role="assistant",
                content="I said it.",
                timestamp="2026-01-01T00:00:01+00:00",
                turn=accepted.id,
                latency_ms=5,
            ),
        ],
    )
    async with life(world) as gateway:
        assert await gateway.answers(1) == ["I said it."]
        assert model.requests == []
        assert len(await gateway.history()) == 2


@pytest.mark.parametrize(
    ("name", "result"), [("look", "did look x"), ("act", "interrupted: outcome unknown")]
)
async def test_after_a_crash_harmless_calls_run_again_and_others_say_that_nobody_knows(
    tmp_path: Path, name: str, result: str
) -> None:
    bench = Bench()
    model = ScriptedModel(["Went on."])
    world = World(tmp_path, model, bench.tools)
    earlier = MemoryStore(world.clock, world.state)
    accepted = await earlier.inbox.accept(Inbound("fake", "m1", "c", "do x"))
    assert await earlier.inbox.claim("fake:c")
    calls = [{"id": "c1", "type": "function", "function": {"name": name, "arguments": '{"text":"x"}'}}]
    await world.transcripts.append(
        "fake:c",
        [
            Line(role="user", content="do x", timestamp="2026-01-01T00:00:00+00:00", turn=accepted.id),
            Line(
                role="assistant",
                content="",
                timestamp="2026-01-01T00:00:01+00:00",
                turn=accepted.id,
                tool_calls=calls,
            ),
        ],
    )
    async with life(world) as gateway:
        assert await gateway.answers(1) == ["Went on."]
        assert roles(await gateway.history()) == ["user", "assistant", "tool", "assistant"]
        assert (await gateway.history())[2]["content"] == result
        assert bench.runs == (["look x"] if name == "look" else [])
        assert any(isinstance(event, TurnStarted) and event.resumed for event in gateway.channel.shown)


async def test_a_message_that_was_interrupted_too_often_is_given_up_with_a_sentence(tmp_path: Path) -> None:
    model = ScriptedModel(["Never said."])
    world = World(tmp_path, model)
    for life_number in range(3):
        store = MemoryStore(world.clock, world.state)
        if life_number == 0:
            await store.inbox.accept(Inbound("fake", "m1", "c", "poison"))
        assert await store.inbox.claim("fake:c")
    async with life(world) as gateway:
        assert "I gave up on this message" in (await gateway.answers(1))[0]
        assert model.requests == []
        assert await gateway.store.inbox.pending("fake:c") == []


async def test_a_stop_accepted_before_a_crash_reaches_the_turn_it_was_about(tmp_path: Path) -> None:
    model = ScriptedModel(["Never said."])
    world = World(tmp_path, model)
    earlier = MemoryStore(world.clock, world.state)
    await earlier.inbox.accept(Inbound("fake", "m1", "c", "work for hours"))
    assert await earlier.inbox.claim("fake:c")
    await earlier.inbox.accept(Inbound("fake", "m2", "c", "/stop", session="control:fake:c"))
    async with life(world) as gateway:
        await gateway.channel.until(lambda channel: "fake:c" in [e.session for e in ended(channel)])
        await gateway.answers(1)
        assert model.requests == []
        assert await gateway.store.inbox.pending("fake:c") == []


async def test_what_was_said_after_a_stop_is_answered(tmp_path: Path) -> None:
    world = World(tmp_path, ScriptedModel())
    earlier = MemoryStore(world.clock, world.state)
    await earlier.inbox.accept(Inbound("fake", "m1", "c", "work for hours"))
    await earlier.inbox.accept(Inbound("fake", "m2", "c", "/stop", session="control:fake:c"))
    await earlier.inbox.accept(Inbound("fake", "m3", "c", "do this instead"))
    async with life(world) as gateway:
        assert "echo: do this instead" in await gateway.answers(2)
        assert await gateway.store.inbox.pending("fake:c") == []


async def test_a_stop_does_not_reach_a_turn_that_answers_something_later(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    model = ScriptedModel([[go_on, Text("Done.")]])
    async with life(World(tmp_path, model)) as gateway:
        stop = await gateway.store.inbox.accept(Inbound("other", "m1", "c", "/stop"))
        row = await gateway.store.inbox.row(stop.id)
        assert row
        await gateway.say("do this instead")
        await model.started.wait()
        assert await gateway.actors.stop("fake:c", row.seq) == (False, 0)
        go_on.set()
        assert await gateway.answers(1) == ["Done."]


async def test_what_a_stopped_turn_took_in_after_the_stop_gets_a_turn_of_its_own(tmp_path: Path) -> None:
    bench = Bench()
    bench.go_on.clear()
    model = ScriptedModel([[call("act", "x")], [Text("Still"), Hang()], "In blue."])
    async with life(World(tmp_path, model, bench.tools)) as gateway:
        await gateway.say("paint it")
        await bench.started.wait()
        stop = await gateway.store.inbox.accept(Inbound("other", "m1", "c", "/stop"))
        row = await gateway.store.inbox.row(stop.id)
        assert row
        await gateway.say("in blue instead")
        bench.go_on.set()
        await gateway.channel.until(
            lambda channel: any("Still" in getattr(e, "text", "") for e in channel.shown)
        )
        assert await gateway.actors.stop("fake:c", row.seq) == (True, 0)
        assert await gateway.answers(2) == ["Still", "In blue."]
        assert [line["content"] for line in model.requests[-1].messages if line["role"] == "user"] == [
            "paint it",
            "in blue instead",
        ]


class SlowInbox:
    """An inbox that reads what waits only when it is told to go on."""

    def __init__(self, inbox: Any) -> None:
        self._inbox = inbox
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbox, name)

    async def pending(self, session: str) -> Any:
        await self.go_on.wait()
        return await self._inbox.pending(session)


async def test_a_turn_that_begins_while_a_stop_is_under_way_is_stopped(tmp_path: Path) -> None:
    model = ScriptedModel([[Hang()]])
    async with life(World(tmp_path, model)) as gateway:
        gateway.bench.inbox = slow = SlowInbox(gateway.store.inbox)
        stopping = asyncio.create_task(gateway.actors.stop("fake:c"))
        await gateway.say("said just before")
        await model.started.wait()
        slow.go_on.set()
        assert await stopping == (True, 0)
        await gateway.channel.until(lambda channel: bool(ended(channel)))


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


class Absent:
    """An inbox that stores a message and tells its caller too late."""

    def __init__(self, inbox: Any) -> None:
        self._inbox = inbox
        self.stored = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inbox, name)

    async def accept(self, message: Inbound) -> Any:
        accepted = await self._inbox.accept(message)
        if not accepted.duplicate:
            self.stored.set()
            await asyncio.Event().wait()
        return accepted


async def test_a_message_whose_sender_went_away_while_it_was_stored_is_answered_when_it_comes_again(
    tmp_path: Path,
) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        gateway.store.inbox = inbox = Absent(gateway.store.inbox)
        gone = asyncio.create_task(gateway.say("hello", id="m1"))
        await inbox.stored.wait()
        gone.cancel()
        assert (await gateway.say("hello", id="m1")).duplicate
        assert await gateway.answers(1) == ["echo: hello"]


async def test_a_disk_that_fills_between_two_results_counts_as_no_attempt(tmp_path: Path) -> None:
    bench = Bench()
    model = ScriptedModel([[call("look", "a", "c1"), call("look", "b", "c2")], "Both seen."])
    async with life(World(tmp_path, model, bench.tools)) as gateway:
        append, refused = gateway.transcripts.append, 0

        async def appending(key: str, lines: list[Line]) -> None:
            nonlocal refused
            if lines[0]["role"] == "tool" and refused < 8:  # longer than a message may be interrupted
                refused += 1
                raise StoreFull("disk full")
            await append(key, lines)

        gateway.transcripts.append = appending  # type: ignore[method-assign, assignment]
        gateway.dispatcher._clock = FakeClock(auto=True)
        await gateway.say("look at both", id="m1")
        assert await gateway.answers(1) == ["Both seen."]
        row = await gateway.store.inbox.find("fake", "m1")
        assert row
        assert (refused, row.attempts) == (8, 1)


async def test_a_cancellation_that_nobody_asked_for_is_a_failure_like_any_other(tmp_path: Path) -> None:
    def broken(_: ModelRequest) -> str:
        raise asyncio.CancelledError

    model = ScriptedModel(broken)
    async with life(World(tmp_path, model)) as gateway:
        gateway.dispatcher._clock = FakeClock(auto=True)
        await gateway.say("hello")
        [answer] = await gateway.answers(1)
        assert answer == "I gave up on this message: answering it was interrupted 3 times."
        assert len(model.requests) == 3


@pytest.mark.parametrize("fault", [StoreFull("disk full"), DeadlineExceeded("committing the turn", 30)])
async def test_a_full_disk_holds_up_a_session_no_longer_than_it_is_full(
    tmp_path: Path, fault: Exception
) -> None:
    async with life(World(tmp_path, ScriptedModel())) as gateway:
        inbox, full = gateway.store.inbox, True
        commit, release = inbox.commit, inbox.release
        refused: list[str] = []

        async def committing(*values: Any, **more: Any) -> Any:
            if full:
                refused.append("commit")
                raise fault
            return await commit(*values, **more)

        async def releasing(*values: Any, **more: Any) -> None:
            nonlocal full
            if full:
                refused.append("release")
                full = len(refused) < 8  # longer than a message may be interrupted
                raise StoreFull("disk full")
            await release(*values, **more)

        inbox.commit, inbox.release = committing, releasing  # type: ignore[method-assign]
        gateway.dispatcher._clock = FakeClock(auto=True)  # the pauses between tries cost no time
        await gateway.say("hello", id="m1")
        assert await gateway.answers(1) == ["echo: hello"]
        row = await gateway.store.inbox.find("fake", "m1")
        assert row
        assert (len(refused), row.attempts) == (8, 1)
        assert roles(await gateway.history()) == ["user", "assistant"]
