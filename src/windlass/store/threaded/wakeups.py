"""Callbacks from a store's thread to the event loops of its journals."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from windlass.errors import Corrupt, StoreError
from windlass.store.threaded.jobs import Append, Commit, Line

Told: TypeAlias = tuple[Callable[..., None], tuple[Any, ...]]

log = logging.getLogger("windlass.store")


class News:
    """Callbacks that are sent together, so that nothing runs between two of them."""

    def __init__(self) -> None:
        self._told: dict[asyncio.AbstractEventLoop, list[Told]] = {}

    def tell(self, loop: asyncio.AbstractEventLoop, what: Callable[..., None], *args: Any) -> None:
        """Queue a callback for that loop."""
        self._told.setdefault(loop, []).append((what, args))

    def say(self) -> None:
        """Send the queued callbacks now."""
        if not self._told:
            return
        queued, self._told = self._told, {}
        for loop, news in queued.items():
            try:
                loop.call_soon_threadsafe(_hear, news)
            except RuntimeError:  # the loop is closed; nothing waits there any more
                pass

    def not_written(self, line: Line, error: StoreError) -> None:
        """Report a failed write; rows stay in their backlog until the next try.

        A disk may get room again and a server come back; what is damaged does not mend, so nobody
        waits for it.
        """
        final = isinstance(error, Corrupt)
        error.unwritten = True
        kept: deque[Append | Commit] = deque()
        for job in line.backlog:
            if not isinstance(job, Commit):
                kept.append(job)
                continue
            job.error, job.entries = job.error or error, ()
            self.tell(line.loop, line.owner.on_committed, job)
            if job.pending.count:
                kept.append(job.pending)
            else:
                line.done += 1
        line.backlog, line.bodies = deque() if final else kept, False
        self.tell(line.loop, line.owner.on_settled, line.done, error, final)


class SteppedNews(News):
    """Callbacks from a thread with an event loop, sent at the end of its step."""

    def __init__(self) -> None:
        super().__init__()
        self.home: asyncio.AbstractEventLoop | None = None

    def tell(self, loop: asyncio.AbstractEventLoop, what: Callable[..., None], *args: Any) -> None:
        """Queue a callback for that loop, sent soon."""
        first = not self._told
        super().tell(loop, what, *args)
        if not first:
            return
        try:
            assert self.home is not None
            self.home.call_soon(self.say)
        except RuntimeError:  # the thread has ended
            self.say()


def _hear(news: list[Told]) -> None:
    """Run the callbacks, on the event loop that they are for."""
    for what, args in news:
        try:
            what(*args)
        except Exception:
            log.exception("a listener of the store failed")
