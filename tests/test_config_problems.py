"""What is wrong with a configuration is told at once, with file or variable, key and remedy."""

from pathlib import Path

import pytest

from nanobot.config import load
from nanobot.errors import ConfigError
from tests.config_support import Write, bare_environment, refusal, write

__all__ = ["bare_environment", "write"]  # fixtures


def test_a_missing_variable_of_an_enabled_channel_is_an_error(write: Write) -> None:
    message = refusal(write('[channels.telegram]\nenabled = true\ntoken = "${TELEGRAM_TOKEN}"\n'))
    assert "config.toml: channels.telegram.token" in message
    assert "TELEGRAM_TOKEN, which is not set" in message
    assert len(message.splitlines()) == 1


def test_a_used_provider_needs_its_key(write: Write) -> None:
    message = refusal(write('[agent]\nmodel = "anthropic/claude-opus-4-5"\n'))
    assert "models.anthropic.api_key is not set" in message
    assert "ANTHROPIC_API_KEY" in message
    assert load(
        write('[agent]\nmodel = "openai/llama"\n[models.openai]\nbase_url = "http://127.0.0.1:1/v1"\n')
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[agent]\nmodle = "x"\n', "agent.modle is no known key. Did you mean agent.model?"),
        ("[agnet]\n", "agnet is no known key. Did you mean agent?"),
        ("[channels.slack]\nbot_tokn = 'x'\n", "Did you mean channels.slack.bot_token?"),
        ("[channels.slak]\n", "channels.slak is no known key. Did you mean channels.slack?"),
        ("[models.openai]\nbase_ur = 'x'\n", "Did you mean models.openai.base_url?"),
        ("[logs]\nas_json = true\n", "Did you mean logs.json?"),
        ("[http]\nzzz = 1\n", "http.zzz is no known key. Remove it; known here: host, port."),
        ("[executors.claud]\n", "Did you mean executors.claude?"),
        ("[models.ollama]\n", "models.ollama.kind is missing, expected one of 'openai', 'anthropic'"),
        (
            "[agent]\nmax_steps = 'many'\n",
            "agent.max_steps is 'many' (text), expected a whole number. Mend the value.",
        ),
        ("agent = 3\n", "agent is 3 (number), expected a table"),
        ("[agent]\nmax_steps = true\n", "agent.max_steps is True (true/false), expected a whole number"),
        ("[agent]\nmax_steps = 1.5\n", "agent.max_steps is 1.5 (number), expected a whole number"),
        ("[agent]\nmax_steps = 0\n", "agent.max_steps is 0 (number), expected more than 0"),
        ("[agent]\nfallbacks = ['a/b', 1]\n", "agent.fallbacks.1 is 1 (number), expected text in quotes"),
        ("[agent]\nfallbacks = 1\n", "agent.fallbacks is 1 (number), expected a list of texts"),
        ("[http]\nport = 70000\n", "http.port is 70000 (number), expected at most 65535"),
        ("[http]\nport = '-1'\n", "http.port is '-1' (text), expected at least 0"),
        ("[executors.claude]\nmax_budget_usd = 'x'\n", "is 'x' (text), expected a number"),
        ("[executors.claude]\nmax_budget_usd = 0\n", "is 0 (number), expected more than 0"),
        ("[security]\nnetwork = 2\n", "security.network is 2 (number), expected true or false"),
        ("[security]\nlevel = 'no'\n", "expected one of 'low', 'medium', 'high' or 'maximum'"),
        (
            "[models.ollama]\nkind = 'openai'\nheaders = { team = 1 }\n",
            "models.ollama.headers.team is a number",
        ),
        ("[agent]\nqueue = 'x'\n", "expected one of 'steer' or 'followup'"),
        ("[sessions]\nmax_messages = 1\n", "expected at least 10"),
        ("[channels.slack]\nthread_follow = 'perhaps'\n", "is 'perhaps' (text), expected true or false"),
        ("[channels.telegram]\nallow_from = [1]\n", "expected a list of texts"),
        ("[channels.slack]\ngroup_policy = 'all'\n", "expected one of mention, open, allowlist"),
        ("[agent]\nmodel = 'gpt'\n", "Write it as provider/model"),
        (
            "[agent]\nmodel = 'opnai/x'\n",
            "names the provider 'opnai', which is unknown. Did you mean openai?",
        ),
        ("[agent]\n model = 1 2\n", "line 2"),
        ("[http]\nhost = '0.0.0.0'\n", "http.host is '0.0.0.0'"),
        ("[channels.slack]\nenabled = true\n", 'Put bot_token = "${SLACK_BOT_TOKEN}" under [channels.slack]'),
        ("[channels.websocket]\nusers = { bob = '' }\n", "channels.websocket.users has an empty value"),
    ],
)
def test_an_error_names_file_key_and_remedy(text: str, said: str, write: Write) -> None:
    workspace = write(text)
    message = refusal(workspace)
    assert said in message
    assert all(line.startswith(f"{workspace}/config.toml: ") for line in message.splitlines())


def test_an_error_in_a_variable_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NANOBOT_HTTP__PORT", "many")
    monkeypatch.setenv("NANOBOT_HTPP__PORT", "1")
    message = refusal(tmp_path)
    assert "environment variable NANOBOT_HTTP__PORT: http.port is 'many'" in message
    assert "environment variable NANOBOT_HTPP__PORT: htpp is no known key. Did you mean http?" in message


def test_all_errors_are_told_at_once(write: Write) -> None:
    message = refusal(write("[channels.slack]\nenabled = true\n[agent]\nmodel = 'gpt'\n"))
    assert [key for key in ("agent.model", "slack.bot_token", "slack.app_token") if key in message] == [
        "agent.model",
        "slack.bot_token",
        "slack.app_token",
    ]


def test_all_wrong_values_are_told_at_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NANOBOT_LOGS__JSON", "perhaps")
    workspace = write(
        "agnet = 1\n[agent]\nmax_steps = 'many'\nqueue = 'x'\nmodle = 'y'\n"
        "[models.ollama]\nbase_ur = 'z'\n[executors.codex]\nsandbox = 3\n"
    )
    assert [line.partition(": ")[2].split()[0] for line in refusal(workspace).splitlines()] == [
        "agent.max_steps",
        "agent.queue",
        "agent.modle",
        "models.ollama.kind",
        "models.ollama.base_ur",
        "executors.codex.sandbox",
        "logs.json",
        "agnet",
    ]


def test_a_host_of_the_command_line_is_refused_without_a_token_like_one_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--host"):
        load(tmp_path, host="0.0.0.0")
    assert load(tmp_path, host="127.0.0.1", port=0).http.port == 0
