"""The service behind calls to resources: permission, transaction, audit, result.

A tool call and a host's call go the same way; they differ in the transaction (the session's
journal or the store alone) and in what comes back (JSON or an object).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

from windlass import seams
from windlass.access.caller import Caller, recorded_user
from windlass.access.roles import Roles
from windlass.errors import PermissionDenied, StoreError
from windlass.json_types import JsonObject, is_object, is_sequence
from windlass.messages import ToolResult
from windlass.redaction.redactor import Redactor
from windlass.resources import audit, schema
from windlass.resources.audit import Origin
from windlass.resources.methods import begin, row_for
from windlass.resources.plan_check import check_rows, find_expected
from windlass.resources.query import Page
from windlass.resources.resource import Resource
from windlass.resources.row import ResourcePlan, plan_of
from windlass.resources.tx import ResourceTx, tenant_of
from windlass.resources.verbs import Verb
from windlass.store.base import Store
from windlass.tools.middleware.preview import ExpectedRows
from windlass.tools.render import to_text
from windlass.tools.result import answer
from windlass.tools.tool import AgentInfo, Tool, ToolContext

T = TypeVar("T")
Commit = Callable[[Callable[[Any], Any]], Awaitable[Any]]


class ResourceService:
    """The shared state of a Runtime's resources: store, roles, and tables that are ready."""

    def __init__(
        self,
        store: Callable[[], Store],
        roles: Callable[[], Roles],
        redactor: Callable[[], Redactor | None],
    ) -> None:
        self.store, self.roles, self.redactor = store, roles, redactor
        self.plans: Callable[[], frozenset[ResourcePlan]] = frozenset  # set by the registry
        self._name = seams.new_id("host")
        self._ready: frozenset[ResourcePlan] = frozenset()
        self._ready_in: Store | None = None
        self._dialect = ""
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._lanes: list[int] = []  # chains of host calls that are free now
        self._count = 0

    async def prepare(self, store: Store) -> frozenset[ResourcePlan]:
        """Create the tables of all resources: a method may work with several."""
        plans = self.plans()
        if self._has_tables(store, plans):
            return plans

        def body(tx: Any) -> str:
            audit.ensure(tx)
            for plan in plans:
                schema.ensure(tx, plan)
            return tx.dialect

        self._dialect = await store.commit(body)
        self._ready, self._ready_in = plans, store
        return plans

    def _has_tables(self, store: Store, plans: frozenset[ResourcePlan]) -> bool:
        return self._ready_in is store and (plans is self._ready or plans <= self._ready)

    # ----------------------------------------------------------------- a tool's call

    async def for_tool(self, verb: Verb, arguments: JsonObject, ctx: ToolContext[Any]) -> Any:
        """Answer a call of a run, in its session's transaction."""
        store = self.store()
        if getattr(ctx.scope, "store", store) is not store:
            raise StoreError(
                f"{verb.tool}: the rows are in the Runtime's store, and this session in another; "
                "run it without `store=`"
            )
        known = self.plans()
        if not self._has_tables(store, known):
            known = await self.prepare(store)
        session, caller = ctx.session_id, ctx.caller
        origin = self._origin(
            verb,
            caller,
            f"session:{session}",
            *audit.host_ids(ctx),
            session,
            ctx.run_id,
            ctx.call_id,
        )
        if verb.reads:
            return await self._read(verb, arguments, origin, caller, store, as_json, ctx, known)
        commit = self._in_turn(session, ctx.commit)
        call = _Call(self, verb, arguments, origin, caller, commit, _as_result, known)
        call.expected = find_expected(ctx)
        try:
            return await call.answer(store, ctx)
        except PermissionDenied as error:
            if call.committed:
                raise
            return await commit(call.denial(str(error)))

    def _in_turn(self, session: str | None, commit: Commit) -> Commit:
        """Wrap a commit so that those of one session run one after the other.

        They would all want the end of its chain and its journal, and run again until they had it.
        """
        if session is None or self._dialect != "postgres":
            return commit
        lock = self._turns.setdefault(session, asyncio.Lock())

        async def alone(body: Callable[[Any], Any]) -> Any:
            async with lock:
                return await commit(body)

        return alone

    # ----------------------------------------------------------------- a host's call

    async def for_host(
        self,
        verb: Verb,
        arguments: JsonObject,
        caller: Caller,
        request: str | None = None,
        conversation: str | None = None,
    ) -> Any:
        """Answer a call of the host, in a transaction of its own."""
        store = self.store()
        known = await self.prepare(store)
        if self._lanes:
            lane = self._lanes.pop()
        else:
            lane, self._count = self._count, self._count + 1
        try:
            chain = f"host:{self._name}:{caller.tenant or ''}"
            origin = self._origin(verb, caller, chain, request, conversation, lane=lane)
            show = _objects(verb.plan)
            if verb.reads and verb.method is None:
                return await self._read(verb, arguments, origin, caller, store, show, None, known)
            call = _Call(self, verb, arguments, origin, caller, store.commit, show, known)
            try:
                return await call.answer(store, None)
            except PermissionDenied as error:
                if not call.committed:
                    await store.commit(call.denial(str(error)))
                raise
        finally:
            self._lanes.append(lane)

    async def _read(
        self,
        verb: Verb,
        arguments: JsonObject,
        origin: Origin,
        caller: Caller,
        store: Store,
        show: Callable[[Any], Any],
        ctx: ToolContext[Any] | None,
        known: frozenset[ResourcePlan],
    ) -> Any:
        kept = verb.plan.cls.audit_reads
        commit = self._in_turn(origin.session, store.commit)
        if not kept and verb.method is None:
            commit = store.consult
        call = _Call(self, verb, arguments, origin, caller, commit, show, known, kept=kept)
        try:
            return await call.answer(store, ctx)
        except PermissionDenied as error:
            await store.commit(call.denial(str(error)))
            raise

    def _origin(
        self,
        verb: Verb,
        caller: Caller,
        chain: str,
        request: str | None,
        conversation: str | None,
        session: str | None = None,
        run: str | None = None,
        call: str | None = None,
        *,
        lane: int = 0,
    ) -> Origin:
        return Origin(
            chain,
            seams.now(),
            caller.tenant,
            recorded_user(caller),
            caller.roles,
            verb.tool,
            verb.plan.name,
            verb.name,
            request,
            conversation,
            session,
            run,
            call,
            lane,
        )


class _Call:
    """One call in progress."""

    __slots__ = (
        "arguments",
        "caller",
        "commit",
        "committed",
        "desk",
        "expected",
        "kept",
        "known",
        "origin",
        "redactor",
        "show",
        "value",
        "verb",
    )

    def __init__(
        self,
        desk: ResourceService,
        verb: Verb,
        arguments: JsonObject,
        origin: Origin,
        caller: Caller,
        commit: Commit,
        show: Callable[[Any], Any],
        known: frozenset[ResourcePlan],
        *,
        kept: bool = True,
    ) -> None:
        self.desk, self.verb, self.arguments, self.origin = desk, verb, arguments, origin
        self.caller, self.commit, self.show, self.kept = caller, commit, show, kept
        self.known = known
        self.redactor = desk.redactor()
        self.expected: ExpectedRows | None = None  # by the plan that the call belongs to
        self.committed = False
        self.value: Any = None  # what the body returned, before it was made to be shown

    def answer(self, store: Store, ctx: ToolContext[Any] | None) -> Awaitable[Any]:
        """Run the call, if the caller may: `await call.answer(store, ctx)`."""
        refused = self.desk.roles().refusal(self.caller, self.verb.action)
        if refused is not None:
            raise PermissionDenied(refused)
        tenant = tenant_of(self.caller)
        method = self.verb.method
        if method is not None and method.waits:
            return self._slowly(store, tenant, ctx)
        return self.commit(lambda tx: self.body(tx, tenant, self._run))

    def _run(self, tx: ResourceTx) -> Any:
        return self.verb.run(tx, self.arguments)

    def body(self, tx: object, tenant: str, run: Callable[[ResourceTx], Any]) -> Any:
        """Run the effect and write its audit row."""
        work = ResourceTx(tx, self.caller, tenant, self.origin.at, self.known)
        value = self.value = run(work)
        if self.expected is not None:
            check_rows(tx, tenant, work.changes, self.expected)
        if self.kept:
            row = self.arguments.get("id")
            audit.write(tx, self.origin, work.changes, row=row, redactor=self.redactor)
        return self.show(value)

    async def _slowly(self, store: Store, tenant: str, ctx: ToolContext[Any] | None) -> Any:
        verb, method = self.verb, self.verb.method
        made = None
        if method.on_row:

            def look(tx: object) -> Any:
                work = ResourceTx(tx, self.caller, tenant, self.origin.at, self.known)
                return row_for(work, verb.plan, method, self.arguments)

            made = await store.consult(look)
        own_context = _Context.of(self, tenant, ctx)
        value = await begin(verb.plan, method, made, self.arguments, own_context)
        if self.committed:
            return self.show(value)
        return await self.commit(lambda tx: self.body(tx, tenant, lambda _: value))

    def denial(self, reason: str) -> Callable[[Any], ToolResult]:
        """Build the body that logs a refusal."""

        def body(tx: object) -> ToolResult:
            audit.write(
                tx,
                self.origin,
                (),
                row=self.arguments.get("id"),
                outcome="denied",
                reason=reason,
                redactor=self.redactor,
            )
            return denial_result(self.verb.tool, reason)

        return body


class _Context(ToolContext[Any]):
    """The context of an async method: its commit is audited, and its `tx` knows the tenant."""

    call: _Call = cast("Any", None)
    tenant: str = ""

    @classmethod
    def of(cls, call: _Call, tenant: str, ctx: ToolContext[Any] | None) -> _Context:
        """Build the context of a call, from that of the tool it is made as."""
        origin = call.origin
        return cls(
            None if ctx is None else ctx.deps,
            call.caller,
            origin.session or "",
            origin.run or "",
            origin.call or seams.new_id("call"),
            origin.tool,
            cast("Any", _Outside()) if ctx is None else ctx.scope,
            1 if ctx is None else ctx.attempt,
            call=call,
            tenant=tenant,
        )

    async def commit(self, body: Callable[[Any], T]) -> T:
        """Run `body(tx)` in one transaction with the audit row and the record of this call."""
        call = self.call
        if call.committed:
            raise RuntimeError(f"{self.tool_name} has committed already; a call commits once")
        await call.commit(lambda tx: call.body(tx, self.tenant, body))
        call.committed = True
        return call.value


class _Outside:
    """The scope of a method that is called outside of a run."""

    agent = AgentInfo("host", "host")
    cancelled = False
    pool: Executor | None = None

    def progress(self, call_id: str, data: object) -> None:
        """Ignore progress: nobody watches."""

    def again(self, call_id: str, tool: Tool, attempt: int) -> bool:
        """Refuse a retry."""
        return False

    def keep_error(self, call_id: str, error: BaseException) -> None:
        """Ignore an error: there is no record."""

    async def commit(self, call_id: str, body: Callable[[Any], Any]) -> Any:
        """Refuse: `_Context.commit` replaces it."""
        raise RuntimeError("only a call can commit")


# --------------------------------------------------------------------------- answers


def denial_result(tool: str, reason: str) -> ToolResult:
    """Build the result that a model reads for a call its caller may not make."""
    text = to_text({"error": "permission_denied", "tool": tool, "reason": reason})
    return ToolResult(content=text, is_error=True, name=tool, outcome="denied")


def as_json(value: object) -> Any:
    """Convert rows, pages and objects to JSON."""
    if type(value) is dict:  # most often a row as JSON has it
        return cast("JsonObject", value)
    if isinstance(value, Resource):
        return plan_of(type(value)).to_plain(value)
    if isinstance(value, Page):
        page = cast("Page[Any]", value)
        return {"rows": [as_json(one) for one in page.rows], "cursor": page.cursor}
    if is_sequence(value):
        return [as_json(one) for one in value]
    return value


def _as_result(value: object) -> ToolResult:
    """Convert what a call of a run answers to its result, once for the record and the model."""
    return answer(as_json(value))


def _objects(plan: ResourcePlan) -> Callable[[Any], Any]:
    """Build a function that converts rows to objects, and leaves other values as they are."""
    keys = {*plan.by_name, "version"}

    def show(value: object) -> Any:
        if isinstance(value, Page):
            page = cast("Page[Any]", value)
            return Page([show(one) for one in page.rows], page.cursor)
        if is_object(value) and value.keys() == keys:
            return plan.instance(value)
        return cast("Any", value)

    return show
