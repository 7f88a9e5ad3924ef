"""Files that triggers watch: compared by time, size and inode, on the machine that registered them."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from windlass.conditions.files import describe_file, name_machine
from windlass.conditions.trigger_spec import FileSpec, from_stored_spec
from windlass.json_types import JsonObject, is_object
from windlass.store.base import Store
from windlass.store.trigger_rows import TriggerRow, load_triggers, mark_files

FILE_SECONDS: Final = 2.0  # between two looks at files, at least
MOST_SHARE: Final = (
    0.01  # of the time that looking at files may take: many files are looked at less often
)


class FileWatch:
    """The file triggers of a store that belong to this machine, read again when they change."""

    def __init__(self) -> None:
        self.rows: list[tuple[TriggerRow, tuple[str, ...]]] = []
        self.look_at = 0.0
        self._mark: tuple[int, float, int] | None = None
        self._known: dict[str, list[int] | None] = {}  # files at the last look; none: all are new
        self._watching: dict[str, list[int]] = {}  # which rows watch a file

    async def refresh(self, store: Store) -> None:
        """Read the triggers, if any was added, removed or fired."""
        mark = await store.consult(mark_files)
        if mark == self._mark:
            return
        rows: list[tuple[TriggerRow, tuple[str, ...]]] = []
        for row in await load_triggers(store, "file"):
            if row.state.get("host") == name_machine() and (paths := _paths_of(row)):
                rows.append((row, paths))
        self.rows, self._mark = rows, mark
        self._known, self._watching = {}, {}
        for index, (_, paths) in enumerate(rows):
            for path in paths:
                self._watching.setdefault(path, []).append(index)

    def wait_after(self, now: float, seconds: float) -> None:
        """Look again after a pause, the longer the longer the last look took."""
        self.look_at = now + max(FILE_SECONDS, seconds / MOST_SHARE)

    def forget(self) -> None:
        """Read the triggers anew at the next look."""
        self._mark = None

    def find_changed(self) -> list[tuple[TriggerRow, JsonObject, list[str]]]:
        """Return the triggers with changed files, their new state, and which files."""
        seen = {path: describe_file(path) for path in self._watching}
        known, first = self._known, not self._known
        touched = {
            index
            for path, found in seen.items()
            if first or known.get(path) != found
            for index in self._watching[path]
        }
        self._known = seen
        found: list[tuple[TriggerRow, JsonObject, list[str]]] = []
        for row, paths in [self.rows[index] for index in sorted(touched)]:
            before: object = row.state.get("files")
            before = before if is_object(before) else {}
            now: JsonObject = {path: seen[path] for path in paths}
            changed = [path for path in paths if now[path] != before.get(path)]
            if changed:
                found.append((row, {**row.state, "files": now}, changed))
        return found


def _paths_of(row: TriggerRow) -> tuple[str, ...]:
    try:
        spec = from_stored_spec(row.spec)
    except msgspec.DecodeError:
        return ()
    return spec.paths if isinstance(spec, FileSpec) else ()


_watches: WeakKeyDictionary[Store, FileWatch] = WeakKeyDictionary()


def find_watch(store: Store) -> FileWatch:
    """Return the file triggers of a store, as this process knows them."""
    watch = _watches.get(store)
    if watch is None:
        watch = _watches[store] = FileWatch()
    return watch
