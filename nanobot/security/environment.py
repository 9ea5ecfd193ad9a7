"""The environment of commands: built from nothing, so that no key or token of the gateway's own is in it."""

import os
from collections.abc import Mapping
from pathlib import Path

PATH = "/usr/local/bin:/usr/bin:/bin"
PASSED_ON = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ")


def scrubbed(home: Path, temporary: str = "/tmp", extra: Mapping[str, str] | None = None) -> dict[str, str]:  # noqa: S108 - inside the sandbox it is the command's own
    """Variables for a command that works in `home`; only the language and time zone come from ours."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        "PATH": PATH,
        "HOME": str(home),
        "TMPDIR": temporary,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        **passed_on,
        **(extra or {}),
    }
