"""Every key of config.toml, with its type and default; durations are seconds unless the name says otherwise."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from nanobot.config.expand import nested

PREFIX = "NANOBOT_"
Kind = Literal["openai", "anthropic", "local", "scripted"]


def listed(value: Any) -> Any:
    """A list that came as text, from the environment: JSON, or words separated by commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return decoded(value)
    return [word.strip() for word in value.split(",") if word.strip()]


def decoded(value: Any) -> Any:
    """A table that came as text: JSON."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


Strings = Annotated[tuple[str, ...], BeforeValidator(listed)]
Table = Annotated[dict[str, Any], BeforeValidator(decoded)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Agent(Section):
    model: str = ""  # provider/model; empty: chosen by the keys that are there
    fallbacks: Strings = ()
    attempts: PositiveInt = 3  # runs of one turn that crashes interrupt, before the user is told
    context_window: PositiveInt = 200_000  # tokens
    max_output: PositiveInt = 32_000  # tokens
    max_steps: PositiveInt = 200  # model calls in one turn
    system_name: str = "nanobot"
    queue: Literal["steer", "followup"] = "steer"  # what becomes of a message sent while a turn runs


class ModelSettings(Section):
    """A provider. `headers` go with every request; `extra` is merged into its body."""

    kind: Kind
    api_key: str = Field("", repr=False)
    base_url: str = ""
    timeout: PositiveFloat = 300.0  # for the whole call
    idle_timeout: PositiveFloat = 90.0  # between streamed chunks
    path: str = ""  # of a GGUF, for kind = "local"
    headers: Annotated[dict[str, str], BeforeValidator(decoded)] = Field(default_factory=dict, repr=False)
    extra: Table = Field(default_factory=dict)


class Http(Section):
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765  # 0 = a free one


class Goals(Section):
    max_turns: PositiveInt = 50
    max_tokens: PositiveInt = 2_000_000
    max_minutes: PositiveInt = 480
    max_idle_turns: PositiveInt = 2


class Delegation(Section):
    max_children: NonNegativeInt = 4  # per session; 0 forbids delegating
    max_depth: NonNegativeInt = 2
    timeout: PositiveFloat = 3600.0
    allowed_dirs: Strings = ()


class Codex(Section):
    command: str = "codex"
    model: str = ""
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "workspace-write"
    config: Table = Field(default_factory=dict)  # -c overrides


class Claude(Section):
    command: str = "claude"
    model: str = ""
    permission_mode: str = "acceptEdits"
    max_budget_usd: PositiveFloat | None = None


class Executors(Section):
    codex: Codex = Codex()
    claude: Claude = Claude()


class Sessions(Section):
    max_messages: Annotated[int, Field(ge=10)] = 2000


class Security(Section):
    level: Literal["low", "medium", "high", "maximum"] = "high"
    allow_unsandboxed: bool = False
    network: bool = False  # for sandboxed commands
    allowed_hosts: Strings = ()  # that web_fetch may reach although they are not public
    exec_timeout: PositiveInt = 120
    max_file_mb: PositiveInt = 20


class Delivery(Section):
    max_age_hours: PositiveFloat = 24.0


class Logs(Section):
    level: Literal["trace", "debug", "info", "warning", "error"] = "info"
    as_json: bool = Field(default=False, alias="json")


class Settings(BaseSettings):
    """The file and the environment, merged and typed. Channel tables are checked by their manifests, later."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    agent: Agent = Agent()
    models: dict[str, ModelSettings] = Field(default_factory=dict)
    http: Http = Http()
    channels: dict[str, Table] = Field(default_factory=dict)
    goals: Goals = Goals()
    delegation: Delegation = Delegation()
    executors: Executors = Executors()
    sessions: Sessions = Sessions()
    security: Security = Security()
    delivery: Delivery = Delivery()
    logs: Logs = Logs()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - it decodes JSON in free-form tables: 007 became 7
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - nothing is read that was not named
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (Environment(settings_cls), init_settings)


class Environment(PydanticBaseSettingsSource):
    """`NANOBOT_AGENT__MODEL` as {"agent": {"model": …}}: texts, which the types read."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return None, field_name, False  # fields are not asked one by one

    def __call__(self) -> dict[str, Any]:
        return nested(PREFIX)
