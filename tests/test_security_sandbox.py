import asyncio
import ctypes
import itertools
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanobot.errors import Refused
from nanobot.security import sandbox, seccomp
from nanobot.security.levels import RULES, SecurityLevel, table
from nanobot.security.paths import Boundary
from nanobot.tool import ToolResult
from tests.tools_support import Desk, Settings


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    assert sandbox.probe() == "", "these tests need bubblewrap: apt-get install bubblewrap"
    return Desk(tmp_path)


async def inside(desk: Desk, script: str) -> ToolResult:
    return await desk.call("exec", command=script)


async def test_the_workspace_is_there_and_what_is_written_stays(desk: Desk) -> None:
    result = await inside(desk, "pwd; echo new > file.txt; mkdir -p src && cd src && pwd")
    assert result.text == f"{desk.workspace}\n{desk.workspace}/src\n[exit code 0]"
    assert (desk.workspace / "file.txt").read_text() == "new\n"
    in_src = await desk.call("exec", command="pwd", working_dir="src")
    assert in_src.text.startswith(f"{desk.workspace}/src\n")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/etc/ssh",
        "/etc/ssl/private",
        "/root",
        "/home",
        "/var",
        "/run",
        "/sys",
        "/work",
        "../outside.txt",
    ],
)
async def test_the_rest_of_the_machine_is_not_there(desk: Desk, path: str) -> None:
    assert "No such file" in (await inside(desk, f"cat {path}; ls {path}")).text


@pytest.mark.parametrize(
    "script",
    [
        "cat .nanobot/sessions/a.jsonl",
        "cat config.toml",
        "cat channels/echo/a.py",
        "cat channels/../.nanobot/sessions/a.jsonl",
        "umount .nanobot; cat .nanobot/sessions/a.jsonl",
        "mount -t tmpfs none /mnt; mount --bind . /mnt; cat /mnt/config.toml",
        "unshare -Urm sh -c 'umount .nanobot; cat .nanobot/sessions/a.jsonl'",
        "cat /proc/1/root$PWD/config.toml; cat /proc/1/cwd/config.toml; cat /proc/$PPID/root/etc/shadow",
        "ln config.toml c; cat c; ln -s config.toml d; cat d",
        "find /tmp /dev /proc/1 -inum $INODE -exec cat {} + 2>/dev/null",
        "grep -rs ^secret . /proc/*/environ",
        "mknod disk b 254 0 && head -c 100 disk && echo secret",
    ],
)
async def test_state_configuration_and_channels_cannot_be_read(desk: Desk, script: str) -> None:
    inode = desk.secret.stat().st_ino
    assert "secret" not in (await inside(desk, f"INODE={inode}; {script}")).text.replace(script, "")


@pytest.mark.parametrize(
    "script",
    [
        "echo evil > channels/evil.py",
        "mv channels old; mkdir channels; echo evil > channels/evil.py",
        "rm -rf channels config.toml .nanobot; echo evil > config.toml",
        "mv .nanobot away; mkdir -p .nanobot/sessions; echo evil > .nanobot/sessions/a.jsonl",
        "mv config.toml c; echo evil > config.toml; echo evil | tee config.toml",
    ],
)
async def test_state_configuration_and_channels_cannot_be_replaced(desk: Desk, script: str) -> None:
    await inside(desk, script)
    assert desk.secret.read_text() == "secret\n"
    assert (desk.workspace / "config.toml").read_text() == "secret\n"
    assert [path.name for path in (desk.workspace / "channels").rglob("*")] == ["echo", "a.py"]


async def test_channels_cannot_be_made_where_there_are_none(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.workspace / "channels/echo/a.py").unlink()
    (desk.workspace / "channels/echo").rmdir()
    (desk.workspace / "channels").rmdir()
    (desk.workspace / "config.toml").unlink()
    await inside(desk, "mkdir -p channels/evil; echo evil > channels/evil/a.py; echo evil > config.toml")
    assert list((desk.workspace / "channels").iterdir()) == []
    assert (desk.workspace / "config.toml").read_text() == ""


async def test_a_hidden_place_that_is_a_link_makes_exec_refuse(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.workspace / "channels").rename(desk.workspace / "real")
    (desk.workspace / "channels").symlink_to("real")
    result = await inside(desk, "true")
    assert result.error
    assert "is a link" in result.text


async def test_a_hidden_place_deeper_inside_which_could_be_moved_makes_exec_refuse(desk: Desk) -> None:
    wider = desk.security.boundary.within(desk.workspace.parent)
    with pytest.raises(Refused, match="deeper inside"):
        sandbox.command(["true"], boundary=wider, working_dir=wider.root)


async def test_templates_cannot_be_made_where_there_are_none(desk: Desk) -> None:
    await inside(desk, "mkdir -p templates; echo evil > templates/system.md.j2")
    assert not (desk.workspace / "templates" / "system.md.j2").exists()


async def test_templates_can_be_read_but_not_changed(desk: Desk) -> None:
    (desk.workspace / "templates").mkdir()
    (desk.workspace / "templates" / "a.j2").write_text("hello")
    result = await inside(desk, "cat templates/a.j2; echo evil > templates/a.j2; mv templates t")
    assert "hello" in result.text
    assert (desk.workspace / "templates" / "a.j2").read_text() == "hello"


async def test_nothing_outside_the_workspace_can_be_written(desk: Desk) -> None:
    result = await inside(
        desk,
        "for f in /x /usr/x /etc/x /bin/x /dev/x/y /proc/sys/kernel/x; do echo evil > $f && echo WROTE $f; done; "
        "echo fine > /tmp/nanobot-test-x && cat /tmp/nanobot-test-x; echo evil > ../x; echo evil > ../outside.txt",
    )
    assert "WROTE" not in result.text
    assert "fine" in result.text
    assert not Path("/tmp/nanobot-test-x").exists()
    assert not (desk.workspace.parent / "x").exists()
    assert desk.outside.read_text() == "secret\n"


async def test_kernel_settings_cannot_even_be_opened_for_writing_by_root(desk: Desk) -> None:
    opening = "import sys\nfor p in sys.argv[1:]:\n  try: open(p, 'a'); print('OPENED', p)\n  except OSError as e: print(e)"
    (desk.workspace / "try.py").write_text(opening)
    result = await inside(desk, "python3 try.py /proc/sys/kernel/core_pattern /proc/sys/vm/overcommit_memory")
    assert "OPENED" not in result.text
    assert result.text.count("Errno") == 2


async def test_no_capability_and_no_way_to_more_is_left(desk: Desk) -> None:
    result = await inside(
        desk, "grep -E '^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status; unshare -Ur true; echo $?"
    )
    rows = dict(line.split(":\t") for line in result.text.splitlines() if ":\t" in line)
    assert rows.pop("NoNewPrivs") == "1"
    assert {int(value, 16) for value in rows.values()} == {0}
    assert "\n1\n" in result.text


KEYCTL = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(platform.machine())
READ_KEY = """
import ctypes, os
kernel = ctypes.CDLL(None, use_errno=True)
key = kernel.syscall({keyctl}, 10, -3, b"user", b"{name}", 0)
text = ctypes.create_string_buffer(100)
print("read", kernel.syscall({keyctl}, 11, key, text, 100), text.value, os.strerror(ctypes.get_errno()))
"""


@pytest.fixture
def key_of_the_account() -> Iterator[str]:
    """The name of a key in the session's keyring, which this process may read."""
    kernel, name = ctypes.CDLL(None, use_errno=True), f"nanobot-{os.getpid()}"
    add, control = KEYCTL or (0, 0)
    key = kernel.syscall(add, b"user", name.encode(), b"ticket-4b1f", 11, -3) if add else -1
    if key < 0:
        pytest.skip("no kernel keyrings here")
    yield name
    kernel.syscall(control, 9, key, -3)


async def test_the_keys_in_the_kernels_keyrings_are_not_there(desk: Desk, key_of_the_account: str) -> None:
    script = READ_KEY.format(keyctl=(KEYCTL or (0, 0))[1], name=key_of_the_account)
    outside = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "ticket-4b1f" in outside.stdout, "what any other program of this account gets"
    (desk.workspace / "read.py").write_text(script)
    result = await inside(desk, "python3 read.py")
    assert "read -1" in result.text
    assert "ticket-4b1f" not in result.text


def test_the_filter_of_calls_can_be_changed_by_nobody() -> None:
    with Path(seccomp.place()).open("rb") as file:
        assert file.read() == seccomp.program()
    with pytest.raises(PermissionError), Path(seccomp.place()).open("r+b", buffering=0) as file:
        file.write(b"\0")


async def test_no_place_of_its_own_takes_the_machines_memory_without_bound(desk: Desk) -> None:
    fill = "for i in $(seq 60); do head -c 10000000 /dev/zero > {}/$i || break; done; du -sm {}"
    for place in ("/dev/shm", "/tmp"):
        result = await inside(desk, fill.format(place, place))
        assert "No space left" in result.text, result.text
    result = await inside(desk, "echo x > /dev/new; echo y > /dev/null && head -c 4 /dev/urandom | wc -c")
    assert "Read-only file system" in result.text
    assert "\n4\n" in result.text


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


CONNECT = (
    'python3 -c \'import socket; socket.create_connection(("127.0.0.1", {port}), 3); print("CONNECTED")\''
)


@pytest.mark.parametrize(
    ("settings", "reached"),
    [
        (Settings(), False),
        (Settings(network=True), True),
        (Settings(level="low"), True),
        (Settings(level="medium"), False),
        (Settings(level="maximum", network=True), False),
    ],
)
async def test_the_network_is_there_only_where_level_and_setting_allow_it(
    tmp_path: Path, listener: int, settings: Settings, reached: bool
) -> None:
    result = await inside(Desk(tmp_path, settings), CONNECT.format(port=listener))
    assert ("CONNECTED" in result.text) is reached


async def test_processes_outside_are_neither_seen_nor_killed(desk: Desk) -> None:
    with subprocess.Popen(["/bin/sleep", "1000"]) as bystander:
        result = await inside(
            desk, f"kill -9 {bystander.pid}; kill -9 {os.getpid()}; ls /proc | grep -c '^[0-9]'"
        )
        assert bystander.poll() is None
        bystander.kill()
    assert result.text.count("No such process") == 2
    assert int(result.text.splitlines()[-2]) < 10


def processes_named(part: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if part.encode() in entry.read_bytes():
                found.append(str(entry))
        except OSError:
            continue
    return found


async def test_even_a_daemon_that_cleared_its_environment_dies_with_the_command(desk: Desk) -> None:
    script = "(env -i setsid sleep 4242.4242 > /dev/null 2>&1 &); until pgrep sleep > /dev/null; do :; done; echo up"
    assert "up" in (await inside(desk, script)).text
    for _ in range(200):  # the kernel empties the namespace after the answer
        if not processes_named("4242.4242"):
            break
        await asyncio.sleep(0.01)
    assert processes_named("4242.4242") == []


async def test_a_command_that_does_not_end_is_stopped_and_told(desk: Desk) -> None:
    result = await desk.call("exec", command="echo begun; sleep 3131.3131", timeout=1)
    assert result.error
    assert result.text == "begun\n[stopped after 1 s with everything it had started]"
    assert processes_named("3131.3131") == []


@pytest.mark.parametrize("level", ["high", "maximum"])
async def test_without_bubblewrap_the_high_levels_refuse_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = await inside(Desk(tmp_path, Settings(level=level)), "echo ran")
    assert result.error
    assert "install bubblewrap, or set [security] allow_unsandboxed = true" in result.text
    assert "bwrap was not found" in sandbox.probe()


@pytest.mark.parametrize(
    "settings", [Settings(level="low"), Settings(level="medium"), Settings(allow_unsandboxed=True)]
)
async def test_without_bubblewrap_the_low_levels_and_the_owners_word_let_it_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    desk = Desk(tmp_path, settings)
    (desk.workspace / "src").mkdir()
    result = await desk.call("exec", command="pwd; env", working_dir="src")
    assert result.text.startswith(f"{desk.workspace}/src\n")
    assert "sk-secret" not in result.text


def test_a_bubblewrap_that_cannot_work_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit\necho no permission >&2; exit 1\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "no permission" in sandbox.probe()
    assert "user namespaces" in sandbox.probe()
    assert not sandbox.usable()


def test_an_old_bubblewrap_is_given_only_what_it_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.4.1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    line = sandbox.command(["true"], boundary=Boundary(tmp_path), working_dir=tmp_path)
    assert not {"--size", "--perms", "--disable-userns"} & set(line)


def test_the_pages_about_levels_show_the_table_that_holds() -> None:
    docs = Path(__file__).parents[1] / "docs"
    assert "\n".join(table()) in (docs / "security.md").read_text()


def test_each_level_allows_no_more_than_the_one_below() -> None:
    order = [RULES[level] for level in SecurityLevel]
    programs = ["named", "outside", "any"]
    networks, webs = ["never", "configured", "always"], ["listed", "public"]
    for looser, stricter in itertools.pairwise(order):
        for name in (
            "plain_exec",
            "other_chats",
            "rights_programs",
            "plain_agents",
            "own_keys",
            "agents_at_state",
        ):
            assert getattr(stricter, name) <= getattr(looser, name), name
        assert stricter.pinned_skills >= looser.pinned_skills
        for name in ("processes", "memory_mb", "files"):
            assert (getattr(stricter, name) or 1e9) <= (getattr(looser, name) or 1e9), name
        assert programs.index(stricter.programs) <= programs.index(looser.programs)
        assert networks.index(stricter.network) <= networks.index(looser.network)
        assert webs.index(stricter.web) <= webs.index(looser.web)
