"""A view that is being compacted, and the recorded compactions so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from windlass.events import Compacted, IterationStart, Replied, SessionReset
from windlass.loop.reply import cost_of
from windlass.loop.run import Run
from windlass.messages import Message
from windlass.models.base import Model
from windlass.models.estimates import add_weights, estimate_messages, estimate_view
from windlass.policies.compaction.cut import (
    Cut,
    build_replacement,
    could_shed,
    cut_of,
    find_pinned,
    messages_to_archive,
)
from windlass.policies.compaction.recall import NAMES
from windlass.usage import NO_USAGE, Usage

PURPOSE: Final = "compaction"  # of model calls, of changes of the view; and the policy's name


class Compactions(msgspec.Struct, frozen=True):
    """A session's memory of its compactions."""

    times: int = 0
    after: int = 0  # tokens that the last one left
    ceiling: int | None = None  # tokens of a view that its provider refused as too long
    told: bool = False  # it was recorded why nothing can be done


class Work:
    """A view that is being compacted: nothing changes until it is recorded."""

    def __init__(self, run: Run, limit: int, hard: int | None, *, refused: bool) -> None:
        self.hard, self.refused = hard, refused
        self.before = self.size = estimate_view(run.messages)
        self.original = self.messages = list(run.messages)
        self._upto: list[int] | None = run.messages.strand.weights
        self._stay: frozenset[int] | None = None
        self.limit = limit
        self.archived = self.shed = 0
        self.spent = 0.0

    @property
    def upto(self) -> list[int]:
        """The running total of characters for each message."""
        if self._upto is None:
            self._upto = []
            add_weights(self._upto, self.messages)
        return self._upto

    @property
    def stay(self) -> frozenset[int]:
        """The indexes of pinned messages."""
        if self._stay is None:
            self._stay = find_pinned(self.messages)
        return self._stay

    def span(self, start: int, stop: int) -> int:
        """Count the characters of these messages."""
        upto = self.upto
        return (upto[stop - 1] if stop else 0) - (upto[start - 1] if start else 0)

    def cut(self, keep_first: int, keep_last: int) -> Cut | None:
        """Return what may go if so many messages are kept at both ends."""
        return cut_of(self.messages, keep_first, keep_last, self.stay)

    def messages_to_archive(self, cut: Cut) -> list[Message]:
        """Return the messages that go with the cut."""
        return messages_to_archive(self.messages, cut, self.stay)

    def gone_tokens(self, cut: Cut) -> int:
        """Count the tokens that the cut removes."""
        inside = [at for at in self.stay if cut.start <= at < cut.stop]
        return (self.span(*cut) - sum([self.span(at, at + 1) for at in inside])) // 4

    def could_shed(self, cut: Cut) -> int:
        """Estimate the tokens that references can save in the cut."""
        return could_shed(self.upto, cut) // 4

    def with_summary(self, cut: Cut, summary: str) -> list[Message]:
        """Build what would replace the cut."""
        return build_replacement(self.messages, cut, summary, self.stay)

    def size_with(self, cut: Cut, new: Sequence[Message]) -> int:
        """Return the size of the view if these messages replaced the cut."""
        return self.size - self.span(*cut) // 4 + estimate_messages(new)

    def put(self, cut: Cut, new: Sequence[Message], engine: str, size: int | None = None) -> str:
        """Replace the cut by these messages; `size` is that of the new view, if known."""
        size = self.size_with(cut, new) if size is None else size
        if len(new) == cut.stop - cut.start:
            self.shed += self.size - size
        self.size = size
        self.messages = [*self.messages[: cut.start], *new, *self.messages[cut.stop :]]
        self._upto = self._stay = None
        return engine

    def change(self) -> tuple[int, int, list[Message]]:
        """Return the one span of the view that has changed, and its new messages."""
        old, new = self.original, self.messages
        start, most = 0, min(len(old), len(new))
        while start < most and old[start] is new[start]:
            start += 1
        end = 0
        while end < most - start and old[-1 - end] is new[-1 - end]:
            end += 1
        return start, len(old) - end, new[start : len(new) - end]

    @property
    def too_long(self) -> bool:
        """Whether the view is more than can be sent."""
        return self.hard is not None and self.size >= self.hard

    @property
    def progress(self) -> bool:
        """Whether there is less to send than before; after a refusal only tokens count."""
        fewer = len(self.messages) < len(self.original) and not self.refused
        return self.size < self.before or fewer

    @property
    def shortfall(self) -> str | None:
        """The reason why the view is still too large."""
        if self.size < self.limit:
            return None
        return f"what stays comes to about {self.size} tokens, and the threshold is {self.limit}"


def so_far(run: Run) -> tuple[int, Usage]:
    """Return the session's turns, and the provider's usage of the last."""
    entries = run.entries
    read, turns, usage = run.cache.get(so_far, (0, 0, NO_USAGE))
    for entry in entries[read:]:
        if type(entry) is Replied and entry.purpose is None:
            turns, usage = turns + 1, entry.usage
        elif type(entry) is SessionReset:
            turns, usage = 0, NO_USAGE
    run.cache[so_far] = len(entries), turns, usage
    return turns, usage


def on_the_way(run: Run) -> Replied | None:
    """Return a summary of this turn that is recorded but not yet in the view."""
    for entry in reversed(run.entries):
        if type(entry) is Replied and entry.purpose == PURPOSE:
            return entry
        if type(entry) in (IterationStart, Compacted):
            return None
    return None


def recalling(run: Run) -> str | None:
    """Return a free name for the recall tool; None if the model can call no tools."""
    plan, frame = run.plan, run.frame
    if not run.tools and not run.model.native_tools:
        return None
    if frame.settings.tool_choice == "none":
        return None
    if frame.settings.schema is not None and not run.model.capabilities.schema_beside_tools:
        return None
    for name in NAMES:
        if name in plan.denied:
            return None
        if name not in plan.tools:
            return name
    return None


# What a compaction costs and saves, in dollars, with the cache that it breaks.


class Effect(msgspec.Struct, frozen=True):
    """The cost of sending the changed part again, and the dollars saved by each later turn."""

    cache_usd: float = 0.0
    saves_usd: float = 0.0

    def pays_after(self, spent: float) -> float:
        """Return the turns after which it has paid for itself and for `spent` dollars."""
        return (spent + self.cache_usd) / self.saves_usd if self.saves_usd > 0 else float("inf")


def effect_of(model: Model, before: int, after: int, same: int, *, cached: bool) -> Effect:
    """Compute the cost effect of shrinking a prompt from `before` to `after` tokens.

    The first `same` of them are as they were. `cached`: the provider has the prompt in its cache.
    """
    if not cached:
        return Effect(0.0, _dollars(model, before) - _dollars(model, after))
    kept = min(same, after)
    anew = _dollars(model, after, read=kept, write=after - kept)
    hit = _dollars(model, after, read=after)
    return Effect(max(0.0, anew - hit), _dollars(model, before, read=before) - hit)


def summary_usd(model: Model, tokens: int, words: int) -> float:
    """Estimate the cost of a summary of so many tokens, none of them cached."""
    return cost_of(model, Usage(input_tokens=tokens, output_tokens=words * 2)) or 0.0


def _dollars(model: Model, tokens: int, read: int = 0, write: int = 0) -> float:
    usage = Usage(input_tokens=tokens, cache_read_tokens=read, cache_write_tokens=write)
    return cost_of(model, usage) or 0.0
