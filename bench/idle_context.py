"""What all of context costs while it has nothing to do: every policy on, none of them due.

The figure is what a turn adds to the bare loop with context, over what it adds without.
"""

from __future__ import annotations

import asyncio
from typing import Any

import windlass as w
from bench import ours
from bench.idle import LENGTHS, Idle
from bench.proof import CutCorner
from bench.sampling import REPS, TARGET
from bench.table import Row
from windlass.options.index import GROUPS

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


#: The modules that declare options of context.
MODULES = frozenset(
    {
        "policies.compaction.options",
        "policies.context_callback",
        "policies.context_strategy.options",
        "policies.decorators",
        "policies.projection.options",
        "policies.prompt_overrides",
        "policies.reminders.options",
        "policies.scratchpad.options",
        "policies.skills.options",
        "policies.tool_narrowing",
    }
)


class Windowed(ours.Fake):
    """The same model, with a limit: only then is a view looked at in every turn."""

    context_window = 1_000_000


TURNS = {"max_turns": ours.TURNS}
IDLE = Idle("context", 2.0, Windowed, OFF | TURNS, ON | TURNS)


async def rows(
    reps: int = REPS, target: float = TARGET, lengths: tuple[int, int] = LENGTHS
) -> list[Row]:
    """What a turn costs, and that a late one costs no more."""
    _all_of_it()
    return await IDLE.rows(reps, target, lengths)


def _all_of_it() -> None:
    """An option that is neither on nor left out on purpose would make "all" a lie."""
    context = {name for name, group in GROUPS.items() if group.split(":")[0] in MODULES}
    if unknown := context - ON.keys() - LEFT_OUT:
        raise CutCorner(f"{min(unknown)} is an option of context, and nobody says if it is on here")


if __name__ == "__main__":
    for row in asyncio.run(rows()):
        print(row.line())
