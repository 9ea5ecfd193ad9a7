"""Goals in a whole gateway with a scripted model: what a person in the chat and the session's file see."""

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nanobot.channel import Capabilities
from nanobot.events import GoalChanged, TextDelta, TurnEnded
from nanobot.goal import Budget
from nanobot.messages import Inbound
from nanobot.model import Failed, ModelRequest, Text, ToolCall
from nanobot.testing import Hang, ScriptedModel
from nanobot.tool import ToolContext, ToolResult, tool
from tests.gateway_in_memory import InMemory, World, life

PROGRESS = Capabilities(live=True, repeatable=True, progress=True)


class Note(msgspec.Struct):
    text: str = ""


class Workshop:
    """A tool that notes what it made, and one that hangs."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.started = asyncio.Event()
        self.tools = [
            tool("make", "Make something.")(self.make),
            tool("look", "Look at something.", read_only=True)(self.look),
            tool("hang", "Never returns.", timeout=0.05)(self.hang),
        ]

    async def make(self, arguments: Note, context: ToolContext) -> ToolResult:
        self.made.append(arguments.text)
        self.started.set()
        await self.go_on.wait()
        return ToolResult(f"made {arguments.text}")

    async def look(self, arguments: Note, context: ToolContext) -> ToolResult:
        return ToolResult("looks good")

    async def hang(self, arguments: Note, context: ToolContext) -> ToolResult:
        await asyncio.Event().wait()
        raise AssertionError


def call(name: str, **arguments: Any) -> list[ToolCall]:
    return [ToolCall(f"c{name}", name, msgspec.json.encode(arguments).decode())]


def done(recap: str = "All is there.") -> list[ToolCall]:
    return call("complete_goal", recap=recap, evidence="see out.txt")


def verifying(request: ModelRequest) -> bool:
    return "VERDICT" in request.system


class Script:
    """A model that answers a goal's turns from one list and the verifier's questions from another."""

    def __init__(self, turns: list[Any], verdicts: list[Any] | None = None) -> None:
        self.turns = turns
        self.verdicts = verdicts or []

    def __call__(self, request: ModelRequest) -> Any:
        if verifying(request):
            return self.verdicts.pop(0) if self.verdicts else "VERDICT: PASS"
        if not self.turns:
            return "Nothing left to say."
        return self.turns.pop(0)


def world(tmp_path: Path, turns: list[Any], verdicts: list[Any] | None = None, **settings: Any) -> World:
    workshop = settings.pop("workshop", None) or Workshop()
    return World(tmp_path, ScriptedModel(Script(turns, verdicts)), workshop.tools, **settings)


async def goal_of(gateway: InMemory, chat: str = "c") -> dict[str, Any]:
    return dict((await gateway.transcripts.open(f"fake:{chat}")).metadata["goal_state"])


async def until(gateway: InMemory, status: str, chat: str = "c") -> dict[str, Any]:
    """The goal's state once it is that and no turn runs."""

    def true(channel: Any) -> bool:
        seen = [event for event in channel.shown if isinstance(event, GoalChanged | TurnEnded)]
        return any(
            isinstance(event, TurnEnded) and (event.goal or {}).get("status") == status for event in seen[-1:]
        )

    await gateway.channel.until(true)
    assert (await goal_of(gateway, chat))["status"] == status
    return await goal_of(gateway, chat)


def steps(count: int, first: int = 1) -> list[Any]:
    """Turns of two model calls each: a tool, then a closing text."""
    found: list[Any] = []
    for number in range(first, first + count):
        found += [call("make", text=f"part {number}"), f"Part {number} is made, the next one follows."]
    return found


async def test_a_goal_is_worked_on_turn_after_turn_until_it_is_verified(tmp_path: Path) -> None:
    workshop = Workshop()
    start = [call("long_task", goal="Make four parts", ui_summary="Four parts"), *steps(1)]
    made = world(tmp_path, [*start, *steps(3, 2), done(), "Finished."], workshop=workshop)
    async with life(made) as gateway:
        begun = await gateway.say("/goal Make me\nfour parts")
        state = await until(gateway, "completed")
        assert workshop.made == ["part 1", "part 2", "part 3", "part 4"]
        assert (state["id"], state["objective"], state["ui_summary"]) == (
            begun.id,
            "Make four parts",
            "Four parts",
        )
        assert state["asked"] == "Make me\nfour parts"
        assert state["spent"]["turns"] == 5
        assert (state["recap"], state["evidence"]) == ("All is there.", "see out.txt")
        first, last = await gateway.answers(2)
        assert "Make me four parts" in first
        assert re.search(
            r"Goal completed.*Four parts.*All is there\..*see out.txt.*5 of 50 turns", last, re.DOTALL
        )
        assert await gateway.store.inbox.pending("fake:c") == []


async def test_the_turns_of_a_goal_are_user_lines_that_say_what_they_are(tmp_path: Path) -> None:
    async with life(world(tmp_path, [*steps(2), done(), "Finished."])) as gateway:
        await gateway.say("/goal Make parts")
        await until(gateway, "completed")
        lines = [line for line in await gateway.history() if line["role"] == "user"]
        assert [line.get("injected") for line in lines] == ["command", "goal", "goal", "goal"]
        assert "Make parts" in lines[1]["content"]
        contexts = [request.context for request in made_requests(gateway) if not verifying(request)]
        assert "Goal (active):\nMake parts" in contexts[0]
        assert "0 of 50 turns" in contexts[0]
        assert "1 of 50 turns" in contexts[2]


def made_requests(gateway: InMemory) -> list[ModelRequest]:
    model = gateway.world.model
    assert isinstance(model, ScriptedModel)
    return model.requests


async def test_a_question_is_one_message_and_the_answer_lets_it_go_on(tmp_path: Path) -> None:
    turns = [
        call("ask_user", question="Red or blue?"),
        "I wait.",
        "Blue, then.",
        done("It is blue."),
        "Finished.",
    ]
    async with life(world(tmp_path, turns)) as gateway:
        await gateway.say("/goal Paint it")
        state = await until(gateway, "waiting_user")
        assert state["question"] == "Red or blue?"
        assert (await gateway.answers(2))[1:] == ["Red or blue?"]
        assert await gateway.store.inbox.pending("fake:c") == []
        await gateway.say("blue")
        await until(gateway, "completed")
        texts = await gateway.answers(4)
        assert texts[2] == "Blue, then."
        assert "It is blue." in texts[3]
        assert len(texts) == 4


async def test_what_is_said_before_a_question_is_put_is_no_answer_to_it(tmp_path: Path) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    def script(request: ModelRequest) -> Any:
        text = str(request.messages[-1]["content"])
        if verifying(request):
            return "VERDICT: PASS"
        if "set a goal" in text:
            asked.set()
            return [go_on, *call("ask_user", question="Red or blue?")]
        if "How far" in text:
            return "Half way."
        return "Thanks, blue." if "Accepted" in text else done("Painted blue.")

    async with life(World(tmp_path, ScriptedModel(script))) as gateway:
        await gateway.say("/goal Paint it")
        await asked.wait()
        await gateway.say("How far are you?")
        go_on.set()
        assert (await gateway.answers(2))[1] == "Half way.\n\nRed or blue?"
        assert (await goal_of(gateway))["status"] == "waiting_user"
        await gateway.say("blue")
        await until(gateway, "completed")


async def test_a_goal_that_only_talks_is_blocked_with_one_message_and_an_answer_wakes_it(
    tmp_path: Path,
) -> None:
    turns = ["Which colour?", "Which colour?", "Blue it is.", done("Blue."), "Finished."]
    async with life(world(tmp_path, turns)) as gateway:
        await gateway.say("/goal Paint it")
        state = await until(gateway, "blocked")
        assert state["spent"]["turns"] == 2
        texts = await gateway.answers(2)
        assert "Which colour?" in texts[1]
        assert "/goal resume" in texts[1]
        await gateway.say("blue")
        await until(gateway, "completed")


async def test_the_budget_ends_it_with_a_last_turn_that_sums_up(tmp_path: Path) -> None:
    turns = [*steps(3), "Three of nine parts are made; the rest is missing."]
    async with life(world(tmp_path, turns, budget=Budget(turns=4))) as gateway:
        await gateway.say("/goal Make nine parts")
        state = await until(gateway, "exhausted")
        assert state["spent"]["turns"] == 4
        assert state["recap"] == "Three of nine parts are made; the rest is missing."
        users = [line["content"] for line in await gateway.history() if line["role"] == "user"]
        assert "last turn" in users[-1]
        assert "last turn" not in users[-2]
        texts = await gateway.answers(2)
        assert "all 4 turns are used" in texts[1]
        assert "Three of nine parts are made" in texts[1]
        assert not gateway.channel.delivered[1].streamed  # what was shown live is not all of it


async def test_an_exhausted_goal_is_final_and_resuming_begins_another_with_the_same_objective(
    tmp_path: Path,
) -> None:
    turns = ["Not done.", done(), "Finished."]
    async with life(world(tmp_path, turns, budget=Budget(turns=1))) as gateway:
        first = await gateway.say("/goal Make a part")
        await until(gateway, "exhausted")
        second = await gateway.say("/goal resume")
        state = await until(gateway, "completed")
        assert state["id"] == second.id != first.id
        assert state["objective"] == "Make a part"


async def test_a_refused_completion_says_why_and_a_better_one_passes(tmp_path: Path) -> None:
    turns = [done("Done."), *steps(1), done("Really done."), "Finished."]
    verdicts = [call("look", text="out.txt"), "I looked.\nVERDICT: FAIL: out.txt is empty", "VERDICT: PASS"]
    async with life(world(tmp_path, turns, verdicts)) as gateway:
        await gateway.say("/goal Fill out.txt")
        state = await until(gateway, "completed")
        assert state["recap"] == "Really done."
        assert state["refusals"] == ["out.txt is empty"]
        results = [line["content"] for line in await gateway.history() if line.get("name") == "complete_goal"]
        assert results[0].startswith("Not accepted (1 of 3): out.txt is empty")
        first = next(request for request in made_requests(gateway) if verifying(request))
        assert [spec.name for spec in first.tools] == ["look"]
        assert [line["role"] for line in first.messages] == ["user"]
        assert "Fill out.txt" in first.messages[0]["content"]


async def test_after_three_refusals_the_user_decides(tmp_path: Path) -> None:
    turns = [done(), done(), done(), "I could not convince anybody."]
    verdicts = [f"VERDICT: FAIL: reason {number}" for number in range(3)]
    async with life(world(tmp_path, turns, verdicts)) as gateway:
        await gateway.say("/goal Convince them")
        state = await until(gateway, "blocked")
        texts = await gateway.answers(2)
        assert all(f"reason {number}" in texts[1] for number in range(3))
        assert state["recap"] == ""
        await gateway.say("/goal done")
        texts = await gateway.answers(3)
        assert "Accepted as done" in texts[2]
        assert (await goal_of(gateway))["status"] == "completed"


async def test_a_verifier_without_a_verdict_is_asked_once_more_and_then_it_is_a_no(tmp_path: Path) -> None:
    turns = [done(), call("make", text="x"), "Went on.", done(), "Finished."]
    verdicts = ["Looks fine to me.", "Really fine.", "Hm.", "VERDICT: PASS"]
    async with life(world(tmp_path, turns, verdicts)) as gateway:
        await gateway.say("/goal Something")
        state = await until(gateway, "completed")
        assert state["refusals"] == ["the verifier came to no verdict"]


async def test_complete_goal_with_wrong_arguments_cannot_loop(tmp_path: Path) -> None:
    wrong = [
        [ToolCall("c", "complete_goal", text)]
        for text in ('{"recp": "x"}', "{}", '{"recap": 7', "[]", '{"recap": ""}')
    ]
    turns: list[Any] = [*wrong, *wrong, "I give up.", "Never asked."]
    async with life(world(tmp_path, turns)) as gateway:
        await gateway.say("/goal Something")
        state = await until(gateway, "blocked")
        assert state["spent"]["turns"] == 1
        assert "did it wrong" in state["reason"]
        assert len(await gateway.answers(2)) == 2
        offered = [bool(request.tools) for request in made_requests(gateway)]
        assert offered == [True] * 5 + [False] * 6


async def test_a_message_steers_the_turn_that_runs_and_is_answered_without_losing_the_goal(
    tmp_path: Path,
) -> None:
    workshop = Workshop()
    workshop.go_on.clear()
    turns = [
        call("make", text="red"),
        "Yes, blue from now on.",
        call("make", text="blue"),
        "Blue.",
        done(),
        "Finished.",
    ]
    async with life(world(tmp_path, turns, workshop=workshop)) as gateway:
        await gateway.say("/goal Paint")
        await workshop.started.wait()
        asked = await gateway.say("in blue, please")
        workshop.go_on.set()
        await until(gateway, "completed")
        texts = await gateway.answers(3)
        assert texts[1] == "Yes, blue from now on."
        assert len(texts) == 3
        answers = [event.answers for event in gateway.channel.shown if isinstance(event, TurnEnded)]
        assert any(asked.id in one for one in answers)


async def test_a_message_between_two_turns_comes_first_and_the_goal_goes_on(tmp_path: Path) -> None:
    workshop = Workshop()
    workshop.go_on.clear()
    turns = [call("make", text="a"), "Part a.", "It is noon.", done(), "Finished."]
    async with life(world(tmp_path, turns, workshop=workshop, steering=False)) as gateway:
        await gateway.say("/goal Make parts")
        await workshop.started.wait()
        await gateway.say("What time is it?")
        workshop.go_on.set()
        state = await until(gateway, "completed")
        assert (await gateway.answers(3))[1] == "It is noon."
        assert state["spent"]["turns"] == 2


async def test_stop_pauses_a_goal_at_once_and_resume_goes_on_with_what_was_done(tmp_path: Path) -> None:
    turns: list[Any] = [*steps(1), [Text("Thinking about part 2"), Hang()], *steps(1, 2), done(), "Finished."]
    async with life(world(tmp_path, turns)) as gateway:
        await gateway.say("/goal Make parts")
        await gateway.channel.until(
            lambda channel: any("part 2" in getattr(event, "text", "") for event in channel.shown)
        )
        await gateway.say("/stop")
        assert "the goal is paused" in (await gateway.answers(2))[1]
        await gateway.channel.until(
            lambda channel: any(isinstance(e, TurnEnded) and e.status == "stopped" for e in channel.shown)
        )
        state = await until(gateway, "paused")
        assert await gateway.store.inbox.pending("fake:c") == []
        assert state["spent"]["turns"] == 2
        await gateway.say("/goal resume")
        state = await until(gateway, "completed")
        assert state["spent"]["turns"] == 4
        assert state["run"] == 2


async def test_a_stop_begins_no_turn_while_what_was_delegated_takes_its_time_to_end(tmp_path: Path) -> None:
    async with life(world(tmp_path, [[Text("one"), Hang()], [Text("two"), Hang()]])) as gateway:

        async def slow(session: str, reason: str) -> int:
            for _ in range(50):
                await asyncio.sleep(0.005)  # a sub-session whose end is written to a slow disk
            return 1

        gateway.actors.below = slow
        await gateway.say("/goal Wait")
        await gateway.channel.until(
            lambda channel: any(getattr(e, "text", "") == "one" for e in channel.shown)
        )
        assert await gateway.port.stop("fake:c")
        await until(gateway, "paused")
        assert not any(getattr(event, "text", "") == "two" for event in gateway.channel.shown)
        assert gateway.actors.running() == []


async def test_pause_and_cancel_end_the_turn_that_runs(tmp_path: Path) -> None:
    turns: list[Any] = [[Text("one"), Hang()], [Text("two"), Hang()]]
    async with life(world(tmp_path, turns)) as gateway:
        await gateway.say("/goal Wait")
        await gateway.channel.until(
            lambda channel: any(getattr(e, "text", "") == "one" for e in channel.shown)
        )
        await gateway.say("/goal pause")
        await until(gateway, "paused")
        await gateway.say("/goal resume")
        await gateway.channel.until(
            lambda channel: any(getattr(e, "text", "") == "two" for e in channel.shown)
        )
        await gateway.say("/goal cancel")
        state = await until(gateway, "cancelled")
        assert state["ended_at"]
        texts = await gateway.answers(4)
        assert [text.split(":")[0] for text in texts] == ["**Goal**", "Paused", "Going on", "Cancelled"]


async def test_new_asks_before_it_ends_a_goal(tmp_path: Path) -> None:
    turns: list[Any] = [[Text("working"), Hang()], "Hello again."]
    async with life(world(tmp_path, turns)) as gateway:
        await gateway.say("/goal Wait")
        await gateway.channel.until(lambda channel: any(isinstance(e, TextDelta) for e in channel.shown))
        await gateway.say("/new")
        assert "/new yes" in (await gateway.answers(2))[1]
        assert gateway.actors.state("fake:c").running
        await gateway.say("/new yes")
        assert "A new conversation" in (await gateway.answers(3))[2]
        assert (await goal_of(gateway))["status"] == "cancelled"
        await gateway.say("hello")
        assert (await gateway.answers(4))[3] == "Hello again."


async def test_a_provider_that_fails_is_tried_again_later_and_at_last_it_is_said(tmp_path: Path) -> None:
    fails: list[Any] = [[Failed("timeout", "the provider hangs")] for _ in range(6)]
    async with life(world(tmp_path, [*fails[:2], done(), "Finished."])) as gateway:
        await gateway.say("/goal Something")
        state = await until(gateway, "completed")
        assert state["spent"]["turns"] == 3
        assert len(await gateway.answers(2)) == 2
    async with life(world(tmp_path / "b", fails)) as gateway:
        await gateway.say("/goal Something")
        state = await until(gateway, "blocked")
        texts = await gateway.answers(2)
        assert len(texts) == 2
        assert "the provider hangs" in texts[1]


async def test_a_tool_that_hangs_ends_at_its_time_and_the_goal_goes_on(tmp_path: Path) -> None:
    async with life(
        world(tmp_path, [call("hang"), "It hung; I go another way.", done(), "Finished."])
    ) as gateway:
        await gateway.say("/goal Something")
        await until(gateway, "completed")


async def test_only_the_user_begins_a_goal(tmp_path: Path) -> None:
    turns = [
        call("long_task", goal="Take over the world"),
        call("complete_goal", recap="x"),
        call("ask_user", question="?"),
        "No.",
    ]
    async with life(world(tmp_path, turns)) as gateway:
        await gateway.say("hello")
        assert await gateway.answers(1) == ["No."]
        assert "goal_state" not in (await gateway.transcripts.open("fake:c")).metadata
        results = [line["content"] for line in await gateway.history() if line["role"] == "tool"]
        assert "only the user begins a goal" in results[0]
        assert all(text.startswith("Error:") for text in results)


async def test_one_message_is_edited_while_a_goal_is_worked_on(tmp_path: Path) -> None:
    workshop = Workshop()
    workshop.go_on.clear()
    turns = [
        call("report_progress", text="Half of it", percent=50), call("make", text="a"), "Part a.", *steps(4), done(), "Finished.",
    ]  # fmt: skip
    async with life(world(tmp_path, turns, workshop=workshop, capabilities=PROGRESS)) as gateway:
        await gateway.say("/goal Make parts")
        await gateway.answers(1)
        await workshop.started.wait()
        await gateway.channel.until(
            lambda channel: any("50 %, Half of it" in m.text for m in channel.delivered)
        )
        workshop.go_on.set()
        await until(gateway, "completed")
        await gateway.channel.until(
            lambda channel: any(m.ref and "Completed" in m.text for m in channel.delivered)
        )
        await gateway.channel.until(lambda channel: len([m for m in channel.delivered if not m.ref]) == 2)
        posts = [message for message in gateway.channel.delivered if not message.ref]
        assert len(posts) == 2
        assert [one["value"] for one in posts[0].meta["buttons"]] == ["/goal pause", "/goal cancel", "/goal"]
        edits = [message for message in gateway.channel.delivered if message.ref]
        assert {message.ref for message in edits} == {"ref-1"}
        assert edits[-1].meta["buttons"] == []
        assert not [event for event in gateway.channel.shown if isinstance(event, TextDelta)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/goal " + "x" * 20_000, "more than the 12,000 allowed"),
        ("/goal    ", "There is no goal here"),
        ("/goal budget turns=0", "no goal here"),
        ("/goal pause", "There is no goal here"),
        ("/goal edit", "What should the goal be?"),
        ("/goal check: ls", "what to reach"),
        ("/goal tidy up every 99 * * * *", "is no time table"),
        ("/goal tidy up every friday", "Say exactly when"),
        ("/goal tidy up at 25:99", "is no time"),
        ("/goal tidy up every 0 9 * * * Nowhere/Land", "no time zone Nowhere/Land"),
        ("/gaol tidy up", "Did you mean /goal?"),
    ],
)
async def test_bad_input_is_answered_with_a_sentence_and_changes_nothing(
    tmp_path: Path, text: str, told: str
) -> None:
    async with life(world(tmp_path, [])) as gateway:
        await gateway.say(text)
        [answer] = await gateway.answers(1)
        assert told in answer
        assert "goal_state" not in (await gateway.transcripts.open("fake:c")).metadata
        assert not await gateway.store.schedules.list()
        assert not made_requests(gateway)


@pytest.mark.parametrize(
    "text", ["/goal budget turns=-5", "/goal budget much", "/goal budget turns=0", "/goal Another one"]
)
async def test_bad_input_leaves_the_goal_that_is_there_as_it_is(tmp_path: Path, text: str) -> None:
    async with life(world(tmp_path, [call("ask_user", question="Well?"), "Waiting."])) as gateway:
        await gateway.say("/goal Something")
        await until(gateway, "waiting_user")
        before = await goal_of(gateway)
        await gateway.say(text)
        assert len(await gateway.answers(3)) == 3
        assert await goal_of(gateway) == before


async def test_somebody_in_a_group_who_was_not_let_in_begins_no_goal(tmp_path: Path) -> None:
    channel = {"allow_from": ["*", "owner"], "group_policy": "open"}
    async with life(world(tmp_path, [], channel=channel)) as gateway:
        await gateway.say("/goal Take over", sender="eve", private=False)
        assert await gateway.answers(1) == ["Only people whom the owner has let in may use /goal here."]
        await gateway.say("/goal", sender="eve", private=False)
        assert "There is no goal here" in (await gateway.answers(2))[1]
        await gateway.say("/goal Tidy up", sender="owner", private=False)
        assert "Tidy up" in (await gateway.answers(3))[2]


async def test_a_malformed_goal_is_put_aside_and_the_chat_works(tmp_path: Path) -> None:
    async with life(world(tmp_path, ["Hello."])) as gateway:
        await gateway.transcripts.update("fake:c", {"goal_state": {"status": "dreaming"}})
        await gateway.say("hi")
        assert await gateway.answers(1) == ["Hello."]
        metadata = (await gateway.transcripts.open("fake:c")).metadata
        assert metadata["goal_state_invalid"] == {"status": "dreaming"}
        assert "goal_state" not in metadata


async def test_a_goal_of_another_gateway_waits_until_it_is_resumed(tmp_path: Path) -> None:
    budget = Budget(turns=7, tokens=9_000, minutes=60)
    async with life(world(tmp_path, ["Hello.", done(), "Finished."], budget=budget)) as gateway:
        old = {"status": "active", "objective": "Build it", "started_at": "2026-06-01T08:00:00"}
        await gateway.transcripts.update("fake:c", {"thread_goal": old})
        await gateway.say("hi")
        assert await gateway.answers(1) == ["Hello."]
        waits = (await gateway.port.sessions.about("fake:c")).goal_state or {}
        await gateway.say("/goal resume")
        state = await until(gateway, "completed")
        assert state["objective"] == "Build it"
        # The configured one, not the program's own.
        assert waits["budget"] == state["budget"] == {"turns": 7, "tokens": 9_000, "minutes": 60}
        assert "thread_goal" not in (await gateway.transcripts.open("fake:c")).metadata


async def test_edit_budget_and_show_work_while_it_runs(tmp_path: Path) -> None:
    async with life(world(tmp_path, [[Text("at it"), Hang()]])) as gateway:
        await gateway.say("/goal Make a house")
        await gateway.channel.until(lambda channel: any(isinstance(e, TextDelta) for e in channel.shown))
        await gateway.say("/goal edit Make a red house\ncheck: test -d house")
        await gateway.say("/goal budget turns=7 minutes=30")
        await gateway.say("/goal")
        texts = await gateway.answers(4)
        assert "Make a red house" in texts[1]
        assert "0 of 7 turns" in texts[2]
        assert "`test -d house`" in texts[3]
        state = await goal_of(gateway)
        assert state["checks"] == ["test -d house"]
        assert state["budget"] == {"turns": 7, "tokens": 2_000_000, "minutes": 30}
        await gateway.say("/stop")
        await until(gateway, "paused")


async def test_the_help_and_the_menu_know_the_command(tmp_path: Path) -> None:
    async with life(world(tmp_path, [])) as gateway:
        assert "goal" in [command.name for command in gateway.port.commands()]
        await gateway.say("/help")
        assert "/goal <objective>" in (await gateway.answers(1))[0]


async def test_a_goal_that_waits_for_what_it_delegated_rests_until_a_result_comes(tmp_path: Path) -> None:
    running = 1
    turns = ["I wait for the helper.", "The helper is back.", done("The helper did it."), "Finished."]
    async with life(world(tmp_path, turns, busy=lambda _: running)) as gateway:
        begun = await gateway.say("/goal Let somebody do it")
        await gateway.channel.until(
            lambda channel: any(
                isinstance(e, TurnEnded) and e.goal and e.goal["spent"]["turns"] for e in channel.shown
            )
        )
        assert await gateway.store.inbox.pending("fake:c") == []
        [waiting] = await gateway.store.schedules.list()
        assert waiting.id == f"goal:{begun.id}:1:2"
        assert (await goal_of(gateway)).get("idle", 0) == 0
        running = 0
        meta = {"goal": begun.id}
        result = Inbound("fake", "r1", "c", "The helper says: done.", kind="child_result", meta=meta)
        await gateway.store.inbox.accept(result)
        gateway.dispatcher.wake("fake:c")
        await until(gateway, "completed")
