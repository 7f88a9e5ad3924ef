"""Was the work really done? What is timed is looked at afterwards, entry by entry.

A loop is quick when it leaves things out. So after each sample every journal it wrote must verify,
and hold for every turn its usage and for every call one decision, one intent and one result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from bench.work import Script
from windlass.events import (
    IterationEnd,
    IterationStart,
    JournalEntry,
    Replied,
    RunEnded,
    ToolDecided,
    ToolIntended,
    ToolMessage,
    ToolResulted,
)
from windlass.store.base import Store

ORDER = {ToolDecided: 0, ToolIntended: 1, ToolResulted: 2}


class CutCorner(AssertionError):
    """Something was timed that did not do all of its work."""


async def prove(store: Store, results: Iterable[Any], script: Script) -> int:
    """Each result's session verifies and holds every turn of the script; the entries counted."""
    counted = 0
    for result in results:
        session = result.session_id
        if await store.verify(session) < script.turns:
            raise CutCorner(f"{session}: fewer rows than turns")
        entries = await store.read(session)
        counted += len(entries)
        _whole_run(session, entries, script)
    return counted


def _whole_run(session: str, entries: Sequence[JournalEntry], script: Script) -> None:
    ended = entries[-1]
    if not isinstance(ended, RunEnded) or ended.status != "done":
        raise CutCorner(f"{session}: ends in {ended!r:.100}")
    digests: Counter[str] = Counter()
    turns = list(_turns(session, entries))
    if len(turns) != script.turns:
        raise CutCorner(f"{session}: {len(turns)} turns on record, {script.turns} were taken")
    for number, turn in enumerate(turns, 1):
        calls = _whole_turn(f"{session}, turn {number}", turn, digests)
        wanted = 0 if number == script.turns else 2 if script.eager else script.width
        if calls != wanted:
            raise CutCorner(f"{session}, turn {number}: {calls} calls on record, not {wanted}")
    if len(digests) != script.calls:
        raise CutCorner(f"{session}: different arguments under the same digest")


def _turns(session: str, entries: Iterable[JournalEntry]) -> Iterable[list[JournalEntry]]:
    turn: list[JournalEntry] | None = None
    for entry in entries:
        if isinstance(entry, IterationStart):
            if turn is not None:
                raise CutCorner(f"{session}: turn {entry.number} begins inside another")
            turn = []
        elif isinstance(entry, IterationEnd):
            if turn is None:
                raise CutCorner(f"{session}: turn {entry.number} ends without a beginning")
            yield turn
            turn = None
        elif turn is not None:
            turn.append(entry)


def _whole_turn(where: str, turn: Sequence[JournalEntry], digests: Counter[str]) -> int:
    """One reply with its usage, and for each of its calls all three entries in order."""
    replies = [entry for entry in turn if isinstance(entry, Replied)]
    counted = [
        entry
        for entry in replies
        if entry.usage.input_tokens and entry.usage.output_tokens and not entry.usage.estimated
    ]
    if len(replies) != 1 or len(counted) != 1:
        raise CutCorner(f"{where}: {len(counted)} replies with usage, not 1")
    asked = {call.id: call.name for call in replies[0].message.tool_calls}
    told: dict[str, list[type]] = {id: [] for id in asked}
    for entry in turn:
        if isinstance(entry, (ToolDecided, ToolIntended, ToolResulted)):
            if asked.get(entry.call_id) != entry.tool:
                raise CutCorner(f"{where}: {entry.call_id!r} was never asked for")
            told[entry.call_id].append(type(entry))
        if isinstance(entry, ToolDecided):
            if not (entry.caller and entry.rule and entry.digest):
                raise CutCorner(f"{where}: a decision without caller, rule or digest")
            digests[entry.digest] += 1
    for id, kinds in told.items():
        if kinds != list(ORDER):
            names = ", ".join(kind.__name__ for kind in kinds) or "nothing"
            raise CutCorner(f"{where}: call {id!r} has {names} on record")
    answers = [entry.calls for entry in turn if isinstance(entry, ToolMessage)]
    if answers != ([tuple(asked)] if asked else []):
        raise CutCorner(f"{where}: its calls are not answered once and in order")
    return len(asked)
