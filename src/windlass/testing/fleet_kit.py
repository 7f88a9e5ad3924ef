"""Tests that every engine of a fleet must pass, to be inherited.

```python
class TestMyEngine(FleetKit):
    def store(self, folder):
        return MyStore(folder)

    def engine(self, store):
        return MyEngine(store)
```
An engine carries wake-ups. What they are about is in the store: so a test drives a session by clearing its wish.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from windlass import seams
from windlass.fleet.engine import Fleet, SeenWish
from windlass.store.base import Store
from windlass.store.body_sessions import create_session
from windlass.store.wishes import Transaction, clear_wish, due_wishes, raise_wish, read_wish

QUEUE = "kit@1"


class Drives:
    """A drive that notes what it was called for, and clears the wish."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.order: list[str] = []
        self.most_at_once = 0
        self._running: dict[str, int] = {}
        self.twice = False  # a session was driven by two at once
        self.work: Callable[[str], Awaitable[None]] | None = None
        self._changed = asyncio.Event()

    async def drive(self, session: str, _seen: SeenWish | None = None) -> None:
        """Drive a session: do its work, then clear the wish that was read at the beginning."""
        wish = await self._store.consult(lambda tx: read_wish(tx, session))
        if wish is None or wish.due is None or wish.due > seams.now():
            return
        self.twice = self.twice or session in self._running
        self._running[session] = wish.number
        self.most_at_once = max(self.most_at_once, len(self._running))
        self.order.append(session)
        try:
            if self.work is not None:
                await self.work(session)
            await self._store.commit(lambda tx: clear_wish(tx, session, wish.number))
        finally:
            self._running.pop(session, None)
            self._changed.set()

    async def wait_for(self, count: int) -> None:
        """Wait until so many drives have ended."""
        async with asyncio.timeout(60):
            while len(self.order) < count or self._running:
                self._changed.clear()
                await self._changed.wait()


class FleetKit:
    """A base for test classes, which override how a store and an engine are built."""

    def store(self, folder: Path) -> Store:
        """Build a store under `folder`."""
        raise NotImplementedError

    def engine(self, store: Store) -> Fleet:
        """Build an engine over the store."""
        raise NotImplementedError

    @asynccontextmanager
    async def opened(self, folder: Path) -> AsyncGenerator[tuple[Store, Fleet, Drives]]:
        """Open a store with its engine."""
        store = self.store(folder)
        engine = self.engine(store)
        try:
            yield store, engine, Drives(store)
        finally:
            await store.aclose()

    @asynccontextmanager
    async def serving(
        self, engine: Fleet, drives: Drives, slots: int = 5, queues: tuple[str, ...] = (QUEUE,)
    ) -> AsyncGenerator[None]:
        """Serve while the block runs."""
        task = asyncio.create_task(engine.serve(drives.drive, queues=queues, slots=slots))
        try:
            yield
        finally:
            await engine.stop(30.0)
            await task

    async def submit(
        self, store: Store, session: str, *, queue: str = QUEUE, priority: int = 0, due: float = 1.0
    ) -> None:
        """Raise the wish of a session."""

        def body(tx: Transaction) -> None:
            create_session(tx, session)
            raise_wish(tx, session, agent=QUEUE, queue=queue, priority=priority, due=due)

        await store.commit(body)

    async def test_wish_is_delivered_also_when_nobody_was_woken(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as (store, engine, drives):
            await self.submit(store, "before")
            async with self.serving(engine, drives):
                await self.submit(store, "during")
                await self.submit(store, "woken")
                await engine.wake("woken", queue=QUEUE)
                await drives.wait_for(3)
            assert sorted(drives.order) == ["before", "during", "woken"]
            assert await store.consult(lambda tx: due_wishes(tx, seams.now(), 10)) == []

    async def test_session_is_driven_by_one_at_a_time_and_again_for_a_new_wish(
        self, tmp_path: Path
    ) -> None:
        async with self.opened(tmp_path) as (store, engine, drives):
            began, go_on = asyncio.Event(), asyncio.Event()

            async def work(_session: str) -> None:
                began.set()
                await go_on.wait()

            drives.work = work
            await self.submit(store, "s")
            async with self.serving(engine, drives):
                await began.wait()
                await store.commit(lambda tx: raise_wish(tx, "s", due=1.0))
                await engine.wake("s", queue=QUEUE)
                await engine.wake("s", queue=QUEUE)
                held = await engine.held()
                assert [one.session for one in held] == ["s"]
                go_on.set()
                await drives.wait_for(2)
            assert drives.order == ["s", "s"] and not drives.twice
            assert await engine.held() == []

    async def test_priority_and_delay_are_kept_and_slots_are_the_most_at_once(
        self, tmp_path: Path
    ) -> None:
        async with self.opened(tmp_path) as (store, engine, drives):
            await self.submit(store, "later", priority=9, due=seams.now() + 1.0)
            for n in range(3):
                await self.submit(store, f"plain{n}", due=1.0 + n)
            await self.submit(store, "urgent", priority=5, due=9.0)
            async with self.serving(engine, drives, slots=1):
                await drives.wait_for(5)
            assert drives.order == ["urgent", "plain0", "plain1", "plain2", "later"]
            assert drives.most_at_once == 1

    async def test_other_queues_are_left_alone(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as (store, engine, drives):
            await self.submit(store, "foreign", queue="other@2", priority=9)
            await self.submit(store, "own")
            async with self.serving(engine, drives):
                await drives.wait_for(1)
            assert drives.order == ["own"]
            left = await store.consult(lambda tx: due_wishes(tx, seams.now(), 10))
            assert [wish.session for wish in left] == ["foreign"]

    async def test_drive_that_fails_is_tried_again_and_stops_nobody(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as (store, engine, drives):
            failed: list[str] = []

            async def work(session: str) -> None:
                if session == "bad" and not failed:
                    failed.append(session)
                    raise RuntimeError("once")

            drives.work = work
            await self.submit(store, "bad", priority=9)
            await self.submit(store, "good")
            async with self.serving(engine, drives, slots=1):
                await drives.wait_for(3)
            assert sorted(drives.order) == ["bad", "bad", "good"]

    async def test_second_engine_takes_over_when_the_first_stops(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as (store, engine, drives):
            other = self.engine(store)
            async with self.serving(engine, drives):
                await self.submit(store, "first")
                await drives.wait_for(1)
            async with self.serving(other, drives):
                await self.submit(store, "second")
                await drives.wait_for(2)
            assert drives.order == ["first", "second"]
