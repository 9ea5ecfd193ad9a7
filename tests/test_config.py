"""The configuration: defaults, what the environment overrides, and what must not be shown."""

import importlib.machinery
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from nanobot import config as configuration
from nanobot import content
from nanobot.config import Config, load, workspace_dir
from nanobot.models import gguf
from tests.config_support import Write, bare_environment, refusal, write

__all__ = ["bare_environment", "write"]  # fixtures

DESIGNED = """
[agent]
model = "openai/gpt-5.5"
fallbacks = ["anthropic/claude-opus-4-5"]
context_window = 100000
max_output = 16000
max_steps = 20
system_name = "robo"
queue = "followup"
attempts = 2
[models.openai]
api_key = "sk-a"
base_url = "https://api.openai.com/v1"
timeout = 30
idle_timeout = 9
[models.anthropic]
api_key = "sk-b"
[models.ollama]
kind = "openai"
base_url = "http://127.0.0.1:11434/v1"
headers = { x-team = "a" }
extra = { temperature = 0.1 }
[models.local]
path = "/models/x.gguf"
[http]
host = "127.0.0.1"
port = 8000
[channels.websocket]
enabled = true
token = "tok"
users = { alice = "token-a" }
allow_origins = ["https://a.example"]
[channels.slack]
enabled = true
bot_token = "xoxb-1"
app_token = "xapp-1"
api_url = "http://127.0.0.1:1/api/"
group_policy = "open"
thread_follow = false
allow_from = ["*"]
[channels.telegram]
enabled = true
token = "1:a"
api_url = "http://127.0.0.1:1"
webhook_url = "https://b.example"
webhook_secret = "s"
group_policy = "allowlist"
allow_from = ["1"]
[goals]
max_turns = 5
max_tokens = 20
max_minutes = 4
max_idle_turns = 1
[delegation]
max_children = 1
max_depth = 1
timeout = 36
allowed_dirs = ["/srv"]
[executors.codex]
command = "/bin/codex"
model = "m"
sandbox = "read-only"
config = { a = 1 }
[executors.claude]
command = "/bin/claude"
model = "m"
permission_mode = "plan"
max_budget_usd = 1.5
[sessions]
max_messages = 200
[security]
level = "maximum"
allow_unsandboxed = true
network = true
allowed_hosts = ["10.0.0.1"]
exec_timeout = 12
max_file_mb = 2
[delivery]
max_age_hours = 1
[logs]
level = "debug"
json = true
"""


def test_a_missing_file_means_the_designed_defaults(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert config.agent.context_window == 200_000
    assert (config.agent.max_output, config.agent.max_steps) == (32_000, 200)
    assert (config.agent.system_name, config.agent.queue) == ("nanobot", "steer")
    assert (config.agent.fallbacks, config.agent.attempts) == ((), 3)
    assert (config.http.host, config.http.port) == ("127.0.0.1", 8765)
    assert (config.goals.max_turns, config.goals.max_tokens) == (50, 2_000_000)
    assert (config.goals.max_minutes, config.goals.max_idle_turns) == (480, 2)
    assert (config.delegation.max_children, config.delegation.max_depth) == (4, 2)
    assert (config.delegation.timeout, config.delegation.allowed_dirs) == (3600, ())
    assert config.executors.codex.sandbox == "workspace-write"
    assert config.executors.claude.permission_mode == "acceptEdits"
    assert config.sessions.max_messages == 2000
    assert (config.security.level, config.security.allow_unsandboxed) == ("high", False)
    assert (config.security.network, config.security.allowed_hosts) == (False, ())
    assert (config.security.exec_timeout, config.security.max_file_mb) == (120, 20)
    assert config.delivery.max_age_hours == 24
    assert (config.logs.level, config.logs.as_json) == ("info", False)
    assert config.models["openai"].base_url == "https://api.openai.com/v1"
    assert (config.models["openai"].timeout, config.models["openai"].idle_timeout) == (300, 90)
    assert [channel.name for channel in config.enabled()] == ["websocket"]
    assert config.channels["websocket"].values == {"token": "", "users": {}, "allow_origins": []}
    assert config.state_dir == tmp_path / ".nanobot"


def test_every_designed_key_is_read(write: Write) -> None:
    config = load(write(DESIGNED))
    assert config.agent.model == "openai/gpt-5.5"
    assert config.agent.fallbacks == ("anthropic/claude-opus-4-5",)
    assert config.models["ollama"].kind == "openai"
    assert config.models["ollama"].headers == {"x-team": "a"}
    assert config.models["ollama"].extra == {"temperature": 0.1}
    assert config.models["local"].path == "/models/x.gguf"
    assert config.channels["slack"].values["thread_follow"] is False
    assert config.channels["telegram"].values["webhook_secret"] == "s"
    assert config.channels["websocket"].values["users"] == {"alice": "token-a"}
    assert config.executors.codex.config == {"a": 1}
    assert config.executors.claude.max_budget_usd == 1.5
    assert config.security.level == "maximum"
    assert (config.logs.level, config.logs.as_json) == ("debug", True)


def test_the_environment_overrides_the_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = write('[http]\nport = 1000\n[channels.telegram]\nenabled = true\ntoken = "old"\n')
    monkeypatch.setenv("NANOBOT_HTTP__PORT", "2000")
    monkeypatch.setenv("NANOBOT_CHANNELS__TELEGRAM__TOKEN", "007")
    monkeypatch.setenv("NANOBOT_CHANNELS__TELEGRAM__ALLOW_FROM", "1, 2")
    monkeypatch.setenv("NANOBOT_LOGS__JSON", "true")
    monkeypatch.setenv("NANOBOT_AGENT__FALLBACKS", '["local/a"]')
    monkeypatch.setenv("NANOBOT_MODELS__OLLAMA__KIND", "openai")
    config = load(workspace)
    assert config.http.port == 2000
    assert config.channels["telegram"].values["token"] == "007"
    assert config.channels["telegram"].values["allow_from"] == ["1", "2"]
    assert config.channels["telegram"].enabled
    assert config.logs.as_json
    assert config.agent.fallbacks == ("local/a",)
    assert config.models["ollama"].base_url == "https://api.openai.com/v1"


def test_an_override_replaces_one_key_of_a_table_or_the_whole(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = write('[models.ollama]\nkind = "openai"\nheaders = { a = "1", b = "2" }\n')
    monkeypatch.setenv("NANOBOT_MODELS__OLLAMA__HEADERS__B", "3")
    assert load(workspace).models["ollama"].headers == {"a": "1", "b": "3"}
    monkeypatch.delenv("NANOBOT_MODELS__OLLAMA__HEADERS__B")
    monkeypatch.setenv("NANOBOT_MODELS__OLLAMA__HEADERS", '{"c": "4"}')
    assert load(workspace).models["ollama"].headers == {"c": "4"}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("SECURITY__NETWORK", " Yes ", True),
        ("SECURITY__NETWORK", "off", False),
        ("SECURITY__NETWORK", "1", True),
        ("SECURITY__EXEC_TIMEOUT", " 007 ", 7),
        ("DELEGATION__TIMEOUT", "1.5", 1.5),
        ("EXECUTORS__CLAUDE__MAX_BUDGET_USD", "2", 2.0),
        ("AGENT__SYSTEM_NAME", "007", "007"),
        ("DELEGATION__ALLOWED_DIRS", "/a, /b", ("/a", "/b")),
        ("EXECUTORS__CODEX__CONFIG", '{"a": [1]}', {"a": [1]}),
    ],
)
def test_a_text_of_the_environment_is_read_as_its_keys_type(
    name: str, text: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"NANOBOT_{name}", text)
    found: object = load(tmp_path)
    for part in name.lower().split("__"):
        found = getattr(found, part)
    assert (found, type(found)) == (value, type(value))


def test_a_whole_number_may_stand_where_seconds_may_have_fractions(write: Write) -> None:
    timeout = load(write("[delegation]\ntimeout = 30\n")).delegation.timeout
    assert (timeout, type(timeout)) == (30.0, float)


def test_a_configuration_cannot_be_changed(tmp_path: Path) -> None:
    config = load(tmp_path)
    with pytest.raises(AttributeError):
        config.agent.model = "other/model"  # type: ignore[misc]


def test_variables_are_replaced_inside_values(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "robo")
    monkeypatch.setenv("EMPTY", "")
    config = load(
        write(
            '[agent]\nsystem_name = "my ${NAME}${EMPTY:-!}"\n[http]\nport = "${PORT:-9000}"\n'
            '[delegation]\nallowed_dirs = ["/${NAME}", "$${NAME}"]\n'
        )
    )
    assert config.agent.system_name == "my robo!"
    assert config.http.port == 9000
    assert config.delegation.allowed_dirs == ("/robo", "${NAME}")


def test_a_missing_variable_is_no_error_where_nothing_uses_it(write: Write) -> None:
    config = load(
        write(
            '[channels.telegram]\nenabled = false\ntoken = "${TELEGRAM_TOKEN}"\n'
            '[models.anthropic]\napi_key = "${ANTHROPIC_API_KEY}"\n[agent]\nmodel = "local/smollm2"\n'
        )
    )
    assert not config.channels["telegram"].enabled
    assert config.models["anthropic"].api_key == ""


def test_a_variable_given_by_an_override_is_not_missing(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NANOBOT_CHANNELS__TELEGRAM__TOKEN", "1:a")
    config = load(write('[channels.telegram]\nenabled = true\ntoken = "${TELEGRAM_TOKEN}"\n'))
    assert config.channels["telegram"].values["token"] == "1:a"


def test_a_condition_decides_what_a_channel_needs(write: Write) -> None:
    slack = "[channels.slack]\nenabled = true\nbot_token = 'x'\n"
    assert load(write(f"{slack}signing_secret = 's'\n")).channels["slack"].enabled
    assert "app_token" in refusal(write(slack))
    telegram = "[channels.telegram]\nenabled = true\ntoken = '1:a'\n"
    assert load(write(telegram)).channels["telegram"].enabled
    assert "webhook_secret" in refusal(write(f"{telegram}webhook_url = 'https://a.example'\n"))


def test_another_host_is_fine_with_a_token(write: Write) -> None:
    workspace = write("[http]\nhost = '0.0.0.0'\n[channels.websocket]\ntoken = 't'\n")
    assert load(workspace).http.host == "0.0.0.0"
    assert load(write("[http]\nhost = '::1'\n")).http.host == "::1"


def test_secrets_are_never_shown(write: Write) -> None:
    secrets = {"sk-a", "sk-b", "tok", "token-a", "xoxb-1", "xapp-1", "1:a"}
    config = load(write(DESIGNED))
    assert secrets <= config.secrets()
    shown = (
        repr(config) + str(config.channels["slack"].values) + repr(config.models["openai"].__rich_repr__())
    )
    assert "base_url='https://api.openai.com/v1'" in shown
    assert not [one for one in secrets if f"'{one}'" in shown]
    for text in (
        "[models.openai]\napi_key = 123456\n",
        "[channels.slack]\nbot_token = 123456\n",
        "[models]\nopenai = '123456'\n",
        "[channels]\nslack = ['123456']\n",
    ):
        message = refusal(write(text))
        assert "123456" not in message
        assert "not shown" in message


def test_the_default_model_follows_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.gguf").write_bytes(b"GGUF")

    def found(name: str) -> importlib.machinery.ModuleSpec:
        spec = importlib.machinery.ModuleSpec(name, None)
        spec.submodule_search_locations = [str(tmp_path)]
        return spec

    def absent(name: str) -> None:
        return None

    monkeypatch.setattr(gguf, "find_spec", absent)
    nothing = load(tmp_path)
    assert nothing.agent.model == ""
    assert "OPENAI_API_KEY" in nothing.model_hint
    monkeypatch.setattr(gguf, "find_spec", found)
    local = load(tmp_path)
    assert (local.agent.model, local.model_hint) == ("local/smollm2", "")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-b")
    assert load(tmp_path).agent.model.startswith("anthropic/")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a")
    assert load(tmp_path).agent.model == "openai/gpt-5.5"


def test_a_key_goes_to_no_other_table(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a")
    config = load(write('[models.other]\nkind = "openai"\nbase_url = "http://other.example"\n'))
    assert config.models["openai"].api_key == "sk-a"
    assert config.models["other"].api_key == ""


def test_a_workspace_channel_has_its_settings_checked_too(write: Write) -> None:
    workspace = write("[channels.parrot]\nenabled = true\nspeed = 'fast'\n")
    folder = workspace / "channels" / "parrot"
    folder.mkdir(parents=True)
    (folder / "channel.toml").write_text(
        'name = "parrot"\ntitle = "Parrot"\n[settings.speed]\ntype = "int"\ndefault = 3\n'
    )
    assert "channels.parrot.speed is 'fast' (text), expected a whole number" in refusal(workspace)
    config = load(write("[channels.parrot]\nenabled = true\n"))
    assert config.channels["parrot"].values == {"speed": 3}
    assert config.channels["parrot"].named
    assert "parrot" not in load(write("")).channels


def test_the_workspace_is_chosen_by_option_then_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert workspace_dir() == tmp_path / ".nanobot"
    monkeypatch.setenv("NANOBOT_WORKSPACE", "/srv/bot")
    assert workspace_dir() == Path("/srv/bot")
    assert workspace_dir("~/mine") == tmp_path / "mine"


def test_the_example_file_is_valid_and_names_every_key() -> None:
    example = content.bundled("workspace.example")
    config = load(example)
    assert isinstance(config, Config)
    text = (example / "config.toml").read_text("utf-8")
    for section in (
        "agent",
        "http",
        "goals",
        "delegation",
        "watchers",
        "sessions",
        "security",
        "delivery",
        "logs",
    ):
        assert f"[{section}]" in text
        for field in msgspec.structs.fields(getattr(config, section)):
            assert f"{field.encode_name} = " in text, f"{section}.{field.name}"
    for name in ("codex", "claude"):
        _, _, table = text.partition(f"[executors.{name}]")
        for field in msgspec.structs.fields(getattr(config.executors, name)):
            assert f"\n# {field.name} = " in table.partition("\n[")[0], f"executors.{name}.{field.name}"
    for channel in config.channels.values():
        for name in channel.manifest.settings:
            assert f"{name} = " in text.partition(f"[channels.{channel.name}]")[2], f"{channel.name}.{name}"


def test_reading_a_configuration_imports_no_channel_no_model_and_nothing_heavy() -> None:
    code = (
        "import sys; from pathlib import Path; from nanobot.config import load; load(Path('/nonexistent'));"
        "bad = {'pydantic', 'aiohttp', 'jinja2', 'typer', 'rich', 'xllamacpp', 'slack_bolt', 'telegram'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_package_says_what_it_offers() -> None:
    assert all(hasattr(configuration, name) for name in configuration.__all__)
