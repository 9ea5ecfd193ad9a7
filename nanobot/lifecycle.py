"""The life of a session's workspace: created, initializing, active or idle, error and recovery, the end. Pure."""

from collections.abc import Mapping
from enum import StrEnum

from nanobot.errors import NanobotError


class Stage(StrEnum):
    CREATED = "created"
    INITIALIZING = "initializing"
    ACTIVE = "active"
    IDLE = "idle"
    ERROR = "error"
    RECOVERING = "recovering"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


class IllegalStep(NanobotError):
    """A stage that cannot follow the present one."""


_FORWARD: Mapping[Stage, frozenset[Stage]] = {
    Stage.CREATED: frozenset({Stage.INITIALIZING}),
    Stage.INITIALIZING: frozenset({Stage.ACTIVE}),
    Stage.ACTIVE: frozenset({Stage.IDLE}),
    Stage.IDLE: frozenset({Stage.ACTIVE}),
    Stage.ERROR: frozenset({Stage.RECOVERING}),
    Stage.RECOVERING: frozenset({Stage.ACTIVE}),
    Stage.TERMINATING: frozenset(),
    Stage.TERMINATED: frozenset(),
}
# Whatever lives may fail or be ended; what is being ended can only come to its end.
TABLE: Mapping[Stage, frozenset[Stage]] = {
    Stage.TERMINATED: frozenset(),
    Stage.TERMINATING: frozenset({Stage.TERMINATED}),
    **{
        stage: following | {Stage.ERROR, Stage.TERMINATING} - {stage}
        for stage, following in _FORWARD.items()
        if stage not in {Stage.TERMINATING, Stage.TERMINATED}
    },
}


def advance(present: Stage, wanted: Stage) -> Stage:
    """The wanted stage, where it may follow. Raises IllegalStep."""
    if wanted not in TABLE[present]:
        possible = ", ".join(sorted(TABLE[present])) or "nothing"
        raise IllegalStep(f"{wanted} cannot follow {present}; what can: {possible}")
    return wanted
