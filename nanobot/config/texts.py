"""Texts that stand for other values: the environment and `${VAR}` know nothing but texts."""

import json
from contextlib import suppress
from typing import Any

_FLAGS = {
    **dict.fromkeys(("true", "yes", "on", "t", "y", "1"), True),
    **dict.fromkeys(("false", "no", "off", "f", "n", "0"), False),
}


def flag(value: Any) -> Any:
    """True or false in one of its usual spellings, 1 and 0 among them; any other value as it is."""
    return _FLAGS.get(str(value).strip().lower(), value) if isinstance(value, str | int) else value


def number(value: Any) -> Any:
    """A number that came as text; any other value as it is."""
    if isinstance(value, str):
        for kind in (int, float):
            with suppress(ValueError):
                return kind(value)
    return value


def listed(value: Any) -> Any:
    """A list that came as text: JSON, or words separated by commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return decoded(value)
    return [word.strip() for word in value.split(",") if word.strip()]


def decoded(value: Any) -> Any:
    """A table that came as text: JSON."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
