"""What is wrong with a configuration, in sentences that name file, key and remedy; rules without I/O."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from nanobot.config.expand import Path

SECRET_WORDS = ("key", "token", "secret", "password", "headers", "users")
MAX_SHOWN = 60  # characters of a wrong value

_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text in quotes",
    "list": "a list of texts",
    "tuple": "a list of texts",
    "dict": "a table",
    "model": "a table",
}
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


def of_validation(error: ValidationError, schema: type[BaseModel], where: Callable[[Path], str]) -> list[str]:
    """Pydantic's findings as our sentences; `where` names the file or the variable a key came from."""
    found = []
    for one in error.errors(include_url=False, include_context=True):
        key = tuple(str(part) for part in one["loc"])
        if one["type"] == "extra_forbidden":
            found.append(unknown(where(key), key, known_keys(schema, key[:-1])))
        elif one["type"] == "missing":
            found.append(f"{where(key)}: {dotted(key)} is missing. Set it.")
        else:
            expected = _expected(one["type"], one.get("ctx", {}), one["msg"])
            found.append(wrong(where(key), key, one["input"], expected, hidden=secret(key)))
    return found


def _expected(kind: str, context: dict[str, Any], message: str) -> str:
    if kind == "literal_error":
        return f"one of {context['expected']}"
    limits = {
        "greater_than": "more than {gt:g}",
        "greater_than_equal": "at least {ge:g}",
        "less_than_equal": "at most {le:g}",
    }
    if kind in limits:
        return limits[kind].format(**context)
    return _EXPECTED.get(kind.split("_", maxsplit=1)[0], message)


def known_keys(schema: type[BaseModel], key: Sequence[str]) -> list[str]:
    """The keys a table of the schema may have."""
    place: Any = schema
    for part in key:
        if isinstance(place, type) and issubclass(place, BaseModel):
            field = place.model_fields.get(part)
            place = field.annotation if field else None
        elif get_origin(place) is dict:
            place = get_args(place)[1]
    if isinstance(place, type) and issubclass(place, BaseModel):
        return [field.alias or name for name, field in place.model_fields.items()]
    return []
