"""Previews of calls to resources, in a transaction that is rolled back.

Rehearsals build on each other. What earlier ones changed is put in place first, so that a later call,
also one that only reads, sees the rows as they would be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from windlass.access.caller import recorded_user
from windlass.errors import PermissionDenied, StoreError
from windlass.json_types import JsonObject, is_object
from windlass.resources import audit
from windlass.resources.plan_check import (
    describe_rows,
    end_of_log,
    find_expected,
    find_last_write,
    find_loose,
)
from windlass.resources.row import ResourcePlan
from windlass.resources.service import ResourceService, as_json, denial_result
from windlass.resources.tx import Change, ResourceTx, tenant_of
from windlass.resources.verbs import Verb
from windlass.seams import now
from windlass.store.base import Store
from windlass.tools.middleware.preview import Rehearsal
from windlass.tools.result import answer
from windlass.tools.tool import ToolContext

_LATER = 86_461.5  # seconds: what a call makes of the time shows when it is another


class Enough(Exception):
    """Ends a body whose transaction is rolled back; carries its result."""

    def __init__(self, value: object) -> None:
        super().__init__("rolled back: it was a rehearsal")
        self.value = value


async def run_and_roll_back(store: Store, body: Callable[[Any], Any]) -> Any:
    """Run a body for its result, and roll back what it did."""

    def without(tx: object) -> None:
        raise Enough(body(tx))

    try:
        await store.commit(without)
    except Enough as found:
        return found.value
    raise AssertionError("a rehearsal was kept")


async def preview_verb(
    desk: ResourceService,
    verb: Verb,
    arguments: JsonObject,
    ctx: ToolContext[Any],
    earlier: Sequence[Rehearsal],
) -> Rehearsal | None:
    """Return the result and changes of the call; None if it may do more than change rows."""
    if beyond_rows(verb):
        return None
    store = same_store(desk, ctx, verb.tool)
    known = await desk.prepare(store)
    before = [change for one in earlier for change in one.changes]
    refused = desk.roles().refusal(ctx.caller, verb.action)
    try:
        if refused is not None:
            raise PermissionDenied(refused)
        tenant, at = tenant_of(ctx.caller), now()

        expected = find_expected(ctx)

        def body(tx: Any) -> tuple[Any, list[Change], int, int]:
            mark = end_of_log(tx)
            work = ResourceTx(tx, ctx.caller, tenant, at, known)
            _in_place(work, before)
            work.changes.clear()
            value = as_json(verb.run(work, arguments))
            touched = 0
            if expected is not None:
                touched = find_last_write(tx, tenant, work.changes, expected.mark, expected.own)
            return value, work.changes, mark, touched

        def again(tx: Any) -> list[Change]:
            work = ResourceTx(tx, ctx.caller, tenant, at + _LATER, known)
            _in_place(work, before)
            work.changes.clear()
            try:
                verb.run(work, arguments)
            except Exception:
                return []  # at another time it fails: then nothing of it may differ
            return work.changes

        value, changes, mark, touched = await run_and_roll_back(store, body)
        loose: Sequence[Sequence[str]] = ()
        if expected is not None and len(expected.rows or ()) == len(changes):
            loose = [one["loose"] for one in expected.rows or ()]
        elif changes:
            loose = find_loose(changes, await run_and_roll_back(store, again), earlier)
    except PermissionDenied as error:
        if verb.reads:
            await store.commit(_build_preview(desk, verb, ctx, arguments, "denied", str(error)))
        return Rehearsal(denial_result(verb.tool, str(error)))
    if verb.reads and verb.plan.cls.audit_reads:
        await store.commit(_build_preview(desk, verb, ctx, arguments, "ok", None))
    diff = tuple([difference(change) for change in changes])
    pinned = _pinned_id(verb, arguments, value)
    rows = describe_rows(changes, loose)
    return Rehearsal(answer(value), diff, pinned, tuple(changes), rows, mark, touched)


def beyond_rows(verb: Verb) -> bool:
    """Check whether a call may do more than change rows."""
    reaches = verb.annotations["side_effect_level"] in ("network", "process_exec")
    return verb.method is not None and (verb.method.waits or reaches)


def same_store(desk: ResourceService, ctx: ToolContext[Any], tool: str) -> Store:
    """Return the store of the rows, which must be the session's too."""
    store = desk.store()
    if getattr(ctx.scope, "store", store) is not store:
        raise StoreError(
            f"{tool}: the rows are in the Runtime's store, and this session in another; "
            "run it without `store=`"
        )
    return store


def _in_place(work: ResourceTx, changes: Sequence[Change]) -> None:
    for change in changes:
        plan = change.plan
        if change.after is None:
            work.drop(plan, work.known(plan, change.id), None)
        elif change.before is None:
            work.insert(plan, plan.instance(change.after))
        else:
            work.change(plan, work.known(plan, change.id), plan.instance(change.after), None)


def _pinned_id(verb: Verb, arguments: JsonObject, value: object) -> JsonObject | None:
    """Return the id that was generated for a new row, so that the real call uses it."""
    if verb.method is not None or verb.name != "create" or arguments.get("id") is not None:
        return None
    made = value if is_object(value) else {}
    return {"id": made["id"]} if "id" in made else None


def difference(change: Change) -> JsonObject:
    """Describe a change field by field, for a person."""
    plan, before, after = change.plan, change.before, change.after
    fields: JsonObject = {}
    for one in plan.fields:
        old = None if before is None else before[one.name]
        new = None if after is None else after[one.name]
        if old != new:
            fields[one.name] = "private" if one.name in plan.private else [old, new]
    verb = "create" if before is None else "delete" if after is None else "update"
    return {"resource": plan.name, "id": change.id, "verb": verb, "fields": fields}


def origin_of(
    desk: ResourceService, verb: str, plan: ResourcePlan, tool: str, ctx: ToolContext[Any]
) -> audit.Origin:
    """Build the origin of an audit row that is written here."""
    return audit.Origin(
        f"session:{ctx.session_id}",
        now(),
        ctx.caller.tenant,
        recorded_user(ctx.caller),
        ctx.caller.roles,
        tool,
        plan.name,
        verb,
        *audit.host_ids(ctx),
        session=ctx.session_id,
        run=ctx.run_id,
        call=ctx.call_id,
    )


def _build_preview(
    desk: ResourceService,
    verb: Verb,
    ctx: ToolContext[Any],
    arguments: JsonObject,
    outcome: str,
    reason: str | None,
) -> Callable[[Any], None]:
    """Build the body that logs a read or refusal that was answered in a preview."""
    origin = origin_of(desk, verb.name, verb.plan, verb.tool, ctx)
    redactor = desk.redactor()

    def body(tx: object) -> None:
        audit.write(
            tx,
            origin,
            (),
            row=arguments.get("id"),
            outcome=outcome,
            reason=reason,
            redactor=redactor,
        )

    return body
