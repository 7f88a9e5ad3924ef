"""Usage of model calls in tokens and dollars; values can be added."""

from __future__ import annotations

import msgspec


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens of one or more calls: `Usage(input_tokens=10, output_tokens=5)`; can be added.

    `input_tokens` is the whole prompt; `cache_read_tokens` and `cache_write_tokens` are its cached
    parts. `reasoning_tokens` is the part of the output that was reasoning.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None  # as the provider billed it; None: priced from the catalog
    gpu_ms: float = 0.0  # where a model is paid by the time it computes
    estimated: bool = False  # the provider did not count, or not all: the rest is an estimate

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        cost = self.cost_usd
        if other.cost_usd is not None:
            cost = (cost or 0.0) + other.cost_usd
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            cost,
            self.gpu_ms + other.gpu_ms,
            self.estimated or other.estimated,
        )


NO_USAGE = Usage()
