"""What is under way in a trace: calls and steps without an end, and how far the steps of a workflow are.

A journal alone cannot tell a call that runs from one whose process died. Whoever knows says so here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from windlass.trace.format import count
from windlass.trace.model import OPEN, RUNNING, UNENDED, WAITING, Bar, Part, Picture, StepState

SUSPENDED = "suspended"
WORDS = {OPEN: "no end on record", RUNNING: "running", WAITING: "waits"}


def label_unended(picture: Picture, *, alive: bool, now: float) -> None:
    """Mark the calls and steps without an end as running or waiting, where that is known.

    `alive` says that a process is at work on the session; what it runs lasts until `now`.
    """
    for part in picture.parts[-1:]:
        part.under_way = alive and part.status is None
        parked = part.status == SUSPENDED
        outcome = RUNNING if part.under_way else WAITING if parked else OPEN
        for turn in part.turns:
            for bar in turn.bars:
                if bar.outcome == OPEN:
                    bar.outcome = WAITING if _is_parked(bar) else outcome
        for step in part.steps:
            if step.status in UNENDED:
                step.status = _find_outcome(part, step, outcome)
    extend_running(picture, now)


def extend_running(picture: Picture, now: float) -> bool:
    """Draw what runs out to this moment; return whether anything runs."""
    return _extend(picture, now - picture.zero)


def _extend(picture: Picture, now: float) -> bool:
    found = False
    for part in picture.parts:
        for turn in part.turns:
            for bar in turn.bars:
                for child in bar.children:
                    found |= _extend(child, now)
                if bar.outcome == RUNNING:
                    found = True
                    bar.end = max(bar.start, bar.end, now)
                    turn.end = max(turn.end, bar.end)
            part.end = max(part.end, turn.end)
    return found


def _is_parked(bar: Bar) -> bool:
    """Check whether the call waits for a session that is parked."""
    last = [child.parts[-1].status for child in bar.children if child.parts]
    return bool(last) and last[-1] == SUSPENDED


def _find_outcome(part: Part, step: StepState, usual: str) -> str:
    """Find how far a step without an end is: as its call, whose id ends in its number."""
    for turn in part.turns:
        for bar in turn.bars:
            if (bar.call_id or "").endswith(f".{step.number}") and bar.name == step.name:
                return bar.outcome if bar.outcome in UNENDED else usual
    return usual


class StepGroup(NamedTuple):
    """All visits of a node, or all calls of a function, under one name."""

    name: str
    kind: str
    status: str
    """`failed`, `done` or one of `UNENDED`: what of it matters most now."""
    words: str
    edges: tuple[str, ...]


_ORDER = (RUNNING, WAITING, OPEN)


def group_steps(steps: Sequence[StepState]) -> Iterator[StepGroup]:
    """Yield the steps of a workflow by name, in the order in which they were first begun."""
    groups: dict[tuple[str, str], list[StepState]] = {}
    for step in steps:
        groups.setdefault((step.name, step.kind), []).append(step)
    for (name, kind), visits in groups.items():
        last = visits[-1]
        unended = [status for status in _ORDER if any(one.status == status for one in visits)]
        status = unended[0] if unended else last.status
        yield StepGroup(name, kind, status, _describe(visits), last.edges)


def _describe(visits: Sequence[StepState]) -> str:
    if len(visits) == 1:
        return _say(visits[0])
    said = [_say(one) for one in visits]
    return ", ".join([f"{said.count(word):,} {word}" for word in dict.fromkeys(said)])


def _say(step: StepState) -> str:
    return WORDS.get(step.status, step.verdict or step.status)


def describe_rest(groups: int) -> str:
    """Describe the groups that are left out: `12 more steps`."""
    return f"{count(groups, 'more step')}"
