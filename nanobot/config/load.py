"""Reading `<workspace>/config.toml` into one Config."""

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from nanobot import content, os_errors
from nanobot.config import channels, problems, providers
from nanobot.config.channels import ChannelSettings
from nanobot.config.expand import PREFIX, Missing, expand, merged, nested, variable
from nanobot.config.expand import Path as Key
from nanobot.config.reader import Reader
from nanobot.config.schema import (
    Agent,
    Delegation,
    Delivery,
    Executors,
    Goals,
    Http,
    Logs,
    ModelSettings,
    Security,
    Sessions,
    Settings,
)
from nanobot.errors import ConfigError
from nanobot.manifest import FILE, read
from nanobot.security import state_key
from nanobot.watch_settings import Watchers
from nanobot.workspace import CONFIG_FILE, state_dir


class Config(msgspec.Struct, frozen=True):
    """Everything that can be set, checked. `model_hint` says how to get a model where there is none."""

    workspace: Path
    agent: Agent
    models: Mapping[str, ModelSettings]
    http: Http
    channels: Mapping[str, ChannelSettings]
    goals: Goals
    delegation: Delegation
    executors: Executors
    watchers: Watchers
    sessions: Sessions
    security: Security
    delivery: Delivery
    logs: Logs
    model_hint: str = ""

    @property
    def file(self) -> Path:
        return self.workspace / CONFIG_FILE

    @property
    def state_dir(self) -> Path:
        return state_dir(self.workspace)

    @property
    def unwritten(self) -> str:
        """That there is no file and defaults apply, in a sentence: often the workspace is a mistyped one."""
        if self.file.exists():
            return ""
        return f"{self.file} is missing: defaults apply. nanobot init makes one; -w names another workspace."

    def enabled(self) -> list[ChannelSettings]:
        return [one for one in self.channels.values() if one.enabled]

    def secrets(self) -> frozenset[str]:
        """All values that logs and messages must never hold."""
        found = {model.api_key for model in self.models.values()}
        for model in self.models.values():
            found.update(model.headers.values())
        for channel in self.channels.values():
            found.update(channel.secrets())
        found.update(os.environ.get(name, "") for name in (state_key.VARIABLE, state_key.NEW_VARIABLE))
        return frozenset(found - {""})


def load(workspace: Path, *, host: str | None = None, port: int | None = None) -> Config:
    """Read and check the configuration; a missing file means defaults. ConfigError lists all that is wrong.

    `host` and `port` replace the file's, as the command line's options.
    """
    file = workspace / CONFIG_FILE
    missing: list[Missing] = []
    tree = expand(_parse(file), (), missing)

    def where(key: Key) -> str:
        for end in range(len(key), 0, -1):
            name = variable(PREFIX, key[:end])
            if name:
                return f"environment variable {name}"
        below = "" if _present(tree, key) else variable(PREFIX, key, below=True)
        return f"environment variable {below}" if below else str(file)

    overrides = nested(PREFIX)
    reader = Reader(where)
    settings: Settings = reader.read(Settings, merged(providers.complete(tree, overrides), overrides))
    if reader.found:
        raise ConfigError("\n".join(reader.found))
    found: list[str] = []
    http = settings.http
    if host is not None or port is not None:
        http = Http(host=host or http.host, port=http.port if port is None else port)
    tables = _channels(settings.channels, workspace, where, found)
    agent, hint = providers.choose(settings, where, found)
    used = {providers.provider(name) for name in (agent.model, *agent.fallbacks)}
    found += [
        f"{file}: {problems.dotted(one.key)} needs the environment variable {one.variable}, which is not set. "
        f"Set it, or write ${{{one.variable}:-…}} with a default."
        for one in missing
        if not variable(PREFIX, one.key) and _matters(one.key, tables, used)
    ]
    reported = {one.key for one in missing}
    for channel in tables.values():
        if channel.enabled and not any(key[:2] == ("channels", channel.name) for key in reported):
            found += channels.lacking(channel, where)
    found += [
        f"{where(tuple(key.split('.')))}: {key} is no regular expression: {reason}. Correct it."
        for key, reason in settings.watchers.problems()
    ]
    _check_host(http, tables, "--host" if host else where(("http", "host")), found)
    if found:
        raise ConfigError("\n".join(found))
    return Config(
        workspace=workspace,
        agent=agent,
        models=settings.models,
        http=http,
        channels=tables,
        goals=settings.goals,
        delegation=settings.delegation,
        executors=settings.executors,
        watchers=settings.watchers,
        sessions=settings.sessions,
        security=settings.security,
        delivery=settings.delivery,
        logs=settings.logs,
        model_hint=hint,
    )


def _parse(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:  # its text names line and column
        raise ConfigError(f"{file}: not valid TOML: {error}. Mend that line.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: byte {error.start} is not UTF-8. Save the file as UTF-8.") from error
    except OSError as error:
        raise ConfigError(os_errors.sentence(error)) from error


def _present(tree: Any, key: Key) -> bool:
    for part in key:
        if not isinstance(tree, dict) or part not in tree:
            return False
        tree = tree[part]
    return True


def _channels(
    tables: Mapping[str, Mapping[str, Any]], workspace: Path, where: Any, found: list[str]
) -> dict[str, ChannelSettings]:
    """The shipped channels and those the configuration names."""
    shipped, all_folders = content.find("channels", None), content.find("channels", workspace)
    result: dict[str, ChannelSettings] = {}
    for name in sorted({*shipped, *tables}):
        named = name in tables
        folder = (all_folders if named else shipped).get(name)
        key = ("channels", name)
        if folder is None:
            found.append(problems.unknown(where(key), key, all_folders))
        elif not named and not (folder / FILE).is_file():
            continue  # an unfinished folder of the checkout is nobody's trouble until it is named
        else:
            try:
                manifest = read(folder)
            except ConfigError as error:
                found.append(str(error))
                continue
            result[name] = channels.check(tables.get(name, {}), manifest, folder, where, found, named=named)
    return result


def _matters(key: Key, tables: Mapping[str, ChannelSettings], used: set[str]) -> bool:
    if key[0] == "channels" and len(key) > 1:
        return key[1] in tables and tables[key[1]].enabled
    if key[0] == "models" and len(key) > 1:
        return key[1] in used
    return key[0] != "executors"  # they say themselves what they lack, when used


def _check_host(http: Http, tables: Mapping[str, ChannelSettings], place: str, found: list[str]) -> None:
    try:
        loopback = http.host == "localhost" or ipaddress.ip_address(http.host).is_loopback
    except ValueError:
        loopback = False
    websocket = tables.get("websocket")
    if not loopback and not (websocket and websocket.values["token"]):
        found.append(
            f"{place}: http.host is {http.host!r}: others could reach the gateway without a token. "
            'Set token = "…" under [channels.websocket], or host = "127.0.0.1".'
        )
