"""Active runs of this process, and how they are detached for others to resume."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from windlass.loop.run import Run
from windlass.loop.verdict import Suspend

#: How a run ends that its process has let go of: its journal stays where it is.
DETACHED = Suspend("detached", initiator="operator")


class UnderWay(msgspec.Struct, frozen=True, eq=False):
    """A run under way: `park()` may be called from any thread."""

    run: Run
    agent: object  # the agent of the run
    park: Callable[[], None]


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
