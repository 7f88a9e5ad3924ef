"""A daemon that reviews changes: it is stopped in the middle of an event, and goes on with it.

python examples/daemon.py
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import windlass as w


class Reviewer(w.Model):
    """Reads one change at a time; a real model would do it better."""

    provider, name = "example", "reviewer"

    def __init__(self) -> None:
        self.reading_long = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        text = request.messages[-1].text
        if "b.py" in text:  # a long one
            self.reading_long.set()
            await self.may_go_on.wait()
        words = f"read: {text}" if text.startswith("Event") else "ready"
        print(f"  {words}")
        message = w.Message("assistant", (w.Text(words),))
        return w.Response(message, w.Usage(20, 5), "end_turn")


async def wait_until_idle(daemon: w.DaemonHandle) -> None:
    """Wait until every event is done."""
    while True:
        snap = await w.daemon_snapshot(daemon)
        if snap.status == "idle" and snap.pending_event_count == 0:
            return
        await asyncio.sleep(0.01)


async def main() -> None:
    folder = Path(tempfile.mkdtemp())
    model = Reviewer()
    async with w.Runtime(store=f"sqlite:///{folder / 'agents.db'}"):
        daemon = await w.daemon_spawn(
            name="reviewer",
            task="Review each change.",
            model=model,
            persist_path=folder / "reviewer",
        )
        await wait_until_idle(daemon)
        for name in ("a.py", "b.py", "c.py"):
            await w.daemon_trigger(daemon, {"kind": "file_changed", "path": name})
        await model.reading_long.wait()
        stopped = await w.daemon_stop(daemon, timeout=0.1)
        numbers = [one["number"] for one in stopped.pending_events]
        print(f"stopped with events {numbers} not done")
        try:
            await w.daemon_trigger(daemon, {"kind": "file_changed", "path": "d.py"})
        except w.DaemonStopped as error:
            print(f"refused: {error}")

    # Another process, another day.
    async with w.Runtime(store=f"sqlite:///{folder / 'agents.db'}"):
        model.may_go_on.set()
        daemon = await w.daemon_resume(folder / "reviewer", model=model)
        await wait_until_idle(daemon)
        snap = await w.daemon_stop(daemon)
        print(f"{snap.status} after {snap.last_event} events, {snap.pending_event_count} waiting")


if __name__ == "__main__":
    asyncio.run(main())
