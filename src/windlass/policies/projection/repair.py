"""`clean_tool_repair`: a call that failed and was mended is shown as if it had been right at once."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.messages import Message, ToolResult
from windlass.policies.projection.edits import Edit, edit
from windlass.policies.projection.failures import Chain, Failures


def repaired(view: Sequence[Message], failures: Failures) -> list[Edit]:
    """The failed rounds go, where the round after them did with success what they had tried."""
    edits: list[Edit] = []
    for chain in failures.chains:
        if chain.then is None or not _mended(view, chain):
            continue
        for one in chain.rounds:
            found = edit(view, one.start, one.stop, (), chain.then.stop)
            if found is not None:
                edits.append(found)
    return edits


def _mended(view: Sequence[Message], chain: Chain) -> bool:
    """Did every tool that failed work in the next round? One that does not exist had another name."""
    then = chain.then
    if then is None or not then.worked:
        return False
    wanted = {
        block.name
        for one in chain.rounds
        for block in view[one.stop - 1].content
        if type(block) is ToolResult and block.outcome != "unknown_tool"
    }
    return wanted <= set(then.worked)
