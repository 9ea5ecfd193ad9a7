"""The four security levels and what each allows, as data. The tables of docs/security.md are made from it.

What a session may do in detail is asked of its `SecurityContext`, and nowhere else.
"""

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
    files: int  # a working directory may hold before write_file refuses new ones; 0 = no limit
    programs: Literal["any", "outside", "named"]  # of outside agents; what they mean is in TITLES
    rights_programs: bool  # su, sudo, mount and the like are there in the sandbox
    plain_agents: bool  # outside agents may be told to work without their own sandbox
    agents_at_state: bool  # outside agents may work in a directory that holds the gateway's state
    pinned_skills: bool  # a skill of the workspace is used only if the owner pinned it
    own_keys: bool  # outside agents get their keys from the gateway's environment too


RULES = {
    SecurityLevel.LOW: Rules(
        plain_exec=True, network="always", web="public", other_chats=True, processes=0, memory_mb=0,
        files=0, programs="any", rights_programs=True, plain_agents=True,
        agents_at_state=True, pinned_skills=False, own_keys=True,
    ),
    SecurityLevel.MEDIUM: Rules(
        plain_exec=True, network="configured", web="public", other_chats=True, processes=1024, memory_mb=8192,
        files=100_000, programs="outside", rights_programs=False, plain_agents=True,
        agents_at_state=True, pinned_skills=False, own_keys=True,
    ),
    SecurityLevel.HIGH: Rules(
        plain_exec=False, network="configured", web="public", other_chats=True, processes=512, memory_mb=4096,
        files=50_000, programs="outside", rights_programs=False, plain_agents=False,
        agents_at_state=True, pinned_skills=False, own_keys=True,
    ),
    SecurityLevel.MAXIMUM: Rules(
        plain_exec=False, network="never", web="listed", other_chats=False, processes=256, memory_mb=2048,
        files=10_000, programs="named", rights_programs=False, plain_agents=False,
        agents_at_state=False, pinned_skills=True, own_keys=False,
    ),
}  # fmt: skip
# How docs/security.md names the rules, in the order of the fields.
TITLES = {
    "plain_exec": "Commands run without bubblewrap where it is missing",
    "network": "Network in the sandbox (`configured`: with `[security] network = true`)",
    "web": "Hosts of `web_fetch` (`listed`: only `allowed_hosts`)",
    "other_chats": "`message` may write to another chat of the channel",
    "processes": "Processes of one command",
    "memory_mb": "Writable memory of each process, MB",
    "files": "Files of a working directory, beyond which `write_file` creates none",
    "programs": "Programs of outside agents (`outside`: not where tools can write; `named`: besides, by a path in `[executors.…] command`)",
    "rights_programs": "`su`, `sudo`, `mount` and the like are there in the sandbox",
    "plain_agents": "Outside agents may work without their own sandbox",
    "agents_at_state": "Outside agents may work in a directory that holds `.nanobot/`, such as the workspace itself",
    "pinned_skills": "Skills of the workspace are used only when they are pinned",
    "own_keys": "Outside agents get keys from the gateway's environment (else only from `[executors.…] env`)",
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


def table() -> list[str]:
    """The levels as rows of Markdown."""
    rows = [f"| | {' | '.join(SecurityLevel)} |", f"|---|{'---|' * len(SecurityLevel)}"]
    for name in Rules.__struct_fields__:
        cells = (_word(getattr(RULES[level], name)) for level in SecurityLevel)
        rows.append(f"| {TITLES[name]} | {' | '.join(cells)} |")
    return rows


def _word(value: bool | int | str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "no limit" if value == 0 else str(value)
