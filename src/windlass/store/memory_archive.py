"""Entries that stay in memory after an unnamed session is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, count, repeat
from operator import is_
from typing import Final

from msgspec import structs

from windlass.events import JournalEntry, RunStarted, ToolDecided, ToolIntended, ToolResulted
from windlass.messages import ToolResult
from windlass.store.model_calls import ON_BOOKS

AUDITED: Final = frozenset({RunStarted, ToolDecided, ToolIntended, ToolResulted})
KEPT: Final = ON_BOOKS | AUDITED
_NO_RESULT: Final = ToolResult()
_SHORT: Final = 200  # characters of a result that is not worth a copy without it


def without_long_results(
    entries: Sequence[JournalEntry], kinds: frozenset[type[JournalEntry]]
) -> list[JournalEntry]:
    """Return the entries of these kinds, without results that may be long."""
    # Nothing here loops in Python: it looks at every entry of every run that ends in memory.
    kept = list(compress(entries, map(kinds.__contains__, map(type, entries))))
    for place in compress(count(), map(is_, map(type, kept), repeat(ToolResulted))):
        entry = kept[place]
        assert isinstance(entry, ToolResulted)
        content = entry.result.content
        if type(content) is not str or len(content) > _SHORT:
            kept[place] = structs.replace(entry, result=_NO_RESULT)
    return kept


def without_arguments(entry: JournalEntry) -> JournalEntry:
    """Return a decision about a call without the arguments of the call."""
    if type(entry) is ToolDecided and entry.arguments is not None:
        return structs.replace(entry, arguments=None)
    return entry
