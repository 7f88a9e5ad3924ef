"""Plans of effects as a journal holds them; `policy.py` makes and applies them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from windlass import seams
from windlass.errors import safe_repr
from windlass.events import (
    EffectPlanned,
    JournalEntry,
    PlanApproved,
    PlanMade,
    PlanUsed,
    RunEnded,
    RunResumed,
    RunStarted,
)
from windlass.loop.plan import digest_of
from windlass.loop.run import Run
from windlass.messages import ToolCall
from windlass.tools.middleware.preview import ExpectedRows, Rehearsal
from windlass.tools.tool import Tool


class PlannedEffect(msgspec.Struct, frozen=True):
    """One effect of a plan: the call, and the rows that it would change, if known."""

    tool: str
    arguments: dict[str, Any]
    call_id: str
    diff: tuple[dict[str, Any], ...] | None = None
    note: str | None = None
    asks: tuple[dict[str, Any], ...] = ()
    version: str = ""
    digest: str = ""
    pinned: dict[str, Any] | None = None
    session_id: str | None = None  # of the sub-agent that would do it
    rows: tuple[dict[str, Any], ...] | None = None  # digests of the rows, before and after
    mark: int | None = None  # where the audit log ended when they were looked at


class EffectPlan(msgspec.Struct, frozen=True):
    """The effects of a run with `dry_run="plan"`: `out.plan.effects`.

    Approve it with `await w.approve_plan(out.plan, by=w.Caller("ann"))`; then `agent.run(…,
    plan=out.plan)` may do exactly this, once.
    """

    id: str  # a digest of all that an approval is about
    session_id: str
    run_id: str
    caller: str
    effects: tuple[PlannedEffect, ...]
    agent: str | None = None
    tenant: str | None = None
    status: str = "done"  # how the preview ended
    approved_by: str | None = None
    expires_at: float | None = None
    used_by: str | None = None  # the session that did it, or began to
    used_run: str | None = None  # and its run
    who: tuple[str | None, str | None, tuple[str, ...]] = (None, None, ())  # user, tenant, roles

    @property
    def expired(self) -> bool:
        """Whether the approval has expired."""
        return self.expires_at is not None and seams.now() > self.expires_at

    def is_used_by(self, session_id: str, run_id: str) -> bool:
        """Check whether this run uses the plan; a fork has the same run in another session."""
        return (self.used_by, self.used_run) == (session_id, run_id)


def bound_to(session_id: str, begun: RunStarted, effects: Sequence[PlannedEffect]) -> str:
    """Compute the digest that an approval of these effects is bound to."""
    about = [_plain(effect) for effect in effects]
    return digest_of(("plan", session_id, begun.run_id, _who(begun), about))


def _plain(effect: PlannedEffect) -> dict[str, Any]:
    """Convert the effect to data, without the row fields where it has none."""
    plain: dict[str, Any] = msgspec.to_builtins(effect)
    for name in ("rows", "mark"):
        if plain[name] is None:
            del plain[name]
    return plain


def _who(begun: RunStarted) -> tuple[str | None, str | None, tuple[str, ...]]:
    return begun.user, begun.tenant, tuple(sorted(begun.roles))


def plan_in(entries: Sequence[JournalEntry], session_id: str) -> EffectPlan | None:
    """Return the last plan of a session, or None if it has none of its own."""
    begun: RunStarted | None = None
    effects: list[PlannedEffect] = []
    plan: EffectPlan | None = None
    for entry in entries:
        match entry:
            case RunStarted():
                begun, effects = entry, []
            case EffectPlanned():
                effects.append(effect_of(entry))
            case PlanMade() if begun is not None:
                plan = EffectPlan(
                    entry.plan,
                    session_id,
                    begun.run_id,
                    begun.caller,
                    tuple(effects),
                    begun.name,
                    begun.tenant,
                    entry.status,
                    who=_who(begun),
                )
                if entry.plan != bound_to(session_id, begun, effects):
                    plan = None  # of the session that this one was forked from, or tampered with
            case PlanApproved() if plan is not None and entry.plan == plan.id:
                plan = msgspec.structs.replace(
                    plan, approved_by=entry.by, expires_at=entry.expires_at
                )
            case PlanUsed() if plan is not None and entry.plan == plan.id:
                plan = msgspec.structs.replace(
                    plan, used_by=entry.session_id, used_run=entry.run_id
                )
            case _:
                pass
    return plan


def at_rest(entries: Sequence[JournalEntry]) -> bool:
    """Check whether the last run has ended or parked, so that others may write."""
    for entry in reversed(entries):
        if type(entry) in (RunStarted, RunResumed):
            return False
        if type(entry) is RunEnded:
            return True
    return True


def effect_of(entry: EffectPlanned) -> PlannedEffect:
    """Return the effect that an entry of the journal plans."""
    fields = {name: getattr(entry, name) for name in PlannedEffect.__struct_fields__}
    return PlannedEffect(**fields)


# Are the rows of a planned effect still those that its diff showed? Not a policy: `ByPlan` asks.


Rehearse = Callable[[Run, Tool, ToolCall, Sequence[Rehearsal]], Awaitable[Rehearsal | None]]


class RowsDiffer(msgspec.Struct, frozen=True):
    """Why an effect is not what was approved, and what it would do now."""

    why: str
    about: dict[str, Any]
    diff: tuple[dict[str, Any], ...] | None = None


def expect_rows(run: Run, call_id: str, expected: ExpectedRows) -> None:
    """Set what the call's transaction must compare its changes with."""
    run.cache.setdefault(ExpectedRows, {})[call_id] = expected


async def compare_rows(
    run: Run,
    tool: Tool,
    call: ToolCall,
    effect: PlannedEffect,
    own: frozenset[str],
    rehearse: Rehearse,
) -> RowsDiffer | None:
    """Preview the call on the rows as they are; None if it matches the plan.

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
        text = safe_repr(seen.result.text, 200)
        return RowsDiffer(f"it would fail now: {text}", {"error": seen.result.text})
    if effect.rows is None:  # a plan of before these were kept
        same = digest_of(seen.diff) == digest_of(effect.diff)
    else:
        same = seen.rows == effect.rows and not seen.touched
    expect_rows(run, call.id, ExpectedRows(seen.rows, effect.mark, own, seen.touched))
    run.cache.setdefault(RowsDiffer, {})[call.id] = seen
    if same:
        return None
    about = {"rows": digest_of(seen.rows), "touched": seen.touched}
    return RowsDiffer(_describe(seen.diff or (), effect.diff), about, seen.diff)


def _decided_before(run: Run, call: ToolCall) -> list[Rehearsal]:
    """Return the previews of earlier calls in this reply that have not run yet."""
    turn, seen = run.turn, run.cache.get(RowsDiffer, {})
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
    return safe_repr("; ".join(parts), 300) + more
