"""The runs of other agents that a run handed work to, as its result shows them."""

from __future__ import annotations

from windlass.identifiers import call_of_child
from windlass.loop.run import Run
from windlass.records import Record
from windlass.usage import Usage


class ChildRun(Record, frozen=True):
    """A run of another agent: `out.children[0].session_id`."""

    session_id: str
    call_id: str | None
    """The call that it worked for, in `out.tool_calls`."""
    name: str | None
    """The tool that was called, which an agent gives its name."""
    usage: Usage
    cost_usd: float


def list_children(run: Run) -> list[ChildRun]:
    """List the runs that worked for this one, in the order in which they began."""
    names = {call.id: call.name for message in run.messages for call in message.tool_calls}
    found: list[ChildRun] = []
    for session_id, (usage, usd) in run.calls.children.items():
        call_id = _find_call(run.session_id, session_id, names)
        name = None if call_id is None else names[call_id]
        found.append(ChildRun(session_id, call_id, name, usage, usd))
    return found


def _find_call(session_id: str, child_id: str, names: dict[str, str]) -> str | None:
    """Return the call that a child was begun for; of several children the ids have a number."""
    call_id = call_of_child(session_id, child_id)
    if call_id is None or call_id in names:
        return call_id
    head, _, number = call_id.rpartition(".")
    return head if number.isdecimal() and head in names else None
