"""The large sizes of the tests of workflows, worktrees, daemons and triggers: `make prove-workflows`.

Prints the page `bench/WORKFLOWS.md`. An argument divides the sizes: 4 is a fourth of the kills.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from windlass.testing import kill_sweep
from windlass.testing.kill import KillReport

from . import daemon_scenes, trigger_process, waking_scenes, workflow_scenes, worktree_scenes
from .test_workflow_sweep import cut_rows

HEAD = """# Workflows, worktrees, daemons and triggers, killed

Written by `make prove-workflows`: `tests/crash/workflow_proof.py` says what is played. A trouble is an output that differs, an effect that is
lost or doubled, a step that was begun again after its end, a worktree that is not whole, an event out of order, or a run that does not end.

| what | kills | at | lost | doubled | troubles |
|---|---|---|---|---|---|"""


def sweep(title: str, scenes: Any, **how: Any) -> int:
    """Kill a scenario, and print a row about it; return how many troubles there were."""
    report: KillReport = kill_sweep(scenes.scenario, check=scenes.check, timeout=120, **how)
    at = f"{len(report.points)} points, {report.commits} commits, {report.instants} instants"
    print(
        f"| {title} | {report.kills} | {at} | {report.lost} | {report.doubled}"
        f" | {len(report.troubles)} |",
        flush=True,
    )
    for trouble in report.troubles[:20]:
        print(f"{title}: {trouble}", file=sys.stderr)
    return len(report.troubles)


def main(less: int) -> int:
    """Play everything, and print the page."""
    print(HEAD, flush=True)
    if less > 1:
        print(f"The sizes are divided by {less}.", file=sys.stderr)
    bad = 0
    for form in ("graph", "function"):
        how = {"params": {"form": form}}
        title = "graph of 30 nodes" if form == "graph" else "function"
        bad += sweep(title, workflow_scenes, every=12 * less, instants=20 // less, **how)
        title = f"{form} whose nodes wait, on a fleet"
        bad += sweep(title, waking_scenes, every=12 * less, instants=12 // less, **how)
    workers = {"params": {"workers": 20}}
    bad += sweep(
        "20 worktrees of one repository", worktree_scenes, every=40, **workers, instants=20
    )
    bad += sweep("queue of a daemon", daemon_scenes, every=2 * less, instants=20 // less)
    print()
    for form in ("graph", "function"):
        cuts = asyncio.run(cut_rows(form, less))
        print(f"- {form}: journals cut after {cuts} rows, the same outputs, no model call twice")
    with tempfile.TemporaryDirectory() as folder:
        seen = trigger_process.play(Path(folder), steps=400 // less, kills=24 // less)
    bad += len(seen["wrong"]) + len(seen["failed"])
    print(
        f"- triggers: {trigger_process.PROCESSES} processes with clocks that step, {seen['killed']}"
        f" killed: {seen['firings']} firings, {seen['occurrences']} occurrences,"
        f" {len(seen['wrong'])} triggers that fired twice or not"
    )
    for line in seen["wrong"]:
        print(line, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
