"""Active runs of this process, how they are detached for others to resume, and parked runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from windlass.events import JournalEntry, Suspended
from windlass.json_types import JsonObject
from windlass.loop.run import Run
from windlass.loop.verdict import Suspend
from windlass.records import Record

#: How a run ends that its process has let go of: its journal stays where it is.
DETACHED = Suspend("detached", initiator="operator")


class ActiveRun(Protocol):
    """The handle of a run under way."""

    run: Run
    agent: object  # the agent of the run

    def park(self) -> None:
        """Detach from the run, from any thread."""
        ...


under_way: set[ActiveRun] = set()


def detach(agent: object, session_id: str | None) -> tuple[str, ...]:
    """Park the agent's runs, or its run on this session; the sessions that were told."""
    found = [
        one
        for one in list(under_way)
        if one.agent is agent and session_id in (None, one.run.session_id)
    ]
    for one in found:
        one.park()
    return tuple([one.run.session_id for one in found])


# --------------------------------------------------------------------------- parked runs


class SuspendedRun(Record, frozen=True, kw_only=True):
    """The handle of a parked run: `result.handle.session_id`; functions that resume a run take it."""

    session_id: str
    run_id: str
    name: str | None = None  # of the agent
    status: str = "suspended"


def find_suspension(entries: Sequence[JournalEntry], stop_reason: str | None) -> Suspended:
    """Return how a parked run was suspended, from its entries."""
    found = next((entry for entry in reversed(entries) if type(entry) is Suspended), None)
    if found is None or stop_reason == DETACHED.reason:
        return Suspended(stop_reason or "suspended", "turn", DETACHED.initiator)
    return found


def describe_suspension(
    handle: SuspendedRun | None, parked: Suspended | None, iterations: int | None
) -> JsonObject:
    """Return the fields that only the result of a parked run has."""
    if handle is None or parked is None:
        return {}
    return {
        "handle": msgspec.to_builtins(handle),
        "reason": parked.reason,
        "initiator": parked.initiator,
        "conditions": parked.conditions,
        "iterations_completed": iterations,
    }
