"""The runs of other agents that a run handed work to, and what they and the run wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from windlass.errors import NoSuchSession
from windlass.events import ToolDecided
from windlass.events.receipts import details_of
from windlass.identifiers import CallIndex
from windlass.loop.resume import Standing, standing
from windlass.loop.run import Run
from windlass.loop.state import PendingCall
from windlass.loop.turn import Turn
from windlass.records import Record
from windlass.store.base import Store
from windlass.tools.handlers import own
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
    calls = CallIndex(run.session_id, names)
    found: list[ChildRun] = []
    for session_id, (usage, usd) in run.calls.children.items():
        call_id = calls.find(session_id)
        name = None if call_id is None else names[call_id]
        found.append(ChildRun(session_id, call_id, name, usage, usd))
    return found


# --------------------------------------------------------------------------- what a parked run waits for


class CallBelow(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a sub-agent waits for, and where an answer to it goes."""

    above: str  # the call of the run on top that waits for it
    session_id: str
    call_id: str
    question: ToolDecided | None
    shown: PendingCall

    def is_meant_by(self, given: str) -> bool:
        """Check whether somebody who gives this id may mean the call."""
        asked = self.question.ask if self.question is not None else None
        return given in (self.shown.id, self.call_id, asked)


def list_pending(
    turn: Turn,
    decided: Mapping[str, ToolDecided],
    why: str,
    below: Mapping[str, Sequence[PendingCall]],
) -> list[PendingCall]:
    """List the calls without a result; in place of a call of a sub-agent, those that it waits for."""
    found: list[PendingCall] = []
    for call in turn.calls:
        if call.id in turn.results:
            continue
        if below.get(call.id):
            found += below[call.id]
            continue
        entry, arguments = decided.get(call.id), call.arguments
        if entry is not None and entry.arguments is not None:
            arguments = entry.arguments  # as it was decided, or as somebody is asked about it
        asked = entry if entry is not None and entry.action == "ask" else None
        words = (asked and asked.reason) or why
        details = details_of(asked.receipt) if asked is not None else ()
        diff = asked.diff if asked is not None else None
        found.append(PendingCall(call.id, call.name, own(arguments), words, details, diff))
    return found


async def read_calls_below(
    store: Store, session_id: str, turn: Turn | None
) -> tuple[CallBelow, ...]:
    """Read the calls that the sub-agents of a turn's open calls wait for, from their journals."""
    if turn is None or not turn.open:
        return ()
    names = {call.id: call.name for call in turn.calls if call.id not in turn.results}
    calls = CallIndex(session_id, names)
    found: list[CallBelow] = []
    children = (await store.info(session_id)).child_ids if names else ()
    for child_id in sorted(children, key=lambda one: (len(one), one)):  # as they are numbered
        call_id = calls.find(child_id)
        if call_id is not None:
            found += await _read_child(store, session_id, child_id, call_id, names[call_id])
    return tuple(found)


async def _read_child(
    store: Store, session_id: str, child_id: str, above: str, tool: str
) -> list[CallBelow]:
    try:
        state = standing(await store.read(child_id))
    except NoSuchSession:
        return []  # deleted meanwhile
    if not state.unfinished or state.reset or state.turn is None:
        return []
    further = await read_calls_below(store, child_id, state.turn)
    inner = {one.shown.id: one for one in further}
    place = child_id.removeprefix(f"{session_id}.")
    found: list[CallBelow] = []
    for shown in list_pending(state.turn, _decisions(state), _why(state), by_call(further)):
        one = inner.get(shown.id)
        question = state.asked.get(shown.id) if one is None else one.question
        if one is None and question is None and not state.parked:
            continue  # killed on its way: this call waits for nobody
        below = CallBelow(
            above=above,
            session_id=child_id if one is None else one.session_id,
            call_id=shown.id if one is None else one.call_id,
            question=question,
            shown=msgspec.structs.replace(
                shown,
                id=f"{place}/{shown.id}",
                path=(tool, *shown.path),
                session_id=shown.session_id or child_id,
            ),
        )
        found.append(below)
    return found


def _decisions(state: Standing) -> Mapping[str, ToolDecided]:
    return {**state.decided, **state.asked}


def _why(state: Standing) -> str:
    return (state.ended.stop_reason if state.ended is not None else None) or "waiting"


def by_call(calls: Sequence[CallBelow]) -> dict[str, list[PendingCall]]:
    """Sort what sub-agents wait for by the call that waits for them."""
    found: dict[str, list[PendingCall]] = {}
    for one in calls:
        found.setdefault(one.above, []).append(one.shown)
    return found


async def note_calls_below(run: Run) -> None:
    """Note in a run that is parked what its sub-agents wait for."""
    turn = run.turn
    if turn is None or not turn.open:
        return
    waiting = [call for call in turn.calls if call.id not in turn.results]
    if any([(tool := run.tools.get(call.name)) is None or tool.keyed for call in waiting]):
        run.calls.below = by_call(await read_calls_below(run.store, run.session_id, turn))
