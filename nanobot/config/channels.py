"""The channels' tables of the configuration, checked against the `[settings]` of each channel's manifest."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from nanobot.config import problems
from nanobot.config.expand import Path as Key
from nanobot.config.texts import decoded, flag, listed
from nanobot.manifest import Manifest, Setting

_EXPECTED = {
    "string": "text in quotes",
    "bool": "true or false",
    "int": "a whole number",
    "number": "a number",
    "strings": 'a list of texts, such as ["123"]',
    "table": "a table of texts",
}
_ENABLED = Setting(type="bool", default=False, help="Whether the channel is started")


class Values(dict[str, Any]):
    """A channel's settings; showing it does not show its secrets."""

    def __init__(self, values: Mapping[str, Any], hidden: frozenset[str]) -> None:
        super().__init__(values)
        self.hidden = hidden

    def __repr__(self) -> str:
        return repr({key: "***" if key in self.hidden and value else value for key, value in self.items()})


class ChannelSettings(msgspec.Struct, frozen=True):
    """One channel as the configuration has it. `named`: its own table or variable says so, not a default."""

    name: str
    enabled: bool
    values: Mapping[str, Any]
    manifest: Manifest
    folder: Path
    named: bool

    def secrets(self) -> list[str]:
        """The values that must never be shown."""
        found: list[str] = []
        for key, setting in self.manifest.settings.items():
            value = self.values.get(key)
            if setting.secret and value:
                found += value.values() if isinstance(value, dict) else [str(value)]
        return found


def check(
    table: Mapping[str, Any],
    manifest: Manifest,
    folder: Path,
    where: Callable[[Key], str],
    found: list[str],
    *,
    named: bool,
) -> ChannelSettings:
    """Read one channel's table; what is wrong with it is added to `found`."""
    known = {"enabled": _ENABLED} | manifest.settings
    values: dict[str, Any] = {}
    for name in table:
        if name not in known:
            key = ("channels", manifest.name, name)
            found.append(problems.unknown(where(key), key, known))
    for name, setting in known.items():
        key = ("channels", manifest.name, name)
        if name not in table:
            values[name] = setting.fallback()
            continue
        value = convert(table[name], setting)
        if value is None:
            expected = _EXPECTED[setting.type]
            found.append(problems.wrong(where(key), key, table[name], expected, hidden=setting.secret))
            value = setting.fallback()
        elif setting.choices and value not in setting.choices:
            expected = f"one of {', '.join(setting.choices)}"
            found.append(problems.wrong(where(key), key, value, expected, hidden=setting.secret))
        elif setting.secret and isinstance(value, dict) and not all(value.values()):
            found.append(f"{where(key)}: {problems.dotted(key)} has an empty value. Give each name its own.")
        values[name] = value
    hidden = frozenset(name for name, setting in known.items() if setting.secret)
    return ChannelSettings(
        name=manifest.name,
        enabled=bool(values.pop("enabled")),
        values=MappingProxyType(Values(values, hidden)),
        manifest=manifest,
        folder=folder,
        named=named,
    )


def lacking(channel: ChannelSettings, where: Callable[[Key], str]) -> list[str]:
    """The required settings that an enabled channel does not have."""
    found = []
    for name, setting in channel.manifest.settings.items():
        needed = setting.required and not (setting.unless and channel.values[setting.unless])
        if setting.when and not channel.values[setting.when]:
            needed = False
        if needed and not channel.values[name]:
            key = ("channels", channel.name, name)
            example = f"${{{setting.env}}}" if setting.env else "…"
            other = f", or set {setting.unless}" if setting.unless else ""
            found.append(
                f"{where(key)}: {problems.dotted(key)} is not set, and {channel.manifest.title} is enabled. "
                f'Put {name} = "{example}" under [channels.{channel.name}]{other}, or set enabled = false.'
            )
    return found


def convert(value: Any, setting: Setting) -> Any:
    """The value as its type, where it fits; None where it does not. Texts stand for other types: `${PORT}` is one."""
    match setting.type:
        case "string":
            return value if isinstance(value, str) else None
        case "bool":
            value = flag(value)
            return value if isinstance(value, bool) else None
        case "int" | "number":
            return _number(value, whole=setting.type == "int")
        case "strings":
            value = listed(value)
            fits = isinstance(value, list) and all(isinstance(one, str) for one in value)
            return value if fits else None
        case "table":
            value = decoded(value)
            fits = isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
            return value if fits else None


def _number(value: Any, *, whole: bool) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(str(value)) if whole else float(value)
    except ValueError:
        return None
