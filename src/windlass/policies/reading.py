"""What a policy makes of a run's journal, read entry by entry, each once.

Not a policy. What is read from the journal needs no memory of its own: it is the same after a crash
as before it, wherever the process was killed, and nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, TypeVar

from windlass.events import JournalEntry
from windlass.loop.run import Run


class Reading:
    """Something counted or kept from a run's entries. `read` is given those of its `kinds`, in order."""

    kinds: ClassVar[frozenset[type]]

    def read(self, entry: JournalEntry) -> None:
        """Take one entry into account."""
        raise NotImplementedError


class _Readers:
    """All readings of one run: an entry is looked at once, for everybody who wants its kind."""

    __slots__ = ("by_kind", "first", "place")

    def __init__(self, first: int) -> None:
        self.first = self.place = first  # `place`: of the next entry to look at
        self.by_kind: dict[type, list[Callable[[JournalEntry], None]]] = {}

    def go_on(self, entries: Sequence[JournalEntry]) -> None:
        """Take what is new in the journal into account."""
        by_kind = self.by_kind
        for entry in entries[self.place :]:
            for read in by_kind.get(type(entry), ()):
                read(entry)
        self.place = len(entries)

    def join(self, late: Reading, entries: Sequence[JournalEntry]) -> None:
        """One more reads from here on, and what the others have read before."""
        for entry in entries[self.first : self.place]:
            if type(entry) in late.kinds:
                late.read(entry)
        for kind in late.kinds:
            self.by_kind.setdefault(kind, []).append(late.read)


_Kind = TypeVar("_Kind", bound=Reading)


def reading(run: Run, kind: type[_Kind], *given: Hashable) -> _Kind:
    """The run's reading of this kind, up to date: `reading(run, Tally).successful`."""
    known, entries = run.readings, run.journal.entries
    readers: _Readers | None = known.get(_Readers)
    if readers is None:
        readers = known[_Readers] = _Readers(run.first_entry)
    if readers.place != len(entries):
        readers.go_on(entries)
    key = (kind, given) if given else kind
    found: _Kind | None = known.get(key)
    if found is None:
        found = known[key] = kind(*given)
        readers.join(found, entries)
    return found
