"""What the owner decides on, as channels that show it see it: pairing requests and dead letters."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec


class Applicant(msgspec.Struct, frozen=True):
    """Somebody unknown who asked to be let in, or who was."""

    channel: str
    sender: str
    name: str
    code: str  # "" once approved
    status: str  # pending or approved
    created_at: datetime
    expires_at: datetime


class DeadLetter(msgspec.Struct, frozen=True):
    """A reply that did not arrive and is not tried any more."""

    id: int
    session: str
    text: str
    error: str
    status: str  # dead or unknown
    created_at: datetime


class Office(Protocol):
    """What the owner decides on: who is let in, and replies that did not arrive. Asking who calls is the channel's duty."""

    async def applicants(self) -> Sequence[Applicant]: ...

    async def decide(self, channel: str, sender: str, *, admit: bool) -> bool:
        """Let a waiting sender in, or refuse; False where nobody of that name waits."""
        ...

    async def revoke(self, channel: str, sender: str) -> bool: ...

    async def dead_letters(self) -> Sequence[DeadLetter]:
        """Newest first."""
        ...

    async def resend(self, id: int) -> bool: ...

    async def drop(self, id: int) -> bool: ...
