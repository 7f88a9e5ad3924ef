"""Facts that policies read from a run's journal: each entry is read once for all.

What is read from the journal needs no memory of its own: it is the same after a crash as before it,
wherever the process was killed, and nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from windlass.events import JournalEntry

Take: TypeAlias = Callable[[Any], None]


class Facts:
    """Something counted or kept from a run's entries, in their order: `run.facts(Kind)`."""

    def takes(self) -> Mapping[type, Take]:
        """Return the function for each kind of entry that is read."""
        raise NotImplementedError


class FactReader:
    """All facts of one run, read from the journal together."""

    __slots__ = ("by_kind", "first", "place")

    def __init__(self, first: int) -> None:
        self.first = self.place = first  # `place`: of the next entry to look at
        self.by_kind: dict[type, list[Take]] = {}

    def read(self, entries: Sequence[JournalEntry]) -> None:
        """Take what is new in the journal into account."""
        find = self.by_kind.get
        for entry in entries[self.place :]:
            if (takes := find(type(entry))) is not None:
                for take in takes:
                    take(entry)
        self.place = len(entries)

    def join(self, late: Facts, entries: Sequence[JournalEntry]) -> None:
        """Add facts of one more kind, with what the others have read before."""
        takes = late.takes()
        for entry in entries[self.first : self.place]:
            if (take := takes.get(type(entry))) is not None:
                take(entry)
        for kind, take in takes.items():
            self.by_kind.setdefault(kind, []).append(take)
