"""Sub-sessions as people see them: /tasks in a chat, `nanobot children` in a terminal."""

import asyncio
import json
import re
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from nanobot.child_requests import answer, ask_to_end
from nanobot.cli.children import app
from nanobot.clock import SystemClock
from nanobot.errors import UsageError
from nanobot.stores.lock import StateLock
from nanobot.stores.sqlite import SqliteStore
from tests.gateway_in_memory import life
from tests.test_children import results, until_results, use, world_of

RUN = CliRunner()


async def test_tasks_lists_shows_and_ends_what_this_chat_delegated(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:

        async def ask(text: str, chat: str = "c") -> str:
            before = len(gateway.channel.delivered)
            await gateway.say(text, chat=chat, sender="owner")
            await gateway.channel.until(lambda one: len(one.delivered) > before)
            return gateway.channel.delivered[before].text

        assert await ask("/tasks") == "Nothing has been delegated here."
        await use(gateway, "delegate", task="say this")
        running = await use(gateway, "delegate", task="HANG", mode="async")
        listed = await ask("/tasks")
        assert re.search(r"`\w{8}` agent ✓ completed: say this", listed)
        assert "● running: HANG" in listed
        await use(gateway, "delegate", task="FAIL auth\nand so on")
        assert re.search(
            r"agent ✗ failed: FAIL auth and so on \(\w+ ago\)\n    .*Told to fail", await ask("/tasks")
        )
        done = gateway.children.records.all()[2].short
        assert "echo: say this" in await ask(f"/tasks show {done}")
        assert "[response] echo: say this" in await ask(f"/tasks steps {done}")
        assert "already" in await ask(f"/tasks end {done}")
        assert "known sub-sessions" in await ask("/tasks show nothing")
        assert "Usage" in await ask("/tasks what")
        assert await ask("/tasks", chat="other") == "Nothing has been delegated here."
        assert "was ended" in await ask(f"/tasks end {running['session_id'][:8]}")
        [told] = await until_results(gateway, 1)  # its parent did not end it, so it is told
        assert "ended by the user" in told


async def test_a_new_conversation_ends_what_the_old_one_left_at_work(tmp_path: Path) -> None:
    async with life(world_of(tmp_path)) as gateway:
        await use(gateway, "delegate", task="HANG", mode="async")
        await gateway.say("/new", sender="owner")
        assert "1 task that was still at work was ended." in (await gateway.answers(2))[1]
        assert [one.status for one in gateway.children.records.all()] == ["killed"]


async def test_a_request_of_the_command_line_ends_a_running_child_and_its_parent_learns_of_it(
    tmp_path: Path,
) -> None:
    async with life(world_of(tmp_path)) as gateway:
        found = await use(gateway, "delegate", task="HANG", mode="async")
        keys = gateway.store.keys("children-end")
        child = gateway.children.records.by_id(found["session_id"])
        assert child
        await ask_to_end(keys, child)
        await answer(keys, gateway.children)
        assert await keys.items() == []
        [told] = await until_results(gateway, 1)
        assert "ended from the command line" in told
        assert len(results(await gateway.history())) == 1


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace whose gateway has ended, with one finished sub-session of codex."""

    async def make() -> None:
        world = world_of(tmp_path, None, "codex")
        state = world.workspace / ".nanobot"
        async with life(world) as gateway:
            await use(gateway, "delegate", task="hello", executor="codex")
            children = gateway.children.records.all()
        with StateLock(state, SystemClock()):
            store = SqliteStore(state, SystemClock())
            await store.open()
            for child in children:
                await store.keys("children").set(child.id, msgspec.json.encode(child).decode())
            await store.close()

    asyncio.run(make())
    return tmp_path / "work"


def test_the_terminal_lists_shows_and_tells_steps(workspace: Path) -> None:
    listed = json.loads(RUN.invoke(app, ["list", "--json", "-w", str(workspace)]).output)
    [child] = listed
    assert (child["status"], child["executor"]) == ("completed", "codex")
    table = RUN.invoke(app, ["list", "-w", str(workspace)]).output
    assert child["id"][:8] in table
    assert "codex: hello" in RUN.invoke(app, ["show", child["id"][:8], "-w", str(workspace)]).output
    steps = RUN.invoke(app, ["trajectory", child["id"][:8], "-w", str(workspace)]).output
    assert steps == "[response] codex: hello\n"
    fields = json.loads(RUN.invoke(app, ["trajectory", child["id"], "--json", "-w", str(workspace)]).output)
    assert fields[0]["kind"] == "message"


def test_the_terminal_names_what_it_knows_when_asked_for_something_else(workspace: Path) -> None:
    for command in ("show", "trajectory", "end"):
        done = RUN.invoke(app, [command, "ffffffff", "-w", str(workspace)])
        assert isinstance(done.exception, UsageError)
        assert "known sub-sessions" in str(done.exception)
    wrong = RUN.invoke(app, ["list", "--status", "frob", "-w", str(workspace)])
    assert "There are: running, completed" in str(wrong.exception)
    ended = RUN.invoke(app, ["list", "--json", "-w", str(workspace)])
    short = json.loads(ended.output)[0]["id"][:8]
    done = RUN.invoke(app, ["end", short, "-w", str(workspace)])
    assert "completed already" in str(done.exception)
