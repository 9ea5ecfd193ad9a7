"""The security settings of tests, and the context they make."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from nanobot.security.context import SecurityContext


class Settings(msgspec.Struct, frozen=True):
    level: str = "high"
    allow_unsandboxed: bool = False
    network: bool = False
    allowed_hosts: Sequence[str] = ()
    exec_timeout: float = 20
    max_file_mb: int = 10


def security_of(root: Path, *, allowed_dirs: Sequence[str] = (), **settings: Any) -> SecurityContext:
    """The context of a workspace at `root`."""
    return SecurityContext.of(Settings(**settings), root, [root / ".nanobot"], allowed_dirs)
