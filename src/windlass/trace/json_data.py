"""The trace as plain data, for machines: `windlass trace SESSION --json`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.json_types import JsonObject
from windlass.trace.model import (
    Bar,
    Mark,
    Part,
    Picture,
    Turn,
)


def as_data(picture: Picture, parts: Sequence[Part] | None = None) -> JsonObject:
    """Convert everything that is drawn, uncut, with times in seconds since `began_at`."""
    totals = picture.totals
    return {
        "session_id": picture.session_id,
        "began_at": picture.zero,
        "entries": picture.entries,
        "parent_id": picture.parent_id,
        "branch_at": picture.branch_at,
        "forks": list(picture.forks),
        "totals": {**msgspec.to_builtins(totals), "usage": msgspec.to_builtins(totals.usage)},
        "runs": [_part(part) for part in (picture.parts if parts is None else parts)],
    }


def _part(part: Part) -> JsonObject:
    facts = {name: getattr(part, name) for name in part.__struct_fields__ if name != "turns"}
    steps = [msgspec.to_builtins(step) for step in part.steps]
    return {**facts, "steps": steps, "turns": [_turn(turn) for turn in part.turns]}


def _turn(turn: Turn) -> JsonObject:
    return {
        "number": turn.number,
        "start": turn.start,
        "end": turn.end,
        "cost_usd": turn.cost_usd,
        "usage": msgspec.to_builtins(turn.usage),
        "bars": [_bar(bar) for bar in turn.bars],
        "marks": [_mark(mark) for mark in turn.marks],
    }


def _bar(bar: Bar) -> JsonObject:
    facts = {name: getattr(bar, name) for name in bar.__struct_fields__ if name != "children"}
    facts["usage"] = msgspec.to_builtins(bar.usage)
    if bar.children:
        facts["children"] = [as_data(child) for child in bar.children]
    return facts


def _mark(mark: Mark) -> JsonObject:
    return msgspec.to_builtins(mark)
