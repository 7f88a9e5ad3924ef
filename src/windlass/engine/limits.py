"""The limits of a resumed run, and when one that keeps dying is given up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.errors import Corrupt
from windlass.loop.kernel import Stage
from windlass.loop.ledger import Budget
from windlass.loop.plan import BUDGET
from windlass.loop.resume import Standing
from windlass.loop.run import Run
from windlass.loop.verdict import Stop

_NAMES = ("iterations", "tokens", "usd", "seconds")


def limits_of(
    planned: Budget, metadata: Mapping[str, Any] | None, given: Budget | None = None
) -> Budget:
    """Return the limits of a resumed run: as it began, or lower; `given` replaces them."""
    if given is not None:
        turns = planned.iterations if given.iterations is None else given.iterations
        return msgspec.structs.replace(given, iterations=turns)
    recorded = (metadata or {}).get(BUDGET)
    if recorded is None:
        return planned
    try:
        begun = msgspec.convert(recorded, Budget)
    except msgspec.ValidationError as error:
        raise Corrupt(f"the budget that the run began with is damaged: {error}") from error
    return Budget(**{name: _lower(getattr(planned, name), getattr(begun, name)) for name in _NAMES})


def _lower(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def give_up(run: Run, state: Standing, at: Stage, attempt: int, most: int | None) -> Stop | None:
    """Stop a run that has died too often without a new reply or result."""
    if most is None or attempt <= most:
        return None
    under_way = _under_way(run, state, at)
    message = (
        f"the process ended {attempt} times in a row without a new reply or result while "
        f"{under_way} was under way"
    )
    return Stop("failed", "poison", {"category": "poison", "message": message, "call": under_way})


def _under_way(run: Run, state: Standing, at: Stage) -> str:
    in_flight = state.spending.in_flight
    if in_flight and in_flight[0].purpose is not None:
        asked = in_flight[0]
        return f"a call of {asked.provider}:{asked.model} ({asked.purpose})"
    if at <= Stage.ASK:
        return f"the model call of turn {state.number} to {run.model.provider}:{run.model.name}"
    turn = run.turn
    waiting = [call for call in turn.calls if call.id not in turn.results] if turn else []
    if waiting:
        return ", ".join(f"the call of {call.name} ({call.id})" for call in waiting)
    return f"the end of turn {state.number}"
