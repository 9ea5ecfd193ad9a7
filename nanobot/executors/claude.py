"""Calls the claude command-line tool. Command lines as tried with 2.1.328 and 2.1.329."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from nanobot.executor import Job
from nanobot.executors import discovery
from nanobot.executors.claude_events import ClaudeEvents
from nanobot.security.context import SecurityContext

DANGER = "bypassPermissions"
# Seen with 2.1.329: "Not logged in · Please run /login", "authentication_failed", "Invalid API key · …".
UNKNOWN_USER = re.compile(
    r"not logged in|/login|authentication|invalid api key|\b401\b|oauth token", re.IGNORECASE
)
LOG_IN = (
    "log in: run `claude` as the user the gateway runs as and type /login; or set ANTHROPIC_API_KEY for the gateway, "
    "or in [executors.claude] env"
)
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",  # alone enough for no outside connection at all
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
}


class Settings(Protocol):
    """The `[executors.claude]` table."""

    @property
    def command(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def permission_mode(self) -> str: ...

    @property
    def max_budget_usd(self) -> float | None: ...

    @property
    def allowed_tools(self) -> Sequence[str]: ...

    @property
    def env(self) -> Mapping[str, str]: ...


class Claude:
    name = "claude"
    sums = False
    speaks = True  # tried with 2.1.329: what is said meanwhile is heard after the tool that runs

    def __init__(self, settings: Settings, security: SecurityContext) -> None:
        self._settings = settings
        self._security = security

    def command(self, job: Job) -> list[str]:
        settings = self._settings
        self._security.agent_dir(job.working_dir)  # it may have become a link since it was chosen
        line = [self._security.program(discovery.find("claude", settings.command), settings.command), "-p"]
        if settings.allowed_tools:
            line += ["--allowedTools", *settings.allowed_tools]  # takes words up to the next option
        # It refuses to stream without --verbose. What is said to it comes back in its stream, for the trajectory.
        line += ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        line.append("--replay-user-messages")
        line += ["--resume", job.thread] if job.thread else ["--session-id", job.fresh] if job.fresh else []
        if settings.permission_mode == DANGER:
            self._security.refuse_plain_agent("claude", '[executors.claude] permission_mode = "acceptEdits"')
            line.append("--dangerously-skip-permissions")
        else:
            line += ["--permission-mode", settings.permission_mode]
        model = job.model or settings.model
        if model:
            line += ["--model", model]
        if settings.max_budget_usd is not None:
            line += ["--max-budget-usd", format(settings.max_budget_usd, ".10f").rstrip("0").rstrip(".")]
        return line

    def environment(self) -> dict[str, str]:
        prefixes = ("CLAUDE_", "ANTHROPIC_", "IS_SANDBOX")
        return self._security.agent_environment(prefixes, {**QUIET, **self._settings.env})

    def said(self, text: str) -> bytes:
        return json.dumps({"type": "user", "message": {"role": "user", "content": text}}).encode() + b"\n"

    def ledger(self, thread: str) -> Path | None:  # noqa: ARG002 - its own stream tells it
        return None

    def parser(self, job: Job) -> ClaudeEvents:
        return ClaudeEvents(job.total if job.thread else None, job.turn)

    def hint(self, error: str) -> str:
        return LOG_IN if UNKNOWN_USER.search(error) else ""
