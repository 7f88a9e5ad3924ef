"""Functions as tools: a typed signature and a docstring are all a model needs."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import JsonObject, is_mapping
from windlass.tools.signature import Plan, plan_of
from windlass.tools.tool import (
    OPTIONS,
    BadArguments,
    Tool,
    ToolContext,
    ToolOptions,
)

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")

_KEPT = "__windlass_tool__"  # on a function: the tool made of it
_PLANNED = "__windlass_plan__"  # on a method's function: the plan its bound methods share


class FunctionTool(Tool, Generic[P, R]):
    """A tool made of a function, which can still be called like the function.

    ```python
    @w.tool
    async def refund(order: str, amount: float) -> str: ...

    await refund("A-1", amount=5.0)  # in a unit test: the function itself, nothing in between
    ```
    """

    __slots__ = ("__wrapped__", "_plan", "_unbound")

    __wrapped__: Callable[P, R]
    _plan: Plan
    _unbound: bool  # defined in a class, and no instance known yet

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        name = _name_of(fn) if name is None else name
        self._begin(name, description or "", options)
        self.handler = self.__wrapped__ = fn
        self._unbound = _is_method(fn)
        self._plan = plan = _shared_plan(fn, name, self._unbound)
        self.is_async, self.wants_context = plan.is_async, plan.context is not None
        if plan.roles:
            self._add_roles(plan.roles)
        self._offer(plan.parameters, description or plan.description)
        self._typed = plan.typed
        if plan.unsure:
            self._first_check({})

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.__wrapped__(*args, **kwargs)

    @property
    def __name__(self) -> str:
        return self.name

    @overload
    def __get__(self, instance: None, owner: type) -> FunctionTool[P, R]: ...

    @overload
    def __get__(
        self: FunctionTool[Concatenate[S, Q], R], instance: S, owner: type | None = None
    ) -> FunctionTool[Q, R]: ...

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind the tool to an instance, as a method."""
        if instance is None or not self._unbound:
            return self
        bound = copy.copy(cast("FunctionTool[..., Any]", self))
        bound.handler = bound.__wrapped__ = self.__wrapped__.__get__(instance, owner)
        bound._unbound = False
        bound._check = bound._first_check if self._checker is None else self._checker.is_valid
        return bound

    def _add_roles(self, roles: Mapping[str, str]) -> None:
        """Add the roles of the signature; what the annotations say of an argument wins."""
        said: object = self.annotations.get("roles", {})
        if is_mapping(said):  # if it is something else, whoever reads it says so
            self.annotations = {**self.annotations, "roles": {**roles, **said}}

    def _misfits(self, arguments: JsonObject) -> tuple[str, ...]:
        try:
            self._plan.bind(arguments)
        except BadArguments as error:
            return error.problems
        except RecursionError:
            return ("arguments: are nested too deeply",)
        return ()

    def _invoke(self, arguments: JsonObject, ctx: ToolContext[Any]) -> Any:
        plan, handler = self._plan, self.handler
        assert handler is not None
        bound = plan.bind(arguments)
        if plan.context is not None:
            bound[plan.context] = ctx
        if not plan.positional:
            return handler(**bound)
        first = [bound.pop(name, default) for name, default in plan.positional]
        missing = [
            name
            for (name, _), value in zip(plan.positional, first, strict=True)
            if value is inspect.Parameter.empty
        ]
        if missing:  # possible only without validation
            raise BadArguments(tuple(f"{name}: is required" for name in missing))
        return handler(*first, **bound)


@overload
def tool(fn: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(fn: object = None, /, **options: Any) -> Any:
    """Make a tool of a function: its types are the schema, its docstring the description.

    ```python
    @w.tool(side_effect_level="read_only", timeout=10)
    async def weather(city: Annotated[str, "in English"], days: int = 1) -> dict[str, float]:
        "Return the forecast for a city."
    ```
    Tools with `side_effect_level="read_only"` may start early and run again. After a crash, `keyed`
    tools run again with the same `ctx.idempotency_key`; `transactional` tools end with `return
    await ctx.commit(body)`. `requires_approval=True` asks a person before each call.
    """
    for option in options:
        if option not in _OPTIONS:
            hint = nearest(option, _OPTIONS, "tool") or f"; it has {', '.join(_OPTIONS)}"
            raise ConfigError(f"@tool has no option {option!r}{hint}")
    if fn is None:
        return functools.partial(_make, **options)
    return _make(fn, **options)


_OPTIONS = ("name", "description", *OPTIONS)


def as_tool(obj: object) -> Tool:
    """Convert a tool, a function, `"module:function"`, a dict, or an object with `as_tool()`.

    What is made of a function is kept with the function, so asking again costs nothing.
    """
    if isinstance(obj, Tool):
        if getattr(obj, "_unbound", False):
            raise ConfigError(
                f"tool {obj.name!r} is a method of a class; give the method of an instance, "
                f"as in `tools=[thing.{obj.name}]`"
            )
        return obj
    try:
        kept = obj.__dict__[_KEPT]
    except (AttributeError, KeyError, TypeError):
        pass
    else:
        if kept.handler is obj:  # functools.wraps copies the entry on to other functions
            return kept
    return _as_tool(obj)


def as_tools(tools: object) -> tuple[Tool, ...]:
    """Convert the tools of an agent: `as_tools([add, "shop:refund", registry])`.

    Two tools of one name are refused: a model could not tell them apart.
    """
    if tools is None:
        return ()
    if type(tools) is not list and (
        isinstance(tools, (str, Mapping, Tool)) or not isinstance(tools, Iterable)
    ):
        raise ConfigError(
            f"tools is a list of tools, not {safe_repr(cast('Any', tools))}; write tools=[…] around it"
        )
    listed = list(cast("Iterable[Any]", tools))
    try:
        found = tuple([as_tool(one) for one in listed])
    except ConfigError:
        if not any(_is_several(one) for one in listed):
            raise
        several = [list(one) if _is_several(one) else [one] for one in listed]
        found = tuple([as_tool(one) for some in several for one in some])
    if len(found) > 1 and len({one.name for one in found}) < len(found):
        names = [one.name for one in found]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"two tools are called {twice!r}; rename one with @windlass.tool(name=…)")
    return found


def _is_several(obj: object) -> bool:
    """Check whether an object stands for several tools, as a registry does."""
    if callable(obj) or isinstance(obj, (str, Mapping)):
        return False
    return isinstance(obj, Iterable)


def _as_tool(obj: object) -> Tool:
    if isinstance(obj, str):
        return as_tool(_import_function(obj))
    if is_mapping(obj):
        return tool_from_dict(obj)
    convert = getattr(obj, "as_tool", None)
    if callable(convert) and not isinstance(obj, type):
        made = convert()
        if not isinstance(made, Tool):
            raise ConfigError(f"{safe_repr(obj)}.as_tool() gave {type(made).__name__}, not a Tool")
        return made
    if not callable(obj) or isinstance(obj, type):
        raise ConfigError(
            f"{safe_repr(obj)} is not a tool; give a function, a Tool, 'module:function', "
            "or an object with as_tool()"
        )
    made = _make(obj)
    if inspect.isfunction(obj) or type(obj).__module__ == "functools":
        obj.__dict__[_KEPT] = made
    return made


def tool_from_dict(fields: Mapping[str, Any]) -> Tool:
    """Build a tool from a dict of `Tool`'s arguments, as configuration files have them."""
    known = (*_OPTIONS, "parameters", "handler")
    for key in fields:
        if key not in known:
            raise ConfigError(
                f"tool {fields.get('name')!r} has no option {key!r}{nearest(str(key), known)}"
            )
    if "name" not in fields:
        raise ConfigError(
            f"a tool needs a name; this one has only {', '.join(fields) or 'nothing'}"
        )
    return Tool(**fields)


def _import_function(path: str) -> Any:
    module_name, _, inside = path.partition(":")
    if not module_name or not inside:
        raise ConfigError(f"tool {safe_repr(path)}: write it as 'module:function'")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there; something it imports is not
        raise ConfigError(
            f"tool {safe_repr(path)}: there is no module {safe_repr(error.name)}; "
            "install it, or run where it can be imported"
        ) from None
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"tool {safe_repr(path)}: importing {module_name} failed: "
            f"{type(error).__name__}: {error!s:.200}"
        ) from error
    for step in inside.split("."):
        if not hasattr(found, step):
            raise ConfigError(
                f"tool {safe_repr(path)}: it has no {safe_repr(step)}{nearest(step, dir(found))}"
            )
        found = getattr(found, step)
    return found


def _make(fn: object, **options: Any) -> FunctionTool[..., Any]:
    if isinstance(fn, (staticmethod, classmethod)):
        fn = cast("Any", fn).__func__
    if isinstance(fn, FunctionTool):
        fn = cast("FunctionTool[..., Any]", fn).__wrapped__
    if not callable(fn) or isinstance(fn, type):
        raise ConfigError(f"@tool makes a tool of a function, not of {safe_repr(fn)}")
    return FunctionTool(fn, **options)


def _shared_plan(fn: Any, name: str, unbound: bool) -> Plan:
    """Return the plan; bound methods and callable objects share that of their function."""
    home: Any = None
    if inspect.ismethod(fn):
        home = fn.__func__
    elif not inspect.isroutine(fn) and inspect.isfunction(type(fn).__call__):
        home = type(fn).__call__
    if home is None or not inspect.isfunction(home):
        return plan_of(fn, name, method=unbound)
    kept: tuple[Any, Plan] | None = home.__dict__.get(_PLANNED)
    if kept is None or kept[0] is not home:
        kept = (home, plan_of(fn, name))
        home.__dict__[_PLANNED] = kept
    return kept[1]


def _name_of(fn: Any) -> str:
    while hasattr(fn, "func") and not hasattr(fn, "__name__"):
        fn = fn.func
    name = getattr(fn, "__name__", None) or type(fn).__name__
    if name == "<lambda>":
        raise ConfigError("a lambda has no name; write @windlass.tool(name=…) or use a def")
    return name


def _is_method(fn: object) -> bool:
    """Check whether a function is written in a class body, for an unknown instance."""
    if not inspect.isfunction(fn) or "." not in fn.__qualname__.rpartition("<locals>.")[2]:
        return False
    code = fn.__code__
    return code.co_argcount > 0 and code.co_varnames[0] == "self"
