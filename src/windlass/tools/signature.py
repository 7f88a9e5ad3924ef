"""A function's signature and docstring as a plan: what a model sees, and how to call it."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, cast

import msgspec

from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.tools.arguments.validate import MOST_PROBLEMS, at
from windlass.tools.docs import read_docs
from windlass.tools.handlers import is_async, own, parameters_of, plain_function
from windlass.tools.roles import RoleCollector, RoleName, TwoRoles
from windlass.tools.schema.fields import names_around, put_default
from windlass.tools.schema.shape import (
    Convert,
    Json,
    Mismatch,
    Shape,
    Unsupported,
)
from windlass.tools.schema.types import Shapes
from windlass.tools.schema.unions import nullable, union
from windlass.tools.tool import BadArguments, ToolContext

_CONTEXT = re.compile(r"(?:\w+\.)*ToolContext(?:\[.*\])?")
_USE = (
    "use a JSON type, datetime, UUID, Decimal, Path, bytes, an Enum, a dataclass, TypedDict, "
    "NamedTuple, msgspec.Struct or pydantic model, or Any"
)


class Plan(msgspec.Struct, frozen=True):
    """The way a function is offered to a model, and called."""

    description: str
    parameters: Json
    is_async: bool
    context: str | None = None  # the parameter that takes the ToolContext
    positional: tuple[tuple[str, Any], ...] = ()  # positional-only parameters and their defaults
    converts: dict[str, Convert] = {}
    others: Convert | None = None  # for what **kwargs takes
    integers: tuple[str, ...] = ()  # JSON may write 3 as 3.0
    defaults: dict[str, Callable[[], Any]] = {}  # where the default itself is no value
    unsure: bool = False  # the schema is worth checking at once
    typed: bool = False  # arguments must be converted before the call
    roles: dict[str, RoleName] = {}  # that the signature states, by the name of the argument

    def bind(self, arguments: JsonObject) -> JsonObject:
        """Copy the arguments and convert them to the types of the function."""
        copied = own(arguments)
        if self.integers and float in map(type, copied.values()):
            for name in self.integers:
                value = copied.get(name)
                if type(value) is float and value.is_integer():
                    copied[name] = int(value)
        if self.typed:
            problems: list[str] = []
            for name, value in copied.items():
                convert = self.converts.get(name)
                if convert is None and name not in self.parameters["properties"]:
                    convert = self.others
                if convert is not None:
                    try:
                        copied[name] = convert(value)
                    except Exception as error:
                        found = Mismatch.at(name, error).found
                        problems += [at(path, message) for path, message in found]
            if problems:
                raise BadArguments(tuple(problems[:MOST_PROBLEMS]))
        if self.defaults:
            for name, default in self.defaults.items():
                if name not in copied:
                    copied[name] = default()
        return copied


def plan_of(fn: Callable[..., Any], name: str, *, method: bool = False) -> Plan:
    """Build the plan for a function; `method` leaves out its first parameter."""
    return _Reader(fn, name).read(method)


class _Reader:
    def __init__(self, fn: Callable[..., Any], name: str) -> None:
        self.fn, self.name = fn, name
        self.target = plain_function(fn)
        self.shapes = Shapes()
        self.roles = RoleCollector()
        self.properties: Json = {}
        self.required: list[str] = []
        self.found: JsonObject = {"converts": {}, "integers": [], "defaults": {}}

    def read(self, method: bool) -> Plan:
        if inspect.isasyncgenfunction(self.target) or inspect.isgeneratorfunction(self.target):
            raise self._wrong(
                "is a generator; return the whole answer (a list, say), "
                "and report progress with ctx.progress(…)"
            )
        parameters = self._signature()[1 if method else 0 :]
        hints = self._hints()
        docs = read_docs(self._docstring())
        others: bool | Json = False
        positional: list[tuple[str, Any]] = []
        for one in parameters:
            hint = hints.get(one.name, one.empty)
            if one.kind is one.VAR_POSITIONAL:
                raise self._wrong(
                    f"takes *{one.name}, which has no place in JSON; use a list: "
                    f"`{one.name}: list[…]`"
                )
            if one.kind is one.VAR_KEYWORD:
                others = self._keywords(one, hint, docs.parameters)
                continue
            if one.kind is one.POSITIONAL_ONLY:
                positional.append((one.name, one.default))
            if _is_context(hint):
                if self.found.get("context"):
                    raise self._wrong("takes two ToolContexts; one is enough")
                self.found["context"] = one.name
                continue
            self._parameter(one, hint, docs.parameters.get(one.name, ""))
        schema: Json = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = self.required
        schema["additionalProperties"] = others
        self.found["integers"] = tuple(self.found["integers"])
        return Plan(
            docs.description,
            self.shapes.finish(schema),
            is_async(self.fn),
            positional=tuple(positional),
            unsure=self.shapes.unsure,
            typed=bool(self.found["converts"]) or "others" in self.found,
            roles=self.roles.found,
            **self.found,
        )

    def _parameter(self, one: inspect.Parameter, hint: object, words: str) -> None:
        default = one.default
        field_info = type(default).__module__ == "pydantic.fields"  # x: int = Field(ge=1)
        if field_info:
            hint = Annotated[Any if hint is one.empty else hint, default]
            needed = default.is_required()
            if not needed:
                field = default
                self.found["defaults"][one.name] = lambda: field.get_default(
                    call_default_factory=True
                )
        else:
            needed = default is one.empty
        shape = self._shape(one.name, hint)
        self._collect_roles(one.name, hint)
        if default is None and hint is not one.empty and not nullable(shape.schema):
            shape = union([shape, self.shapes.of(None)], self.shapes.defs)
        schema = dict(shape.schema)
        if words and ("description" not in schema or typing.get_origin(hint) is not Annotated):
            schema["description"] = words
        if needed:
            self.required.append(one.name)
        elif not field_info:
            put_default(schema, default)
        self._add(one.name, schema, shape)

    def _add(self, name: str, schema: Json, shape: Shape) -> None:
        self.properties[name] = schema
        if shape.convert is not None:
            self.found["converts"][name] = shape.convert
        elif schema.get("type") in ("integer", ["integer", "null"]):
            self.found["integers"].append(name)

    def _keywords(self, one: inspect.Parameter, hint: object, words: dict[str, str]) -> bool | Json:
        if hint is one.empty:
            raise self._wrong(
                f"takes **{one.name} of any type, so nobody can tell a model what to send; "
                f"annotate it (`**{one.name}: str`) or name the parameters"
            )
        if getattr(typing.get_origin(hint), "_name", None) == "Unpack":
            shape = self._shape(one.name, typing.get_args(hint)[0])
            self._collect_roles(None, typing.get_args(hint)[0])
            whole = self.shapes.finish(shape.schema)
            for name, schema in whole["properties"].items():
                part = _part_of(shape.convert, name)
                text = words.get(name)
                self._add(name, {**schema, "description": text} if text else schema, part)
            self.required += whole.get("required", [])
            self.shapes.defs.update(whole.get("$defs", {}))
            return False
        shape = self._shape(one.name, hint)
        self._collect_roles(one.name, hint)
        if one.name in self.roles.found:
            raise self._wrong(
                f"gives a role to **{one.name}, whose names nobody knows; name the parameters"
            )
        if shape.convert is not None:
            self.found["others"] = shape.convert
        return shape.schema or True

    def _shape(self, name: str, hint: object) -> Shape:
        if isinstance(hint, _UnknownAnnotation):
            raise self._wrong(
                f"parameter {name!r} is annotated {hint.written!r}, and {hint.name!r} cannot be "
                "found from there; import it where the function is defined (not only under "
                "TYPE_CHECKING)"
            )
        try:
            return self.shapes.of(hint)
        except Unsupported as error:
            shown = inspect.formatannotation(hint)
            inner = inspect.formatannotation(error.hint)
            where = shown if inner == shown else f"{shown} (in it, {inner})"
            raise self._wrong(
                f"parameter {name!r} has type {where}, which JSON Schema cannot express; "
                f"{error.fix or _USE}"
            ) from None

    def _collect_roles(self, name: str | None, hint: object) -> None:
        """Take the roles that a hint states; without a name, those of its fields."""
        try:
            if name is None:
                self.roles.collect_fields(hint)
            else:
                self.roles.collect(name, hint)
        except TwoRoles as error:
            first, second = [role.capitalize() for role in error.roles]
            raise self._wrong(
                f"gives {error.name!r} two roles, {first} and {second}; keep one of them (fields of one "
                "name have one role: rename a field that has another)"
            ) from None

    def _wrong(self, what: str) -> ConfigError:
        code = getattr(self.target, "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        return ConfigError(f"tool {self.name!r}: the function{where} {what}")

    def _docstring(self) -> str | None:
        if isinstance(self.fn, functools.partial) or inspect.isroutine(self.fn):
            return self.target.__doc__
        own_words = self.target.__doc__
        return own_words if own_words else type(self.fn).__doc__

    def _signature(self) -> list[inspect.Parameter]:
        try:
            parameters = parameters_of(self.fn)
        except (ValueError, TypeError):
            raise self._wrong(
                "does not tell its parameters; wrap it in a function with type hints"
            ) from None
        bound: set[str] = set()
        fn: Any = self.fn
        while isinstance(fn, functools.partial):  # what is bound is not the model's to choose
            bound |= set(fn.keywords)
            fn = fn.func
        return [one for one in parameters if one.name not in bound]

    def _hints(self) -> JsonObject:
        try:
            return typing.get_type_hints(self.target, localns=None, include_extras=True)
        except (NameError, TypeError, SyntaxError):
            pass
        written = _annotations_of(self.target)
        space = {**getattr(self.target, "__globals__", {}), **names_around()}
        return {name: _resolve(hint, space) for name, hint in written.items() if name != "return"}


class _UnknownAnnotation(msgspec.Struct, frozen=True):
    """An annotation with an unknown name."""

    written: str
    name: str


def _annotations_of(target: object) -> JsonObject:
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(target, format=annotationlib.Format.FORWARDREF)
    return dict(getattr(target, "__annotations__", {}))


def _resolve(hint: object, space: JsonObject) -> Any:
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    try:
        return typing.get_type_hints(holder, space, include_extras=True)["hint"]
    except Exception as error:
        written = hint if isinstance(hint, str) else getattr(hint, "__forward_arg__", str(hint))
        if _CONTEXT.fullmatch(written):  # its Deps may be known to the type checker alone
            return ToolContext
        return _UnknownAnnotation(written, getattr(error, "name", None) or str(error))


def _is_context(hint: object) -> bool:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _is_context(typing.get_args(hint)[0])
    if origin is typing.Union or origin is types.UnionType:
        return any(_is_context(arg) for arg in typing.get_args(hint))
    cls = origin or hint
    return isinstance(cls, type) and issubclass(cls, ToolContext)


def _part_of(whole: Convert | None, name: str) -> Shape:
    """Build the conversion of one key of a TypedDict, through a dict with only that key."""
    if whole is None:
        return Shape({})

    def convert(value: object) -> Any:
        try:
            return whole({name: value})[name]
        except Mismatch as error:
            raise Mismatch([(path[1:], message) for path, message in error.found]) from None

    return Shape({}, cast("Convert", convert))
