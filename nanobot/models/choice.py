"""Which model a name means: a provider's, with the configured fallbacks behind it, or an agent of others."""

from nanobot.clock import Clock
from nanobot.config import Config
from nanobot.errors import ConfigError
from nanobot.model import Model
from nanobot.models.fallback import FallbackModel
from nanobot.models.registry import ModelRegistry


class Models:
    """Models by name, each with the configured fallbacks behind it."""

    def __init__(self, registry: ModelRegistry, config: Config, clock: Clock) -> None:
        self._registry = registry
        self._config = config
        self._clock = clock
        self._made: dict[str, Model] = {}
        self.outside: dict[str, Model] = {}  # agents of others, which sub-sessions may have for a model

    def __call__(self, name: str | None) -> Model:
        agent = self._config.agent
        wanted = name or agent.model
        if wanted in self.outside:
            return self.outside[wanted]
        if not wanted:
            raise ConfigError(self._config.model_hint)
        if wanted not in self._made:
            names = [wanted, *(one for one in agent.fallbacks if one != wanted)]
            self._made[wanted] = FallbackModel([self._registry.get(one) for one in names], self._clock)
        return self._made[wanted]
