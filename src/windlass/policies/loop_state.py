"""The loop as a callback sees it: a snapshot after a turn."""

from __future__ import annotations

import msgspec

from windlass.loop.run import Run
from windlass.policies.completion import visible
from windlass.policies.facts import Groups, missing, tally


class BudgetState(msgspec.Struct, frozen=True, gc=False):
    """The limit on turns; `remaining` 0 means that the next turn would exceed it."""

    current_limit: int
    max: int
    remaining: int
    extension_count: int = 0


class TurnState(msgspec.Struct, frozen=True, gc=False):
    """The turn that has just ended."""

    tool_call_count: int
    successful_tool_names: list[str]
    rejected_tool_names: list[str]
    text_chars: int
    native_fallback_used: bool


class SessionState(msgspec.Struct, frozen=True, gc=False):
    """The run so far."""

    successful_tool_names: list[str]
    rejected_tool_names: list[str]
    required_tools_satisfied: bool
    required_tools_missing: list[str]


class CompletionState(msgspec.Struct, frozen=True, gc=False):
    """The proposed end, and what the completion checks decided."""

    proposed: bool
    vetoed: bool
    verdict: str | None = None
    feedback: str | None = None


class ProgressState(msgspec.Struct, frozen=True, gc=False):
    """The progress of the turn."""

    changed: bool
    summary: str


class LoopState(msgspec.Struct, frozen=True, gc=False):
    """The argument of `loop_control`: `state.budget.remaining`, `state.turn.tool_call_count`."""

    iteration: int
    budget: BudgetState
    turn: TurnState
    session: SessionState
    completion: CompletionState
    progress: ProgressState


def state_of(run: Run, budget: BudgetState, required: Groups = ()) -> LoopState:
    """Build the snapshot of the run after its last turn."""
    counted, turn = tally(run), run.turn
    sentinel = (run.plan.metadata or {}).get("sentinel")
    chars = len(visible(turn.text, sentinel)) if turn is not None else 0
    calls = counted.ran
    lacking, decision, veto = missing(required, run), counted.verdict, counted.veto
    return LoopState(
        run.iteration,
        budget,
        TurnState(calls, [*counted.worked], [*counted.failed], chars, counted.fallback),
        SessionState(list(counted.successful), list(counted.rejected), not lacking, lacking),
        CompletionState(
            counted.proposed is not None,
            veto is not None,
            None if decision is None else decision.verdict,
            None if veto is None else counted.heard.get(veto.gate),
        ),
        ProgressState(bool(calls or chars), _summary(calls, veto is not None, chars)),
    )


def limit_of(run: Run, extensions: int = 0, most: int | None = None) -> BudgetState:
    """Return the current limit on turns."""
    limit = run.ledger.limits.iterations
    taken = run.ledger.iterations  # also those with a reply that was lost with a process
    limit = taken if limit is None else limit
    return BudgetState(limit, limit if most is None else most, limit - taken, extensions)


def _summary(calls: int, vetoed: bool, chars: int) -> str:
    if vetoed:
        return "completion gate vetoed"
    if calls:
        return f"executed {calls} tool call{'' if calls == 1 else 's'}"
    return f"wrote {chars} characters" if chars else "no progress"
