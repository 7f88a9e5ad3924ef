"""`windlass fleet`: workers, queues, and what is stuck and why."""

from __future__ import annotations

import click
import msgspec

from windlass import seams
from windlass.cli.console import err, out
from windlass.cli.main import debug_option
from windlass.cli.options import json_option, store_option
from windlass.cli.store_location import at_place, find_place
from windlass.cli.text import clean
from windlass.fleet.overview import FleetState, read_fleet


@click.command()
@store_option
@json_option
@debug_option
def fleet(store: str | None, as_json: bool) -> None:
    """Show the workers of a store, its queues, and sessions that are stuck and why."""
    place = find_place(store)
    if not place.exists:
        err().line(f"nothing is kept in {place.shown}")
        return
    state = at_place(place, read_fleet)
    if as_json:
        out().json(msgspec.to_builtins(state))
        return
    _show(state)


def _show(state: FleetState) -> None:
    now = seams.now()
    if not state.workers:
        out().line("no workers")
    for worker in state.workers:
        seen = "" if worker.is_alive(now) else f", lost for {now - worker.seen_at:.0f} s"
        queues = ", ".join(worker.queues) or "no queue"
        out().line(
            clean(
                f"worker {worker.host}/{worker.pid} {worker.state}{seen} ({worker.engine}, "
                f"{worker.slots} slots): {queues}"
            )
        )
    for queue in state.queues:
        oldest = "" if queue.oldest is None else f", oldest {max(0.0, now - queue.oldest):.0f} s"
        out().line(
            clean(
                f"queue {queue.queue}: {queue.waiting} waiting{oldest}, {queue.running} running, "
                f"{queue.later} later"
            )
        )
    for one in state.stuck:
        out().line(clean(f"stuck {one.session} ({one.agent}): {one.why}"))
