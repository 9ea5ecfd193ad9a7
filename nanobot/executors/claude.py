"""Calls the claude command-line tool. Command lines as tried with 2.1.328 and 2.1.329."""

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

from nanobot.errors import Refused
from nanobot.executor import Job
from nanobot.executors import discovery
from nanobot.executors.claude_events import ClaudeEvents
from nanobot.executors.codex import DANGER_LEVELS
from nanobot.security.environment import passed

DANGER = "bypassPermissions"
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

    def __init__(self, settings: Settings, level: str) -> None:
        self._settings = settings
        self._level = level

    def command(self, job: Job) -> list[str]:
        settings = self._settings
        line = [discovery.find("claude", settings.command), "-p"]
        if settings.allowed_tools:
            line += ["--allowedTools", *settings.allowed_tools]  # takes words up to the next option
        line += ["--output-format", "stream-json", "--verbose"]  # which refuses to stream without it
        line += ["--resume", job.thread] if job.thread else ["--session-id", job.fresh] if job.fresh else []
        if settings.permission_mode == DANGER:
            if self._level not in DANGER_LEVELS:
                raise Refused(
                    f"claude may not run without permissions at security level {self._level}",
                    '[executors.claude] permission_mode = "acceptEdits", or [security] level = "medium"',
                )
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
        return passed(os.environ, ("CLAUDE_", "ANTHROPIC_", "IS_SANDBOX"), {**QUIET, **self._settings.env})

    def parser(self, job: Job) -> ClaudeEvents:
        return ClaudeEvents(job.total if job.thread else None, job.turn)
