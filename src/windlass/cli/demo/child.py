"""A process of the demo: starts or resumes the run, and kills itself when told to.

`python -m windlass.cli.demo.child FOLDER MOMENT PACE MODE` writes every event as a line of JSON.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from windlass import seams
from windlass.agents.agent import Agent
from windlass.cli.demo import shop
from windlass.errors import NoSuchSession
from windlass.events import Event
from windlass.store import open_store

# A moment to die: once this point is passed, at the next pass of that one.
MOMENTS = {
    "before-commit": ("shop.refund_inserted", "journal.before_commit"),
    "after-commit": ("shop.refund_inserted", "journal.after_commit"),
    "after-letter": ("shop.letter_posted", "shop.letter_posted"),
    "never": ("", ""),
}


def die_at(moment: str) -> Callable[[str], None]:
    """Build a watcher of points that kills the process at the moment, as a power cut would."""
    first, then = MOMENTS[moment]
    armed = False

    def on_point(name: str) -> None:
        nonlocal armed
        armed = armed or name == first
        if armed and name == then:
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

    return on_point


def tell(event: Event) -> None:
    """Write an event into the pipe at once: it outlives the process."""
    os.write(1, msgspec.json.encode(event) + b"\n")


async def work(folder: Path, moment: str, pace: float, mode: str) -> None:
    """Start the run, or resume it."""
    place = shop.Shop(folder)
    refund = shop.naive_refund if mode == "naive" else shop.refund
    store = open_store(place.file, add_tables=True)
    agent: Agent[shop.Shop, str] = Agent(
        shop.ScriptedModel(pace),
        system="You are the assistant of a small shop.",
        tools=[shop.look_up_order, refund, shop.write_letter],
        deps=place,
        store=store,
        on_event=tell,
    )
    with seams.watch_points(die_at(moment)):
        try:
            await agent.resume(shop.SESSION)
        except NoSuchSession:  # it was never run, or nothing of that reached the disk
            await agent.run(shop.TASK, session_id=shop.SESSION)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4]))
