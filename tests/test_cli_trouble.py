"""The command line where something is wrong: a sentence with a remedy, the right exit code, and no traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nanobot import os_errors

ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("NANOBOT_", "OPENAI_", "ANTHROPIC_", "SLACK_", "TELEGRAM_"))
}
PROGRAM = [sys.executable, "-m", "nanobot"]
# In the sandbox root has no more rights than its files' modes give it, and a disk can be as small as it takes.
HERE = ["bwrap", "--dev-bind", "/", "/", "--cap-drop", "ALL"]


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
        env={**ENVIRONMENT, **variables},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def nanobot(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return run([*PROGRAM, *map(str, words)], **variables)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Used and left as it was by all of these tests."""
    place = tmp_path_factory.mktemp("trouble") / "bot"
    place.mkdir()
    (place / "config.toml").write_text("[agent]\nmodel = 'scripted/test'\n[http]\nport = 0\n")
    assert nanobot("chat", "-w", place, "-m", "Grüße — 日本").returncode == 0
    return place


@pytest.mark.parametrize(
    "words", [["sessions", "list"], ["goal", "list"], ["audit", "verify"], ["backup"], ["security", "status"]]
)
def test_a_mistyped_workspace_is_no_empty_one_and_is_not_made(words: list[str], tmp_path: Path) -> None:
    done = nanobot(*words, "-w", tmp_path / "typo")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"There is no workspace in {tmp_path}/typo" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("~nosuchuser/bot", "no such home directory"),
        ("/etc/passwd", "/etc/passwd is no directory"),
        ("/proc/bot", "/proc/bot: No such file or directory. Check the path."),
    ],
)
@pytest.mark.parametrize("words", [["gateway"], ["init"], ["chat", "-m", "hi"]])
def test_a_workspace_that_cannot_be_is_told(words: list[str], place: str, said: str) -> None:
    done = nanobot(*words, "-w", place)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_gateway_without_a_configuration_says_that_defaults_apply(tmp_path: Path) -> None:
    done = nanobot("chat", "-w", tmp_path, "-m", "hi", NANOBOT_AGENT__MODEL="scripted/test")
    assert (done.returncode, done.stdout) == (0, "echo: hi\n")
    assert f"{tmp_path}/config.toml is missing: defaults apply" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["sessions", "list"],
        ["outbox", "list"],
        ["pairing", "list"],
        ["children", "list"],
        ["audit", "verify"],
        ["security", "status"],
        ["chat", "-m", "hi"],
        ["gateway"],
    ],
)
def test_a_state_without_the_right_to_it_is_told_as_that(words: list[str], workspace: Path) -> None:
    (workspace / ".nanobot").chmod(0)
    try:
        done = run([*HERE, *PROGRAM, *words, "-w", str(workspace)])
    finally:
        (workspace / ".nanobot").chmod(0o700)
    assert done.returncode == 2, done.stderr
    assert "Permission denied. Check its permissions." in done.stderr
    assert "backup" not in done.stderr  # nothing is damaged


def test_the_doctor_names_each_thing_that_it_may_not_look_at(workspace: Path) -> None:
    (workspace / ".nanobot").chmod(0)
    try:
        done = run([*HERE, *PROGRAM, "doctor", "--no-model", "-w", str(workspace)])
    finally:
        (workspace / ".nanobot").chmod(0o700)
    assert done.returncode == 1, done.stderr
    assert f"FAIL  state: {workspace}/.nanobot is not this user's to write" in done.stdout
    assert "ok    clock" in done.stdout
    assert "model" in done.stdout.splitlines()[-1]  # it went on to the end


def test_a_file_of_another_account_names_whom_to_be(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.touch()
    other = Path("/etc/passwd")
    if os.geteuid() == 0:
        os.chown(file, 1, -1)
        other = file
    told = os_errors.sentence(PermissionError(13, "Permission denied", str(other / "below")))
    assert told.startswith(f"{other}/below: Permission denied. It belongs to ")
    assert ": try sudo -u " in told


def test_a_full_disk_is_told_as_one_and_room_can_be_made(tmp_path: Path) -> None:
    """Nobody must be told that a sound database is damaged: its remedy is to move it aside."""
    program = " ".join(PROGRAM)
    script = f"""
        cd /mnt && {program} init bot >/dev/null && export NANOBOT_WORKSPACE=/mnt/bot NANOBOT_AGENT__MODEL=scripted/test
        {program} chat -m hello && {program} sessions export websocket:cli -o c.jsonl
        cat /dev/zero > fill 2>/dev/null
        for words in 'outbox list' 'chat -m more' 'gateway --port 0' 'skills pin standup' \
            'sessions import c.jsonl --key a:b' 'sessions delete websocket:cli'
        do echo "== $words"; {program} $words 2>&1; echo "exit $?"; done
        ls -A bot/.nanobot
    """
    done = run([*HERE, "--size", "2000000", "--tmpfs", "/mnt", "sh", "-c", script])
    parts = dict(part.split("\n", 1) for part in done.stdout.split("== ")[1:])
    assert len(parts) == 6, done
    full = "/mnt/bot/.nanobot/gateway.db cannot be opened: its disk is full. Nothing was changed. Free some space"
    for words in ("outbox list", "chat -m more", "gateway --port 0"):
        assert full in parts[words]
        assert "exit 1\n" in parts[words]
    assert "No space left on device. Free some space" in parts["skills pin standup"]
    assert "the disk is full\nexit 1\n" in parts["sessions import c.jsonl --key a:b"]
    assert parts["sessions delete websocket:cli"].startswith("websocket:cli: deleted\nexit 0\n")
    assert ".tmp" not in parts["sessions delete websocket:cli"]  # the listing: no pin cut off


def test_a_full_disk_behind_the_output_is_told(workspace: Path) -> None:
    for words in (f"sessions list -w {workspace}", "version"):
        done = run(["sh", "-c", f"{' '.join(PROGRAM)} {words} >/dev/full"])
        assert (done.returncode, "No space left on device" in done.stderr) == (1, True)


def test_a_reader_that_has_seen_enough_is_no_failure(workspace: Path) -> None:
    for words in ("sessions show websocket:cli", "doctor --no-model", "chat -m hi"):
        command = f"{' '.join(PROGRAM)} {words} -w {workspace} | true; echo ${{PIPESTATUS[0]}}"
        done = run(["bash", "-c", command])
        assert (done.stdout, done.stderr) == ("0\n", "")


def test_letters_that_the_terminal_does_not_have_are_replaced(workspace: Path) -> None:
    for words in (["sessions", "show", "websocket:cli"], ["chat", "-m", "Grüße — 日本"]):
        done = nanobot(*words, "-w", workspace, PYTHONIOENCODING="latin-1")
        assert (done.returncode, "e ? ??\n" in done.stdout) == (0, True), done


def test_a_backup_is_not_written_where_the_agent_could_read_it(workspace: Path) -> None:
    link = workspace.parent / "link"
    link.symlink_to(workspace)
    for file in (workspace / "b.tar.gz", link / "b.tar.gz"):
        done = nanobot("backup", file, "-w", workspace)
        assert (done.returncode, "lies in the workspace" in done.stderr) == (2, True)
    done = nanobot("backup", workspace.parent / "no" / "b.tar.gz", "-w", workspace)
    assert (done.returncode, f"There is no folder {workspace.parent}/no." in done.stderr) == (2, True)


def test_the_doctor_leaves_no_state_behind_where_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[agent]\nmodel = 'local/smollm2'\n[http]\nport = 0\n")
    done = nanobot("doctor", "-w", tmp_path)
    assert "local/smollm2 answered" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("module", "words", "loading"),
    [
        ("nanobot", ["sessions", "list", "-w"], "typer._click"),
        ("nanobot.cli.serve", [], "loguru"),
    ],
)
def test_ctrl_c_while_libraries_are_loaded_ends_it_quietly(
    module: str, words: list[str], loading: str, workspace: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", module, *words, str(workspace)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert process.stderr is not None
    for line in process.stderr:  # each library, as soon as it is there
        if loading in line:
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "Traceback" not in errors
    assert process.returncode == 130
