"""One gateway per state directory."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nanobot.errors import StateLocked
from nanobot.stores.lock import StateLock, holder, read

CHILD = """
import sys, time
from pathlib import Path
from nanobot.stores.lock import StateLock
lock = StateLock(Path(sys.argv[1]))
lock.acquire()
lock.set_address("http://127.0.0.1:8765")
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_gateway_is_refused_by_pid(tmp_path: Path) -> None:
    with StateLock(tmp_path), pytest.raises(StateLocked, match=f"pid {os.getpid()}, since 20"):
        StateLock(tmp_path).acquire()


def test_the_address_is_known_while_the_lock_is_held(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    with StateLock(tmp_path) as lock:
        assert read(tmp_path) is None
        lock.set_address("http://127.0.0.1:18765/")
        lock.set_address("http://127.0.0.1:8765")
        assert read(tmp_path) == "http://127.0.0.1:8765"
        found = holder(tmp_path)
        assert found is not None
        assert found.pid == os.getpid()
    assert read(tmp_path) is None
    with StateLock(tmp_path):
        assert read(tmp_path) is None


def test_a_killed_gateway_holds_nothing(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child, child.stdout:
        assert child.stdout.readline() == "held\n"
        assert read(tmp_path) == "http://127.0.0.1:8765"
        with pytest.raises(StateLocked, match=f"pid {child.pid}"):
            StateLock(tmp_path).acquire()
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=10)
    assert read(tmp_path) is None
    with StateLock(tmp_path):
        pass


def test_the_lock_file_is_private(tmp_path: Path) -> None:
    with StateLock(tmp_path / "state") as lock:
        assert lock.path.stat().st_mode & 0o777 == 0o600
        assert lock.path.parent.stat().st_mode & 0o777 == 0o700
