"""Checks that a call by an approved plan changes rows only as approved.

A plan keeps, for each row that an effect would write, a digest of the row before and after, and where
the audit log ended. A row that was deleted and made again may look as it did; the log knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.errors import Conflict
from windlass.json_types import JsonObject
from windlass.loop.run import Run
from windlass.resources import audit
from windlass.resources.tx import Change
from windlass.tools.middleware.preview import ExpectedRows, Rehearsal
from windlass.tools.tool import ToolContext


def find_expected(ctx: ToolContext[Any] | None) -> ExpectedRows | None:
    """Return what the plan of this call expects of it; None if the call has no plan."""
    if ctx is None or not isinstance(ctx.scope, Run):
        return None
    known: Mapping[str, ExpectedRows] | None = ctx.scope.cache.get(ExpectedRows)
    return None if known is None else known.get(ctx.call_id)


def describe_rows(
    changes: Sequence[Change], loose: Sequence[Sequence[str]]
) -> tuple[JsonObject, ...]:
    """Describe each row for a plan; `loose` names the fields of each that may differ."""
    return tuple([_describe(change, names) for change, names in zip(changes, loose, strict=True)])


def _describe(change: Change, loose: Sequence[str]) -> JsonObject:
    without = change.plan.private | frozenset(loose)
    return {
        "resource": change.plan.name,
        "id": None if "id" in loose else change.id,
        "before": audit.fingerprint(change.before, without),
        "after": audit.fingerprint(change.after, without),
        "loose": list(loose),
    }


def find_loose(
    changes: Sequence[Change], again: Sequence[Change], earlier: Sequence[Rehearsal]
) -> list[list[str]]:
    """Find the fields that differed on a second trial of the same call: times, new ids.

    What is loose in a row stays so for the calls after it.
    """
    inherited: dict[tuple[str, Any], set[str]] = {}
    for one in earlier:
        for change, row in zip(one.changes, one.rows or (), strict=False):
            names = {name for name in row["loose"] if name != "id"}
            inherited.setdefault((change.plan.name, change.id), set()).update(names)
    found: list[list[str]] = []
    for at, change in enumerate(changes):
        other = again[at] if len(again) == len(changes) else change
        first, second = change.after, other.after
        names = [] if first is None or second is None else [one.name for one in change.plan.fields]
        if other.plan is not change.plan:
            names = []
        loose = inherited.get((change.plan.name, change.id), set[str]())
        loose = loose | {name for name in names if (first or {})[name] != (second or {})[name]}
        found.append(sorted(loose))
    return found


def end_of_log(tx: Any) -> int:
    """Return the number of the last row of the audit log."""
    return tx.execute(f"SELECT max(n) FROM {audit.TABLE}").fetchone()[0] or 0


def find_last_write(
    tx: Any, tenant: str, changes: Sequence[Change], mark: int | None, own: frozenset[str]
) -> int:
    """Find the last write to these rows since `mark`, but for the plan's own calls.

    0: there is none.
    """
    if mark is None or not changes:
        return 0
    within = "instr" if tx.dialect == "sqlite" else "strpos"
    rows = {(change.plan.name, change.id) for change in changes}
    sql = (
        f"SELECT n, session, call, changes FROM {audit.TABLE} WHERE n > ? AND outcome = 'ok' "
        f"AND coalesce(tenant, '') = ? AND {within}(changes, ?) > 0"
    )
    last = 0
    for name in sorted({name for name, _id in rows}):
        needle = msgspec.json.encode({"resource": name}).decode()[1:-1]
        for n, session, call, written in tx.execute(sql, (mark, tenant, needle)).fetchall():
            if n <= last or f"{session}:{call}" in own:
                continue
            if any((one["resource"], one["id"]) in rows for one in msgspec.json.decode(written)):
                last = n
    return last


def check_rows(tx: object, tenant: str, changes: Sequence[Change], expected: ExpectedRows) -> None:
    """Raise `Conflict`, so that nothing is kept, where a call did other than approved."""
    if expected.rows is None:
        return
    loose = [one["loose"] for one in expected.rows]
    same = len(changes) == len(loose) and describe_rows(changes, loose) == expected.rows
    if same and (
        find_last_write(tx, tenant, changes, expected.mark, expected.own) == expected.touched
    ):
        return
    raise Conflict(
        "the rows are not what they were when this was approved; nothing was done. Read them again"
    )
