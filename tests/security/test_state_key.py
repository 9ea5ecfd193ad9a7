"""Where the owner's key comes from, and that nothing of encryption is loaded before it is asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nanobot.security import state_key
from tests.crash.process import ROOT
from tests.security.house import command

KEYRING = {
    state_key.VARIABLE: "",
    "PYTHON_KEYRING_BACKEND": "tests.security.keyring_file.FileKeyring",
    "NANOBOT_SECURITY__ENCRYPT_STATE": "true",
}
SAVE = """
import sys
from pathlib import Path
from nanobot import SessionManager
from nanobot.security import state_key
state = Path(sys.argv[1]) / ".nanobot"
state_key.sealer(state, wanted=True)
manager = SessionManager(directory=state / "sessions")
session = manager.get_or_create("websocket:1")
session.add_message("user", "hello")
manager.save(session)
print([line["content"] for line in session.messages])
"""


def python(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def test_without_a_variable_the_key_lives_in_the_systems_keyring(tmp_path: Path) -> None:
    ring = {**KEYRING, "TEST_KEYRING": str(tmp_path / "keyring.json")}
    assert python(SAVE, str(tmp_path), **ring).stdout == "['hello']\n"
    assert python(SAVE, str(tmp_path), **ring).stdout == "['hello', 'hello']\n"
    [old] = json.loads((tmp_path / "keyring.json").read_text()).values()
    assert "keyring" in command(tmp_path, "security", "status", **ring).stdout
    done = command(tmp_path, "security", "rekey", **ring)
    assert done.returncode == 0, done.stderr
    [new] = json.loads((tmp_path / "keyring.json").read_text()).values()
    assert old != new, "the owner's key changed, and the former one is forgotten"
    assert python(SAVE, str(tmp_path), **ring).stdout.count("hello") == 3
    for path in (tmp_path / ".nanobot").rglob("*"):
        text = path.read_text("latin-1") if path.is_file() else ""
        assert old not in text
        assert new not in text
    (tmp_path / "keyring.json").unlink()
    assert "its key is not here" in command(tmp_path, "sessions", "list", **ring).stderr


def test_with_neither_variable_nor_keyring_nothing_is_begun(tmp_path: Path) -> None:
    none = {**KEYRING, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    told = python(SAVE, str(tmp_path), **none).stderr
    assert "encrypt_state needs a key: set NANOBOT_STATE_KEY" in told
    assert not (tmp_path / ".nanobot").exists()


def test_without_the_library_the_remedy_is_told_and_nothing_is_begun(tmp_path: Path) -> None:
    blocked = "import sys; sys.modules['cryptography'] = None\n" + SAVE
    told = python(blocked, str(tmp_path), **{state_key.VARIABLE: state_key.new_master()}).stderr
    assert "pip install 'nanobot[encryption]'" in told
    assert not (tmp_path / ".nanobot").exists()


@pytest.mark.parametrize("module", ["nanobot.app", "nanobot.cli.root"])
def test_a_plain_state_loads_nothing_of_encryption(tmp_path: Path, module: str) -> None:
    program = f"""
import sys, {module}
from nanobot import SessionManager
manager = SessionManager({str(tmp_path)!r})
session = manager.get_or_create("websocket:1")
session.add_message("user", "hello")
manager.save(session)
print(sorted({{name.partition(".")[0] for name in sys.modules}} & {{"cryptography", "keyring", "cffi"}}))
"""
    assert python(program).stdout == "[]\n"
