"""Agents that are ready to use: a repair until it works, a merge captain without a free hand.

    python examples/presets.py

A preset is a dict of ordinary options, and what you say yourself comes first.
"""

from __future__ import annotations

import asyncio
from typing import Any

import windlass as w
from windlass.testing import call, scripted


@w.tool(kind="read")
def diff(number: int) -> str:
    """What a change changes."""
    return f"#{number}: renames a variable"


@w.tool(kind="edit")
def merge(number: int) -> str:
    """Merge a change."""
    return f"#{number} is merged"


async def main() -> None:
    print(w.agent_preset("repair")["iteration_budget"])
    captain = scripted(call("diff", number=7), call("merge", number=7), "I may only look.")
    out = await w.merge_captain_agent("Merge what is ready.", model=captain, tools=[diff, merge])
    print(out.tools.successful, out.tools.rejected, out.final_text)

    def consent(asked: Any) -> bool:
        return asked.name == "diff" or asked.arguments["number"] == 7

    captain = scripted(call("merge", number=8), call("merge", number=7), "Merged #7.")
    out = await w.merge_captain_agent(
        "Merge what is ready.", model=captain, tools=[diff, merge], consent=consent
    )
    print([record.outcome for record in out.tool_calls], out.final_text)


if __name__ == "__main__":
    asyncio.run(main())
