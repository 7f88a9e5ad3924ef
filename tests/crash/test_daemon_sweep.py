"""Kill a daemon anywhere: each event is handled, in order, and shown once or marked as a repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.sizes import pick_size
from windlass.events import JournalEntry, Noted, SessionOpened, ToolResulted
from windlass.store.codec import decode
from windlass.testing import kill_sweep
from windlass.testing.daemon_events_kit import post_event

from . import daemon_scenes as scenes


@pytest.mark.deep
def test_daemon_killed_at_points_of_its_events():
    report = kill_sweep(
        scenes.scenario, check=scenes.check, every=pick_size(9, 1), commits=True, timeout=60
    )
    print(f"\n{report}")
    report.assert_ok()


def build_options(paid: Counter[int]) -> dict[str, Any]:
    """Build the options of a daemon that counts its effects."""

    @w.tool(keyed=True)
    async def pay(n: int) -> str:
        """Pay."""
        paid[n] += 1
        return f"paid {n}"

    return {"model": scenes.Clerk(), "tools": [pay]}


async def tell_whole(store: str) -> list[Sequence[JournalEntry]]:
    """Run a daemon with its events, and return the rows of its journal."""
    async with w.Runtime(store=store, environ={}) as runtime:
        daemon = await w.daemon_spawn(name=scenes.NAME, task="Wait.", **build_options(Counter()))
        for number in range(1, scenes.EVENTS + 1):
            await w.daemon_trigger(daemon, {"kind": "invoice"})
            if number == 1:  # one that waits for the daemon, and others that wait for each other
                await scenes.settle(daemon, 1)
        await scenes.settle(daemon, scenes.EVENTS)
        rows = await runtime.store.rows(scenes.SESSION)
        await w.daemon_stop(daemon)
        return [decode(row.payload, scenes.SESSION, row.seq) for row in rows]


def is_note(entry: JournalEntry, name: str) -> bool:
    return type(entry) is Noted and entry.name == name


async def put_back(runtime: w.Runtime, kept: Sequence[Sequence[JournalEntry]]) -> None:
    """Write a session as a kill after these rows leaves it: the journal and the inbox."""
    journal = await runtime.store.open(scenes.SESSION)
    for row in kept:
        for entry in row:
            if not isinstance(entry, SessionOpened):
                journal.append(entry)
        journal.flush()
    await journal.durable()
    await journal.close()
    taken = sum(is_note(entry, "daemon_wake") for row in kept for entry in row)
    for _ in range(taken, scenes.EVENTS):
        await post_event(runtime.store, scenes.SESSION)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_daemon_goes_on_after_every_row(kind: str, tmp_path: Path):
    def place(name: object) -> str:
        return "memory:" if kind == "memory" else f"sqlite:///{tmp_path}/{name}.db"

    rows = await tell_whole(place("whole"))
    cuts = [
        cut
        for cut in range(1, len(rows) + 1)
        if any(is_note(entry, "daemon_started") for row in rows[:cut] for entry in row)
    ]
    assert len(cuts) > 10
    for cut in cuts:
        kept, paid = rows[:cut], Counter[int]()
        where = f"cut after row {cut} of {len(rows)}"
        async with w.Runtime(store=place(cut), environ={}) as runtime:
            await put_back(runtime, kept)
            daemon = await w.daemon_resume(scenes.NAME, **build_options(paid))
            await scenes.settle(daemon, scenes.EVENTS)
            assert (await w.daemon_stop(daemon)).pending_event_count == 0, where
            entries = await runtime.store.read(scenes.SESSION)
            await runtime.store.verify(scenes.SESSION)
        once = [(number, False) for number in range(1, scenes.EVENTS + 1)]
        assert scenes.shown_events(entries) == once, where
        before = {e.result.text for row in kept for e in row if type(e) is ToolResulted}
        assert {f"paid {n}" for n in paid}.isdisjoint(before), where
        after = {e.result.text for e in entries if type(e) is ToolResulted}
        assert after == {f"paid {n}" for n in range(1, scenes.EVENTS + 1)}, where
        assert all(count == 1 for count in paid.values()), where
