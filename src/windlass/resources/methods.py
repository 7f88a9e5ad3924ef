"""Methods of a resource as tools: those that `mcp_tools` names.

A plain method is a body: it runs in the call's transaction, on the row that the call names. An async
one does its slow work first and ends with `return await ctx.commit(body)`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import JsonObject, is_mapping
from windlass.resources.row import VERBS, ResourcePlan
from windlass.resources.tx import ResourceTx
from windlass.resources.verbs import Verb, check_allowed, id_schema, verb_annotations
from windlass.tools.arguments.validate import Checker
from windlass.tools.schema.shorthand import as_parameters
from windlass.tools.signature import Plan as Signature
from windlass.tools.signature import plan_of as signature_of
from windlass.tools.tool import BadArguments

_KEYS = ("name", "description", "parameters", "kind", "side_effect_level")


class Method(msgspec.Struct, frozen=True):
    """The way a method of a resource is called."""

    function: Callable[..., Any]
    on_row: bool  # it has a self: the call names the row
    waits: bool  # it is async
    takes: str | None  # the parameter for `tx` or `ctx`
    signature: Signature
    hook: str | None  # asked about the row

    def bind_arguments(self, arguments: Mapping[str, Any]) -> JsonObject:
        """Check and convert the arguments for the method, without the id."""
        own_arguments = {
            name: value for name, value in arguments.items() if name != "id" or not self.on_row
        }
        known = self.signature.parameters["properties"]
        for name in own_arguments:
            if name not in known:
                raise BadArguments((f"{name}: is not a parameter",))
        missing = [
            name
            for name in self.signature.parameters.get("required", ())
            if name not in own_arguments
        ]
        if missing:
            raise BadArguments(tuple(f"{name}: is required" for name in missing))
        return self.signature.bind(own_arguments)


def methods_of(plan: ResourcePlan) -> list[Verb]:
    """List the methods that the class names in `mcp_tools`."""
    given: Any = plan.cls.mcp_tools
    named: Mapping[Any, Any]
    if is_mapping(given):
        named = given
    elif isinstance(given, Sequence) and not isinstance(given, str):
        named = {name: {} for name in cast("Sequence[Any]", given)}
    else:
        raise ConfigError(f"{plan.label}.mcp_tools is a list of methods, not {safe_repr(given)}")
    return [_method(plan, name, about) for name, about in named.items()]


def _method(plan: ResourcePlan, name: object, about: object) -> Verb:
    label = f"{plan.label}.mcp_tools"
    if not is_mapping(about):
        raise ConfigError(
            f"{label}: {safe_repr(name)} is told about in a dict, not {safe_repr(about)}"
        )
    options = about
    for key in options:
        if key not in _KEYS:
            raise ConfigError(f"{label}: {name!r} has no key {key!r}{nearest(str(key), _KEYS)}")
    methods = [one for one in vars(plan.cls) if callable(getattr(plan.cls, one, None))]
    if not isinstance(name, str) or name.startswith("_") or not hasattr(plan.cls, name):
        raise ConfigError(
            f"{label}: there is no method {safe_repr(name)}{nearest(str(name), methods)}"
        )
    if name in VERBS or name.startswith("allow_"):
        raise ConfigError(f"{label}: {name!r} is no method of your own; verbs go into `verbs`")
    method = read(plan, name)
    parameters = dict(method.signature.parameters)
    if options.get("parameters") is not None:
        parameters = as_parameters(options["parameters"], f"{label}: {name!r}")
        Checker(parameters, f"{label}: {name!r}")  # a wrong schema is a mistake of now
    if method.on_row:
        properties = {"id": id_schema(plan), **parameters["properties"]}
        required = ["id", *parameters.get("required", ())]
        parameters = {**parameters, "properties": properties, "required": required}
    level = options.get("side_effect_level") or "workspace_write"
    description = (
        options.get("description") or method.signature.description or f"{name} of {plan.name}."
    )
    return Verb(
        plan,
        name,
        options.get("name") or f"{name}_{plan.name}",
        description,
        parameters,
        verb_annotations(plan, name, options.get("kind") or "execute", level),
        _body(plan, method),
        method,
    )


def read(plan: ResourcePlan, name: str) -> Method:
    """Inspect a method: its signature, and whether it is async and works on a row."""
    raw: Any = inspect.getattr_static(plan.cls, name)
    on_row = inspect.isfunction(raw)
    function: Any = raw.__func__ if not on_row and hasattr(raw, "__func__") else raw
    if not inspect.isfunction(function):
        raise ConfigError(f"{plan.label}.{name} is no method; write `def {name}(self, tx, …)`")
    waits = inspect.iscoroutinefunction(function)
    takes = "ctx" if waits else "tx"
    parameters = inspect.signature(function).parameters
    bound: Any = functools.partial(function, **{takes: None}) if takes in parameters else function
    if waits and takes not in parameters:
        raise ConfigError(f"{plan.label}.{name} is async and takes no ctx to commit with")
    first = not isinstance(raw, staticmethod)
    signature = signature_of(bound, f"{name}_{plan.name}", method=first)
    if on_row and "id" in signature.parameters["properties"]:
        raise ConfigError(f"{plan.label}.{name} works on a row, whose id is given; rename its `id`")
    hook = None
    if on_row:
        hook = f"allow_{name}" if hasattr(plan.cls, f"allow_{name}") else "allow_update"
    return Method(function, on_row, waits, takes if takes in parameters else None, signature, hook)


def _body(plan: ResourcePlan, method: Method) -> Callable[[ResourceTx, JsonObject], Any]:
    takes_class = _takes_class(plan, method)

    def run(tx: ResourceTx, arguments: JsonObject) -> Any:
        bound = method.bind_arguments(arguments)
        if method.takes is not None:
            bound[method.takes] = tx
        if method.on_row:
            return method.function(row_for(tx, plan, method, arguments), **bound)
        return method.function(plan.cls, **bound) if takes_class else method.function(**bound)

    return run


async def begin(
    plan: ResourcePlan, method: Method, made: object, arguments: JsonObject, ctx: object
) -> Any:
    """Call an async method; `made` is the row it works on."""
    bound = {**method.bind_arguments(arguments), "ctx": ctx}
    if method.on_row:
        return await method.function(made, **bound)
    if _takes_class(plan, method):
        return await method.function(plan.cls, **bound)
    return await method.function(**bound)


def row_for(tx: ResourceTx, plan: ResourcePlan, method: Method, arguments: JsonObject) -> Any:
    """Return the row that a call names, after its hook has allowed the caller."""
    made = plan.instance(tx.known(plan, arguments.get("id")))
    if method.hook is not None:
        check_allowed(made, method.hook, tx)
    return made


def _takes_class(plan: ResourcePlan, method: Method) -> bool:
    raw = inspect.getattr_static(plan.cls, method.function.__name__, None)
    return isinstance(raw, classmethod)
