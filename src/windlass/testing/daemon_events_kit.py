"""Tests of a daemon's queue of events, which every store must pass; part of `StoreKit`."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from windlass.errors import DaemonQueueFull, DaemonStopped, NoSuchSession
from windlass.events import InboxTaken, Noted, RunEnded, RunResumed, RunStarted
from windlass.json_types import JsonObject
from windlass.store.base import Store
from windlass.store.daemon_events import IDLE, STARTED, STOP, WAKE, NumberTaken
from windlass.testing.store_pieces import add


def daemon_note(name: str, last: int = 0, held: int = 0, capacity: int = 3) -> Noted:
    """Build a note of a daemon about its queue."""
    return Noted(name, {"queue": {"last": last, "held": held, "capacity": capacity}})


def build_event(number: int) -> JsonObject:
    """Build an event as it is posted."""
    return {"number": number, "event": {"kind": "job", "n": number}}


async def post_event(store: Store, session_id: str) -> int:
    """Post the next event; return its number."""
    number = 0
    while True:
        try:
            await store.post(session_id, "event", build_event(number))
            return number
        except NumberTaken as taken:
            number = taken.expected


class DaemonEventsKit:
    """Tests that events are numbered, bounded, and refused for a daemon that is stopped."""

    def opened(self, folder: Path) -> AbstractAsyncContextManager[Store]:
        """Open a store that is closed at the end."""
        raise NotImplementedError

    async def test_events_are_numbered_up_to_the_capacity(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(journal, RunStarted("r", "agent_loop", "me", "p", "m"))
            with pytest.raises(NoSuchSession, match="no daemon"):
                await store.post("s", "event", build_event(1))
            await add(journal, daemon_note(STARTED))
            assert [await post_event(store, "s") for _ in range(3)] == [1, 2, 3]
            with pytest.raises(DaemonQueueFull, match="3 events wait"):
                await post_event(store, "s")
            # taken and not done, it still fills the queue; done, it leaves room
            first = (await store.inbox("s"))[0]
            journal.take(first)
            taken = InboxTaken(first.id, first.kind, first.payload)
            await add(journal, taken, daemon_note(WAKE, 1, 1))
            with pytest.raises(DaemonQueueFull):
                await post_event(store, "s")
            await add(journal, daemon_note(IDLE, 1))
            assert await post_event(store, "s") == 4
            assert [item.fields["number"] for item in await store.inbox("s")] == [2, 3, 4]
            await journal.close()

    async def test_events_at_once_get_different_numbers(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(journal, daemon_note(STARTED, 7, capacity=20))
            await journal.close()
            numbers = await asyncio.gather(*[post_event(store, "s") for _ in range(8)])
            assert sorted(numbers) == list(range(8, 16))
            waiting = [item.fields["number"] for item in await store.inbox("s")]
            assert waiting == list(range(8, 16))

    async def test_events_are_refused_while_the_daemon_is_stopped(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(journal, daemon_note(STARTED), RunEnded("r", "suspended", "asked"))
            assert await post_event(store, "s") == 1  # it waits for an answer and goes on
            for ended in (
                RunEnded("r", "suspended", STOP),
                RunEnded("r", "done"),
                daemon_note(STOP),
            ):
                await add(journal, RunResumed("r", "open", 0), ended)
                with pytest.raises(DaemonStopped):
                    await post_event(store, "s")
            await add(journal, RunResumed("r", "open", 0))
            assert await post_event(store, "s") == 2
            await journal.close()
