"""What the tools tell of sub-sessions: by status, cut in lists, whole where it is asked for."""

import uuid
from datetime import timedelta
from pathlib import Path

import msgspec

from tests.gateway_in_memory import life
from tests.test_children import use, world_of


async def test_a_list_can_be_of_one_status(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        await use(gateway, "delegate", task="one")
        await use(gateway, "delegate", task="FAIL auth")
        listed = await use(gateway, "list_sessions", status="failed")
        assert (listed["count"], listed["filter"]) == (1, "failed")
        assert listed["sessions"][0]["task"] == "FAIL auth"
        assert (await use(gateway, "list_sessions"))["count"] == 2


async def test_what_is_long_is_cut_in_lists_and_whole_where_it_is_asked_for(tmp_path: Path) -> None:
    task = "word " * 60
    async with life(world_of(tmp_path)) as gateway:
        found = await use(gateway, "delegate", task=task)
        assert (len(found["task"]), found["task"][-3:]) == (100, "...")
        assert len(found["response"]) > 300
        state = await use(gateway, "check_session", session_id=found["session_id"], latest=False)
        assert (len(state["task"]), [one["role"] for one in state["response"]]) == (80, ["user", "assistant"])
        assert len((await use(gateway, "list_sessions"))["sessions"][0]["task"]) == 50
        peeked = await use(gateway, "peek_session", session_id=found["session_id"])
        assert len(peeked["latest_message"]) == 150
        short = await use(gateway, "get_trajectory", session_id=found["session_id"])
        whole = await use(gateway, "get_trajectory", session_id=found["session_id"], full=True)
        assert (short["mode"], len(short["steps"][-1])) == ("summary", len("[response] ") + 200)
        assert (whole["mode"], len(whole["steps"][-1]) > 300) == ("full", True)


async def test_a_long_list_has_the_newest_and_all_that_is_at_work(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        await use(gateway, "delegate", task="HANG", mode="async")
        records = gateway.children.records
        [running] = records.all()
        for number in range(60):
            at = running.created_at + timedelta(seconds=number + 1)
            ended = {"status": "completed", "task": f"task {number}", "created_at": at}
            await records.put(msgspec.structs.replace(running, id=str(uuid.UUID(int=number)), **ended))
        listed = await use(gateway, "list_sessions")
        assert [row["task"] for row in listed["sessions"]][::50] == ["task 59", "HANG"]
        assert (listed["count"], listed["left_out"], listed["running"]) == (61, 10, 1)
        await gateway.say("/tasks", sender="owner")
        await gateway.channel.until(lambda channel: "older" in channel.delivered[-1].text)
        shown = gateway.channel.delivered[-1].text.splitlines()
        assert (len(shown), shown[-1]) == (22, "And 40 older ones.")
        assert "running: HANG" in shown[-2]
