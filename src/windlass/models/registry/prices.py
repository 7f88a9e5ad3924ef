"""Prices and limits of models, read from `prices.toml` on first use.

A model that is not in it works all the same; it counts as free, with one warning, and has
no known limits. `[llm.prices]` of the configuration comes before the table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Final

import msgspec

from windlass.json_types import JsonObject
from windlass.models.registry.defaults import read_price_table
from windlass.models.registry.registry import current_registry
from windlass.usage import Usage

_log = logging.getLogger("windlass")
_unpriced: set[tuple[str, str]] = set()  # models whose unknown price was reported


class Grade(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices for prompts above a number of tokens; they apply to the whole call."""

    above: int
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class ModelInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A catalogue entry: dollars per million tokens, limits in tokens."""

    provider: str
    match: tuple[str, ...]  # patterns of names, the plain name first
    input: float = 0.0
    output: float = 0.0
    cache_read: float | None = None
    cache_write: float | None = None
    long: tuple[Grade, ...] = ()  # the longest last
    context_window: int | None = None
    max_output: int | None = None

    @property
    def name(self) -> str:
        """The model's plain name."""
        return self.match[0]

    def price(self, usage: Usage) -> float:
        """Compute the dollars of this usage; `input_tokens` includes cached tokens."""
        return Tariff(self.input, self.output, self.cache_read, self.cache_write, self.long).price(
            usage
        )


class Tariff(msgspec.Struct, frozen=True):
    """Prices of a model: dollars per million tokens, and per second of a GPU."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float | None = None
    cache_write: float | None = None
    long: tuple[Grade, ...] = ()
    gpu_second: float = 0.0
    known: bool = True

    def price(self, usage: Usage) -> float:
        """Compute the dollars of this usage; `input_tokens` includes cached tokens."""
        grade: Tariff | Grade = self
        for longer in self.long:
            if usage.input_tokens > longer.above:
                grade = longer
        read, write = usage.cache_read_tokens, usage.cache_write_tokens
        fresh = max(0, usage.input_tokens - read - write)
        tokens = (
            fresh * grade.input
            + read * (grade.input if grade.cache_read is None else grade.cache_read)
            + write * (grade.input if grade.cache_write is None else grade.cache_write)
            + usage.output_tokens * grade.output
        )
        return tokens / 1_000_000 + usage.gpu_ms / 1000 * self.gpu_second


#: Self-hosted servers: they have no price per token.
FREE: Final = frozenset({"ollama", "local", "llamacpp", "mlx", "mock"})

_SAME_MODELS: Final = {"vertex": "gemini", "openai-responses": "openai", "azure": "openai"}


def as_of() -> str:
    """Return the date of the prices: `"2026-11-15"`."""
    return read_price_table()["as_of"]


@cache
def models() -> dict[str, tuple[ModelInfo, ...]]:
    """Return every entry, by provider, in the order of the file."""
    found: dict[str, tuple[ModelInfo, ...]] = {}
    for info in msgspec.convert(read_price_table()["model"], list[ModelInfo]):
        found[info.provider] = (*found.get(info.provider, ()), info)
    return found


@lru_cache(maxsize=1024)
def lookup(provider: str, model: str) -> ModelInfo | None:
    """Return the entry for a model: `lookup("anthropic", "claude-sonnet-4-5-20250929")`.

    A router's `vendor/name` that it does not list itself is looked up at its vendor, as is Amazon's
    `us.vendor.name`; a second provider of the same models at the first.
    """
    provider = _SAME_MODELS.get(provider, provider)
    if (info := find_model_info(provider, model)) is not None:
        return info
    vendor, slash, name = model.partition("/")
    if slash and vendor in models() and vendor != provider:
        return lookup(vendor, name) or lookup(vendor, name.replace(".", "-"))
    if provider == "bedrock":
        dotted = model.rpartition("/")[2].split(".")  # an ARN ends in the name
        for at, vendor in enumerate(dotted[:2]):
            if vendor in models() and vendor != provider:
                return lookup(vendor, ".".join(dotted[at + 1 :]))
    return None


def find_model_info(provider: str, model: str) -> ModelInfo | None:
    """Return the provider's own entry for this name."""
    for info in models().get(provider, ()):
        if any(pattern == model or fnmatchcase(model, pattern) for pattern in info.match):
            return info
    return None


def tariff(provider: str, model: str) -> Tariff:
    """Return the prices of a model: those of `[llm.prices]`, else those of the table."""
    info, rate = lookup(provider, model), current_registry().rate(provider, model)
    listed = info is not None and bool(info.input or info.output)
    prices: JsonObject = {"known": listed or rate is not None}
    if info is not None and listed:
        prices |= {name: getattr(info, name) for name in _PRICES}
    if rate is not None:
        own = {
            name: value for name, value in msgspec.structs.asdict(rate).items() if value is not None
        }
        if own.keys() & set(_PRICES):
            prices["long"] = ()  # a configured price is for prompts of every length
        prices |= own
    return Tariff(**prices)


_PRICES: Final = ("input", "output", "cache_read", "cache_write", "long")


def price(provider: str, model: str, usage: Usage) -> float:
    """Return the dollars of this usage: as billed, else by the table; 0 if unknown."""
    if usage.cost_usd is not None:
        return usage.cost_usd
    return price_usage(tariff(provider, model), provider, model, usage)


def price_usage(tariff: Tariff, provider: str, model: str, usage: Usage) -> float:
    """Compute the dollars of a usage by a tariff; warn once for each model without prices."""
    if not tariff.known and (provider, model) not in _unpriced:
        _unpriced.add((provider, model))
        endpoint = current_registry().endpoints.get(provider)
        # Self-hosted models cost nothing.
        if provider != "mock" and (endpoint is None or endpoint.key_env):
            _log.warning(
                'nobody knows the price of %s:%s: it counts as $0; set it in [llm.prices."%s:%s"]',
                provider,
                model,
                provider,
                model,
            )
    return tariff.price(usage)


def names() -> Iterator[tuple[str, str]]:
    """Yield provider and plain name of every entry, as candidates for `did you mean`."""
    for provider, infos in models().items():
        for info in infos:
            yield provider, info.name
