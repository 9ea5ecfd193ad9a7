"""What a conversation cost: the tokens its turns name, at the prices the configuration names. Pure."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from nanobot.events import Usage

MILLION = 1_000_000
Dollars = Annotated[float, Meta(ge=0)]


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens; `cached` is for input that the provider had cached, by default as `input`."""

    input: Dollars
    output: Dollars
    cached: Dollars | None = None


class Provider(Protocol):
    """A `[models.x]` table."""

    @property
    def prices(self) -> Mapping[str, Price]: ...


class Spent(msgspec.Struct, frozen=True):
    """Tokens, and their price in US dollars; None where a model's price is not known."""

    usage: Usage = Usage()
    dollars: float | None = None


def spent(lines: Iterable[Mapping[str, Any]], providers: Mapping[str, Provider]) -> Spent:
    """What the turns of a history cost; lines name their model and usage where the provider told them."""
    whole = Usage()
    dollars: float | None = None
    unknown = False
    for line in lines:
        found = line.get("usage")
        if not isinstance(found, Mapping):
            continue
        read, cached, written = (_count(found.get(name)) for name in ("input", "cached", "output"))
        usage = Usage(read, written, cached)
        whole += usage
        cost = dollars_for(str(line.get("model", "")), usage, providers)
        if cost is None:
            unknown = True
            continue
        dollars = cost + (dollars or 0.0)
    return Spent(whole, None if unknown else dollars)


def dollars_for(model: str, usage: Usage, providers: Mapping[str, Provider]) -> float | None:
    """What a model's tokens cost; None where its price is not known."""
    price = price_of(model, providers)
    if price is None:
        return None
    kept = price.input if price.cached is None else price.cached
    fresh = max(0, usage.input - usage.cached)
    return (fresh * price.input + usage.cached * kept + usage.output * price.output) / MILLION


def price_of(model: str, providers: Mapping[str, Provider]) -> Price | None:
    """The price of a model by its name, such as `openai/gpt-5.5`."""
    provider, _, name = model.partition("/")
    return providers[provider].prices.get(name) if provider in providers else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
