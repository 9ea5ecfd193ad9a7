"""What a conversation cost: from the tokens its lines name and the prices of the configuration."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from nanobot.config import load
from nanobot.errors import ConfigError
from nanobot.events import Usage
from nanobot.pricing import Provider, Spent, spent
from nanobot.testing_port import line

PRICED = """
[models.openai]
api_key = "k"
[models.openai.prices]
"gpt-5.5" = { input = 2, cached = 0.5, output = 10 }
"vendor/mini" = { input = 1, output = 4 }
"""


def answered(model: str, **usage: int) -> dict[str, object]:
    return {**line("assistant", "yes", "1"), "model": model, "usage": usage}


def prices(folder: Path, text: str = PRICED) -> Mapping[str, Provider]:
    (folder / "config.toml").write_text(text)
    return load(folder).models


def test_turns_are_added_up_at_the_price_of_their_model(tmp_path: Path) -> None:
    lines = [
        line("user", "hello", "1"),
        answered("openai/gpt-5.5", input=1_000_000, cached=600_000, output=100_000),
        answered("openai/vendor/mini", input=500_000, output=250_000),
    ]

    assert spent(lines, prices(tmp_path)) == Spent(
        Usage(1_500_000, 350_000, 600_000), 0.8 + 0.3 + 1.0 + 0.5 + 1.0
    )


@pytest.mark.parametrize("model", ["openai/other", "ollama/gpt-5.5", "gpt-5.5", ""])
def test_a_model_without_a_price_leaves_tokens_only(tmp_path: Path, model: str) -> None:
    lines = [answered("openai/gpt-5.5", input=10, output=1), answered(model, input=5, output=2)]

    assert spent(lines, prices(tmp_path)) == Spent(Usage(15, 3))


def test_nothing_said_costs_nothing_that_could_be_told(tmp_path: Path) -> None:
    odd = {
        **line("assistant", "x", "1"),
        "usage": {"input": "many", "output": None},
        "model": "openai/gpt-5.5",
    }

    assert spent([line("user", "hello", "1")], prices(tmp_path)) == Spent()
    assert spent([odd, {**odd, "usage": 7}], prices(tmp_path)) == Spent(Usage(), 0.0)


@pytest.mark.parametrize(
    "price", ["{ input = -1, output = 1 }", "{ output = 1 }", "{ input = 1, output = 1, tax = 1 }"]
)
def test_a_price_that_is_none_is_told_with_its_key(tmp_path: Path, price: str) -> None:
    with pytest.raises(ConfigError, match="prices"):
        prices(tmp_path, f'[models.openai]\napi_key = "k"\nprices = {{ "gpt-5.5" = {price} }}\n')
