"""Importing a channel folder, shipped or dropped into a workspace, under the name `channels.<folder>`.

The name is the folder's place in the repository, so a test's `from channels.slack.adapter import …` and the loader
mean the same module, also where the folder comes from a wheel.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from nanobot import content
from nanobot.errors import ChannelDown, ConfigError, MissingExtra
from nanobot.manifest import Manifest, read

PARENT = "channels"


def folder_of(name: str, workspace: Path | None, *, replace: bool = False) -> Path:
    """The folder a channel is loaded from.

    A workspace's folder stands in for a shipped one of the same name only with `replace`: the configuration has to
    name it, since it is code that the gateway runs.
    """
    shipped = content.find("channels", None)
    found = shipped if name in shipped and not replace else content.find("channels", workspace)
    if name not in found:
        raise ConfigError(
            f"There is no channel {name!r}. Put its folder into {workspace}/channels, or remove the table "
            f"[channels.{name}] from config.toml."
        )
    return found[name]


def load_channel(name: str, workspace: Path | None, *, replace: bool = False) -> ModuleType:
    """Import a channel; the module has `create(port)`.

    Raises MissingExtra where its libraries are absent, ConfigError where there is no such channel, and ChannelDown
    where the folder holds no adapter or its code fails.
    """
    folder = folder_of(name, workspace, replace=replace)
    manifest = read(folder)
    entry = folder / "__init__.py"
    if not entry.is_file():
        raise ChannelDown(
            f"This build has no adapter for {manifest.title}: {folder} holds no __init__.py. "
            f"Set enabled = false in [channels.{name}]."
        )
    module = _import(f"{PARENT}.{name}", entry, manifest)
    if not callable(getattr(module, "create", None)):
        raise ChannelDown(f"Channel {name} has no create(port): add it to {entry}.")
    return module


def load_checkup(name: str, workspace: Path | None, *, replace: bool = False) -> ModuleType | None:
    """A channel's `checkup`; None where it has none.

    Its `examine(values)` asks the platform about its set-up. `review(notes, waiting)`, if it is there, says what the
    channel's own durable keys mean for people; `waiting` counts the replies that wait by chat.
    """
    load_channel(name, workspace, replace=replace)
    full = f"{PARENT}.{name}.checkup"
    return importlib.import_module(full) if importlib.util.find_spec(full) else None


def _import(full: str, entry: Path, manifest: Manifest) -> ModuleType:
    loaded = sys.modules.get(full)
    if loaded is not None and _same(loaded, entry):
        return loaded
    forget(manifest.name)
    _parent()
    spec = importlib.util.spec_from_file_location(full, entry, submodule_search_locations=[str(entry.parent)])
    if spec is None or spec.loader is None:
        raise ChannelDown(f"Channel {manifest.name} cannot be imported from {entry}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        forget(manifest.name)
        if manifest.extra and not (error.name or "").startswith((f"{PARENT}.", "nanobot")):
            raise MissingExtra(f"Channel {manifest.name}", manifest.extra) from error
        raise ChannelDown(f"Channel {manifest.name} cannot be imported: {error}.") from error
    except Exception as error:  # a workspace's code can fail in any way; it stops that channel alone
        forget(manifest.name)
        raise ChannelDown(
            f"Channel {manifest.name} cannot be imported: {type(error).__name__}: {error}."
        ) from error
    setattr(sys.modules[PARENT], manifest.name, module)
    return module


def forget(name: str) -> None:
    """Drop a channel's modules: a replaced channel must not pick up its predecessor's submodules."""
    full = f"{PARENT}.{name}"
    for key in [key for key in sys.modules if key == full or key.startswith(f"{full}.")]:
        del sys.modules[key]


def _same(module: ModuleType, entry: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == entry.resolve()


def _parent() -> None:
    """Make sure that a module `channels` is there: relative imports look for it, and a wheel has none.

    A checkout's folder is imported, so that its other channels stay importable; a foreign library of that name
    (Django's) is not: it would run code that is not ours, and children are found in `sys.modules` anyway.
    """
    if PARENT in sys.modules:
        return
    spec = importlib.util.find_spec(PARENT)
    if spec is not None and spec.origin is None:  # a folder without __init__.py
        importlib.import_module(PARENT)
        return
    parent = ModuleType(PARENT, "Holds the loaded channels.")
    parent.__path__ = []
    sys.modules[PARENT] = parent
