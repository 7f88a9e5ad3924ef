"""A prompt for a session whose last run is parked: the questions stand, or they are discarded."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from windlass.loop.calls import close_recorded
from windlass.loop.resume import Standing, continue_session, restore_children
from windlass.loop.run import Run
from windlass.loop.verdict import Outcome

#: What a new prompt does to a parked run: nothing is asked and it stays parked, or it goes on without.
OnPending: TypeAlias = Literal["keep", "discard"]
ON_PENDING: Final = ("keep", "discard")


def keep_parked(run: Run, state: Standing) -> Outcome:
    """Show the parked run as it stands; nothing is recorded."""
    assert state.run is not None and state.ended is not None
    continue_session(run, state)
    run.run_id, run.turn = state.run.run_id, state.turn
    run.host.request_id, run.host.conversation_id = state.run.request_id, state.run.conversation_id
    run.first_entry, run.iteration, run.number = state.first_entry, state.iteration, state.number
    restore_children(run, state.spending)
    return Outcome(state.ended.status, state.ended.stop_reason, state.ended.error)


def discard_pending(run: Run) -> None:
    """Answer what a parked run waits for: its calls are not run."""
    close_recorded(run, "discarded")
