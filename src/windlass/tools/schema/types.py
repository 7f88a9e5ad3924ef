"""Types to JSON Schema, and JSON back to those types.

`Shapes` walks type hints and makes a `Shape` of each: the schema a model sees, and how to turn a
JSON value that fits it into the Python value the function expects (None: it already is one).
Classes with fields are in `fields.py`; what only pydantic understands is left to pydantic, which
is never imported here: only a user's own import of it makes it known.
"""

from __future__ import annotations

import base64
import collections
import collections.abc as abc
import enum
import functools
import inspect
import re
import sys
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any, TypeAlias, cast

import msgspec

from windlass.tools.schema.fields import fields_of, shape_of
from windlass.tools.schema.inline import inline
from windlass.tools.schema.shape import (
    Convert,
    Json,
    Mismatch,
    Shape,
    Unsupported,
)
from windlass.tools.schema.unions import union

Scope: TypeAlias = Mapping[Any, Shape]  # what each type variable stands for

_ANYTHING = Shape({})
_PLAIN: dict[Any, Shape] = {
    Any: _ANYTHING,
    object: _ANYTHING,
    inspect.Parameter.empty: _ANYTHING,
    None: Shape({"type": "null"}),
    type(None): Shape({"type": "null"}),
    str: Shape({"type": "string"}),
    typing.LiteralString: Shape({"type": "string"}),
    int: Shape({"type": "integer"}),
    float: Shape({"type": "number"}),
    bool: Shape({"type": "boolean"}),
}
_LISTS = (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
_DICTS = (dict, abc.Mapping, abc.MutableMapping)
_BUILT: dict[Any, Callable[[Any], Any]] = {
    tuple: tuple,
    set: set,
    abc.Set: set,
    abc.MutableSet: set,
    frozenset: frozenset,
    collections.deque: collections.deque,
    collections.OrderedDict: collections.OrderedDict,
}
_SETS = (set, frozenset, abc.Set, abc.MutableSet)
_ALL_LISTS = (*_LISTS, collections.deque, *_SETS)
_ALL_DICTS = (*_DICTS, collections.OrderedDict)


def _converter(what: str, like: str, parse: Callable[[str], Any]) -> Convert:
    def convert(value: Any) -> Any:
        try:
            return parse(value)
        except Exception:
            raise ValueError(f"{value!r} is not {what}; write it like {like}") from None

    return convert


_SCALARS: dict[Any, Shape] = {
    datetime: Shape(
        {"type": "string", "format": "date-time"},
        _converter("a date and time", "2025-01-31T09:30:00Z", datetime.fromisoformat),
    ),
    date: Shape(
        {"type": "string", "format": "date"}, _converter("a date", "2025-01-31", date.fromisoformat)
    ),
    time: Shape(
        {"type": "string", "format": "time"}, _converter("a time", "09:30:00", time.fromisoformat)
    ),
    timedelta: Shape(
        {"type": "string", "format": "duration"},
        _converter("a duration", "PT1H30M", lambda text: msgspec.convert(text, timedelta)),
    ),
    uuid.UUID: Shape(
        {"type": "string", "format": "uuid"},
        _converter("a UUID", "00000000-0000-0000-0000-000000000000", uuid.UUID),
    ),
    Decimal: Shape(
        {"type": ["number", "string"]},
        _converter("a decimal number", "12.50", lambda value: Decimal(str(value))),
    ),
    bytes: Shape(
        {"type": "string", "contentEncoding": "base64"},
        _converter("base64", "aGVsbG8=", lambda text: base64.b64decode(text, validate=True)),
    ),
    bytearray: Shape(
        {"type": "string", "contentEncoding": "base64"},
        _converter(
            "base64", "aGVsbG8=", lambda text: bytearray(base64.b64decode(text, validate=True))
        ),
    ),
    Path: Shape({"type": "string", "format": "path"}, Path),
}


class Shapes:
    """Shapes for the types of one tool. Classes used twice share one entry in `$defs`.

    ```python
    shapes = Shapes()
    schema = shapes.finish(shapes.of(list[int]).schema)
    ```
    """

    def __init__(self) -> None:
        self.defs: dict[str, Json] = {}
        self.unsure = False  # something in it was not written here and may be wrong
        self._named: dict[Any, Shape] = {}

    def of(self, hint: Any, scope: Scope | None = None) -> Shape:
        """Build the shape of a type hint, or raise `Unsupported`."""
        scope = scope or {}
        if _hashable(hint):
            if hint in _PLAIN:
                return _PLAIN[hint]
            if hint in _SCALARS:
                return _SCALARS[hint]
        if isinstance(hint, typing.TypeVar):
            return scope[hint] if hint in scope else self._variable(hint, scope)
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            return self._annotated_shape(hint, scope)
        if origin is typing.Union or origin is types.UnionType:
            return union([self.of(arg, scope) for arg in typing.get_args(hint)], self.defs)
        if origin is typing.Literal:
            return _literal(typing.get_args(hint))
        if hasattr(hint, "__supertype__"):
            return self.of(hint.__supertype__, scope)
        alias = origin if hasattr(origin, "__value__") else hint
        if hasattr(alias, "__value__"):
            return self._alias(hint, alias, scope)
        if origin is not None and getattr(origin, "_name", None) in _QUALIFIERS:
            return self.of(typing.get_args(hint)[0], scope)
        container = self._container(hint, origin or hint, typing.get_args(hint), scope)
        if container is not None:
            return container
        return self._class(hint, origin or hint, typing.get_args(hint), scope)

    def finish(self, schema: Json) -> Json:
        """Complete the schema with the definitions it refers to."""
        return inline(schema, self.defs)

    def _variable(self, hint: Any, scope: Scope) -> Shape:
        if hint.__constraints__:
            return union([self.of(arg, scope) for arg in hint.__constraints__], self.defs)
        return self.of(hint.__bound__, scope) if hint.__bound__ is not None else _ANYTHING

    def _alias(self, hint: Any, alias: Any, scope: Scope) -> Shape:
        """Build the shape of `type Name = …`, which may refer to itself."""
        given = [self.of(arg, scope) for arg in typing.get_args(hint)]
        inner = {**scope, **dict(zip(alias.__type_params__, given, strict=False))}
        key = (alias, *map(id, given))
        return self.define_shape(key, alias.__name__, lambda: self.of(alias.__value__, inner))

    def _annotated_shape(self, hint: object, scope: Scope) -> Shape:
        base, *metadata = typing.get_args(hint)
        if any(_of_pydantic(item) for item in metadata):
            shape = self.pydantic(hint)
        else:
            shape = self.of(base, scope)
            for item in metadata:
                shape = _add_constraints(shape, item, base)
                if isinstance(item, msgspec.Meta):
                    self.unsure |= bool(item.pattern or item.extra_json_schema)
        descriptions = [item for item in metadata if isinstance(item, str)]
        descriptions += [
            item.documentation for item in metadata if type(item).__name__ == "Doc"
        ]  # typing_extensions.Doc
        return shape.described(descriptions[-1]) if descriptions else shape

    def _container(
        self, hint: Any, origin: Any, args: tuple[Any, ...], scope: Scope
    ) -> Shape | None:
        if not _hashable(origin):
            return None
        if origin is tuple:
            return self._tuple(hint, args, scope)
        if origin in _ALL_LISTS:
            item = self.of(args[0], scope) if args else _ANYTHING
            schema: Json = {"type": "array"} | ({"items": item.schema} if item.schema else {})
            if origin in _SETS:
                schema["uniqueItems"] = True
                if args and getattr(typing.get_origin(args[0]) or args[0], "__hash__", 1) is None:
                    raise Unsupported(hint, "a set cannot hold it, as it has no hash; use a list")
            return Shape(schema, _many(item.convert, _BUILT.get(origin)))
        if origin in _ALL_DICTS:
            key, value = map(lambda arg: self.of(arg, scope), args or (str, Any))
            return _dict(key, value, _BUILT.get(origin))
        return None

    def _tuple(self, hint: Any, args: tuple[Any, ...], scope: Scope) -> Shape:
        if len(args) == 2 and args[1] is Ellipsis:
            item = self.of(args[0], scope)
            return Shape({"type": "array", "items": item.schema}, _many(item.convert, tuple))
        if not args and hint in (tuple, typing.Tuple):  # noqa: UP006 - people still write it
            return Shape({"type": "array"}, _many(None, tuple))
        items = [self.of(arg, scope) for arg in args]
        converts = [item.convert for item in items]

        def convert(value: Any) -> Any:
            pairs = zip(converts, value, strict=True)
            return tuple(_at(index, one, item) for index, (one, item) in enumerate(pairs))

        schema: Json = {"type": "array", "minItems": len(items), "maxItems": len(items)}
        if items:
            schema["prefixItems"] = [item.schema for item in items]
        return Shape(schema, convert)

    def _class(self, hint: object, given: object, args: tuple[Any, ...], scope: Scope) -> Shape:
        if not isinstance(given, type):
            raise Unsupported(hint)
        cls = cast("type[Any]", given)
        if _of_pydantic_class(cls):
            return self.pydantic(hint)
        if issubclass(cls, enum.Enum):
            return _enum(cls)
        found = fields_of(cls)
        if found is not None:
            meant = [self.of(arg, scope) for arg in args]
            variables = getattr(cls, "__parameters__", ())
            inner = self._bind_base_variables(cls, dict(zip(variables, meant, strict=False)))
            name = "_".join([cls.__name__, *[re.sub(r"\W+", "_", str(_name(arg))) for arg in args]])
            key = (cls, *map(id, meant))
            return self.define_shape(key, name, lambda: shape_of(cls, found, self.of, inner))
        if issubclass(cls, PurePath):
            return Shape({"type": "string", "format": "path"}, cls)
        for plain in (str, int, float):
            if issubclass(cls, plain):
                return Shape(dict(_PLAIN[plain].schema), cls)
        raise Unsupported(hint)

    def _bind_base_variables(self, cls: type, scope: dict[Any, Shape]) -> dict[Any, Shape]:
        """Bind the type variables of generic bases: `class Ints(Page[int])`."""
        for klass in cls.__mro__:
            for base in klass.__dict__.get("__orig_bases__", ()):
                parameters = getattr(typing.get_origin(base), "__parameters__", ())
                for variable, arg in zip(parameters, typing.get_args(base), strict=False):
                    if variable is not arg and variable not in scope:
                        scope[variable] = self.of(arg, scope)
        return scope

    def define_shape(self, key: object, name: str, build: Callable[[], Shape]) -> Shape:
        """Define a shape in `$defs`, so that it may refer to itself."""
        if key not in self._named:
            unique = self.free_name(name)
            ref: Json = {"$ref": f"#/$defs/{unique}"}
            done: list[Convert | None] = []

            def later(value: object) -> Any:  # for references to it before it is built
                return done[0](value) if done[0] else value

            self._named[key] = Shape(ref, later)
            self.defs[unique] = {}  # takes the name while its own fields are looked at
            built = build()
            self.defs[unique] = built.schema
            done.append(built.convert)
            self._named[key] = Shape(ref, built.convert)
        return self._named[key]

    def free_name(self, name: str) -> str:
        """Return the name, with a number when it is taken."""
        unique, number = name, 2
        while unique in self.defs:
            unique, number = f"{name}_{number}", number + 1
        return unique

    def pydantic(self, hint: object) -> Shape:
        """Build the shape of a type that only pydantic understands."""
        from windlass.tools.schema.pydantic import pydantic_shape

        self.unsure = True
        return pydantic_shape(hint, self.defs, self.free_name)


_QUALIFIERS = ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")


def _hashable(hint: object) -> bool:
    try:
        hash(hint)
    except TypeError:  # Annotated with unhashable metadata
        return False
    return True


def _name(hint: object) -> str:
    return getattr(hint, "__name__", None) or str(hint)


def _of_pydantic(item: object) -> bool:
    return type(item).__module__.partition(".")[0] == "pydantic"


def _of_pydantic_class(cls: type) -> bool:
    return "pydantic" in sys.modules and (
        hasattr(cls, "__pydantic_validator__") or hasattr(cls, "__get_pydantic_core_schema__")
    )


def _at(key: object, convert: Convert | None, value: object) -> Any:
    """Convert the value at `key`, so that a problem has its path."""
    if convert is None:
        return value
    try:
        return convert(value)
    except Exception as error:
        raise Mismatch.at(key, error) from None


def _many(item: Convert | None, build: Callable[[Any], Any] | None) -> Convert | None:
    if item is None:
        return build
    if build is None:
        build = list

    def convert(value: Any) -> Any:
        return build([_at(index, item, one) for index, one in enumerate(value)])

    return convert


def _dict(key: Shape, value: Shape, build: Callable[[Any], Any] | None) -> Shape:
    schema: Json = {"type": "object"}
    if value.schema:
        schema["additionalProperties"] = value.schema
    of_key = key.convert
    kind = key.schema.get("type")
    if "enum" in key.schema:
        schema["propertyNames"] = {"enum": [str(name) for name in key.schema["enum"]]}
    elif kind == "integer":
        schema["propertyNames"] = {"pattern": "^-?[0-9]+$"}
    if kind in ("integer", "number"):  # JSON has only strings as keys
        of_key = _number_key(int if kind == "integer" else float, key.convert)
    elif kind not in ("string", None) and kind != ["number", "string"]:
        raise Unsupported(dict, "the keys of a JSON object are strings; use `str` for the keys")
    if of_key is None and value.convert is None:
        return Shape(schema, build)

    def convert(given: Any) -> Any:
        pairs = {
            _at(name, of_key, name): _at(name, value.convert, item) for name, item in given.items()
        }
        return build(pairs) if build else pairs

    return Shape(schema, convert)


def _number_key(number: Callable[[str], Any], then: Convert | None) -> Convert:
    def convert(text: Any) -> Any:
        return then(number(text)) if then else number(text)

    return convert


def _literal(values: tuple[Any, ...]) -> Shape:
    plain = [value.value if isinstance(value, enum.Enum) else value for value in values]
    for value in plain:
        if value is not None and not isinstance(value, (str, int, bool)):
            raise Unsupported(values, f"{value!r} has no JSON form; use a string or a number")
    schema: Json = {"enum": plain}
    if all(isinstance(value, str) for value in plain):
        schema = {"type": "string", "enum": plain}
    members = {
        value: one
        for value, one in zip(plain, values, strict=True)
        if isinstance(one, enum.Enum) and type(one) is not type(value)
    }
    if not members:
        return Shape(schema)
    return Shape(schema, lambda value: members.get(value, value))


def _enum(cls: type[enum.Enum]) -> Shape:
    if issubclass(cls, enum.Flag):
        return Shape({"type": "integer"}, cls)
    by_value = {member.value: member for member in cls if isinstance(member.value, (str, int))}
    if len(by_value) == len(cls):
        members: dict[Any, enum.Enum] = by_value
    else:  # what JSON cannot express is chosen by its name
        members = {member.name: member for member in cls}
    schema: Json = {"enum": list(members)}
    if all(isinstance(value, str) for value in members):
        schema = {"type": "string", "enum": list(members)}
    elif all(type(value) is int for value in members):
        schema = {"type": "integer", "enum": list(members)}
    own_words = cls.__dict__.get("__doc__")
    if own_words and own_words != "An enumeration.":
        schema["description"] = inspect.cleandoc(own_words)

    def convert(value: object) -> Any:
        try:
            return members[value]
        except (KeyError, TypeError):
            raise ValueError(f"{value!r} is not one of {', '.join(map(repr, members))}") from None

    return Shape(schema, convert)


_BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
_LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}


def _add_constraints(shape: Shape, item: Any, base: Any) -> Shape:
    """Add the constraints of `msgspec.Meta` or annotated_types to a shape."""
    if not (isinstance(item, msgspec.Meta) or type(item).__module__ == "annotated_types"):
        return shape
    schema = dict(shape.schema)
    types_ = cast("list[str]", [schema["type"]] if isinstance(schema.get("type"), str) else [])
    types_ = types_ or cast("list[str]", schema.get("type", []))
    for attribute, keyword in _BOUNDS.items():
        bound = getattr(item, attribute, None)
        if bound is not None:
            schema[keyword] = bound
            if "string" in types_ and "number" in types_:  # a bound does not hold for "-5"
                schema["type"] = "number"
    if getattr(item, "multiple_of", None) is not None:
        schema["multipleOf"] = item.multiple_of
    for end in ("min", "max"):
        length = getattr(item, f"{end}_length", None)
        for kind in types_ if length else ():
            if kind in _LENGTHS:
                schema[end + _LENGTHS[kind]] = length
    for attribute in ("pattern", "title", "description", "examples"):
        if getattr(item, attribute, None) is not None:
            schema[attribute] = getattr(item, attribute)
    schema |= getattr(item, "extra_json_schema", None) or {}
    convert = shape.convert
    if getattr(item, "tz", None) is not None:
        convert = functools.partial(msgspec.convert, type=cast("Any", typing.Annotated[base, item]))
    return Shape(schema, convert)
