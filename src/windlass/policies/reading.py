"""What a policy makes of a run's journal, read entry by entry, each once.

Not a policy. What is read from the journal needs no memory of its own: it is the same after a crash
as before it, wherever the process was killed, and nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, TypeVar

from windlass.events import JournalEntry
from windlass.loop.run import Run


class Reading:
    """Something counted or kept from a run's entries. `read` is given those of its `kinds`, in order."""

    kinds: ClassVar[frozenset[type]]
    place = 0  # of the next entry to look at

    def read(self, entry: JournalEntry) -> None:
        """Take one entry into account."""
        raise NotImplementedError


_Kind = TypeVar("_Kind", bound=Reading)


def reading(run: Run, kind: type[_Kind], *given: Hashable) -> _Kind:
    """The run's reading of this kind, up to date: `reading(run, Tally).successful`."""
    key = (kind, given) if given else kind
    found: _Kind | None = run.readings.get(key)
    if found is None:
        found = run.readings[key] = kind(*given)
        found.place = run.first_entry
    entries = run.journal.entries
    if found.place < len(entries):
        kinds = found.kinds
        for entry in entries[found.place :]:
            if type(entry) in kinds:
                found.read(entry)
        found.place = len(entries)
    return found
