"""What the REST answers, as types: docs/openapi.json is made from them, and a test holds the server to it.

The handlers put these objects together from many places, so that no type of the program has their shape. Here every field
is always there, unless its Struct leaves out defaults. The program itself never imports this.
"""

from datetime import datetime
from typing import Any, Literal

import msgspec

from nanobot import channel, goal, session_metrics
from nanobot.executor import Status, Step
from nanobot.lifecycle import Stage


class Error(msgspec.Struct):
    """`code` is for programs, `detail` for people."""

    code: Literal[
        "bad_request", "unauthorized", "forbidden", "not_found", "bad_method", "too_large", "unavailable"
    ]
    detail: str


class Refusal(msgspec.Struct):
    """Every answer but a success."""

    error: Error


class SessionRow(msgspec.Struct, omit_defaults=True):
    """A session. `metadata` holds what commands and goals keep with it."""

    key: str
    channel: str
    chat_id: str
    title: str
    updated_at: str
    running: bool
    created_at: str = ""
    preview: str = ""
    messages: int = 0
    metadata: dict[str, Any] = {}


class SessionList(msgspec.Struct):
    """Newest first. `total` also counts those beyond `limit`."""

    sessions: list[SessionRow]
    total: int


class Media(msgspec.Struct, omit_defaults=True):
    """A file of a message; one without `url` is gone."""

    name: str
    id: str = ""
    url: str = ""
    mime: str = ""
    size: int = 0


class HistoryLine(msgspec.Struct, omit_defaults=True):
    """A message of a history. `message_id` is that of the live frames; `injected` names a message nobody wrote."""

    role: str
    content: Any = None
    timestamp: str = ""
    turn: str = ""
    message_id: str = ""
    tool_calls: list[dict[str, Any]] = []
    tool_call_id: str = ""
    name: str = ""
    reasoning: str = ""
    media: list[Media] = []
    sender: str = ""
    latency_ms: int = 0
    usage: channel.Usage = channel.Usage()
    model: str = ""
    injected: str = ""
    interrupted: bool = False
    error: bool = False


class HistoryPage(msgspec.Struct):
    """Oldest first. `before` is the cursor of the page that precedes, or null."""

    key: str
    messages: list[HistoryLine]
    before: int | None
    total: int


class GoalState(msgspec.Struct, omit_defaults=True):
    """A chat's goal, as docs/protocol.md has it."""

    id: str
    active: bool
    status: goal.Status
    objective: str
    ui_summary: str
    started_at: str
    ended_at: str | None
    recap: str
    budget: goal.Budget
    spent: goal.Spent
    used: float
    step: str = ""
    percent: int | None = None
    question: str = ""
    reason: str = ""
    evidence: str = ""
    checks: list[str] = []
    refusals: list[str] = []


class SessionAbout(channel.About, frozen=True, omit_defaults=True):
    """What a chat's status line says, each where it is known; `context_tokens` are estimated."""

    goal_state: GoalState | None = None  # type: ignore[assignment]


class Git(msgspec.Struct):
    """The repository of a working directory. `dirty` is null where there is no sandbox to look in."""

    path: str
    is_repository: bool
    branch: str
    commit: str
    dirty: bool | None
    changes: int
    remote: str
    commits: int
    last_commit_at: str
    size_mb: float
    problem: str
    detached: bool
    unborn: bool
    identifier: str
    text: str


class TaskFile(msgspec.Struct):
    name: str
    changed_at: str
    open_items: int
    done_items: int
    agent: str


class TaskFiles(msgspec.Struct):
    """TODO.md and the files of tasks/. `assignments` maps a file to who it is assigned to."""

    todo: TaskFile | None
    files: list[TaskFile]
    left_out: int
    assignments: dict[str, str]
    text: str


class WorkingTree(msgspec.Struct):
    path: str
    seen_at: datetime
    git: Git
    tasks: TaskFiles


class Metrics(msgspec.Struct):
    """What a session uses. `error_rate` is of a hundred messages."""

    agents: int
    active: int
    idle: int
    failed: int
    messages: int
    errors: int
    load: session_metrics.Load
    error_rate: float
    stressed: bool
    text: str


class Security(msgspec.Struct):
    """What a session's tools may do."""

    level: str
    root: str
    hidden: list[str]
    read_only: list[str]
    allowed_dirs: list[str]
    sandbox: bool
    plain_exec: bool
    network: bool
    max_file_mb: int
    max_files: int | None


class SessionWorkspace(msgspec.Struct):
    """How a session stands. `project` is null where it cannot be told in time, `security` where tools may not work."""

    key: str
    stage: Stage
    since: datetime | None
    reason: str
    project: WorkingTree | None
    metrics: Metrics
    security: Security | None


class Forked(msgspec.Struct):
    key: str
    chat_id: str


class Renamed(msgspec.Struct):
    """The title as it is kept: one line, at most 200 characters."""

    key: str
    title: str


class Deleted(msgspec.Struct):
    key: str
    deleted: Literal[True]


class Task(msgspec.Struct):
    """A sub-session. `id` is the beginning of `full_id`, `session` the key of its own history."""

    id: str
    full_id: str
    session: str
    executor: str
    state: Status
    status: str
    is_running: bool
    task: str
    turn: int
    updated: str
    updated_secs: int
    last_message: str
    needs_attention: bool
    tokens: int
    error: str


class TaskList(msgspec.Struct):
    """Newest first."""

    children: list[Task]


class Trajectory(msgspec.Struct, omit_defaults=True):
    """What a sub-session did: `steps` for people, `details` with every field of each."""

    success: Literal[True]
    session: str
    session_id: str
    task: str
    mode: Literal["full", "summary"]
    step_count: int
    steps: list[str]
    details: list[Step]
    left_out: int = 0


class Ended(msgspec.Struct):
    ok: Literal[True]


class Hit(msgspec.Struct):
    """`index` counts from the session's first message, archive included."""

    key: str
    title: str
    index: int
    role: str
    excerpt: str
    timestamp: str


class Hits(msgspec.Struct):
    """Those of the newest session first."""

    hits: list[Hit]


class CommandList(msgspec.Struct):
    commands: list[channel.Command]


class Uploaded(msgspec.Struct):
    id: str
    url: str
    name: str
    mime: str
    size: int


class People(msgspec.Struct):
    people: list[channel.Applicant]


class Letters(msgspec.Struct):
    """Newest first."""

    letters: list[channel.DeadLetter]


class Queue(msgspec.Struct):
    """Accepted messages that wait."""

    depth: int
    oldest_seconds: float


class Health(msgspec.Struct, omit_defaults=True):
    """All but `status` is for those who know the owner's token, where there is one."""

    status: Literal["ok", "degraded"]
    channels: dict[str, str] = {}
    queue: Queue | None = None
    turns: int = 0


class Ready(msgspec.Struct):
    ready: bool
