"""Reading a tree of values into the schema's types, key by key, so that all that is wrong is told at once."""

import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from nanobot.config import problems
from nanobot.config.expand import Path
from nanobot.config.texts import decoded, flag, listed, number

_EXPECTED = {int: "a whole number", float: "a number", bool: "true or false", str: "text in quotes"}


class Reader:
    """Reads values as types. What is wrong is added to `found`; then the result is not to be used.

    msgspec alone would stop at the first problem, and it names places its own way.
    """

    def __init__(self, where: Callable[[Path], str]) -> None:
        self.found: list[str] = []
        self._where = where  # the file or the variable a key came from

    def read(self, kind: Any, given: Any, key: Path = ()) -> Any:
        """The value as `kind`: a Struct, a dict or tuple of such kinds, or a plain type. Unfit values stay."""
        if _is_section(kind):
            return self._section(kind, given, key)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is dict:
            return self._table(arguments[1], given, key)
        if origin is tuple:
            return self._list(arguments[0], given, key)
        return self._plain(kind, given, key)

    def _section(self, kind: type[msgspec.Struct], given: Any, key: Path) -> Any:
        if not isinstance(given, Mapping):
            return self._wrong(given, "a table", key)
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        before = len(self.found)
        values = {}
        for name, field in fields.items():
            if name in given:
                values[field.name] = self.read(field.type, given[name], (*key, name))
            elif field.required:
                self.found.append(
                    problems.missing(self._where((*key, name)), (*key, name), _expected(field.type, None))
                )
        for name in given:
            if name not in fields:
                self.found.append(problems.unknown(self._where((*key, name)), (*key, name), fields))
        return given if len(self.found) > before else kind(**values)

    def _table(self, kind: Any, given: Any, key: Path) -> Any:
        table = given if _is_section(kind) else decoded(given)
        if not isinstance(table, Mapping):
            return self._wrong(table, "a table", key)
        return {name: self.read(kind, value, (*key, name)) for name, value in table.items()}

    def _list(self, kind: Any, given: Any, key: Path) -> Any:
        values = listed(given)
        if not isinstance(values, list):
            return self._wrong(values, "a list of texts", key)
        return tuple(self.read(kind, value, (*key, str(place))) for place, value in enumerate(values))

    def _plain(self, kind: Any, given: Any, key: Path) -> Any:
        bare = _bare(kind)
        value = flag(given) if bare is bool else number(given) if bare in (int, float) else given
        try:
            return msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError:
            return self._wrong(given, _expected(kind, value), key)

    def _wrong(self, given: Any, expected: str, key: Path) -> Any:
        # What was written where a table belongs may hold the secrets of that table.
        hidden = problems.secret(key) or (expected == "a table" and isinstance(given, str | list))
        self.found.append(problems.wrong(self._where(key), key, given, expected, hidden=hidden))
        return given


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _bare(kind: Any) -> Any:
    """A type without its limits and without None."""
    if isinstance(kind, types.UnionType) or get_origin(kind) is not None:
        return kind if get_origin(kind) is Literal else _bare(get_args(kind)[0])
    return kind


def _expected(kind: Any, value: Any) -> str:
    """What a plain type takes; a number that only breaks a limit is told the limit."""
    bare = _bare(kind)
    if get_origin(bare) is Literal:
        *first, last = (repr(choice) for choice in get_args(bare))
        return f"one of {', '.join(first)} or {last}"
    try:
        number = msgspec.convert(value, bare, strict=False)
    except msgspec.ValidationError:
        return _EXPECTED[bare]
    return next((limit for meta in _limits(kind) if (limit := _broken(meta, number))), _EXPECTED[bare])


def _limits(kind: Any) -> list[msgspec.Meta]:
    if get_origin(kind) is Annotated:
        return [meta for meta in kind.__metadata__ if isinstance(meta, msgspec.Meta)]
    return [meta for one in get_args(kind) for meta in _limits(one)]


def _broken(meta: msgspec.Meta, number: float) -> str:
    if meta.gt is not None and not number > meta.gt:
        return f"more than {meta.gt:g}"
    if meta.ge is not None and not number >= meta.ge:
        return f"at least {meta.ge:g}"
    if meta.le is not None and not number <= meta.le:
        return f"at most {meta.le:g}"
    return ""
