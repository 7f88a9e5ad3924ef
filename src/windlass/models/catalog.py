"""What is known of models: prices, limits, abilities. Read from `catalog.toml` at the first question.

A model that is not in it works all the same; it costs nothing on paper and has no known limits.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, Literal

import msgspec

from windlass.models.capabilities import Wire
from windlass.usage import Usage


class ModelInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry: dollars per million tokens, limits in tokens."""

    provider: str
    match: tuple[str, ...]  # patterns of names, the plain name first
    input: float = 0.0
    output: float = 0.0
    cache_read: float | None = None
    cache_write: float | None = None
    context_window: int | None = None
    max_output: int | None = None
    native_tools: bool = True
    reasoning: bool = False
    # how Anthropic is asked to think: with a budget, as it sees fit, either way, or it always does
    # and Gemini: with a budget, or by one of a few levels
    thinking: Literal["", "budget", "adaptive", "both", "always", "level"] = ""
    thinking_budget: tuple[int, int] = (0, 32_768)  # the least and the most tokens
    thinking_levels: tuple[Literal["minimal", "low", "medium", "high"], ...] = ()
    thinking_off: bool = True  # can be told not to think at all
    signs_calls: bool = False  # refuses calls in the history that carry no signature
    media_results: bool = False  # takes pictures and documents inside a tool's result
    sampling: bool = True  # takes temperature, top_p and top_k
    wire: Wire | None = None  # the only one it is served over, where that is not its provider's

    @property
    def name(self) -> str:
        """The model's plain name."""
        return self.match[0]

    def price(self, usage: Usage) -> float:
        """Dollars for this usage; `input_tokens` includes what was cached."""
        read, write = usage.cache_read_tokens, usage.cache_write_tokens
        fresh = max(0, usage.input_tokens - read - write)
        return (
            fresh * self.input
            + read * (self.input if self.cache_read is None else self.cache_read)
            + write * (self.input if self.cache_write is None else self.cache_write)
            + usage.output_tokens * self.output
        ) / 1_000_000


_SAME_MODELS: Final = {"vertex": "gemini"}


@cache
def models() -> dict[str, tuple[ModelInfo, ...]]:
    """Every entry, by provider, in the order of the file."""
    text = files("windlass.models").joinpath("catalog.toml").read_text(encoding="utf-8")
    entries = msgspec.convert(tomllib.loads(text)["model"], list[ModelInfo])
    found: dict[str, tuple[ModelInfo, ...]] = {}
    for info in entries:
        found[info.provider] = (*found.get(info.provider, ()), info)
    return found


@lru_cache(maxsize=1024)
def lookup(provider: str, model: str) -> ModelInfo | None:
    """The entry for a model: `lookup("anthropic", "claude-sonnet-4-5-20250929")`.

    A router's `vendor/name` that it does not list itself is looked up at its vendor, as is Amazon's
    `us.vendor.name`; a second door to the same models at the first.
    """
    provider = _SAME_MODELS.get(provider, provider)
    if (info := listed(provider, model)) is not None:
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


def listed(provider: str, model: str) -> ModelInfo | None:
    """The entry that the provider has of its own for this name."""
    for info in models().get(provider, ()):
        if any(pattern == model or fnmatchcase(model, pattern) for pattern in info.match):
            return info
    return None


def price(provider: str, model: str, usage: Usage) -> float:
    """Dollars for this usage: as billed where the provider said so, 0 where nobody knows."""
    if usage.cost_usd is not None:
        return usage.cost_usd
    info = lookup(provider, model)
    return 0.0 if info is None else info.price(usage)


def names() -> Iterator[tuple[str, str]]:
    """Provider and plain name of every entry: what `did you mean` chooses from."""
    for provider, infos in models().items():
        for info in infos:
            yield provider, info.name
