"""What a compaction costs and saves, in dollars, with the cache that it breaks."""

from __future__ import annotations

import msgspec

from windlass.loop.reply import cost_of
from windlass.models.base import Model
from windlass.usage import Usage


class Effect(msgspec.Struct, frozen=True):
    """In dollars: what sending the changed part anew costs once, and what each later turn saves."""

    cache_usd: float = 0.0
    saves_usd: float = 0.0

    def pays_after(self, spent: float) -> float:
        """The turns after which it has paid for itself and for `spent` dollars."""
        return (spent + self.cache_usd) / self.saves_usd if self.saves_usd > 0 else float("inf")


def effect_of(model: Model, before: int, after: int, same: int, *, cached: bool) -> Effect:
    """What it does to the bill when a prompt of `before` tokens becomes one of `after`.

    The first `same` of them are as they were. `cached`: the provider has the prompt in its cache.
    """
    if not cached:
        return Effect(0.0, _dollars(model, before) - _dollars(model, after))
    kept = min(same, after)
    anew = _dollars(model, after, read=kept, write=after - kept)
    hit = _dollars(model, after, read=after)
    return Effect(max(0.0, anew - hit), _dollars(model, before, read=before) - hit)


def summary_usd(model: Model, tokens: int, words: int) -> float:
    """What a summary of so many tokens will cost: nobody has them cached in that form."""
    return cost_of(model, Usage(input_tokens=tokens, output_tokens=words * 2)) or 0.0


def _dollars(model: Model, tokens: int, read: int = 0, write: int = 0) -> float:
    usage = Usage(input_tokens=tokens, cache_read_tokens=read, cache_write_tokens=write)
    return cost_of(model, usage) or 0.0
