"""What is wrong with a configuration, in sentences that name file, key and remedy; rules without I/O."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

SECRET_WORDS = ("key", "token", "secret", "password", "headers", "users")
MAX_SHOWN = 60  # characters of a wrong value

_TOML_NAMES = {str: "text", bool: "true/false", int: "number", float: "number", list: "list", dict: "table"}


def dotted(key: Iterable[str | int]) -> str:
    return ".".join(str(part) for part in key)


def secret(key: Sequence[str | int]) -> bool:
    """Whether a key's value must not be shown, by its name."""
    return any(word in str(part).lower() for part in key[1:] for word in SECRET_WORDS)


def got(value: Any, *, hidden: bool) -> str:
    """A wrong value as a message may show it."""
    kind = _TOML_NAMES.get(type(value), type(value).__name__)
    if hidden:
        return f"a {kind} (not shown)"
    shown = repr(value)
    return f"{shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + '…'} ({kind})"


def unknown(where: str, key: Sequence[str | int], known: Iterable[str]) -> str:
    """An unknown key, with its nearest relative where there is one."""
    names = sorted(known)
    near = difflib.get_close_matches(str(key[-1]), names, n=1, cutoff=0.6)
    parent = dotted(key[:-1])
    remedy = (
        f"Did you mean {parent + '.' if parent else ''}{near[0]}?"
        if near
        else f"Remove it; known here: {', '.join(names) or 'nothing'}."
    )
    return f"{where}: {dotted(key)} is no known key. {remedy}"


def wrong(where: str, key: Sequence[str | int], value: Any, expected: str, *, hidden: bool = False) -> str:
    return f"{where}: {dotted(key)} is {got(value, hidden=hidden)}, expected {expected}. Mend the value."


def missing(where: str, key: Sequence[str | int], expected: str) -> str:
    return f"{where}: {dotted(key)} is missing, expected {expected}. Set it."
