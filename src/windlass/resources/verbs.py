"""The verbs of a resource: their arguments, and their effect in a transaction.

Permission is asked here, when a call runs: roles first, then the hooks of the class with the values
of the row, inside the same transaction as the effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from windlass.errors import InvalidValue, NotFound, PermissionDenied, safe_repr
from windlass.json_types import JsonObject
from windlass.resources.fields import SORTED
from windlass.resources.query import LIMIT, MOST_CHOICES, MOST_SORTS, Page, Query
from windlass.resources.resource import Resource
from windlass.resources.row import HOOKS, Plain, ResourcePlan
from windlass.resources.tx import (
    ResourceTx,
    call_hook,
    merge_row,
    plain_values,
)
from windlass.tools.schema.types import Shapes

_KINDS = {
    "get": "read",
    "search": "search",
    "create": "edit",
    "update": "edit",
    "delete": "delete",
}
READS = ("get", "search")
_WORDS = {
    "get": "Read one {name} by its id.",
    "search": "Search {name} rows by the values of their fields.",
    "create": "Create a {name}.",
    "update": "Change some fields of a {name}.",
    "delete": "Delete a {name}.",
}


class Verb(msgspec.Struct, frozen=True):
    """A compiled verb of a resource."""

    plan: ResourcePlan
    name: str  # the verb's, or the method's
    tool: str  # the tool's
    description: str
    parameters: JsonObject
    annotations: JsonObject
    run: Callable[[ResourceTx, JsonObject], Any]  # in the transaction
    method: Any = None  # a custom one: see `methods.py`

    @property
    def action(self) -> str:
        """The action that roles grant: `product.update`."""
        return f"{self.plan.name}.{self.name}"

    @property
    def reads(self) -> bool:
        """Whether the verb changes nothing."""
        return self.annotations["side_effect_level"] == "read_only"


def verbs_of(plan: ResourcePlan) -> list[Verb]:
    """List the verbs that the class allows."""
    return [_verb(plan, name) for name in plan.verbs]


def verb_annotations(plan: ResourcePlan, verb: str, kind: str, level: str) -> JsonObject:
    """Build the tool annotations of a verb."""
    return {"kind": kind, "side_effect_level": level, "resource": plan.name, "verb": verb}


def _verb(plan: ResourcePlan, name: str) -> Verb:
    parameters = _SCHEMAS[name](plan)
    level = "read_only" if name in READS else "workspace_write"
    about = (plan.cls.__doc__ or "").strip().split("\n\n")[0] if plan.documented else ""
    words = _WORDS[name].format(name=plan.name.replace("_", " "))
    own = getattr(plan.cls, name).__doc__ if plan.overridden[name] else None
    description = " ".join(" ".join(part for part in (own or words, about) if part).split())
    run = _RUNS[name]

    def body(tx: ResourceTx, arguments: JsonObject) -> Any:
        return run(tx, plan, arguments)

    return Verb(
        plan,
        name,
        f"{name}_{plan.name}",
        description,
        parameters,
        verb_annotations(plan, name, _KINDS[name], level),
        body,
    )


# --------------------------------------------------------------------------- schemas


def _object(properties: JsonObject, required: list[str], shapes: Shapes) -> JsonObject:
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return shapes.finish(schema)


def id_schema(plan: ResourcePlan) -> JsonObject:
    """Build the schema of an id that names a row."""
    kind = "integer" if plan.id.kind == "integer" else "string"
    return {"type": kind, "description": f"the id of the {plan.name.replace('_', ' ')}"}


_VERSION = {
    "type": "integer",
    "description": "the version that you have read; if it is another by now, nothing is done",
}


def _get_schema(plan: ResourcePlan) -> JsonObject:
    return _object({"id": id_schema(plan)}, ["id"], Shapes())


def _delete_schema(plan: ResourcePlan) -> JsonObject:
    properties = {"id": id_schema(plan)}
    if plan.version is not None:
        properties["version"] = _VERSION
    return _object(properties, ["id"], Shapes())


def _create_schema(plan: ResourcePlan) -> JsonObject:
    shapes = Shapes()
    properties = {one.name: one.schema(shapes) for one in plan.fields}
    properties["id"] = {**properties["id"], "description": "made for you when you leave it out"}
    required = [one.name for one in plan.fields if one.required and one.name != "id"]
    return _object(properties, required, shapes)


def _update_schema(plan: ResourcePlan) -> JsonObject:
    shapes = Shapes()
    changes = {one.name: one.schema(shapes) for one in plan.fields if one.name != "id"}
    values = {
        "type": "object",
        "description": "the fields to change; others stay as they are",
        "properties": changes,
        "additionalProperties": False,
        "minProperties": 1,
    }
    properties = {"id": id_schema(plan), "values": values}
    if plan.version is not None:
        properties["version"] = _VERSION
    return _object(properties, ["id", "values"], shapes)


def _search_schema(plan: ResourcePlan) -> JsonObject:
    shapes = Shapes()
    fields: JsonObject = {}
    for one in plan.fields:
        value = one.schema(shapes, bare=True)
        several = {"type": "array", "items": value, "maxItems": MOST_CHOICES}
        special = {"in": several, "is_null": {"type": "boolean"}}
        operators = {name: special.get(name, value) for name in one.operators}
        test: JsonObject = {
            "type": "object",
            "properties": operators,
            "additionalProperties": False,
            "minProperties": 1,
        }
        fields[one.name] = test if one.kind == "json" else {"anyOf": [value, test]}
    sortable = [one.name for one in plan.fields if one.kind in SORTED]
    properties = {
        "where": {
            "type": "object",
            "description": "each field a value that it must equal, or an object of operators",
            "properties": fields,
            "additionalProperties": False,
        },
        "sort": {
            "type": "array",
            "description": "fields to sort by, downward with - before it",
            "items": {"enum": [*sortable, *[f"-{name}" for name in sortable]]},
            "maxItems": MOST_SORTS,
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": plan.limit,
            "default": min(LIMIT, plan.limit),
        },
        "cursor": {"type": "string", "description": "from the page before, for the next one"},
    }
    return _object(properties, [], shapes)


_SCHEMAS: dict[str, Callable[[ResourcePlan], JsonObject]] = {
    "get": _get_schema,
    "search": _search_schema,
    "create": _create_schema,
    "update": _update_schema,
    "delete": _delete_schema,
}


# --------------------------------------------------------------------------- what they do


def _class_of(plan: ResourcePlan) -> type[Resource]:
    """Return the class whose verbs a plan runs."""
    assert issubclass(plan.cls, Resource)
    return plan.cls


def _get(tx: ResourceTx, plan: ResourcePlan, arguments: JsonObject) -> Plain:
    id = arguments.get("id")
    if plan.overridden["get"]:
        made = _class_of(plan).get(tx, id)
        if made is None:
            raise NotFound(f"there is no {plan.name} {safe_repr(id)}")
        row = plan.to_plain(made)
    else:
        row = tx.known(plan, id)
    permit(tx, plan, "get", row)
    return row


def _search(tx: ResourceTx, plan: ResourcePlan, arguments: JsonObject) -> Page[Plain]:
    query = query_of(plan, arguments)
    if not plan.overridden["search"]:
        return tx.rows(plan, query, allow=plan.hooks["search"])
    found = _class_of(plan).search(tx, query)
    seen = [one for one in found.rows if call_hook(one, "allow_read", tx.caller) is None]
    return Page([plan.to_plain(one) for one in seen], found.cursor)


def query_of(plan: ResourcePlan, arguments: JsonObject) -> Query:
    """Parse the query in a call's arguments."""
    for name in arguments:
        if name not in ("where", "sort", "limit", "cursor"):
            raise InvalidValue(f"search_{plan.name} takes where, sort, limit and cursor")
    sort: Any = arguments.get("sort") or ()
    if not isinstance(sort, (str, list, tuple)):
        raise InvalidValue(f"sort: is a list of fields, not {safe_repr(sort)}")
    limit: Any = arguments.get("limit")
    return Query(
        {} if (where := arguments.get("where")) is None else where,
        (sort,) if isinstance(sort, str) else tuple(cast("list[Any]", sort)),
        min(LIMIT, plan.limit) if limit is None else limit,
        arguments.get("cursor"),
    )


def _create(tx: ResourceTx, plan: ResourcePlan, arguments: JsonObject) -> Plain:
    values = tx.with_id(plan, plain_values(plan, arguments))
    made = plan.build_object(values)
    if plan.hooks["create"]:
        check_allowed(made, "allow_create", tx)
    if plan.overridden["create"]:
        return plan.to_plain(_class_of(plan).create(tx, values))
    return tx.insert(plan, made)


def _update(tx: ResourceTx, plan: ResourcePlan, arguments: JsonObject) -> Plain:
    id, version = arguments.get("id"), arguments.get("version")
    values = plain_values(plan, arguments.get("values"))
    before = tx.known(plan, id)
    if plan.hooks["update"]:
        permit(tx, plan, "update", before)
    after = merge_row(plan, before, values)
    if plan.hooks["update"]:
        check_allowed(after, "allow_update", tx)
    if plan.overridden["update"]:
        return plan.to_plain(_class_of(plan).update(tx, id, values, version))
    return tx.change(plan, before, after, version)


def _delete(tx: ResourceTx, plan: ResourcePlan, arguments: JsonObject) -> Plain:
    id, version = arguments.get("id"), arguments.get("version")
    before = tx.known(plan, id)
    permit(tx, plan, "delete", before)
    if plan.overridden["delete"]:
        return plan.to_plain(_class_of(plan).delete(tx, id, version))
    tx.drop(plan, before, version)
    return before


_RUNS: dict[str, Callable[[ResourceTx, ResourcePlan, JsonObject], Any]] = {
    "get": _get,
    "search": _search,
    "create": _create,
    "update": _update,
    "delete": _delete,
}


def permit(tx: ResourceTx, plan: ResourcePlan, verb: str, row: Plain) -> None:
    """Ask the hook of this verb about the row."""
    if plan.hooks[verb]:
        check_allowed(plan.instance(row), HOOKS[verb], tx)


def check_allowed(made: object, hook: str, tx: ResourceTx) -> None:
    """Raise `PermissionDenied` unless the hook returns True."""
    reason = call_hook(made, hook, tx.caller)
    if reason is not None:
        raise PermissionDenied(reason)
