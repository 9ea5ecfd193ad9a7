"""The environment in the configuration: `${VAR}` inside values, and variables that override keys."""

import os
import re
from collections.abc import Mapping
from typing import Any

import msgspec

Path = tuple[str, ...]  # of a key: ("channels", "slack", "bot_token")

_REFERENCE = re.compile(r"(\$)?\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
PREFIX = "NANOBOT_"
DELIMITER = "__"


class Missing(msgspec.Struct, frozen=True):
    """A `${VAR}` without a default whose variable is not set."""

    key: Path
    variable: str


def expand(value: Any, key: Path, missing: list[Missing]) -> Any:
    """Replace `${VAR}` and `${VAR:-default}` in all texts of a tree; `$${VAR}` stays as `${VAR}`.

    As in a shell, the default also stands in for an empty variable. A missing one becomes empty and is noted.
    """
    if isinstance(value, dict):
        return {name: expand(one, (*key, name), missing) for name, one in value.items()}
    if isinstance(value, list):
        return [expand(one, key, missing) for one in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        escaped, variable, default = match.groups()
        if escaped:
            return match.group()[1:]
        found = os.environ.get(variable)
        if default is not None:
            return found or default
        if found is None:
            missing.append(Missing(key, variable))
            return ""
        return found

    return _REFERENCE.sub(replace, value)


def nested(prefix: str, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The variables with this prefix and at least one `__` as a tree of lower-case keys."""
    tree: dict[str, Any] = {}
    for name, value in sorted((os.environ if environ is None else environ).items()):
        if not name.upper().startswith(prefix) or DELIMITER not in name:
            continue
        *parents, last = name[len(prefix) :].lower().split(DELIMITER)
        place = tree
        for parent in parents:
            inner = place.setdefault(parent, {})
            if not isinstance(inner, dict):
                inner = place[parent] = {}  # a deeper key wins over its whole table given as one text
            place = inner
        place[last] = value
    return tree


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two trees as one, key by key; where both have a value, the one above counts."""
    tree = dict(below)
    for name, value in above.items():
        under = tree.get(name)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            tree[name] = merged(under, value)
        else:
            tree[name] = value
    return tree


def variable(prefix: str, key: Path, *, below: bool = False) -> str:
    """The name of the variable that overrides a key now, or (`below`) a key in its table; "" where there is none."""
    wanted = prefix + DELIMITER.join(key).upper()
    names = sorted(os.environ)
    if below:
        return next((name for name in names if name.upper().startswith(wanted + DELIMITER)), "")
    return next((name for name in names if name.upper() == wanted), "")
