"""What the tests of the configuration share: a bare environment, a file to write, and the text of a refusal."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nanobot.config import load
from nanobot.errors import ConfigError

Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("NANOBOT_", "OPENAI_", "ANTHROPIC_", "SLACK_", "TELEGRAM_")):
            monkeypatch.delenv(name)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(text: str) -> Path:
        (tmp_path / "config.toml").write_text(text, "utf-8")
        return tmp_path

    return put


def refusal(workspace: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(workspace)
    return str(caught.value)
