"""What all of judgement costs while it has nothing to say: every policy on, none of them due.

The figure is what a turn adds to the bare loop with judgement, over what it adds without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import windlass as w
from bench import bare, ours
from bench.proof import prove
from bench.proof_of_calls import counted
from bench.sampling import REPS, TARGET, Work, paired, rounds
from bench.table import Row, micro
from bench.work import DONE, PROMPT, SYSTEM, TOOLS, Script, begin
from windlass.agents.runtime import current_store

IDLE, GROWTH = 3.0, 1.2
LENGTHS = (100, 500)
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

entries_proved = [0]


async def rows(
    reps: int = REPS, target: float = TARGET, lengths: tuple[int, int] = LENGTHS
) -> list[Row]:
    """What a turn costs, and that a late one costs no more."""
    works: dict[str, Work] = {}
    for turns in lengths:
        works[f"bare {turns}"] = _by_hand(turns)
        works[f"plain {turns}"] = _recorded(turns, {"max_turns": ours.TURNS})
        works[f"judged {turns}"] = _recorded(turns, OPTIONS)
    taken = await rounds(works, reps, target=target)
    found: list[Row] = []
    for turns in lengths:
        none, plain, judged = (taken[f"{side} {turns}"] for side in ("bare", "plain", "judged"))
        pair = paired(
            [mine - base for mine, base in zip(judged, none, strict=True)],
            [mine - base for mine, base in zip(plain, none, strict=True)],
        )
        name = f"all of judgement on but idle, {turns} turns: what a turn adds, over the plain loop"
        sides = micro(pair.ours / turns), f"plain: {micro(pair.bare / turns)}"
        found.append(Row(name, pair.ratio, IDLE, *sides, (pair.low, pair.high)))
    short, long = lengths
    grown = paired(
        [seconds / long for seconds in taken[f"judged {long}"]],
        [seconds / short for seconds in taken[f"judged {short}"]],
    )
    name = f"all of judgement on but idle: a turn of {long} over a turn of {short}"
    return [
        *found,
        Row(name, grown.ratio, GROWTH, micro(grown.ours), "", (grown.low, grown.high)),
    ]


def _by_hand(turns: int) -> Work:
    functions = bare.build("add")
    return counted(lambda: bare.run(functions, Script(turns)), Script(turns).calls)


def _recorded(turns: int, options: dict[str, Any]) -> Work:
    tools: list[Any] = [TOOLS["add"]]
    agent = w.Agent(ours.Fake(), system=SYSTEM, tools=tools, **options)

    async def once() -> Any:
        begin(Script(turns))
        out = await agent.run(PROMPT)
        assert out.final_text == DONE and out.status == "done", out
        return out

    return Work(once, _proof(Script(turns)))


def _proof(script: Script) -> Callable[[list[Any]], Any]:
    async def after(results: list[Any]) -> None:
        entries_proved[0] += await prove(current_store(), results, script)

    return after


if __name__ == "__main__":
    for row in asyncio.run(rows()):
        print(row.line())
