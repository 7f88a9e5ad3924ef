"""Runs under way in this process, and how they are left for somebody else to go on with."""

from __future__ import annotations

from collections.abc import Callable

from windlass.loop.run import Run
from windlass.loop.verdict import Suspend

#: How a run ends that its process has let go of: its journal stays where it is.
DETACHED = Suspend("detached", initiator="operator")


class UnderWay:
    """A run under way: `park()` may be called from any thread."""

    __slots__ = ("agent", "park", "run")

    def __init__(self, run: Run, agent: object, park: Callable[[], None]) -> None:
        self.run, self.agent, self.park = run, agent, park


under_way: set[UnderWay] = set()


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
