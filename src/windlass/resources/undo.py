"""Undo of calls to resources from the audit log, which has the rows as they were.

What was created is deleted, what was deleted is made again, what was changed gets its old values; all
rows of a call together, in one transaction with the record. A row that was changed since is a
`Conflict`, unless those changes were undone themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from windlass.errors import Conflict, PermissionDenied, ResourceError, safe_repr
from windlass.json_types import JsonObject
from windlass.resources import audit
from windlass.resources.audit import AuditRow
from windlass.resources.preview import origin_of, run_and_roll_back, same_store
from windlass.resources.row import HOOKS, Plain, ResourcePlan
from windlass.resources.service import ResourceService
from windlass.resources.tx import ResourceTx, tenant_of
from windlass.resources.verbs import Verb, check_allowed
from windlass.seams import now
from windlass.tools.tool import ToolContext

UNDO = "undo"  # the verb of its audit rows
_BACK = {"create": "delete", "update": "update", "delete": "create"}


class CannotUndo(ResourceError):
    """An undo that is impossible: the log does not keep the old values."""

    code = "cannot_undo"


class _Row(msgspec.Struct, frozen=True):
    """The changes of one call to one row, from its first to its last."""

    plan: ResourcePlan
    id: Any
    versions: tuple[int | None, int | None]
    digests: tuple[str | None, str | None]
    old: JsonObject
    new: JsonObject
    private: tuple[str, ...]

    @property
    def verb(self) -> str:
        """What was done."""
        if self.digests[0] is None:
            return "create"
        return "delete" if self.digests[1] is None else "update"

    @property
    def named(self) -> str:
        return f"{self.plan.name} {safe_repr(self.id)}"

    @property
    def words(self) -> str:
        """A description of what the undo does."""
        if self.verb == "create":
            return f"delete {self.named}"
        if self.verb == "delete":
            return f"make {self.named} again"
        back = ", ".join(f"{name} to {safe_repr(value, 40)}" for name, value in self.old.items())
        return f"set {self.named} back: {back}"


class RowUndo:
    """The undo of a verb or a method of a resource."""

    def __init__(self, desk: ResourceService, verb: Verb) -> None:
        self.desk, self.verb = desk, verb
        self.__name__ = f"undo_{verb.tool}"

    async def foreseen(
        self, ctx: ToolContext[Any], first: Sequence[Callable[[Any], None]]
    ) -> tuple[str, Callable[[Any], None]]:
        """Describe what the undo would do after the ones in `first`; return also its body.

        Found by doing it and rolling back.
        """
        logged, rows, known = await self._read_changes(ctx)
        store = same_store(self.desk, ctx, self.verb.tool)

        def body(tx: object) -> None:
            self._body(tx, logged, rows, ctx, known)

        def all_of_it(tx: object) -> None:
            for each in (*first, body):
                each(tx)

        await run_and_roll_back(store, all_of_it)
        own = self.verb.method is not None or self.verb.plan.overridden[self.verb.name]
        beside = "; what its own code did beside these rows stays" if own else ""
        return "; ".join(row.words for row in rows) + beside, body

    async def __call__(self, _args: object, _result: object, ctx: ToolContext[Any]) -> Any:
        logged, rows, known = await self._read_changes(ctx)
        text = "; ".join(row.words for row in rows)

        def body(tx: object) -> str:
            self._body(tx, logged, rows, ctx, known)
            return text

        return await ctx.commit(body)

    async def _read_changes(
        self, ctx: ToolContext[Any]
    ) -> tuple[AuditRow, list[_Row], frozenset[ResourcePlan]]:
        store = same_store(self.desk, ctx, self.verb.tool)
        known = await self.desk.prepare(store)
        found = await audit.query(store, session=ctx.session_id, call=ctx.call_id, outcome="ok")
        found = [row for row in found if row.verb != UNDO]
        if not found:
            raise CannotUndo("the audit log has nothing of this call")
        rows = _rows(found[-1], {plan.name: plan for plan in known})
        if not rows:
            raise CannotUndo("the call changed no row")
        return found[-1], rows, known

    def _body(
        self,
        tx: Any,
        logged: AuditRow,
        rows: list[_Row],
        ctx: ToolContext[Any],
        known: frozenset[ResourcePlan],
    ) -> None:
        tenant = tenant_of(ctx.caller)
        work = ResourceTx(tx, ctx.caller, tenant, now(), known)
        for row in reversed(rows):
            self._may(row, work)
            expected = _expected_version(tx, logged, row, tenant)
            _reverse(work, row, expected)
        origin = origin_of(self.desk, UNDO, self.verb.plan, self.verb.tool, ctx)
        audit.write(tx, origin, work.changes, redactor=self.desk.redactor())

    def _may(self, row: _Row, work: ResourceTx) -> None:
        action = f"{row.plan.name}.{_BACK[row.verb]}"
        refused = self.desk.roles().refusal(work.caller, action)
        if refused is not None:
            raise PermissionDenied(refused)


def _rows(logged: AuditRow, plans: dict[str, ResourcePlan]) -> list[_Row]:
    """Return what the call did, row by row; several changes of one row are merged."""
    found: dict[tuple[str, str], _Row] = {}
    for change in cast("list[JsonObject]", msgspec.json.decode(logged.changes)):
        plan = plans.get(change["resource"])
        if plan is None:
            raise CannotUndo(f"there is no resource {change['resource']!r} in this Runtime")
        diff: JsonObject = change["diff"]
        visible: JsonObject = {name: pair for name, pair in diff.items() if pair != "private"}
        row = _Row(
            plan,
            change["id"],
            tuple(change["version"]),
            tuple(change["digest"]),
            {name: pair[0] for name, pair in visible.items()},
            {name: pair[1] for name, pair in visible.items()},
            tuple([name for name in diff if name not in visible]),
        )
        key = (plan.name, repr(change["id"]))
        first = found.get(key)
        if first is not None:
            row = _Row(
                plan,
                row.id,
                (first.versions[0], row.versions[1]),
                (first.digests[0], row.digests[1]),
                {**row.old, **first.old},
                {**first.new, **row.new},
                (*first.private, *row.private),
            )
        found[key] = row
    return [row for row in found.values() if row.digests != (None, None)]


def _expected_version(tx: Any, logged: AuditRow, row: _Row, tenant: str) -> int | None:
    """Return the version of an unchanged row, disregarding changes that were undone."""
    within = "instr" if tx.dialect == "sqlite" else "strpos"
    about = {"resource": row.plan.name, "id": row.id}
    needle = msgspec.json.encode(about).decode()[1:-1]
    sql = (
        f"SELECT verb, session, call, caller, changes FROM {audit.TABLE} WHERE n > ? AND "
        f"outcome = 'ok' AND coalesce(tenant, '') = ? AND {within}(changes, ?) > 0 ORDER BY n"
    )
    version = row.versions[1]
    done: dict[tuple[str, str], str] = {}
    for verb, session, call, caller, changes in tx.execute(
        sql, (logged.n, tenant, needle)
    ).fetchall():
        for change in msgspec.json.decode(changes):
            if change["resource"] == row.plan.name and change["id"] == row.id:
                version = change["version"][1]
        if verb == UNDO:
            done.pop((session, call), None)
        else:
            done[session, call] = caller
    if done:
        ((_, call), caller) = next(iter(done.items()))
        raise Conflict(f"{row.named} was changed since, by {caller} (call {call})")
    return version


def _reverse(work: ResourceTx, row: _Row, version: int | None) -> None:
    plan, current = row.plan, work.row(row.plan, row.id)
    if row.verb == "delete":
        if current is not None:
            raise Conflict(f"{row.named} is there again")
        before = _before(row, {})
        made = plan.instance(before)
        _check_permitted(work, plan, "create", made)
        work.insert(plan, made)
        return
    if current is None:
        raise Conflict(f"{row.named} is gone")
    _check_unchanged(row, current, version)
    if row.verb == "create":
        _check_permitted(work, plan, "delete", plan.instance(current))
        work.drop(plan, current, None)
        return
    before = _before(row, current)
    after = plan.instance(before)
    for made in (plan.instance(current), after):
        _check_permitted(work, plan, "update", made)
    work.change(plan, current, after, None)


def _check_unchanged(row: _Row, current: Plain, version: int | None) -> None:
    if row.plan.version is not None:
        same = current["version"] == version
    else:
        same = all(current.get(name) == value for name, value in row.new.items())
    if not same:
        raise Conflict(f"{row.named} was changed since", current["version"])


def _before(row: _Row, current: Plain) -> Plain:
    """Rebuild the row as it was; raise if the log holds only a digest of a field."""
    if row.private:
        raise CannotUndo(f"{row.named}: the log does not keep {', '.join(row.private)}")
    before = {one.name: row.old.get(one.name, current.get(one.name)) for one in row.plan.fields}
    before["version"] = row.versions[0]
    if audit.fingerprint(before, row.plan.private) != row.digests[0]:
        raise CannotUndo(f"{row.named}: the log does not keep all of what it was")
    return before


def _check_permitted(work: ResourceTx, plan: ResourcePlan, verb: str, made: object) -> None:
    if plan.hooks[verb]:
        check_allowed(made, HOOKS[verb], work)
