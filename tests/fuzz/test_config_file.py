"""A damaged config.toml is read or refused by name; nothing else is raised and no secret is told."""

import os
import random
import tomllib
from pathlib import Path

import pytest

from nanobot.config import load
from nanobot.errors import ConfigError
from tests.fuzz.mutate import mutated

CASES = max(200, int(os.environ.get("NANOBOT_FUZZ", "10000")) // 8)
SECRET = "tok-8f3a91c7"
TEXT = f"""
[agent]
model = "test/echo"
queue = "steer"
max_steps = 20
[models.test]
kind = "openai"
api_key = "{SECRET}"
base_url = "http://127.0.0.1:1/v1"
timeout = 30
[http]
host = "127.0.0.1"
port = 8000
[channels.websocket]
enabled = true
token = "{SECRET}"
users = {{ alice = "{SECRET}-a" }}
allow_origins = ["https://a.example"]
[goals]
max_turns = 5
[security]
level = "high"
allowed_hosts = ["10.0.0.1"]
[logs]
level = "debug"
"""


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("NANOBOT_", "OPENAI_", "ANTHROPIC_", "SLACK_", "TELEGRAM_")):
            monkeypatch.delenv(name)


def test_any_damage_is_a_configuration_or_a_refusal(tmp_path: Path) -> None:
    chance = random.Random(1)
    read = refused = 0
    for number in range(CASES):
        data = mutated(TEXT.encode(), chance, shuffle=False)  # a secret stays at a secret's key
        if b"[" * 500 in data:
            continue  # the standard library's parser recurses once a bracket
        (tmp_path / "config.toml").write_bytes(data)
        try:
            config = load(tmp_path)
        except ConfigError as error:
            refused += 1
            told = str(error)
            if "config.toml" not in told:
                pytest.fail(f"mutation {number}: no file is named: {told}")
        else:
            read += 1
            told = repr(config)
        if misplaced(data):
            continue  # damage has put the secret where no secret belongs
        assert SECRET not in told, f"mutation {number}: a secret is told: {told}"
    assert read
    assert refused > 50


def misplaced(data: bytes) -> bool:
    """Whether the secret is the value of a key that holds none."""
    try:
        tree = tomllib.loads(data.decode())
    except ValueError:
        return False
    for table in ("models", "channels"):
        for one in tree.get(table, {}).values() if isinstance(tree.get(table), dict) else ():
            if isinstance(one, dict):
                for name in ("api_key", "token", "users"):
                    one.pop(name, None)
    return SECRET in repr(tree)
