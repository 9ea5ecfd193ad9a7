"""From names in the configuration to models."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanobot.errors import ConfigError
from nanobot.model import Finished, Text
from nanobot.models.registry import ModelRegistry
from tests.emulators.anthropic import AnthropicServer
from tests.emulators.openai import OpenAIServer
from tests.emulators.settings import Settings, asks, collect


@pytest.fixture
async def registry(tmp_path: Path) -> AsyncIterator[ModelRegistry]:
    async with OpenAIServer() as openai, AnthropicServer() as anthropic:
        providers = {
            "openrouter": Settings(base_url=openai.url),
            "anthropic": Settings(kind="anthropic", base_url=anthropic.url),
            "test": Settings(kind="scripted"),
            "odd": Settings(kind="antropic"),
        }
        made = ModelRegistry(providers, context_window=1234, state=tmp_path)
        yield made
        await made.close()


@pytest.mark.parametrize("name", ["openrouter/vendor/model", "anthropic/claude", "test/any"])
async def test_a_name_leads_to_its_model_which_answers(registry: ModelRegistry, name: str) -> None:
    model = registry.get(name)
    assert model is registry.get(name)
    assert (model.name, model.context_window, model.small) == (name, 1234, False)
    *words, end = await collect(model.stream(asks("hello there")))
    assert "".join(word.text for word in words if isinstance(word, Text)) == "echo: hello there"
    assert isinstance(end, Finished)


async def test_an_unknown_provider_is_answered_with_the_nearest_and_the_remedy(
    registry: ModelRegistry,
) -> None:
    with pytest.raises(ConfigError, match=r"Did you mean openrouter/x\?.*\[models.openroute\]"):
        registry.get("openroute/x")


async def test_a_name_without_its_provider_is_no_model(registry: ModelRegistry) -> None:
    with pytest.raises(ConfigError, match=r"write provider/model; did you mean openrouter/gpt\?"):
        registry.get("gpt")


async def test_an_unknown_kind_is_answered_with_the_nearest(registry: ModelRegistry) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'anthropic'"):
        registry.get("odd/x")


@pytest.mark.parametrize("name", ["openrouter/vendor/model", "test/any"])
async def test_any_model_can_be_warmed(registry: ModelRegistry, name: str) -> None:
    await registry.warm(name)
    assert isinstance((await collect(registry.get(name).stream(asks("hi"))))[-1], Finished)


def test_making_models_imports_no_http_library() -> None:
    code = (
        "import sys; from pathlib import Path; from nanobot.models.registry import ModelRegistry\n"
        "from tests.emulators.settings import Settings\n"
        "registry = ModelRegistry({'openai': Settings()}, context_window=1, state=Path('.'))\n"
        "registry.get('openai/x')\n"
        "assert 'aiohttp' not in sys.modules, 'start time'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1], timeout=30)
