"""The next turn begins when the receipts of the last one are handed over."""

from __future__ import annotations

from windlass.loop.policy import Policy
from windlass.loop.run import Run


class Receipts(Policy[None]):
    """Wait for sinks that hold a turn up; without this policy they work beside the run."""

    async def before_turn(self, run: Run) -> None:
        for watcher in run.receipts:
            await watcher.flushed()
