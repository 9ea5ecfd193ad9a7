import asyncio
import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanobot.messages import new_id
from nanobot.security import environment, process, tree

SUBREAPER = 36  # prctl(2): PR_SET_CHILD_SUBREAPER


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


async def run(script: str, cwd: Path, timeout: float = 20, **options: object) -> process.Finished:
    return await process.run(
        shell(script),
        cwd=cwd,
        environment=environment.scrubbed(cwd),
        timeout=timeout,
        **options,  # type: ignore[arg-type]
    )


def running(pids: Path) -> list[int]:
    """Those of the noted processes that still run."""
    found = [tree.identify(int(pid)) for pid in pids.read_text().split()]
    return [identity.pid for identity in found if identity and tree.alive(identity)]


async def test_output_and_exit_code_come_back_in_order(tmp_path: Path) -> None:
    done = await run("echo one; echo two >&2; echo three; exit 7", tmp_path)
    assert (done.output, done.code, done.timed_out) == ("one\ntwo\nthree\n", 7, False)


async def test_input_larger_than_a_pipe_arrives_while_output_is_read(tmp_path: Path) -> None:
    sent = b"x" * 300_000
    done = await process.run(["/bin/cat"], cwd=tmp_path, environment={}, timeout=20, stdin=sent)
    assert done.output == sent.decode()


async def test_input_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    done = await process.run(["/bin/true"], cwd=tmp_path, environment={}, timeout=20, stdin=b"x" * 300_000)
    assert done.code == 0


async def test_a_program_that_does_not_exist_is_told(tmp_path: Path) -> None:
    done = await process.run(["/no/such/program"], cwd=tmp_path, environment={}, timeout=20)
    assert done.code == 127
    with pytest.raises(OSError, match="No such file"):
        await run("true", tmp_path / "missing")


TREE = """
echo $$ >> pids
sh -c 'echo $$ >> pids; sleep 1000' &
setsid sh -c 'echo $$ >> pids; sleep 1000; :' &
(setsid sh -c 'echo $$ >> pids; exec sleep 1000' > /dev/null 2>&1 &) &
sh -c 'trap "" TERM HUP INT; echo $$ >> pids; sleep 1000; :' &
while [ "$(wc -l < pids)" -lt 5 ]; do :; done
"""


async def test_after_a_timeout_the_whole_tree_is_gone_also_what_left_the_session(tmp_path: Path) -> None:
    done = await run(f"{TREE} sleep 1000", tmp_path, timeout=1.5)
    assert done.timed_out
    assert len((tmp_path / "pids").read_text().split()) == 5
    assert running(tmp_path / "pids") == []


async def test_what_a_command_leaves_in_the_background_ends_with_it(tmp_path: Path) -> None:
    done = await run(f"{TREE} echo done", tmp_path)
    assert (done.output, done.code) == ("done\n", 0)
    assert running(tmp_path / "pids") == []


async def test_a_cancelled_command_leaves_nothing(tmp_path: Path) -> None:
    task = asyncio.create_task(run(f"{TREE} mkfifo ready; echo x > ready; sleep 1000", tmp_path))
    while not (tmp_path / "ready").exists():
        await asyncio.sleep(0.01)
    await asyncio.to_thread((tmp_path / "ready").read_text)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # a second one must not cut the cleaning short
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running(tmp_path / "pids") == []


@pytest.fixture
def adopting() -> Iterator[None]:
    """Orphans become ours, as they do where the gateway is the first process of a container."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert prctl(SUBREAPER, 0, 0, 0, 0) == 0


@pytest.mark.usefixtures("adopting")
async def test_orphans_that_became_our_children_are_reaped(tmp_path: Path) -> None:
    await run(
        "(setsid sh -c 'echo $$ >> pids; exec sleep 1000' > /dev/null 2>&1 &); until [ -s pids ]; do :; done",
        tmp_path,
    )
    assert not Path(f"/proc/{(tmp_path / 'pids').read_text().strip()}").exists()


async def test_only_the_process_that_was_meant_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "1000"]) as bystander:
        started = tree.identify(bystander.pid)
        assert started
        reused = tree.Identity(bystander.pid, started.started - 1)  # the id, of an earlier process
        await tree.kill_tree(reused, new_id())
        assert bystander.poll() is None
        await tree.kill_tree(started)
        assert bystander.wait(5) == -9


def test_a_process_whose_name_holds_parentheses_is_read_right(tmp_path: Path) -> None:
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([odd, "1000"]) as child:
        identity = tree.identify(child.pid)
        assert identity
        (seen,) = tree.members(identity)
        child.kill()
    assert seen.parent == os.getpid()


async def test_a_gigabyte_of_output_keeps_its_head_and_tail_in_little_memory(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = await run(
        "echo first; yes 0123456789abcdef | head -c 1000000000; echo; echo last", tmp_path, timeout=60
    )
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert done.code == 0
    assert done.output.startswith("first\n")
    assert done.output.endswith("last\n")
    assert len(done.output) < process.OUTPUT_LIMIT + 100
    assert done.left_out > 998_000_000
    assert grown_mb < 16


def test_head_and_tail_lose_nothing_up_to_the_limit_and_exactly_the_middle_beyond() -> None:
    for chunks in ([b"abcdefghij"], [b"a", b"bcd", b"efghij"], [bytes([c]) for c in b"abcdefghij"]):
        kept = process.HeadAndTail(10)
        for chunk in chunks:
            kept.add(chunk)
        assert (kept.text(), kept.left_out) == ("abcdefghij", 0)
    kept = process.HeadAndTail(6)
    for chunk in (b"abcd", b"efg", b"hij"):
        kept.add(chunk)
    assert (kept.text(), kept.left_out) == ("abc\n[… 4 bytes left out …]\nhij", 4)


async def test_limits_hold_for_files_and_memory(tmp_path: Path) -> None:
    limits = process.Limits(file_mb=1, memory_mb=200)
    wrote = await run("head -c 5000000 /dev/zero > big; wc -c < big", tmp_path, limits=limits)
    assert "1048576" in wrote.output
    python = f"{sys.executable} -c 'x = bytearray(400 << 20); print(len(x))'"
    assert "MemoryError" in (await run(python, tmp_path, limits=limits)).output


async def test_the_environment_holds_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("NANOBOT_CHANNELS__TELEGRAM__TOKEN", "secret")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("TZ", "Europe/Vienna")
    done = await run("env", tmp_path)
    names = {line.partition("=")[0] for line in done.output.splitlines()}
    assert "secret" not in done.output
    assert names <= {
        "PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TERM", "NO_COLOR", "PAGER", "TZ", "PWD",
        "GIT_TERMINAL_PROMPT", "NANOBOT_OWNER", "NANOBOT_RUN", "OLDPWD", "SHLVL", "_",
    }  # fmt: skip
    assert "TZ=Europe/Vienna" in done.output
