"""What all of context costs while it has nothing to do: every policy on, none of them due.

The figure is what a turn adds to the bare loop with context, over what it adds without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import windlass as w
from bench import bare, ours
from bench.proof import CutCorner, prove
from bench.proof_of_calls import counted
from bench.sampling import REPS, TARGET, Work, paired, rounds
from bench.table import Row, micro
from bench.work import DONE, PROMPT, SYSTEM, TOOLS, Script, begin
from windlass.agents.context import CHECKS
from windlass.agents.runtime import current_store

IDLE, GROWTH = 2.0, 1.2
LENGTHS = (100, 500)

#: Everything that looks at a turn or at a request. Compaction is below its threshold, nothing has
#: failed that could be squashed, the scratchpad is recited and never written anew, no skill matches,
#: every tool was just used, and a session begins with no reminders. What a function of yours does at
#: every request (a callback, a filter, a decorator) is your own time, and left out; a strategy takes the
#: place of compaction.
ON: dict[str, Any] = {
    "compaction": True,
    "transcript_projection": "squash_failed_calls",
    "scratchpad": {"reorganize_every": 0},
    "skills": [
        w.skill_define(
            "ship",
            description="Ship a release",
            when_to_use="User says deploy",
            allowed_tools=["add"],
            prompt="One command at a time.",
        )
    ],
    "skill_match": {"sticky": True},
    "working_files": ["notes.txt"],
    "tool_surface_narrowing": True,
    "prompts": {},
    "on_session_start": lambda start: None,
}
LEFT_OUT = {
    "context_callback",
    "context_filter",
    "message_decorator",
    "timestamp_messages",
    "context_strategy",
    "prompt_overrides",  # the same as prompts
    "auto_compact",  # the same as compaction
    "compact_strategy",
    "compact_threshold",
    "compact_keep_first",
    "compact_keep_last",
    "compact_callback",
}
OFF: dict[str, Any] = {"compaction": False, "tool_surface_narrowing": False}

entries_proved = [0]


class Windowed(ours.Fake):
    """The same model, with a limit: only then is a view looked at in every turn."""

    context_window = 1_000_000


async def rows(
    reps: int = REPS, target: float = TARGET, lengths: tuple[int, int] = LENGTHS
) -> list[Row]:
    """What a turn costs, and that a late one costs no more."""
    _all_of_it()
    works: dict[str, Work] = {}
    for turns in lengths:
        works[f"bare {turns}"] = _by_hand(turns)
        works[f"plain {turns}"] = _recorded(turns, OFF)
        works[f"on {turns}"] = _recorded(turns, ON)
    taken = await rounds(works, reps, target=target)
    found: list[Row] = []
    for turns in lengths:
        none, plain, on = (taken[f"{side} {turns}"] for side in ("bare", "plain", "on"))
        pair = paired(
            [mine - base for mine, base in zip(on, none, strict=True)],
            [mine - base for mine, base in zip(plain, none, strict=True)],
        )
        name = f"all of context on but idle, {turns} turns: what a turn adds, over the plain loop"
        sides = micro(pair.ours / turns), f"plain: {micro(pair.bare / turns)}"
        found.append(Row(name, pair.ratio, IDLE, *sides, (pair.low, pair.high)))
    short, long = lengths
    grown = paired(
        [seconds / long for seconds in taken[f"on {long}"]],
        [seconds / short for seconds in taken[f"on {short}"]],
    )
    name = f"all of context on but idle: a turn of {long} over a turn of {short}"
    return [
        *found,
        Row(name, grown.ratio, GROWTH, micro(grown.ours), "", (grown.low, grown.high)),
    ]


def _all_of_it() -> None:
    """An option that is neither on nor left out on purpose would make "all" a lie."""
    if unknown := CHECKS.keys() - ON.keys() - LEFT_OUT:
        raise CutCorner(f"{min(unknown)} is an option of context, and nobody says if it is on here")


def _by_hand(turns: int) -> Work:
    functions = bare.build("add")
    return counted(lambda: bare.run(functions, Script(turns)), Script(turns).calls)


def _recorded(turns: int, options: dict[str, Any]) -> Work:
    tools: list[Any] = [TOOLS["add"]]
    agent = w.Agent(Windowed(), system=SYSTEM, tools=tools, max_turns=ours.TURNS, **options)

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
