"""A daemon to be killed: each event is one keyed effect, and the model counts what it was shown."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import windlass as w
from windlass.daemons.control import daemon_snapshot, daemon_stop, daemon_trigger
from windlass.daemons.start import daemon_resume, daemon_spawn  # loaded before the fork
from windlass.events import JournalEntry, Said
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.testing.kill import Scene, Seen

assert sqlite_store.SqliteStore
NAME, SESSION, EVENTS = "clerk", "daemon-clerk", 3
_NUMBER = re.compile(r"Event (\d+) ")


class Clerk(w.Model):
    """Pays for each event, and says so."""

    provider, name = "clerk", "clerk"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        last = request.messages[-1]
        found = _NUMBER.match(last.text)
        if found is None:
            content: tuple[Any, ...] = (w.Text("ready"),)
            return w.Response(w.Message("assistant", content), w.Usage(10, 5), "end_turn")
        content = (w.ToolCall(f"c{found[1]}", "pay", {"n": int(found[1])}),)
        return w.Response(w.Message("assistant", content), w.Usage(10, 5), "tool_use")


def shown_events(entries: list[JournalEntry]) -> list[tuple[int, bool]]:
    """Return the events that the model was shown, and whether each was marked as a repeat."""
    texts = [entry.message.text for entry in entries if type(entry) is Said]
    found = [(match, text) for text in texts if (match := _NUMBER.match(text)) is not None]
    return [(int(match[1]), "seen this event before" in text) for match, text in found]


async def settle(daemon: w.DaemonHandle, last: int) -> None:
    """Wait until the daemon is idle and this many events are done."""
    for _ in range(5000):
        snap = await daemon_snapshot(daemon)
        done = snap.pending_event_count == 0 and snap.in_flight is None
        if snap.status == "idle" and done and snap.last_event == last:
            return
        await asyncio.sleep(0.002)
    raise AssertionError(f"the daemon is not done: {snap}")


def scenario(scene: Scene) -> None:
    """Give the daemon its events, or go on with what a killed process left."""

    @w.tool(keyed=True)
    async def pay(ctx: w.ToolContext[None], n: int) -> str:
        """Pay; a key counts once."""
        keys = {one.get("idempotency_key") for one in scene.effects.read()}
        if ctx.idempotency_key not in keys:  # one line has both: a kill between two would lose one
            scene.effects.write(f"paid {n}", idempotency_key=ctx.idempotency_key)
        return f"paid {n}"

    options: dict[str, Any] = {
        "model": Clerk(),
        "tools": [pay],
        "persist_path": scene.folder / "snapshot",
    }

    async def run() -> None:
        async with w.Runtime(store=f"sqlite:///{scene.folder / 'runs.db'}"):
            try:
                daemon = await daemon_resume(NAME, **options)
            except w.ConfigError:
                daemon = await daemon_spawn(name=NAME, task="Wait.", **options)
            while (await daemon_snapshot(daemon)).last_event < EVENTS:
                await daemon_trigger(daemon, {"kind": "invoice"})
            await settle(daemon, EVENTS)
            await daemon_stop(daemon)

    asyncio.run(run())


def check(scene: Scene) -> Seen:
    """Look at what the model was shown, in which order."""

    async def look() -> Seen:
        store = open_store(f"sqlite:///{scene.folder / 'runs.db'}")
        entries = await store.read(SESSION)
        left = await store.inbox(SESSION)
        await store.aclose()
        problems: list[str] = []
        if any(item.kind == "event" for item in left):
            problems.append(f"events are left: {left}")
        seen: set[int] = set()
        for number, repeat in shown_events(entries):
            if number in seen and not repeat:
                problems.append(f"event {number} was shown twice without a mark")
            if number not in seen and number != len(seen) + 1:
                problems.append(f"event {number} came after {sorted(seen)}")
            seen.add(number)
        return Seen(state=sorted(seen), problems=tuple(problems))

    return asyncio.run(look())
