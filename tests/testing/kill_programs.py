"""Small crash-safe and not so crash-safe programs for the kill sweep to find out about."""

from __future__ import annotations

import contextlib
import sqlite3
import threading

from windlass import seams
from windlass.testing import Scene, Seen


class Ledger:
    """A journal of steps in SQLite: `intended` and `done` for each step."""

    def __init__(self, scene: Scene) -> None:
        self.db = sqlite3.connect(scene.folder / "ledger.db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("CREATE TABLE IF NOT EXISTS steps (step TEXT, state TEXT)")

    def record(self, step: str, state: str) -> None:
        seams.point("ledger.before_commit")
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("INSERT INTO steps VALUES (?, ?)", (step, state))
        self.db.execute("COMMIT")
        seams.point("ledger.after_commit")

    def has(self, step: str, state: str) -> bool:
        found = "SELECT 1 FROM steps WHERE step = ? AND state = ?"
        return self.db.execute(found, (step, state)).fetchone() is not None

    def rows(self) -> list[list[str]]:
        return [list(row) for row in self.db.execute("SELECT step, state FROM steps ORDER BY 1, 2")]


def steps(scene: Scene) -> list[str]:
    return [f"step-{number}" for number in range(scene.params.get("steps", 3))]


def keyed(scene: Scene) -> None:
    """Keep an effect exactly once: its receiver knows the key, so it can be repeated."""
    ledger = Ledger(scene)
    for step in steps(scene):
        if ledger.has(step, "done"):
            continue
        seams.point("effect.before")
        if not scene.effects.counts()[step]:
            scene.effects.write(step)
        seams.point("effect.after")
        ledger.record(step, "done")


async def keyed_async(scene: Scene) -> None:
    keyed(scene)


def doubles(scene: Scene) -> None:
    """Double an effect: it happens before it is recorded, and without a key."""
    ledger = Ledger(scene)
    for step in steps(scene):
        if not ledger.has(step, "done"):
            scene.effects.write(step)
            ledger.record(step, "done")


def loses(scene: Scene) -> None:
    """Lose an effect: it is recorded as done before it is."""
    ledger = Ledger(scene)
    for step in steps(scene):
        if not ledger.has(step, "done"):
            ledger.record(step, "done")
            scene.effects.write(step)


def at_most_once(scene: Scene) -> None:
    """Keep an effect at most once: an intent without an end is marked, not repeated."""
    ledger = Ledger(scene)
    for step in steps(scene):
        if ledger.has(step, "intended"):
            if not ledger.has(step, "done") and not ledger.has(step, "unknown"):
                ledger.record(step, "unknown")
            continue
        ledger.record(step, "intended")
        scene.effects.write(step)
        ledger.record(step, "done")


def unknowns(scene: Scene) -> Seen:
    marked = tuple(step for step, state in Ledger(scene).rows() if state == "unknown")
    return Seen(unknown=marked)


def ledger_is_the_same(scene: Scene) -> Seen:
    return Seen(state=Ledger(scene).rows())


def counts_attempts(scene: Scene) -> None:
    """Leave behind how often it was started, which is wrong."""
    ledger = Ledger(scene)
    ledger.record(f"attempt-{scene.attempt}", "done")


def gives_up(scene: Scene) -> None:
    raise RuntimeError("I do not know how to go on")


def never_returns(scene: Scene) -> None:
    if scene.attempt:
        threading.Event().wait()
    seams.point("only")


def cannot_read(scene: Scene) -> Seen:
    if scene.effects.counts()["step-0"] > 1:
        raise ValueError("the ledger does not parse")
    return Seen()


def finds_a_problem(scene: Scene) -> Seen:
    twice = [key for key, count in scene.effects.counts().items() if count > 1]
    return Seen(problems=tuple(f"{key} was charged twice" for key in twice))


def always_a_problem(scene: Scene) -> Seen:
    return Seen(problems=("it never works",))


def threaded(scene: Scene) -> None:
    """Keep effects exactly once, with the points passed by another thread."""
    worker = threading.Thread(target=keyed, args=(scene,))
    worker.start()
    worker.join()


def quiet(scene: Scene) -> None:
    """Pass no point and commit silently: only a random instant catches it."""
    db = sqlite3.connect(scene.folder / "quiet.db", isolation_level=None)
    with contextlib.closing(db):
        db.execute("CREATE TABLE IF NOT EXISTS t (n)")
        done = db.execute("SELECT count(*) FROM t").fetchone()[0]
        for number in range(done, scene.params["rows"]):
            scene.effects.write(f"row-{number}")
            db.execute("INSERT INTO t VALUES (?)", (number,))
