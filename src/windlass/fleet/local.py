"""The local engine: one process drives the sessions of a store, and a lock says which.

It reads wishes from the store itself, so there is no queue, no lease and nothing to install. Others
stand by, and drive as soon as the lock is free: the kernel frees it with the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from windlass.errors import StoreError, error_text
from windlass.fleet.engine import Drive, Held, SeenWish, Sweep
from windlass.fleet.locks import lock_for
from windlass.store.base import Store
from windlass.store.memory import MemoryStore
from windlass.store.sqlite.store import SqliteStore
from windlass.store.wishes import Transaction, Wish, due_wishes, next_due

LOOK_SECONDS: Final = 0.05  # how soon a change by another process is noticed in a file
ASK_SECONDS: Final = 0.5  # and at a server
REST_SECONDS: Final = 1.0  # until a session is driven again that did not change
LATEST_SECONDS: Final = 30.0  # the longest time without a look at the store

log = logging.getLogger("windlass.fleet")


class _Serving(NamedTuple):
    """A call of `serve` that is under way, and the context that its drives begin in."""

    drive: Drive
    queues: Sequence[str]
    slots: int
    context: contextvars.Context


class LocalFleet:
    """Wake-ups within one process, from the wishes of its store."""

    name = "local"
    exclusive = True

    def __init__(self, store: Store, sweep: Sweep | None = None) -> None:
        self._store, self._sweep = store, sweep
        self._lock = lock_for(store)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._resting: dict[str, tuple[int, float]] = {}  # numbers of wishes that did not change
        self._since: dict[str, float] = {}
        self._serving: list[_Serving] = []
        self._woken: dict[str, str] = {}  # sessions and their queues, by this process
        self._has_more = True  # sessions may wait for one that ends here
        self._changed = asyncio.Event()
        self._stopping = False
        self._looked, self._swept, self._next_sweep = 0.0, 0.0, 0.0
        # Between two looks for triggers, however often wishes are raised; in memory it costs nothing.
        self._rest = 0.0 if isinstance(store, MemoryStore) else LOOK_SECONDS
        self.is_driver = False

    async def prepare(self) -> None:
        """Do nothing: the wishes are all there is."""

    async def wake(
        self, session: str, *, queue: str, priority: int = 0, at: float | None = None
    ) -> None:
        """Drive it soon: the wish is there already."""
        self.wake_here(session, queue=queue, at=at)

    def wake_here(
        self,
        session: str,
        *,
        queue: str,
        at: float | None = None,
        seen: SeenWish | None = None,
    ) -> None:
        """Drive it now if this process drives and has room, or else soon."""
        self._resting.pop(session, None)
        if at is None or at <= self._store.read_clock():
            if not self._woken and self._begin_at_once(session, queue, seen):
                return
            self._woken[session] = queue
        self._changed.set()

    def wake_within(self, tx: Transaction, session: str, *, queue: str, priority: int = 0) -> bool:
        """Return False: who drives looks at the store when it has been committed."""
        return False

    async def serve(self, drive: Drive, *, queues: Sequence[str], slots: int) -> None:
        """Drive sessions that want to run while this process has the lock, until `stop`."""
        self._stopping = False
        store = self._store
        serving = _Serving(drive, queues, slots, contextvars.copy_context())
        self._serving.append(serving)
        if isinstance(store, MemoryStore):
            store.listeners.append(self._changed.set)
        try:
            while not self._stopping:
                self._changed.clear()
                seen = self._stat()
                until = await self._look(serving)
                await self._wait(seen, until)
        finally:
            self._serving.remove(serving)
            if isinstance(store, MemoryStore):
                store.listeners.remove(self._changed.set)
            if not self._tasks:
                await self._release()

    async def stop(self, grace: float) -> None:
        """Take no new sessions, and wait for those under way; then let others drive."""
        self._stopping = True
        self._changed.set()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=grace)
        if not self._tasks:
            await self._release()

    async def held(self) -> list[Held]:
        """List what is driven here."""
        worker = f"pid {os.getpid()}"
        return [Held(session, worker, self._since[session]) for session in self._tasks]

    # ----------------------------------------------------------------------- the loop

    async def _look(self, serving: _Serving) -> float:
        """Start what is due; return when to look again at the latest."""
        queues, slots = serving.queues, serving.slots
        now = self._store.read_clock()
        try:
            if not await self._lock.try_acquire():
                self.is_driver = False
                return now + self._pause
            if not self.is_driver:
                self.is_driver = True
                log.info("this process drives the sessions of %r", self._store)
            is_begun, again = self._start_woken(serving, now), self._looked + LOOK_SECONDS
            if is_begun and self._looked <= now < again:
                return again
            self._looked = now
            later = [now + LATEST_SECONDS]
            if self._sweep is not None:
                later.append(await self._fire(self._sweep, now))
            self._has_more = True
            if len(self._tasks) < slots and queues:
                # Those under way and those that rest are still due: so many more are asked for.
                wanted = tuple(queues)
                most = slots + len(self._tasks) + len(self._resting)
                due, coming = await self._store.consult(
                    lambda tx: (due_wishes(tx, now, most, wanted), next_due(tx, now))
                )
                if coming is not None:
                    later.append(coming)
                later += self._start(serving, due, now)
        except StoreError as error:
            log.warning("the fleet cannot look for work now: %s", error_text(error))
            return now + REST_SECONDS
        return min(later)

    def _begin_at_once(self, session: str, queue: str, seen: SeenWish | None) -> bool:
        """Drive a session without a look, if this process drives, nothing waits and there is room."""
        if self._stopping or self._has_more or not self.is_driver or session in self._tasks:
            return False
        for serving in self._serving:
            if queue in serving.queues and len(self._tasks) < serving.slots:
                self._begin(serving, session, self._store.read_clock(), seen)
                return True
        return False

    def _start_woken(self, serving: _Serving, now: float) -> bool:
        """Drive what was woken in this process, without a look, if there is room for all of it."""
        woken, self._woken = self._woken, {}
        if not woken or self._has_more or len(self._tasks) + len(woken) > serving.slots:
            return False
        for session, queue in woken.items():
            if queue in serving.queues and session not in self._tasks:
                self._begin(serving, session, now)
        return True

    async def _fire(self, sweep: Sweep, now: float) -> float:
        """Fire triggers that are due, unless it was looked a moment ago; return when to look again."""
        again = self._swept + self._rest
        if self._swept <= now < again and self._next_sweep > now:  # unless the clock was set back
            return min(again, self._next_sweep)
        self._swept = now
        self._next_sweep = await sweep(self._store, now) or now + LATEST_SECONDS
        return self._next_sweep

    def _start(self, serving: _Serving, due: list[Wish], now: float) -> list[float]:
        """Drive these wishes; return when those that rest may be tried again."""
        slots = serving.slots
        later: list[float] = []
        self._has_more = False
        for wish in due:
            session = wish.session
            if session in self._tasks:
                continue
            number, until = self._resting.get(session, (0, 0.0))
            if number == wish.number and until > now:
                later.append(until)
                continue
            if len(self._tasks) >= slots:
                self._has_more = True
                break
            self._resting[session] = (wish.number, now + REST_SECONDS)
            self._begin(serving, session, now)
        if len(self._resting) > 4 * slots + 64:
            self._resting = {s: rest for s, rest in self._resting.items() if rest[1] > now}
        return later

    def _begin(
        self, serving: _Serving, session: str, now: float, seen: SeenWish | None = None
    ) -> None:
        self._since[session] = now
        # Not in the context of who submits: that may be a tool of another run.
        self._tasks[session] = asyncio.get_running_loop().create_task(
            self._drive(serving.drive, session, seen), context=serving.context.copy()
        )

    async def _drive(self, drive: Drive, session: str, seen: SeenWish | None) -> None:
        try:
            await drive(session, seen)
        except Exception:
            log.exception("session %s could not be driven", session)
        finally:
            del self._tasks[session], self._since[session]
            # A change of the wish itself is noticed in the file, as those of other processes are.
            if self._has_more or not isinstance(self._store, SqliteStore):
                self._changed.set()

    # ----------------------------------------------------------------------- waiting

    @property
    def _pause(self) -> float:
        return LOOK_SECONDS if isinstance(self._store, SqliteStore) else ASK_SECONDS

    async def _wait(self, seen: object, until: float) -> None:
        """Wait until the store has changed, a session has ended, or the time has come."""
        while not self._changed.is_set() and (left := until - self._store.read_clock()) > 0:
            alone = isinstance(self._store, MemoryStore)
            try:
                pause = left if alone else min(left, self._pause)
                async with asyncio.timeout(pause):  # `wait_for` may lose a cancellation
                    await self._changed.wait()
            except TimeoutError:
                if not alone and (not isinstance(self._store, SqliteStore) or self._stat() != seen):
                    return

    def _stat(self) -> object:
        """Return what changes when another process writes to the file."""
        if not isinstance(self._store, SqliteStore):
            return None
        try:
            found = os.stat(f"{self._store.path}-wal")
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    async def _release(self) -> None:
        self.is_driver = False
        try:
            await self._lock.release()
        except StoreError as error:  # it went with its connection
            log.info("the lock is gone already: %s", error_text(error))
