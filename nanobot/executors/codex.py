"""Calls the codex command-line tool. Command lines and switches as tried with 0.163 and 0.169."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from nanobot.executor import Job
from nanobot.executors import discovery
from nanobot.executors.codex_events import CodexEvents
from nanobot.security.context import SecurityContext

DANGER = "danger-full-access"
# Seen with 0.163: "unexpected status 401 Unauthorized: …", "Missing environment variable: `…`".
UNKNOWN_USER = re.compile(r"\b401\b|unauthorized|not logged in|missing environment variable", re.IGNORECASE)
LOG_IN = (
    "log in: run `codex login` as the user the gateway runs as; or give it a key: "
    '[executors.codex] env = { CODEX_API_KEY = "…" }'
)
# Without these it calls home before each turn (6.6 s where there is no network, else 0.4 s), and one that cannot
# connect tries for ever.
QUIET: Mapping[str, Any] = {
    "check_for_update_on_startup": False,
    "analytics.enabled": False,
    "feedback.enabled": False,
    "otel.metrics_exporter": "none",
    "features.plugins": False,
    "features.apps": False,
    "features.remote_plugin": False,
    "features.unbounded_connection_retries": False,
}


class Settings(Protocol):
    """The `[executors.codex]` table."""

    @property
    def command(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def sandbox(self) -> str: ...

    @property
    def config(self) -> Mapping[str, Any]: ...

    @property
    def env(self) -> Mapping[str, str]: ...


class Codex:
    name = "codex"
    sums = True
    speaks = False  # `codex exec` reads one prompt

    def __init__(self, settings: Settings, security: SecurityContext) -> None:
        self._settings = settings
        self._security = security

    def command(self, job: Job) -> list[str]:
        settings = self._settings
        self._security.agent_dir(job.working_dir)  # it may have become a link since it was chosen
        program = self._security.program(discovery.find("codex", settings.command), settings.command)
        line = [program, "exec", "-C", str(job.working_dir)]
        if settings.sandbox == DANGER:
            self._security.refuse_plain_agent("codex", '[executors.codex] sandbox = "workspace-write"')
            line.append("--dangerously-bypass-approvals-and-sandbox")
        else:
            line += ["-s", settings.sandbox]  # its own default would be read-only
        line += ["--json", "--skip-git-repo-check"]
        model = job.model or settings.model
        if model:
            line += ["-m", model]
        for key, value in overrides({**QUIET, **flat(settings.config)}):
            line += ["-c", f"{key}={value}"]
        if job.thread:
            line += ["resume", job.thread]  # it takes no options behind it
        return [*line, "-"]  # the prompt is on standard input: as an argument it may have 128 KiB

    def environment(self) -> dict[str, str]:
        return self._security.agent_environment(("CODEX_", "OPENAI_"), self._settings.env)

    def said(self, text: str) -> bytes:
        return text.encode("utf-8", "replace")

    def ledger(self, thread: str) -> Path | None:
        """Codex's own record of the thread. Its stream names tokens at the turn's end only, its record after each tool."""
        home = self.environment().get("CODEX_HOME") or os.path.expanduser("~/.codex")  # noqa: PTH111 - a text stays one
        if not thread.replace("-", "").isalnum():
            return None
        return next(Path(home, "sessions").glob(f"*/*/*/rollout-*{thread}.jsonl"), None)

    def parser(self, job: Job) -> CodexEvents:
        return CodexEvents(job.total if job.thread else None, job.turn)

    def hint(self, error: str) -> str:
        return LOG_IN if UNKNOWN_USER.search(error) else ""


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys, as `-c` takes them. A key that is no bare word stays inside its table's value."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and all(_bare(one) for one in value):
            found.update(flat(value, f"{name}."))
        else:
            found[name] = value
    return found


def overrides(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(key, toml(value)) for key, value in config.items() if value is not None]


def toml(value: Any) -> str:
    """A value as TOML writes it on one line. ValueError for what TOML cannot hold."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            # JSON's escapes are TOML's, but for DEL, which TOML wants escaped
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            pairs = (f"{key if _bare(key) else toml(key)}={toml(one)}" for key, one in value.items())
            return "{" + ", ".join(pairs) + "}"
        case Sequence():
            return "[" + ", ".join(toml(one) for one in value) + "]"
    raise ValueError(f"TOML has no value like {value!r}")


def _bare(key: str) -> bool:
    return bool(key) and key.isascii() and key.replace("-", "").replace("_", "").isalnum()
