"""Are the rows of a planned effect still those that its diff showed? Not a policy: `ByPlan` asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from windlass.errors import shown
from windlass.loop.plan import digest_of
from windlass.loop.run import Run
from windlass.messages import ToolCall
from windlass.policies.planned import PlannedEffect
from windlass.tools.base import Tool
from windlass.tools.rehearsal import ExpectedRows, Rehearsal

Rehearse = Callable[[Run, Tool, ToolCall, Sequence[Rehearsal]], Awaitable[Rehearsal | None]]


class RowsDiffer(msgspec.Struct, frozen=True):
    """Why an effect is not what was approved, and what it would do now."""

    why: str
    about: dict[str, Any]
    diff: tuple[dict[str, Any], ...] | None = None


def expect_rows(run: Run, call_id: str, expected: ExpectedRows) -> None:
    """Let the call's transaction compare what it does with this."""
    run.readings.setdefault(ExpectedRows, {})[call_id] = expected


async def compare_rows(
    run: Run,
    tool: Tool,
    call: ToolCall,
    effect: PlannedEffect,
    own: frozenset[str],
    rehearse: Rehearse,
) -> RowsDiffer | None:
    """Rehearse the call on the rows as they are; None: it would do what the plan shows.

    What was found is compared once more in the transaction that runs the call.
    """
    if effect.diff is None:
        return None
    expect_rows(run, call.id, ExpectedRows(effect.rows, effect.mark, own))
    seen = await rehearse(run, tool, call, _decided_before(run, call))
    if seen is None:
        return RowsDiffer("what it would do now cannot be shown", {"diff": None})
    if seen.result.is_error:
        if seen.result.outcome == "denied":
            return None  # and it will be, when it runs
        words = shown(seen.result.text, 200)
        return RowsDiffer(f"it would fail now: {words}", {"error": seen.result.text})
    if effect.rows is None:  # a plan of before these were kept
        same = digest_of(seen.diff) == digest_of(effect.diff)
    else:
        same = seen.rows == effect.rows and not seen.touched
    expect_rows(run, call.id, ExpectedRows(seen.rows, effect.mark, own, seen.touched))
    run.readings.setdefault(RowsDiffer, {})[call.id] = seen
    if same:
        return None
    about = {"rows": digest_of(seen.rows), "touched": seen.touched}
    return RowsDiffer(_describe(seen.diff or (), effect.diff), about, seen.diff)


def _decided_before(run: Run, call: ToolCall) -> list[Rehearsal]:
    """What the calls of the same reply will have done that were decided on and have not run yet."""
    turn, seen = run.turn, run.readings.get(RowsDiffer, {})
    if turn is None or not seen:
        return []
    found: list[Rehearsal] = []
    for other in turn.calls:
        if other.id == call.id:
            break
        if other.id in seen and other.id not in turn.results:
            found.append(seen[other.id])
    return found


def _describe(now: Sequence[Mapping[str, Any]], then: Sequence[Mapping[str, Any]]) -> str:
    if digest_of(now) == digest_of(then):
        return "its rows were written since the plan was made"
    return f"its rows are not what the plan shows: {_words(now)} (the plan: {_words(then)})"


def _words(diff: Sequence[Mapping[str, Any]]) -> str:
    if not diff:
        return "nothing changes"
    parts: list[str] = []
    for row in diff[:3]:
        fields = [
            f"{name} {value if isinstance(value, str) else f'{value[0]!r} -> {value[1]!r}'}"
            for name, value in list(row["fields"].items())[:4]
        ]
        parts.append(f"{row['verb']} {row['resource']} {row['id']!r}: {', '.join(fields)}")
    more = f" and {len(diff) - 3} rows more" if len(diff) > 3 else ""
    return shown("; ".join(parts), 300) + more
