"""Tells callers which turn of which session a call belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.callers.contract import turn_under_way
from windlass.loop.policy import Policy

if TYPE_CHECKING:
    from windlass.loop.run import Run
    from windlass.models.base import Request


class TurnTold(Policy[None]):
    """Stands in a run that has an `llm_caller`; without one nobody asks."""

    async def before_model(self, run: Run, request: Request) -> Request:
        """The run's own task carries it, so that runs side by side do not meet."""
        turn_under_way.set((run.number, run.session_id))
        return request
