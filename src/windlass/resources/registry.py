"""`@export`, and the registry of a Runtime's resources, as tools and for the host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, Unpack, cast, overload

import msgspec

from windlass.access.caller import Caller
from windlass.errors import (
    ConfigError,
    Conflict,
    InvalidValue,
    PermissionDenied,
    ResourceError,
    nearest,
    safe_repr,
)
from windlass.json_types import JsonObject
from windlass.messages import ToolResult
from windlass.resources import audit
from windlass.resources.audit import AuditRow, Which
from windlass.resources.current import current_resources
from windlass.resources.methods import methods_of
from windlass.resources.preview import preview_verb
from windlass.resources.query import Page
from windlass.resources.resource import Resource
from windlass.resources.row import ResourcePlan, is_resource, keep_plan, plan_of
from windlass.resources.service import ResourceService, denial_result
from windlass.resources.undo import RowUndo
from windlass.resources.verbs import Verb, verbs_of
from windlass.tools.middleware.preview import Rehearsal
from windlass.tools.render import to_text
from windlass.tools.result import refusal
from windlass.tools.tool import Parked, Tool, ToolContext

R = TypeVar("R", bound=Resource)
C = TypeVar("C", bound=type[Resource])
LONGEST_NAME = 64  # of a tool, with most providers

_exported: dict[str, type[Resource]] = {}  # exported outside of any Runtime


@overload
def export(cls: C, /) -> C: ...


@overload
def export(
    *, name: str | None = None, verbs: Sequence[str] | None = None, scope: Any = None
) -> Callable[[C], C]: ...


def export(
    cls: Any = None,
    /,
    *,
    name: str | None = None,
    verbs: Sequence[str] | None = None,
    scope: Any = None,
) -> Any:
    """Offer the verbs of a resource as tools: `get_product`, `search_product`, ….

    ```python
    @w.export(name="shop/products", verbs=["get", "search"])
    class Product(w.Resource): ...
    ```
    It belongs to the Runtime given as `scope`, else to the one around it (`async with Runtime()`),
    else to every Runtime without its own `resources`.
    """

    def mark(one: Any) -> Any:
        if not is_resource(one):
            raise ConfigError(f"@export is for a class of w.Resource, not for {safe_repr(one)}")
        if name is not None:
            one.path = name
        if verbs is not None:
            one.verbs = tuple(verbs)
        plan = ResourcePlan(one)
        keep_plan(one, plan)
        build_verbs(plan)
        around = current_resources.get()
        if scope is not None:
            scope.resources.add(one)
        elif around is not None:
            around().add(one)
        else:
            _exported[f"{one.__module__}:{one.__qualname__}"] = one  # a newer one replaces it
        return one

    return mark if cls is None else mark(cls)


def build_verbs(plan: ResourcePlan) -> list[Verb]:
    """Build every verb and method of a resource; check that models can call their names."""
    if plan.made is not None:
        return plan.made
    found = [*verbs_of(plan), *methods_of(plan)]
    names: set[str] = set()
    for verb in found:
        if len(verb.tool) > LONGEST_NAME:
            raise ConfigError(
                f"{plan.label}: the tool {safe_repr(verb.tool)} would have more than {LONGEST_NAME} "
                "characters; give the class a shorter path"
            )
        if verb.tool in names:
            raise ConfigError(f"{plan.label}: two of its tools are called {verb.tool!r}")
        names.add(verb.tool)
    plan.made = found
    return found


_COPIES = ("create", "update", "delete")  # verbs that copy what they hand on of the arguments


class ResourceTool(Tool):
    """A verb of a resource as a tool."""

    __slots__ = ("_desk", "verb")

    def __init__(self, desk: ResourceService, verb: Verb) -> None:
        def answer(arguments: JsonObject, ctx: ToolContext[Any]) -> Awaitable[Any]:
            return desk.for_tool(verb, arguments, ctx)

        # The schema is generated and valid, so it is compiled when it is first needed.
        options = {"annotations": verb.annotations, "transactional": not verb.reads}
        self._begin(verb.tool, verb.description, options)
        self.handler, self.is_async, self.wants_context = answer, True, True
        self._offer(verb.parameters, verb.description)
        self.verb, self._desk = verb, desk
        if not verb.reads:
            self.undo = RowUndo(desk, verb)

    def _invoke(self, arguments: JsonObject, ctx: ToolContext[Any]) -> Any:
        assert self.handler is not None
        if self.verb.method is None and self.verb.name in _COPIES:
            return self.handler(arguments, ctx)
        return super()._invoke(arguments, ctx)

    def _finish(self, value: Any) -> ToolResult | Parked:
        if type(value) is ToolResult and not self.verb.reads:
            return value  # as it is on record
        return super()._finish(value)

    async def rehearse(
        self, arguments: JsonObject, ctx: ToolContext[Any], earlier: Sequence[Rehearsal]
    ) -> Rehearsal | None:
        """Preview the call in a transaction that is rolled back, after earlier previews."""
        try:
            return await preview_verb(self._desk, self.verb, arguments, ctx, earlier)
        except Exception as error:
            return Rehearsal(self._error_result(error))

    def _error_result(self, error: BaseException) -> ToolResult:
        if isinstance(error, PermissionDenied):
            return denial_result(self.name, str(error))
        if not isinstance(error, ResourceError):
            return super()._error_result(error)
        document: JsonObject = {"error": error.code, "tool": self.name, "reason": str(error)}
        if isinstance(error, Conflict) and error.version is not None:
            document["version"] = error.version
        return refusal(to_text(document), "invalid" if isinstance(error, InvalidValue) else "error")


class _Entry(msgspec.Struct, frozen=True):
    plan: ResourcePlan
    verbs: dict[str, Verb]
    tools: tuple[ResourceTool, ...]


class Resources:
    """The resources of a Runtime: `scope.resources`.

    ```python
    products = scope.resources[Product]              # or scope.resources.Product
    await products.create({"name": "Pen", "price": 1.5}, caller=ann)
    agent = w.Agent(model, tools=scope.resources.tools(ann))
    ```
    """

    def __init__(
        self, desk: ResourceService, classes: Iterable[type[Resource]] | None = None
    ) -> None:
        self._desk = desk
        self._own: dict[str, type[Resource]] = {}
        self._open = classes is None  # takes whatever the process exports
        self._entries: dict[type[Resource], _Entry] = {}
        self._known: tuple[type[Resource], ...] = ()
        self._plans: frozenset[ResourcePlan] = frozenset()
        self._is_compiled = False  # and nothing but `add` brings more
        desk.plans = self._all_plans
        for one in classes or ():
            self.add(one)

    def add(self, cls: type[Resource]) -> None:
        """Add a resource."""
        if not is_resource(cls):
            raise ConfigError(f"resources are classes of w.Resource, not {safe_repr(cls)}")
        plan_of(cls)
        self._own[f"{cls.__module__}:{cls.__qualname__}"] = cls
        self._is_compiled = False

    def _all(self) -> dict[type[Resource], _Entry]:
        """Return every resource that is registered now, each compiled once."""
        if self._is_compiled:
            return self._entries
        classes = {**(_exported if self._open else {}), **self._own}.values()
        known = tuple(classes)
        if known == self._known:
            return self._entries
        entries: dict[type[Resource], _Entry] = {}
        names: dict[str, ResourcePlan] = {}
        tables: dict[str, ResourcePlan] = {}
        for cls in known:
            plan = plan_of(cls)
            kept = self._entries.get(cls)
            if kept is None or kept.plan is not plan:
                verbs = build_verbs(plan)
                tools = tuple(ResourceTool(self._desk, verb) for verb in verbs)
                kept = _Entry(plan, {verb.name: verb for verb in verbs}, tools)
            for tool in kept.tools:
                _alone(names, tool.name, plan, "a tool")
            _alone(tables, plan.table.lower(), plan, "a table")
            entries[cls] = kept
        self._entries, self._known = entries, known
        self._plans = frozenset(entry.plan for entry in entries.values())
        self._is_compiled = not self._open
        return entries

    def _all_plans(self) -> frozenset[ResourcePlan]:
        self._all()
        return self._plans

    def tools(self, caller: Caller | None = None) -> list[Tool]:
        """List all tools, or those that this caller may call now."""
        found = [tool for entry in self._all().values() for tool in entry.tools]
        if caller is None:
            return list[Tool](found)
        roles = self._desk.roles()
        return [tool for tool in found if roles.allows(caller, tool.verb.action)]

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools())

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, cls: type[Resource]) -> bool:
        return cls in self._all()

    def __getitem__(self, cls: type[R]) -> Handle[R]:
        entry = self._all().get(cls)
        if entry is None:
            raise ConfigError(
                f"{safe_repr(cls)} is not exported here; write @w.export above the class"
            )
        return Handle(self._desk, entry)

    def __getattr__(self, name: str) -> Handle[Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        classes = {cls.__name__: cls for cls in self._all()}
        found = classes.get(name)
        if found is None:
            raise AttributeError(f"there is no resource {name!r}{nearest(name, classes)}")
        return self[found]

    async def prepare(self) -> None:
        """Create or extend every table now, rather than at the first call."""
        await self._desk.prepare(self._desk.store())

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        caller: Caller | None = None,
        request_id: str | None = None,
        conversation_id: str | None = None,
    ) -> Any:
        """Call a tool by its name, as a host: `await resources.call("get_product", {"id": "p1"})`."""
        tools = {one.name: one for entry in self._all().values() for one in entry.tools}
        found = tools.get(tool)
        if found is None:
            raise ConfigError(f"there is no tool {safe_repr(tool)}{nearest(str(tool), tools)}")
        prepared = found.prepare(dict(arguments))
        if prepared.problems:
            raise InvalidValue("; ".join(prepared.problems))
        who = caller or Caller.local()
        return await self._desk.for_host(
            found.verb, prepared.arguments, who, request_id, conversation_id
        )

    async def audit(self, **which: Unpack[Which]) -> list[AuditRow]:
        """Query the audit log: `await scope.resources.audit(session="s1", resource="product")`."""
        return await audit.query(self._desk.store(), **which)


def _alone(taken: dict[str, ResourcePlan], name: str, plan: ResourcePlan, what: str) -> None:
    other = taken.setdefault(name, plan)
    if other is not plan:
        raise ConfigError(
            f"{plan.cls.__module__}.{plan.label} and {other.cls.__module__}.{other.label} both have "
            f"{what} {name!r}; give one of them another path, or tell the Runtime which resources it has"
        )


class Handle(Generic[R]):
    """A resource for the host; every call is checked and recorded in the name of `caller`.

    ```python
    products = scope.resources[Product]
    pen = await products.create(name="Pen", price=1.5, caller=ann)
    pen = await products.update(pen.id, {"price": 2.0}, version=pen.version, caller=ann)
    cheap = await products.search({"price": {"lt": 5}}, sort="-price", limit=10, caller=ann)
    await products.run("restock", pen.id, amount=5, caller=ann)
    ```
    Raises `NotFound`, `Conflict`, `InvalidValue` or `PermissionDenied`.
    """

    __slots__ = ("_desk", "_entry")

    def __init__(self, desk: ResourceService, entry: _Entry) -> None:
        self._desk, self._entry = desk, entry

    def _verb(self, name: str) -> Verb:
        found = self._entry.verbs.get(name)
        if found is None:
            raise ConfigError(
                f"{self._entry.plan.label} offers no {safe_repr(name)}{nearest(name, self._entry.verbs)}"
            )
        return found

    async def _do(
        self,
        verb: str,
        arguments: JsonObject,
        caller: Caller | None,
        request_id: str | None,
        conversation_id: str | None,
    ) -> Any:
        who = Caller.local() if caller is None else caller
        return await self._desk.for_host(
            self._verb(verb), arguments, who, request_id, conversation_id
        )

    async def get(
        self,
        id: object,
        *,
        caller: Caller | None = None,
        request_id: str | None = None,
        conversation_id: str | None = None,
    ) -> R:
        """Return the row with this id, or raise `NotFound`."""
        return await self._do("get", {"id": id}, caller, request_id, conversation_id)

    async def search(
        self,
        where: Mapping[str, Any] | None = None,
        *,
        sort: str | Sequence[str] = (),
        limit: int | None = None,
        cursor: str | None = None,
        caller: Caller | None = None,
        request_id: str | None = None,
        conversation_id: str | None = None,
    ) -> Page[R]:
        """Return the rows that match, a page at a time."""
        arguments: JsonObject = {"where": where, "sort": sort, "limit": limit, "cursor": cursor}
        return await self._do("search", arguments, caller, request_id, conversation_id)

    async def create(
        self,
        values: Mapping[str, Any] | R | None = None,
        *,
        caller: Caller | None = None,
        request_id: str | None = None,
        conversation_id: str | None = None,
        **more: Any,
    ) -> R:
        """Create a row from an object, a dict, or keywords, and return it."""
        given = cast("Any", values)
        if isinstance(given, Resource):
            given = msgspec.structs.asdict(given)
        arguments = {**(given or {}), **more}
        return await self._do("create", arguments, caller, request_id, conversation_id)

    async def update(
        self,
        id: object,
        values: Mapping[str, Any],
        *,
        version: int | None = None,
        caller: Caller | None = None,
        request_id: str | None = None,
        conversation_id: str | None = None,
    ) -> R:
        """Change some fields; with another `version` than the row has, raise `Conflict`."""
        arguments = {"id": id, "values": values, "version": version}
        return await self._do("update", arguments, caller, request_id, conversation_id)

    async def delete(
        self,
        id: object,
        *,
        version: int | None = None,
        caller: Caller | None = None,
        request_id: str | None = None,
        conversation_id: str | None = None,
    ) -> R:
        """Delete a row, and return it as it was."""
        arguments = {"id": id, "version": version}
        return await self._do("delete", arguments, caller, request_id, conversation_id)

    async def run(
        self,
        method: str,
        id: object = None,
        *,
        caller: Caller | None = None,
        request_id: str | None = None,
        conversation_id: str | None = None,
        **arguments: Any,
    ) -> Any:
        """Call a method named in `mcp_tools`, on the row with this id."""
        verb = self._verb(method)
        if verb.method is None:
            raise ConfigError(f"{method!r} is a verb; call `.{method}(…)`")
        if id is not None:
            arguments = {"id": id, **arguments}
        return await self._do(method, arguments, caller, request_id, conversation_id)
