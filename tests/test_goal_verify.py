"""Who verifies a goal: a sub-session of its own, which looks with tools that only read, and which people can read."""

from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from typer.testing import CliRunner

from nanobot.cli.root import app as command_line
from nanobot.goal import read
from nanobot.goal_verify import session_of
from tests.emulators.model_server import Call, Reply
from tests.gateway_in_memory import life
from tests.goal_worker import Scripted
from tests.test_goal_channels import gateway, goal, page, reply, said
from tests.test_goals import call, done, goal_of, steps, until, world

FAIL = "I looked at it.\nVERDICT: FAIL: out.txt is empty"


async def test_each_verification_is_a_turn_of_one_session_and_knows_nothing_of_the_others(
    tmp_path: Path,
) -> None:
    turns = [done("Done."), *steps(1), done("Really done."), "Finished."]
    verdicts = [call("look", text="out.txt"), FAIL, "VERDICT: PASS"]
    made = world(tmp_path, turns, verdicts)
    async with life(made) as running:
        await running.say("/goal Fill out.txt")
        await until(running, "completed")
        state = read({"goal_state": await goal_of(running)})
        assert state is not None
        session = await running.transcripts.open(session_of("fake:c", state))
    assert session.key.startswith("sub:")
    assert (session.metadata["parent"], session.metadata["title"]) == ("fake:c", "Verification: Fill out.txt")
    roles = " ".join(line["role"] for line in session.messages)
    assert roles == "user assistant tool assistant user assistant"
    first, second = dict.fromkeys(line["turn"] for line in session.messages)
    assert [line["turn"] for line in session.messages] == [first] * 4 + [second] * 2
    assert [line["content"] for line in session.messages if "latency_ms" in line] == [FAIL, "VERDICT: PASS"]
    last = [one for one in made.model.requests if "VERDICT" in one.system][-1]  # type: ignore[attr-defined]
    assert [line["role"] for line in last.messages] == ["user"]
    assert "Really done." in last.messages[0]["content"]


async def test_the_verifier_has_tools_that_read_and_no_others(tmp_path: Path) -> None:
    verdicts = [call("make", text="a change"), "VERDICT: PASS"]
    async with life(world(tmp_path, [done(), "Finished."], verdicts)) as running:
        await running.say("/goal Something")
        await until(running, "completed")
        state = read({"goal_state": await goal_of(running)})
        assert state is not None
        session = await running.transcripts.open(session_of("fake:c", state))
        [result] = [line["content"] for line in session.messages if line["role"] == "tool"]
        assert "there is no tool 'make'" in result


async def test_people_can_read_a_verification_and_its_steps_are_audited(tmp_path: Path) -> None:
    async with (
        Scripted(
            Reply(calls=(Call("c1", "complete_goal", '{"recap": "It is written.", "evidence": "out.txt"}'),)),
            Reply("Finished."),
            verdicts=[
                Reply(calls=(Call("v1", "read_file", '{"path": "out.txt"}'),)),
                Reply("It says hello.\nVERDICT: PASS"),
            ],
        ) as model,
        # Nobody may have a sub-session here, and verifying needs no leave.
        gateway(tmp_path, model, "[delegation]\nmax_children = 0") as app,
        page(app) as client,
    ):
        (tmp_path / "out.txt").write_text("hello")
        await said(client, "/goal Write hello into out.txt")
        await goal(client, "completed")
        assert "Goal completed" in await reply(client)
        async with aiohttp.ClientSession(app.url) as http:
            async with http.get("/api/sessions") as answer:
                listed: list[dict[str, Any]] = (await answer.json())["sessions"]
            [verification] = [one for one in listed if one["key"].startswith("sub:")]
            async with http.get(f"/api/sessions/{verification['key']}/messages") as answer:
                lines = (await answer.json())["messages"]
        assert verification["title"] == "Verification: Write hello into out.txt"
        assert [line["role"] for line in lines] == ["user", "assistant", "tool", "assistant"]
        offered = {
            tool["function"]["name"]
            for one in model.requests
            if "VERDICT" in one.body["messages"][0]["content"]
            for tool in one.body["tools"]
        }
        assert offered == {
            "read_file", "list_dir", "find_files", "grep", "web_fetch", "read_skill", "project_summary",
        }  # fmt: skip
    shown = CliRunner().invoke(command_line, ["sessions", "show", verification["key"], "-w", str(tmp_path)])
    assert "It says hello." in shown.output
    entries = [
        msgspec.json.decode(line) for line in (tmp_path / ".nanobot/audit.jsonl").read_bytes().splitlines()
    ]
    looked = [one for one in entries if one.get("tool") == "read_file"]
    assert [(one["session"], one["outcome"]) for one in looked] == [(verification["key"], "ok")]
