"""The four security levels and what each allows, as data. docs/howto/sandbox.md shows the same table."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, Protocol

import msgspec


class SecurityLevel(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    MAXIMUM = "maximum"


class Rules(msgspec.Struct, frozen=True):
    """What a level allows. What no level allows (state, configuration, channels) is not a rule but a boundary."""

    plain_exec: bool  # commands may run without bubblewrap when it is missing
    network: Literal["always", "configured", "never"]  # of commands inside the sandbox
    web: Literal["public", "listed"]  # hosts web_fetch reaches; "listed" = only [security] allowed_hosts
    other_chats: bool  # the message tool may write to a chat other than the one it was called from
    processes: int  # of one command, counted inside the sandbox; 0 = no limit
    memory_mb: int  # writable memory of each process of a command; 0 = no limit


RULES = {
    SecurityLevel.LOW: Rules(
        plain_exec=True, network="always", web="public", other_chats=True, processes=0, memory_mb=0
    ),
    SecurityLevel.MEDIUM: Rules(
        plain_exec=True, network="configured", web="public", other_chats=True, processes=1024, memory_mb=8192
    ),
    SecurityLevel.HIGH: Rules(
        plain_exec=False, network="configured", web="public", other_chats=True, processes=512, memory_mb=4096
    ),
    SecurityLevel.MAXIMUM: Rules(
        plain_exec=False, network="never", web="listed", other_chats=False, processes=256, memory_mb=2048
    ),
}


class SecuritySettings(Protocol):
    """The `[security]` table of the configuration."""

    @property
    def level(self) -> str: ...

    @property
    def allow_unsandboxed(self) -> bool:
        """Commands may run without bubblewrap at any level."""
        ...

    @property
    def network(self) -> bool:
        """Commands in the sandbox have the network, at the levels where this is configurable."""
        ...

    @property
    def allowed_hosts(self) -> Sequence[str]:
        """Host names and networks (CIDR) that web_fetch reaches although they are not public."""
        ...

    @property
    def exec_timeout(self) -> float:
        """Seconds a command has when its call names no time."""
        ...

    @property
    def max_file_mb(self) -> int:
        """The largest file that tools read, write, attach, and that a command may write."""
        ...


def rules(settings: SecuritySettings) -> Rules:
    """The rules of the configured level; ValueError for an unknown one, which the configuration refuses earlier."""
    return RULES[SecurityLevel(settings.level)]
