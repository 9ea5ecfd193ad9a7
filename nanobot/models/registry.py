"""From a name in the configuration to a model."""

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from nanobot.errors import ConfigError
from nanobot.model import Model

if TYPE_CHECKING:
    from nanobot.models.http import HttpClient, ProviderSettings

KINDS = ("openai", "anthropic", "local", "scripted")


class ModelRegistry:
    """Makes each model once, and shares one connection pool among them.

    `state` is the state directory, where a local model's log goes; image paths are relative to it or to its parent,
    and `read` reads them.
    """

    def __init__(
        self,
        providers: "Mapping[str, ProviderSettings]",
        *,
        context_window: int,
        state: Path,
        read: Callable[[Path], bytes] = Path.read_bytes,
    ) -> None:
        self._providers = providers
        self._context_window = context_window
        self._state = state
        self._read = read
        self._models: dict[str, Model] = {}
        self._client: HttpClient | None = None

    def get(self, name: str) -> Model:
        """The model of a name such as `openai/gpt-5.5`; everything after the first slash is the provider's own name.

        Raises ConfigError for a name that leads nowhere, MissingExtra where a driver's libraries are absent.
        """
        if name not in self._models:
            self._models[name] = self._make(name)
        return self._models[name]

    async def warm(self, name: str) -> None:
        """Do what the first call of a model would wait for: import its library, load its file. Never raises for it."""
        warm = getattr(self.get(name), "warm", None)
        if warm is not None:
            await warm()

    async def close(self) -> None:
        """Close every model, then the pool."""
        models, self._models = self._models, {}
        for model in models.values():
            await model.close()
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _make(self, name: str) -> Model:
        provider, slash, model = name.partition("/")
        if not slash or not model:
            hint = f"; did you mean {next(iter(self._providers), 'openai')}/{name}?"
            raise ConfigError(f"{name!r} is no model: write provider/model{hint}")
        settings = self._providers.get(provider)
        if settings is None:
            raise ConfigError(self._unknown(name, provider))
        if settings.kind not in KINDS:
            near = difflib.get_close_matches(settings.kind, KINDS, 1, 0)
            raise ConfigError(
                f"[models.{provider}] kind = {settings.kind!r} is unknown; it is one of {', '.join(KINDS)}"
                + (f". Did you mean {near[0]!r}?" if near else "")
            )
        # Drivers are imported when the first model of their kind is asked for: start time.
        module = import_module(f"nanobot.models.{settings.kind}")
        if settings.kind == "scripted":
            scripted: Model = module.ScriptedModel(name=name, context_window=self._context_window)
            return scripted
        roots = (self._state.parent, self._state)
        if settings.kind == "local":
            local: Model = module.LocalModel(name, settings, self._state, roots=roots, read=self._read)
            return local
        driver: Callable[..., Model] = (
            module.OpenAIModel if settings.kind == "openai" else module.AnthropicModel
        )
        window = self._context_window
        return driver(name, settings, self._pool(), context_window=window, roots=roots, read=self._read)

    def _pool(self) -> "HttpClient":
        if self._client is None:
            self._client = import_module("nanobot.models.http").HttpClient()
        return self._client

    def _unknown(self, name: str, provider: str) -> str:
        known = sorted(self._providers)
        near = difflib.get_close_matches(provider, known, 1)
        guess = f" Did you mean {near[0]}/{name.partition('/')[2]}?" if near else ""
        have = f"known are {', '.join(known)}" if known else "none is configured"
        return (
            f"No provider {provider!r} for the model {name!r}: {have}.{guess} "
            f"Add a table [models.{provider}] to config.toml, with kind, api_key and base_url."
        )
