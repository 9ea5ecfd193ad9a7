"""Every key of config.toml, with its type and default; durations are seconds unless the name says otherwise.

`reader` checks what it puts into these tables; one made by hand is not checked.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from nanobot.pricing import Price
from nanobot.watch_settings import Watchers

Kind = Literal["openai", "anthropic", "local", "scripted"]
Count = Annotated[int, Meta(gt=0)]
Positive = Annotated[float, Meta(gt=0)]


class Agent(Struct, frozen=True):
    model: str = ""  # provider/model; empty: chosen by the keys that are there
    fallbacks: tuple[str, ...] = ()
    attempts: Count = 3  # runs of one turn that crashes interrupt, before the user is told
    context_window: Count = 200_000  # tokens
    max_output: Count = 32_000  # tokens
    max_steps: Count = 200  # model calls in one turn
    system_name: str = "nanobot"
    queue: Literal["steer", "followup"] = "steer"  # what becomes of a message sent while a turn runs


class ModelSettings(Struct, frozen=True):
    """A provider. `headers` go with every request; `extra` is merged into its body."""

    kind: Kind
    api_key: str = ""
    base_url: str = ""
    timeout: Positive = 300.0  # for the whole call
    idle_timeout: Positive = 90.0  # between streamed chunks
    path: str = ""  # of a GGUF, for kind = "local"
    headers: dict[str, str] = {}
    extra: dict[str, Any] = {}
    prices: dict[str, Price] = {}  # by the model's name, to tell what a conversation cost

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """What may be shown: neither the key nor the headers, which often hold one."""
        shown = (name for name in self.__struct_fields__ if name not in ("api_key", "headers"))
        return [(name, getattr(self, name)) for name in shown]

    def __repr__(self) -> str:
        return f"ModelSettings({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"


class Http(Struct, frozen=True):
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8765  # 0 = a free one


class Goals(Struct, frozen=True):
    max_turns: Count = 50
    max_tokens: Count = 2_000_000
    max_minutes: Count = 480
    max_idle_turns: Count = 2


class Delegation(Struct, frozen=True):
    max_children: Annotated[int, Meta(ge=0)] = 4  # per session; 0 forbids delegating
    max_depth: Annotated[int, Meta(ge=0)] = 2
    timeout: Positive = 3600.0
    max_tokens: Annotated[int, Meta(ge=0)] = 0  # of one turn; 0 = only the goal's budget limits it
    allowed_dirs: tuple[str, ...] = ()
    restarts: Annotated[int, Meta(ge=0)] = 2  # of an outside agent's turn whose process dies or hangs
    health_interval: Positive = 30.0  # between looks at it
    stall_timeout: Positive = 900.0  # without a word or work, before it counts as hung


class Codex(Struct, frozen=True):
    command: str = "codex"
    model: str = ""
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] = "workspace-write"
    config: dict[str, Any] = {}  # -c overrides
    env: dict[str, str] = {}  # variables it gets besides its own


class Claude(Struct, frozen=True):
    command: str = "claude"
    model: str = ""
    permission_mode: str = "acceptEdits"
    max_budget_usd: Positive | None = None
    allowed_tools: tuple[str, ...] = ()  # such as "Bash(git *)"
    env: dict[str, str] = {}


class Executors(Struct, frozen=True):
    codex: Codex = Codex()
    claude: Claude = Claude()


class Sessions(Struct, frozen=True):
    max_messages: Annotated[int, Meta(ge=10)] = 2000


class Security(Struct, frozen=True):
    level: Literal["low", "medium", "high", "maximum"] = "high"
    allow_unsandboxed: bool = False
    network: bool = False  # for sandboxed commands
    allowed_hosts: tuple[str, ...] = ()  # that web_fetch may reach although they are not public
    exec_timeout: Count = 120
    max_file_mb: Count = 20
    encrypt_state: bool = False  # histories, files and messages on the disk; needs the extra `encryption`


class Delivery(Struct, frozen=True):
    max_age_hours: Positive = 24.0


class Logs(Struct, frozen=True):
    level: Literal["trace", "debug", "info", "warning", "error"] = "info"
    as_json: bool = field(name="json", default=False)


class Settings(Struct, frozen=True):
    """The whole file. Channel tables are checked by their manifests, later."""

    agent: Agent = Agent()
    models: dict[str, ModelSettings] = {}
    http: Http = Http()
    channels: dict[str, dict[str, Any]] = {}
    goals: Goals = Goals()
    delegation: Delegation = Delegation()
    executors: Executors = Executors()
    watchers: Watchers = Watchers()
    sessions: Sessions = Sessions()
    security: Security = Security()
    delivery: Delivery = Delivery()
    logs: Logs = Logs()
