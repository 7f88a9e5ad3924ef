"""Rows on their way to the writer, gathered for a moment and then sent together.

A commit costs about the same for one row as for a hundred, so a row that is in no hurry goes along
with the next one that is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from windlass.errors import StoreError
from windlass.store.threaded.jobs import Append, Commit, Jobs

GATHER_SECONDS = 0.01  # no more than a commit takes


class Outbox:
    """The queued rows of one event loop; used by its thread only."""

    __slots__ = ("_going", "_hurried", "_loop", "_put", "_rows")

    def __init__(self, loop: asyncio.AbstractEventLoop, put: Callable[[Jobs], None]) -> None:
        self._loop, self._put = loop, put
        self._rows: list[Append | Commit] = []
        self._going: asyncio.Handle | None = None
        self._hurried = False

    def hold(self, row: Append) -> None:
        """Queue a row; it is sent soon."""
        self._rows.append(row)
        if self._going is None:
            self._going = self._loop.call_later(GATHER_SECONDS, self.send)

    def hurry(self) -> None:
        """Send all rows as soon as the tasks that are ready have run."""
        if self._rows and not self._hurried:
            self._hurried = True
            self._stay()
            self._going = self._loop.call_soon(self.send)

    def send(self, last: Commit | None = None) -> None:
        """Send everything to the writer now, and a commit behind it, in one go: each wakes a thread."""
        self._stay()
        self._hurried = False
        rows, self._rows = self._rows, []
        if not rows and last is None:
            return
        try:
            self._put(rows if last is None else [*rows, last])
        except StoreError as error:  # closed meanwhile: waiters must be told
            for line in dict.fromkeys(row.line for row in rows):
                line.owner.on_settled(line.done, error, True)
            if last is not None:
                raise

    def _stay(self) -> None:
        if self._going is not None:
            self._going.cancel()
            self._going = None


class Outboxes:
    """The outboxes of a store: one for each event loop that writes to it."""

    def __init__(self, put: Callable[[Jobs], None]) -> None:
        self._put = put
        self._by_loop: dict[asyncio.AbstractEventLoop, Outbox] = {}

    def of(self, loop: asyncio.AbstractEventLoop) -> Outbox:
        """Return the outbox of this loop."""
        found = self._by_loop.get(loop)
        if found is None:
            for old in [old for old in self._by_loop if old.is_closed()]:
                self._by_loop.pop(old).send()
            found = self._by_loop[loop] = Outbox(loop, self._put)
        return found

    def send(self) -> None:
        """Send everything now: the store is being closed."""
        for outbox in list(self._by_loop.values()):
            outbox.send()
