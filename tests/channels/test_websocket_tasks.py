"""The REST of sub-sessions: seen by who may see their session, by nobody else."""

from pathlib import Path

from tests.channels.test_websocket_rest import TOKENS, call
from tests.channels.websocket_client import house


async def test_a_sessions_tasks_are_listed_told_and_ended(tmp_path: Path) -> None:
    async with house(tmp_path) as gateway:
        tasks = gateway.port.tasks
        tasks.rows["websocket:work"] = [{"id": "abcd1234", "task": "x"}]
        base = "/api/sessions/websocket:work/children"
        status, listed, _ = await call(gateway, "GET", base)
        assert (status, listed["children"][0]["id"]) == (200, "abcd1234")
        _, found, _ = await call(gateway, "GET", f"{base}/abcd1234/trajectory?full=1")
        assert found["mode"] == "full"
        ended, _, _ = await call(gateway, "POST", f"{base}/abcd1234/end")
        assert (ended, tasks.ended) == (200, ["abcd1234"])
        for method, path in (("GET", f"{base}/none/trajectory"), ("POST", f"{base}/none/end")):
            assert (await call(gateway, method, path))[0] == 404


async def test_others_tasks_do_not_exist(tmp_path: Path) -> None:
    async with house(tmp_path, **TOKENS) as gateway:
        gateway.port.tasks.rows["websocket:work"] = [{"id": "abcd1234"}]
        base = "/api/sessions/websocket:work/children"
        for path in (base, f"{base}/abcd1234/trajectory"):
            assert (await call(gateway, "GET", path, "a-secret"))[0] == 404
            assert (await call(gateway, "GET", path))[0] == 401
        assert (await call(gateway, "POST", f"{base}/abcd1234/end", "b-secret"))[0] == 404
        assert gateway.port.tasks.ended == []
