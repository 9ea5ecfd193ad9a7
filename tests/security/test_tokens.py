"""Tokens as they are configured: what doctor says of weak ones, and doors that ask for one although the page is off."""

from pathlib import Path

import pytest

from nanobot.app import guard
from nanobot.config import load
from nanobot.doctor import page
from tests.security.house import command

STRONG = "b1946ac92492d2347c6235b4d2611184"
ON = "[channels.websocket]\nenabled = true\n"


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (ON, "ok", "whoever uses this machine is the owner"),
        ("[channels.websocket]\nenabled = false\n", "ok", "the page is off"),
        (f'{ON}token = "{STRONG}"\n', "ok", "1 tokens, all long"),
        (f'{ON}token = "secret"\n[http]\nhost = "0.0.0.0"\n', "warn", "token of [channels.websocket]"),
        (f'{ON}token = "{"ab" * 30}"\n', "warn", "can be guessed"),
        (
            f'{ON}token = "{STRONG}"\nusers = {{ ann = "ann", bob = "{STRONG[::-1]}" }}\n',
            "warn",
            "users.ann of",
        ),
        (f"{ON}[security]\nnetwork = true\n", "warn", "they can act as the owner"),
        (f'{ON}[security]\nlevel = "low"\n', "warn", "they can act as the owner"),
        (f'{ON}token = "{STRONG}"\n[security]\nlevel = "low"\n', "ok", "all long"),
    ],
)
def test_doctor_warns_of_tokens_that_can_be_guessed_and_of_commands_that_need_none(
    tmp_path: Path, text: str, status: str, words: str
) -> None:
    (tmp_path / "config.toml").write_text(text)
    found = page(load(tmp_path))
    assert (found.status, words in found.text) == (status, True), found
    assert (found.status == "ok") is not bool(found.remedy)
    assert "secret" not in found.text


def test_doctor_says_it_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f'{ON}token = "secret"\n')
    told = command(tmp_path, "doctor", "--no-model").stdout
    assert "warn  page: token of [channels.websocket] can be guessed" in told
    assert "openssl rand -hex 24" in told


def test_with_the_page_off_the_servers_own_doors_still_ask_for_its_token(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        f'[http]\nhost = "0.0.0.0"\n[channels.websocket]\nenabled = false\ntoken = "{STRONG}"\n'
    )
    found = guard(load(tmp_path))
    assert (found.token, found.tokens) == (STRONG, True)
