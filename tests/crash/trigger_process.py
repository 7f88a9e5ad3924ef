"""A process that fires triggers with a clock of its own: `python -m tests.crash.trigger_process FILE SEED STEPS`.

Its clock runs ahead, stands still and steps back, and it may be killed at any moment.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from windlass.conditions.trigger_spec import TimerSpec, from_stored_spec
from windlass.store import open_store
from windlass.store.base import Store
from windlass.store.body_sessions import create_session
from windlass.store.trigger_rows import load_triggers
from windlass.triggers.api import trigger_register
from windlass.triggers.fire import fire_due

SESSION, PROCESSES = "clock", 6
#: Before the clocks of Berlin and New York change, in March and November.
BEGIN = dt.datetime(2026, 3, 20, tzinfo=dt.UTC).timestamp()
SPECS: tuple[dict[str, Any], ...] = (
    {"kind": "timer", "every": "1h"},
    {"kind": "timer", "every": "37m"},
    {"kind": "timer", "cron": "30 2 * * *", "timezone": "Europe/Berlin"},
    {"kind": "timer", "cron": "15 */3 * * *", "timezone": "America/New_York"},
    {"kind": "timer", "cron": "0 0 * * *"},
)


async def fire(path: str, seed: int, steps: int) -> None:
    """Fire what is due at each reading of a clock that nobody can trust."""
    rng, store = random.Random(seed), open_store(f"sqlite:///{path}")
    now = BEGIN
    for _ in range(steps):
        now += rng.choice((0, 60, 900, 3600, 3600, 5400, -1800, -7200, 86_400))
        await fire_due(store, max(now, BEGIN))
    await store.aclose()


def play(folder: Path, steps: int, kills: int, seed: int = 0) -> dict[str, Any]:
    """Let six processes fire the same triggers, kill some, and count what became of them."""
    path, rng = folder / "triggers.db", random.Random(seed)
    asyncio.run(_prepare(path))
    command = [sys.executable, "-m", "tests.crash.trigger_process", str(path)]
    running = [_begin(command, number, steps) for number in range(PROCESSES)]
    killed = 0
    while any(one.poll() is None for one in running):
        if killed < kills:
            at = rng.randrange(PROCESSES)
            try:
                running[at].wait(rng.uniform(0.3, 1.5))
            except subprocess.TimeoutExpired:
                os.kill(running[at].pid, signal.SIGKILL)
                running[at].wait()
                killed += 1
                running[at] = _begin(command, PROCESSES + killed, steps)
        else:
            for one in running:
                one.wait()
    failed = [one.returncode for one in running if one.returncode]
    counts = asyncio.run(_count(path))
    return {"failed": failed, "killed": killed, **counts}


def _begin(command: list[str], seed: int, steps: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*command, str(seed), str(steps)])


async def _prepare(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.commit(lambda tx: create_session(tx, SESSION))
    for number, spec in enumerate(SPECS):
        action = {"kind": "wake", "session": SESSION}
        await trigger_register(spec, action, id=f"t{number}", store=store)
    # They were registered now; their clocks begin in the past.
    for row in await load_triggers(store):
        spec = from_stored_spec(row.spec)
        assert isinstance(spec, TimerSpec)
        due = spec.find_first(BEGIN)
        await store.commit(
            lambda tx, id=row.id, due=due: tx.keep(
                "UPDATE windlass_triggers SET due = ? WHERE id = ? /* windlass */", (due, id)
            )
        )
    await store.aclose()


async def _count(path: Path) -> dict[str, Any]:
    """Compare the firings that the session heard of with the occurrences up to the next one."""
    store = open_store(f"sqlite:///{path}")
    heard, missed = Counter[str](), Counter[str]()
    due = set[tuple[str, int]]()
    for payload in await _read_mail(store):
        heard[payload["trigger"]] += 1
        missed[payload["trigger"]] += payload.get("missed", 0)
        due.add((payload["trigger"], round(payload["at"] - payload.get("late", 0))))
    wrong: list[str] = []
    occurrences = 0
    for row in await load_triggers(store):
        spec = from_stored_spec(row.spec)
        assert isinstance(spec, TimerSpec) and row.due is not None
        passed, at = 0, spec.find_first(BEGIN)
        while at is not None and at < row.due:
            passed, at = passed + 1, spec.find_next(at, at)
        occurrences += passed
        once = len([one for one in due if one[0] == row.id])  # occurrences that were heard of
        known = heard[row.id] + missed[row.id]
        fits = known == passed if spec.every is not None else 0 < known <= passed
        if not heard[row.id] == row.fired == once or not fits:
            fired = f"fired {row.fired} times, heard {heard[row.id]}, missed {missed[row.id]}"
            wrong.append(f"{row.id}: {fired}, of {passed} occurrences")
    await store.aclose()
    return {"occurrences": occurrences, "firings": heard.total(), "wrong": wrong}


async def _read_mail(store: Store) -> list[dict[str, Any]]:
    return [item.fields for item in await store.inbox(SESSION)]  # nobody has taken them


if __name__ == "__main__":
    asyncio.run(fire(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
