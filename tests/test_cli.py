"""The command line, by its real process: exit codes, messages, and what it leaves on the disk."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanobot import __version__, content
from nanobot.cli import client, common, goals, init
from nanobot.errors import UsageError
from nanobot.messages import Address, Inbound, Outbound
from nanobot.stores.lock import StateLock
from nanobot.stores.sqlite import SqliteStore
from nanobot.testing_port import FakePort

ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("NANOBOT_", "OPENAI_", "ANTHROPIC_", "SLACK_", "TELEGRAM_"))
}
SCRIPTED = "[agent]\nmodel = 'scripted/test'\n[http]\nport = 0\n"


def nanobot(*words: str | Path, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nanobot", *map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**ENVIRONMENT, **variables},
    )


def in_process(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: str | Path
) -> tuple[int, str]:
    """A command without a process of its own, where none is the point: exit code and all that was printed."""
    from nanobot.cli.root import run

    monkeypatch.setattr(sys, "argv", ["nanobot", *map(str, words)])
    code = run()
    out, err = capfd.readouterr()
    return code, out + err


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ.keys() - ENVIRONMENT.keys():
        monkeypatch.delenv(name)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(SCRIPTED)
    return tmp_path


@pytest.fixture
def gateway(workspace: Path) -> Iterator[str]:
    """A running gateway with a scripted model; yields its ready line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nanobot", "gateway", "-w", str(workspace)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    yield process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors


def test_the_version_is_told_without_loading_what_it_does_not_need() -> None:
    code = (
        "import sys; sys.argv = ['nanobot', 'version']; from nanobot.cli import main; main();"
        "heavy = {'typer', 'pydantic', 'msgspec', 'asyncio', 'loguru', 'rich'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"nanobot {__version__}\n"), done.stderr
    assert time.monotonic() - started < 2.0  # 0.03 s on an idle machine


def test_help_names_every_command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    code, text = in_process(monkeypatch, capfd, "--help")
    assert code == 0
    for name in (
        "init",
        "gateway",
        "chat",
        "sessions",
        "outbox",
        "pairing",
        "goal",
        "doctor",
        "audit",
        "channels",
    ):
        assert re.search(rf"^  {name} ", text, re.MULTILINE), name
    for words in (["sessions"], ["outbox", "--help"], ["chat", "--help"], ["goal", "list", "--help"]):
        code, text = in_process(monkeypatch, capfd, *words)
        assert "Usage: nanobot" in text
        assert "Traceback" not in text


def test_init_makes_a_private_workspace_and_never_overwrites(tmp_path: Path) -> None:
    place = tmp_path / "bot"
    first = nanobot("init", place)
    assert first.returncode == 0, first.stderr
    assert "nanobot gateway -w" in first.stdout
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE((place / "config.toml").stat().st_mode) == 0o600
    assert stat.S_IMODE((place / ".nanobot").stat().st_mode) == 0o700
    assert (place / "channels" / "echo" / "adapter.py").is_file()
    (place / "config.toml").write_text("# mine\n")
    (place / "AGENTS.md").unlink(missing_ok=True)
    made, kept = init.copy(content.bundled("workspace.example"), place)
    assert (place / "config.toml").read_text() == "# mine\n"
    assert kept > made


@pytest.mark.parametrize("words", [["-w", "{}", "channels"], ["channels", "-w", "{}"], ["channels"]])
def test_the_workspace_may_stand_before_or_after_the_command_or_in_a_variable(
    words: list[str],
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (workspace / "channels" / "parrot").mkdir(parents=True)
    (workspace / "channels" / "parrot" / "channel.toml").write_text('name = "parrot"\ntitle = "Polly"\n')
    monkeypatch.setenv("NANOBOT_WORKSPACE", str(workspace) if words == ["channels"] else "/nonexistent")
    code, text = in_process(monkeypatch, capfd, *(word.format(workspace) for word in words))
    assert code == 0
    assert re.search(r"parrot +Polly +workspace +no +an adapter: this build has none", text)
    assert re.search(r"websocket .* shipped +yes +-", text)


def test_what_no_gateway_has_filled_yet_is_listed_as_empty(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for kind in ("outbox", "pairing", "children", "sessions", "goal"):
        code, text = in_process(monkeypatch, capfd, kind, "list", "-w", workspace, "--json")
        assert (code, json.loads(text)) == (0, [])


def test_a_configuration_error_is_two_and_no_traceback(workspace: Path) -> None:
    (workspace / "config.toml").write_text("[agent]\nmodle = 'x'\n")
    done = nanobot("gateway", "-w", workspace)
    assert done.returncode == 2
    assert f"{workspace}/config.toml: agent.modle is no known key. Did you mean agent.model?" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "No such command"),
        (["outbox", "resend", "x"], "Invalid value"),
        (["outbox", "list", "-w", "/nonexistent"], "No gateway has run"),
        (["outbox", "drop", "1"], "No gateway has run"),
        (["sessions", "show", "a:b"], "There is no session 'a:b'"),
        (["sessions", "delete", "a:b"], "There is no session 'a:b'"),
        (["sessions", "export", "a:b"], "no session 'a:b'"),
        (["sessions", "import", "/nonexistent"], "/nonexistent: No such file"),
        (["chat", "-m", "x"], "chat needs the websocket channel"),
    ],
)
def test_a_wrong_use_is_two_with_one_sentence(
    words: list[str],
    said: str,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (workspace / "config.toml").write_text("[channels.websocket]\nenabled = false\n")
    code, text = in_process(monkeypatch, capfd, "-w", workspace, *words)
    assert code == 2
    assert said in text
    assert "Traceback" not in text


def test_chat_without_a_gateway_starts_one_and_answers(workspace: Path) -> None:
    done = nanobot("chat", "-w", workspace, "-m", "Good morning")
    assert done.returncode == 0, done.stderr
    assert "Good morning" in done.stdout  # the scripted model repeats what it is told
    listed = nanobot("sessions", "list", "-w", workspace, "--json")
    assert [row["key"] for row in json.loads(listed.stdout)] == ["websocket:cli"]


def test_chat_without_a_model_says_how_to_get_one(workspace: Path) -> None:
    (workspace / "config.toml").write_text("[agent]\nmodel = 'openai/gpt-5.5'\n")
    done = nanobot("chat", "-w", workspace, "-m", "x")
    assert done.returncode == 2
    assert "Set the environment variable OPENAI_API_KEY" in done.stderr


def test_commands_beside_a_running_gateway(
    gateway: str,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert re.fullmatch(r"ready http://127\.0\.0\.1:\d+ channels=websocket\n", gateway)
    at = ("-w", workspace)
    assert in_process(monkeypatch, capfd, "chat", *at, "-s", "websocket:one", "-m", "first") == (
        0,
        "echo: first\n",
    )
    code, text = in_process(monkeypatch, capfd, "chat", *at, "-s", "two", "-m", "FAIL auth")
    assert code == 1
    assert "auth" in text
    piped = nanobot("chat", *at, "-s", "one", stdin="second\n\nthird\n")
    assert (piped.returncode, piped.stdout) == (0, "echo: second\necho: third\n"), piped.stderr
    code, text = in_process(monkeypatch, capfd, "sessions", "show", "websocket:one", *at)
    assert code == 0
    assert [line.partition("] ")[2] for line in text.splitlines()] == [
        "user: first",
        "assistant: echo: first",
        "user: second",
        "assistant: echo: second",
        "user: third",
        "assistant: echo: third",
    ]
    code, exported = in_process(monkeypatch, capfd, "sessions", "export", "websocket:one", *at)
    assert code == 0
    assert len(exported.splitlines()) == 7
    for words in (["delete", "websocket:one"], ["repair"], ["import", "/dev/null"]):
        code, text = in_process(monkeypatch, capfd, "sessions", *words, *at)
        assert code == 2
        assert "Another gateway" in text
    assert in_process(monkeypatch, capfd, "pairing", "list", *at)[0] == 0
    assert in_process(monkeypatch, capfd, "outbox", "list", *at) == (
        0,
        "ID  STATUS  TO  TRIES  CREATED  ERROR  TEXT\n",
    )
    code, text = in_process(monkeypatch, capfd, "doctor", *at)
    assert "a gateway of this workspace runs" in text
    assert "ok    model: scripted/test answered" in text
    second = nanobot("gateway", *at)
    assert second.returncode == 2
    assert "Another gateway" in second.stderr


def test_a_session_moves_by_export_and_import(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    at = ("-w", workspace)
    text = (
        '{"_type":"metadata","key":"slack:C1","created_at":"2026-01-01T00:00:00+00:00",'
        '"updated_at":"2026-01-01T00:00:00+00:00","metadata":{"title":"T","goal_state":{"status":"active",'
        '"objective":"Ship it","spent":{"turns":2},"budget":{"turns":50}}},"last_consolidated":0}\n'
        '{"role":"user","content":"hi\\u001b[2J","timestamp":"2026-01-01T00:00:00+00:00"}\n'
    )
    (workspace / "c1.jsonl").write_text(text)
    assert in_process(monkeypatch, capfd, "sessions", "import", workspace / "c1.jsonl", *at) == (
        0,
        "slack:C1: 1 messages\n",
    )
    code, said = in_process(monkeypatch, capfd, "sessions", "import", workspace / "c1.jsonl", *at)
    assert (code, "already" in said) == (2, True)
    code, said = in_process(monkeypatch, capfd, "sessions", "show", "slack:C1", *at)
    assert "user: hi" in said
    assert "\x1b" not in said  # what strangers write must not steer the terminal
    code, said = in_process(monkeypatch, capfd, "goal", "list", *at)
    assert re.search(r"slack:C1 +active +2/50 .*Ship it", said)
    code, _ = in_process(
        monkeypatch, capfd, "sessions", "export", "slack:C1", "-o", workspace / "out.jsonl", *at
    )
    assert code == 0
    assert '"content":"hi' in (workspace / "out.jsonl").read_text().replace(": ", ":")
    code, said = in_process(monkeypatch, capfd, "sessions", "repair", *at)
    assert (code, said) == (0, "1 looked at, 0 mended\n")
    assert in_process(monkeypatch, capfd, "sessions", "delete", "slack:C1", *at) == (0, "slack:C1: deleted\n")
    assert in_process(monkeypatch, capfd, "sessions", "list", *at, "--json") == (0, "[]\n")


async def test_dead_replies_are_listed_resent_and_dropped(workspace: Path) -> None:
    store = SqliteStore(workspace / ".nanobot")
    await store.open()
    ids = []
    for part in range(2):
        row = await store.outbox.add(
            Outbound(turn="t", part=part, address=Address("slack", "C1"), text=f"answer {part}\nmore")
        )
        assert row is not None
        await store.outbox.dead(row.id, "channel_not_found")
        ids.append(row.id)
    listed = nanobot("outbox", "list", "-w", workspace)
    assert re.search(rf"{ids[0]} +dead +slack:C1 .*channel_not_found +answer 0 more", listed.stdout)
    assert nanobot("outbox", "resend", str(ids[0]), "-w", workspace).returncode == 0
    assert nanobot("outbox", "drop", str(ids[1]), "-w", workspace).returncode == 0
    assert nanobot("outbox", "drop", str(ids[1]), "-w", workspace).returncode == 2
    assert [(row.id, row.status) for row in await store.outbox.list()] == [(ids[0], "pending")]
    await store.close()


async def test_pairing_codes_are_approved_and_revoked(workspace: Path) -> None:
    from nanobot.clock import SystemClock
    from nanobot.pairing import PairingDesk

    store = SqliteStore(workspace / ".nanobot")
    await store.open()
    desk = PairingDesk(store.pairings, SystemClock())
    code = await desk.request(Inbound("telegram", "1", "7", "hi", sender="7", sender_name="Eve\x1b[2J"))
    assert code is not None
    wrong = nanobot("pairing", "approve", "AAAA-AAAA", "-w", workspace)
    assert (wrong.returncode, "No request waits" in wrong.stderr) == (2, True)
    right = nanobot("pairing", "approve", code, "-w", workspace)
    assert (right.returncode, right.stdout) == (0, "7 (Eve [2J) of telegram may talk to the bot now\n")
    assert await desk.paired("telegram", "7")
    [told] = await store.outbox.undelivered()
    assert (told.message.address.chat_id, told.message.text[:15]) == ("7", "You are let in.")
    assert nanobot("pairing", "revoke", "telegram", "7", "-w", workspace).returncode == 0
    assert not await desk.paired("telegram", "7")
    await store.close()


def test_doctor_names_what_is_wrong_and_its_remedy(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    state = workspace / ".nanobot"
    state.mkdir(mode=0o755)
    state.chmod(0o755)
    (workspace / "config.toml").write_text(
        "[agent]\nmodel='openai/m'\n[models.openai]\nbase_url='http://127.0.0.1:9/v1'\n"
        "[channels.parrot]\nenabled=true\n"
    )
    folder = workspace / "channels" / "parrot"
    folder.mkdir(parents=True)
    (folder / "channel.toml").write_text('name = "parrot"\ntitle = "Polly"\n')
    code, text = in_process(monkeypatch, capfd, "doctor", "-w", workspace)
    assert code == 1
    assert "FAIL  channel parrot: this build has no adapter for Polly" in text
    assert f"chmod 700 {state}" in text
    assert re.search(r"FAIL  model: openai/m: .*\n +→ Check the network", text)
    (workspace / "config.toml").write_text("[agent]\nmodle='x'\n")
    code, text = in_process(monkeypatch, capfd, "doctor", "-w", workspace)
    assert code == 1
    assert "FAIL  config: " in text
    assert "Did you mean agent.model?" in text


def test_audit_verify_tells_a_broken_chain(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from nanobot.security.audit import Audit

    path = workspace / ".nanobot" / "audit.jsonl"
    path.parent.mkdir(mode=0o700)
    audit = Audit(path)
    for number in range(3):
        audit.append("exec", command=f"echo {number}")
    audit.close()
    code, text = in_process(monkeypatch, capfd, "audit", "verify", "-w", workspace)
    assert (code, "3 entries, unbroken" in text) == (0, True)
    path.write_text(path.read_text().replace("echo 1", "echo 9"))
    code, text = in_process(monkeypatch, capfd, "audit", "verify", "-w", workspace)
    assert (code, "line 2" in text) == (1, True)


async def test_the_example_channel_answers_each_line_once(tmp_path: Path) -> None:
    import importlib.util

    folder = content.bundled("workspace.example") / "channels" / "echo"
    spec = importlib.util.spec_from_file_location(
        "example_echo", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["example_echo"] = module
    spec.loader.exec_module(module)
    port = FakePort(tmp_path, {"folder": "channels/echo"}, name="echo")
    inbox, outbox = (tmp_path / "channels" / "echo" / name for name in ("inbox.txt", "outbox.txt"))
    for life in ("first", "second"):
        channel = module.create(port)
        port.connect(channel)
        await channel.start()
        with inbox.open("a") as file:
            file.write(f"{life} line\n")
        message = await port.arrivals.get()
        assert message.text == f"{life} line"
        reply = Outbound(turn=life, part=0, address=message.address, text=f"re:\n{message.text}")
        assert await channel.find(reply) is None
        port.send(reply)
        await port.settle()
        assert await channel.find(reply) is not None
        while int(await port.keys.get("position") or 0) < inbox.stat().st_size:
            await port.clock.sleep(0.01)
        await channel.stop()
    assert [message.text for message in port.accepted] == ["first line", "second line"]
    assert outbox.read_text() == "first.0 re: first line\nsecond.0 re: second line\n"


def test_a_gateway_that_listens_everywhere_is_reached_here() -> None:
    assert client.socket_url("http://0.0.0.0:8765") == "ws://127.0.0.1:8765/ws"
    assert client.socket_url("http://[::]:1") == "ws://[::1]:1/ws"
    assert client.socket_url("http://10.0.0.1:80") == "ws://10.0.0.1:80/ws"


def test_a_writing_command_takes_the_lock(workspace: Path) -> None:
    from nanobot.cli import sessions

    with sessions.locked(workspace), pytest.raises(UsageError, match="Another gateway"):
        StateLock(workspace / ".nanobot").acquire()


def test_goals_are_found_as_the_reference_wrote_them() -> None:
    assert goals.goal_of({"thread_goal": '{"status": "active"}'}) == {"status": "active"}
    assert goals.goal_of({"goal_state": "nonsense"}) == {}
    assert common.cut("abcdef", 4) == "abc…"
