"""What a policy makes of a run's journal, read entry by entry, each once.

Not a policy. What is read from the journal needs no memory of its own: it is the same after a crash
as before it, wherever the process was killed, and nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from windlass.events import JournalEntry
from windlass.loop.run import Run

Take: TypeAlias = Callable[[Any], None]


class Reading:
    """Something counted or kept from a run's entries, in their order."""

    def takes(self) -> Mapping[type, Take]:
        """What takes an entry into account, for each kind that matters."""
        raise NotImplementedError


class _Readers:
    """All readings of one run: an entry is looked at once, for everybody who wants its kind."""

    __slots__ = ("by_kind", "first", "place")

    def __init__(self, first: int) -> None:
        self.first = self.place = first  # `place`: of the next entry to look at
        self.by_kind: dict[type, list[Take]] = {}

    def go_on(self, entries: Sequence[JournalEntry]) -> None:
        """Take what is new in the journal into account."""
        find = self.by_kind.get
        for entry in entries[self.place :]:
            if (takes := find(type(entry))) is not None:
                for take in takes:
                    take(entry)
        self.place = len(entries)

    def join(self, late: Reading, entries: Sequence[JournalEntry]) -> None:
        """One more reads from here on, and what the others have read before."""
        takes = late.takes()
        for entry in entries[self.first : self.place]:
            if (take := takes.get(type(entry))) is not None:
                take(entry)
        for kind, take in takes.items():
            self.by_kind.setdefault(kind, []).append(take)


_Kind = TypeVar("_Kind", bound=Reading)


def reading(run: Run, kind: Callable[..., _Kind], given: Hashable = None) -> _Kind:
    """The run's reading of this kind, up to date: `reading(run, Tally).successful`."""
    known, entries = run.readings, run.journal.entries
    readers: _Readers | None = known.get(_Readers)
    if readers is None:
        readers = known[_Readers] = _Readers(run.first_entry)
    if readers.place != len(entries):
        readers.go_on(entries)
    key = kind if given is None else (kind, given)
    found: _Kind | None = known.get(key)
    if found is None:
        found = known[key] = kind() if given is None else kind(given)
        readers.join(found, entries)
    return found
