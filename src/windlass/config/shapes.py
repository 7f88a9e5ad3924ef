"""Checks of plain data against a struct: every problem, in words that say what to write."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from windlass.errors import nearest
from windlass.json_types import as_list, is_object
from windlass.redaction.redactor import Secret, looks_secret, mask_url

T = TypeVar("T")
_FEW = 12  # names that fit behind a hint
_MOST = 60  # names that fit where there is no hint


def problems_of(
    value: object, shape: Any, path: tuple[str, ...]
) -> list[tuple[tuple[str, ...], str]]:
    """Find all that is wrong with a value of this shape: every place, not only the first."""
    struct = _struct_in(shape) if is_object(value) else None
    found: list[tuple[tuple[str, ...], str]] = []
    if struct is not None and is_object(value):
        fields = _fields_of(struct)
        for key, inner in value.items():
            if key in fields:
                found += problems_of(inner, fields[key].type, (*path, key))
            else:
                hint = nearest(key, fields, "options")
                too_many = len(fields) > (_FEW if hint else _MOST)
                more = "" if too_many else choice(fields)
                found.append(((*path, key), f" is no setting{hint}{more}"))
    elif inner_shape := _item_shape(value, shape):
        items = value.items() if is_object(value) else enumerate(as_list(value))
        for key, inner in items:
            found += problems_of(inner, inner_shape, (*path, str(key)))
    if found:
        return found
    try:
        convert(value, shape)
    except msgspec.ValidationError as error:
        message = say(error, shape)
        return [(path, f": {message}{render_value(path, value)}{_fix(message, value)}")]
    return []


@cache  # each is asked for as often as a file has such a table
def _fields_of(struct: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def convert(value: object, shape: type[T]) -> T:
    """Convert the data to the type, or raise `msgspec.ValidationError`."""
    try:
        return msgspec.convert(value, shape, dec_hook=_from_plain)
    except RecursionError:
        raise msgspec.ValidationError("it is nested too deep") from None


def _from_plain(shape: type, value: object) -> object:
    """Convert the text of secrets and paths."""
    if isinstance(value, shape):
        return value
    if isinstance(value, str) and shape is Secret:
        return Secret(value)
    if isinstance(value, str) and issubclass(shape, Path):
        return shape(value)
    raise msgspec.ValidationError(f"Expected `str`, got `{type(value).__name__}`")


def _members(shape: object) -> tuple[Any, ...]:
    return get_args(shape) if get_origin(shape) in (Union, UnionType) else (shape,)


def _struct_in(shape: object) -> type[msgspec.Struct] | None:
    structs = [
        each
        for each in _members(shape)
        if isinstance(each, type) and issubclass(each, msgspec.Struct)
    ]
    return structs[0] if len(structs) == 1 else None


def _item_shape(value: object, shape: object) -> Any:
    """Return the item type of a dict or list; None for anything else."""
    for each in _members(shape):
        origin, arguments = get_origin(each), get_args(each)
        if isinstance(value, dict) and origin is dict:
            return arguments[1]
        if isinstance(value, list) and (origin is list or (origin is tuple and ... in arguments)):
            return arguments[0]
    return None


_TYPE = re.compile(r"`([^`]*)`")
_WORDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "list": "an array",
    "object": "a table",
    "dict": "a table",
    "datetime": "a date",
    "date": "a date",
    "time": "a time",
}


def _in_words(named: re.Match[str]) -> str:
    """Name types as TOML has them, which has no null."""
    kinds = [kind for kind in named[1].split(" | ") if kind != "null"]
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds)


def _fix(words: str, value: object) -> str:
    """Return the fix for an obviously wrong type, or nothing."""
    if isinstance(value, (int, float)) and words.startswith("expected a string"):
        return ": put it in quotes"
    if isinstance(value, str) and words.startswith(("expected an integer", "expected a number")):
        return ": take the quotes away" if value.replace(".", "", 1).isdigit() else ""
    return ""


def say(error: msgspec.ValidationError, shape: object = None) -> str:
    """Describe a validation error in text that fits behind the name of a key."""
    choices = [c for each in _members(shape) if get_origin(each) is Literal for c in get_args(each)]
    if choices:
        return f"expected {' or '.join(map(repr, choices))}"
    message, _, place = str(error).partition(" - at `")
    message = message[:1].lower() + _TYPE.sub(_in_words, message[1:])
    inside = place.rstrip("`").removeprefix("$").removeprefix(".")
    return f"{message} (at {inside})" if inside else message


def render_value(path: tuple[str, ...], value: object) -> str:
    """Format a value as ` ('fast')`, unless it is secret or too long."""
    if isinstance(value, (dict, list)) or is_secret(path, value):
        return ""
    shown = repr(mask_url(value) if isinstance(value, str) else value)
    return f" ({shown})" if len(shown) <= 60 else f" ({shown[:57]}…)"


def choice(known: Collection[str]) -> str:
    """Format the known names as ` (known: a, b)`."""
    if not known:
        return ""
    return f" (known: {', '.join(sorted(known))})"


def is_secret(path: tuple[str, ...], value: object) -> bool:
    """Check whether the value is secret."""
    return isinstance(value, Secret) or looks_secret(path[-1])
