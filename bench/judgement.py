"""What all of judgement costs while it has nothing to say: every policy on, none of them due.

The figure is what a turn adds to the bare loop with judgement, over what it adds without.
"""

from __future__ import annotations

import asyncio
from typing import Any

from bench import ours
from bench.idle import LENGTHS, Idle
from bench.sampling import REPS, TARGET
from bench.table import Row

NEVER = 10**6


async def fine() -> bool:
    """A check that passes; one that is no coroutine would go to a thread."""
    return True


OPTIONS: dict[str, Any] = {
    "done_judge": {"cadence": {"min_iterations_before_first": NEVER}},
    "verify_completion": [fine],
    "step_judge": {"skip_when_iterations_remaining": NEVER},
    "stall_diagnostics": True,
    "loop_detect_warn": 2,
    "loop_detection": {"on_loop_detected": "terminate"},
    "iteration_budget": {"mode": "adaptive", "initial": ours.TURNS, "max": 2 * ours.TURNS},
    "loop_control": lambda state: None,
    "post_turn_callback": lambda turn: None,
    "require_successful_tools": ["add"],
    "turn_policy": {"require_action_or_yield": True, "max_prose_chars": 10_000},
    "native_tool_fallback": "reject",
    "max_verify_attempts": 3,
}

IDLE = Idle("judgement", 3.0, ours.Fake, {"max_turns": ours.TURNS}, OPTIONS)


async def rows(
    reps: int = REPS, target: float = TARGET, lengths: tuple[int, int] = LENGTHS
) -> list[Row]:
    """What a turn costs, and that a late one costs no more."""
    return await IDLE.rows(reps, target, lengths)


if __name__ == "__main__":
    for row in asyncio.run(rows()):
        print(row.line())
