"""A channel's manifest, `channel.toml`: what can be told about a channel without importing it."""

import re
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from nanobot.errors import ConfigError

FILE = "channel.toml"
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")  # also a Python module's name and a part of session keys

SettingType = Literal["string", "bool", "int", "number", "strings", "table"]
EMPTY: dict[SettingType, Any] = {
    "string": "",
    "bool": False,
    "int": 0,
    "number": 0.0,
    "strings": [],
    "table": {},
}


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key of a channel's table in config.toml.

    `unless` and `when` name another key: required only while that one is empty, or only while it is set.
    """

    type: SettingType
    default: Any = None
    secret: bool = False
    required: bool = False
    unless: str = ""
    when: str = ""
    choices: tuple[str, ...] = ()
    env: str = ""  # the variable a remedy proposes for it
    help: str = ""

    def fallback(self) -> Any:
        """The value of a key that is not given; a fresh object each time."""
        value = EMPTY[self.type] if self.default is None else self.default
        return value.copy() if isinstance(value, dict | list) else value


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a channel is called, which pip extra it needs and which settings it takes."""

    name: str
    title: str
    extra: str = ""
    env: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    settings: dict[str, Setting] = {}

    @property
    def needs(self) -> str:
        return f"pip install 'nanobot[{self.extra}]'" if self.extra else ""


def read(folder: Path) -> Manifest:
    """Read a channel folder's manifest; ConfigError names the file and what to mend."""
    path = folder / FILE
    try:
        manifest = msgspec.convert(tomllib.loads(path.read_text("utf-8")), Manifest)
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path}: missing. A channel folder needs a {FILE} with at least name and title."
        ) from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}. Mend the file.") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}. Check its permissions.") from error
    if manifest.name != folder.name:
        raise ConfigError(
            f"{path}: name is {manifest.name!r} but the folder is {folder.name!r}. Make them equal."
        )
    if not NAME.fullmatch(manifest.name):
        raise ConfigError(
            f"{path}: name {manifest.name!r} must be lower-case letters, digits and _. Rename the folder."
        )
    for key, setting in manifest.settings.items():
        for other in (setting.unless, setting.when):
            if other and other not in manifest.settings:
                raise ConfigError(
                    f"{path}: settings.{key} refers to {other!r}, which is no setting. Mend it."
                )
    return manifest
