"""Classes with fields: dataclasses, TypedDicts, NamedTuples and structs, as JSON objects."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from windlass.json_types import JsonObject, as_given, is_object
from windlass.tools.docs import Docs, read_docs
from windlass.tools.schema.shape import (
    Convert,
    Json,
    Mismatch,
    Shape,
    Unsupported,
)

MISSING = object()
Of: TypeAlias = Callable[[Any, Mapping[Any, Shape]], Shape]


class Field(msgspec.Struct, frozen=True):
    """One field: its JSON and Python names, its type, and whether it is optional."""

    key: str
    name: str
    hint: Any
    required: bool
    default: Any = MISSING
    words: str = ""


def fields_of(cls: type[Any]) -> list[Field] | None:
    """Return the fields of a class, or None when it has none."""
    if issubclass(cls, msgspec.Struct):
        return _of_struct(cls)
    if dataclasses.is_dataclass(as_given(cls)):
        return _of_dataclass(cls, _hints(cls))
    if _is(cls, dict) and hasattr(cls, "__required_keys__"):
        return _of_typed_dict(cls, _hints(cls))
    if _is(cls, tuple) and hasattr(cls, "_fields"):
        return _of_named_tuple(cls, _hints(cls))
    return None


def _is(cls: type[Any], base: type[Any]) -> bool:
    return issubclass(cls, base)


def shape_of(cls: type[Any], fields: list[Field], of: Of, scope: Mapping[Any, Shape]) -> Shape:
    """Build an object schema with a property for each field, and its conversion."""
    docs = _docs(cls)
    properties: Json = {}
    converts: dict[str, tuple[str, Convert | None]] = {}
    for field in fields:
        shape = of(field.hint, scope)
        schema = dict(shape.schema)
        description = field.words or docs.parameters.get(field.name, "")
        if description and "description" not in schema:
            schema["description"] = description
        if field.default is not MISSING:
            put_default(schema, field.default)
        properties[field.key] = schema
        converts[field.key] = (field.name, shape.convert)
    schema: Json = {"type": "object"}
    if docs.description:
        schema["description"] = docs.description
    schema |= {"properties": properties, "additionalProperties": False}
    required = [field.key for field in fields if field.required]
    if required:
        schema["required"] = required
    if _is(cls, msgspec.Struct):
        _put_tag(cls, schema)
    if _is(cls, dict) and all(convert is None for _, convert in converts.values()):
        return Shape(schema)
    return Shape(schema, _maker(cls, converts))


def put_default(schema: Json, value: object) -> None:
    """Add a default to a schema, where JSON can express it."""
    try:
        dump = getattr(type(value), "model_dump", None)
        plain = dump(value, mode="json") if callable(dump) else msgspec.to_builtins(value)
        msgspec.json.encode(plain)
    except Exception:
        return
    schema["default"] = plain


def _maker(cls: type[Any], converts: dict[str, tuple[str, Convert | None]]) -> Convert:
    def make(value: object) -> Any:
        if not is_object(value):
            raise ValueError(f"{value!r} is not an object")
        found: Json = {}
        for key, item in value.items():
            name, convert = converts.get(key, (None, None))
            if name is None:
                continue
            try:
                found[name] = convert(item) if convert else item
            except Exception as error:
                raise Mismatch.at(key, error) from None
        return found if _is(cls, dict) else cls(**found)

    return make


def names_around() -> JsonObject:
    """Return the local names where the tool is defined, for classes in functions.

    Asked only when a name is not found otherwise: looking at a frame keeps its values alive.
    """
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package != "windlass":
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def _hints(cls: type[Any]) -> JsonObject:
    try:
        local = {cls.__name__: cls}
        try:
            return typing.get_type_hints(cls, localns=local, include_extras=True)
        except NameError:
            local = {**names_around(), **local}
            return typing.get_type_hints(cls, localns=local, include_extras=True)
    except NameError as error:
        raise Unsupported(
            cls, f"its field types name {error.name!r}, which cannot be found; import it there"
        ) from None
    except TypeError as error:
        raise Unsupported(cls, str(error)) from None


def _of_struct(cls: type[msgspec.Struct]) -> list[Field]:
    if cls.__struct_config__.array_like:
        raise Unsupported(cls, "an array_like struct has no names a model could use; drop it")
    try:
        found = msgspec.structs.fields(cls)
    except NameError as error:
        raise Unsupported(
            cls,
            f"its field types name {error.name!r}, which cannot be found; "
            "define both at the top of a module",
        ) from None
    return [
        Field(
            one.encode_name,
            one.name,
            one.type,
            one.required,
            MISSING if one.default is msgspec.NODEFAULT else one.default,
        )
        for one in found
    ]


def _put_tag(cls: type[msgspec.Struct], schema: Json) -> None:
    config = cls.__struct_config__
    if config.tag_field is not None:
        schema["properties"] = {config.tag_field: {"const": config.tag}, **schema["properties"]}
        schema["required"] = [config.tag_field, *schema.get("required", [])]


def _of_dataclass(cls: type[Any], hints: JsonObject) -> list[Field]:
    found: list[Field] = []
    for one in dataclasses.fields(cast("Any", cls)):
        if not one.init:
            continue
        default = MISSING if one.default is dataclasses.MISSING else one.default
        required = default is MISSING and one.default_factory is dataclasses.MISSING
        description = one.metadata.get("description", "")
        found.append(Field(one.name, one.name, hints[one.name], required, default, description))
    return found


def _of_typed_dict(cls: type[Any], hints: JsonObject) -> list[Field]:
    keys: frozenset[str] = cast("Any", cls).__required_keys__
    # a class under `from __future__ import annotations` does not know its own NotRequired keys
    return [
        Field(name, name, hint, _says(hint, "Required", "NotRequired", name in keys))
        for name, hint in hints.items()
    ]


def _says(hint: object, yes: str, no: str, otherwise: bool) -> bool:
    while typing.get_origin(hint) is not None:
        name = getattr(typing.get_origin(hint), "_name", None)
        if name in (yes, no):
            return name == yes
        if name != "ReadOnly" and typing.get_origin(hint) is not typing.Annotated:
            return otherwise
        hint = typing.get_args(hint)[0]
    return otherwise


def _of_named_tuple(cls: type[Any], hints: JsonObject) -> list[Field]:
    named = cast("Any", cls)
    return [
        Field(
            name,
            name,
            hints.get(name, Any),
            name not in named._field_defaults,
            named._field_defaults.get(name, MISSING),
        )
        for name in named._fields
    ]


def _docs(cls: type[Any]) -> Docs:
    own = cls.__dict__.get("__doc__")
    if not own or own.startswith(f"{cls.__name__}("):  # written by dataclass or NamedTuple
        return Docs()
    return read_docs(own)
