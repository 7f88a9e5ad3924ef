"""What a policy makes of a run's journal, read entry by entry, each once.

Not a policy. What is read from the journal needs no memory of its own: it is the same after a crash
as before it, wherever the process was killed, and nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from windlass.events import JournalEntry
from windlass.loop.run import Run


class Reading:
    """Something counted or kept from a run's entries. `read` is given each of them, in order."""

    place = 0  # of the next entry to read

    def read(self, entry: JournalEntry) -> None:
        """Take one entry into account."""
        raise NotImplementedError


_Kind = TypeVar("_Kind", bound=Reading)
_kept: WeakKeyDictionary[Run, dict[Hashable, Any]] = WeakKeyDictionary()


def reading(run: Run, kind: type[_Kind], *given: Hashable) -> _Kind:
    """The run's reading of this kind, up to date: `reading(run, Tally).successful`."""
    kept = _kept.get(run)
    if kept is None:
        kept = _kept[run] = {}
    key = (kind, *given)
    found: _Kind | None = kept.get(key)
    if found is None:
        found = kept[key] = kind(*given)
        found.place = run.first_entry
    entries = run.journal.entries
    if found.place < len(entries):
        for index in range(found.place, len(entries)):
            found.read(entries[index])
        found.place = len(entries)
    return found
