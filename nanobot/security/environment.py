"""The environment of commands: built from nothing, so that no key or token of the gateway's own is in it."""

import os
from collections.abc import Mapping, Sequence
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


NETWORK = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
)


def passed(ours: Mapping[str, str], prefixes: Sequence[str], extra: Mapping[str, str]) -> dict[str, str]:
    """Variables for a program that the owner trusts with its own account: its own settings and keys, no others.

    `prefixes` name what belongs to it; `extra` is what the configuration gives it, and wins.
    """
    kept = ("HOME", "USER", "PATH", *PASSED_ON, *NETWORK, *(name.lower() for name in NETWORK))
    found = {name: ours[name] for name in kept if name in ours}
    found.update({name: value for name, value in ours.items() if name.startswith(tuple(prefixes))})
    return {"PATH": PATH, "LANG": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb", **found, **extra}
