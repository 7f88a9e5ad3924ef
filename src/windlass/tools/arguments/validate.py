"""Validation by JSON Schema, with problems that a model can act on.

One compiled validator per schema, made when it is first needed. Problems are lines a model can act
on (`edits/0/mode: "frist" is not one of "first", "all" or "nth"`), few and short.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol, cast

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import JsonObject, is_list, is_object
from windlass.tools.arguments.patterns import (
    Effort,
    effort_to_look,
    effort_to_repeat,
    find_longest_key,
    has_long_key,
    has_patterns,
    limit_slow_patterns,
    linear,
    longest_text,
    looks_at_keys,
    may_match,
    patterns_in,
    rewrite_anchors,
)

MOST_PROBLEMS = 20
_LONGEST = 300  # characters of one problem
_MANY = 2_000  # values; with more than that only the first problem is reported


class Fault(msgspec.Struct, frozen=True):
    """One validation problem, whichever library found it."""

    path: tuple[str | int, ...]
    keyword: str
    message: str
    names: tuple[str, ...] = ()  # the missing or unexpected keys; for `type`, the types allowed
    known: tuple[str, ...] = ()  # the keys there are
    branches: tuple[tuple[Fault, ...], ...] = ()  # of anyOf and oneOf


class _Engine(Protocol):
    effort: Effort | None  # where a pattern goes back; None: all take linear time

    def is_valid(self, instance: Any) -> bool: ...

    def faults(self, instance: Any) -> Iterator[Fault]: ...


class Checker:
    """A compiled schema: `Checker(schema, "tool 'add'").problems({"a": 1})`.

    `label` names the owner in the `ConfigError` that a wrong schema raises. Nothing is ever
    fetched: a reference to another document is a wrong schema.
    """

    __slots__ = ("_engine", "_short_keys", "is_valid")

    def __init__(self, schema: Mapping[str, Any], label: str) -> None:
        self._engine = _compile(dict(schema), label)
        self.is_valid = self._engine.is_valid
        self._short_keys = self._engine.effort is not None and looks_at_keys(schema)
        if self._engine.effort is not None:
            self.is_valid = self._is_valid

    def _is_valid(self, value: Any) -> bool:
        return self._refusal(value) is None and self._engine.is_valid(value)

    def _refusal(self, value: Any) -> str | None:
        """Return why a value is not matched against patterns at all, or None."""
        effort = self._engine.effort
        if self._short_keys and has_long_key(value):
            return "arguments: have a key that is too long to be matched with a pattern"
        if effort is not None and effort.is_too_much(value):
            return "arguments: hold more text than can be matched with their patterns"
        return None

    def problems(self, value: Any) -> tuple[str, ...]:
        """List the problems as `path: message` lines; empty when the value fits."""
        if (refusal := self._refusal(value)) is not None:
            return (refusal,)
        try:
            return lines(self._engine.faults(value))
        except UnicodeEncodeError:
            return ("arguments: contain text that is not valid Unicode",)
        except RecursionError:
            return ("arguments: are nested too deeply",)
        except Exception as error:  # a validator gives up on a value: so does the call
            return (f"arguments: cannot be read: {_short(str(error))}",)


def unparsable(raw: str) -> str:
    """Describe to a model why its arguments were no JSON object.

    `unparsable('{"a": 1')` says that they could not be read, where they broke, and what to send.
    """
    try:
        value = json.loads(raw)
        why = f"they are {_json_kind(value)}"
        why += "" if isinstance(value, dict) else ", not an object"
    except RecursionError:
        why = "they are nested too deeply"
    except ValueError as error:
        why = str(error)
    shown = _short(raw.encode(errors="replace").decode())
    return (
        f"The arguments are not a JSON object: {_short(why)}.\nThey were: {shown}\n"
        "Call the tool again with one complete JSON object that matches its parameters."
    )


def lines(faults: Iterable[Fault]) -> tuple[str, ...]:
    """Convert problems to text: at most `MOST_PROBLEMS` lines, none twice."""
    found: dict[str, None] = {}
    for fault in faults:
        for line in _say(fault):  # one fault may be about many keys
            found[line] = None
            if len(found) > MOST_PROBLEMS:
                return (*islice(found, MOST_PROBLEMS), "… and more")
    return tuple(found)


def at(path: Sequence[str | int], message: str) -> str:
    """Format `path: message`, cut to a readable length."""
    where = "/".join(map(str, path)) or "arguments"
    return f"{_short(where)}: {_short(message)}"


def _say(fault: Fault) -> Iterator[str]:
    path, keyword = fault.path, fault.keyword
    if keyword == "required":
        for name in fault.names:
            yield at((*path, name), "is required")
    elif keyword in ("additionalProperties", "unevaluatedProperties") and fault.names:
        what = "a known key" if path else "a parameter"
        for name in fault.names:
            yield at((*path, name), f"is not {what}{nearest(name, fault.known)}")
    elif fault.branches:
        yield from _say_branches(fault)
    else:
        yield at(path, fault.message)


def _say_branches(fault: Fault) -> Iterator[str]:
    """Yield the problems of the intended branch, if the value's type shows it, else the types."""
    meant = [
        branch
        for branch in fault.branches
        if branch and not any(one.path == fault.path and one.keyword == "type" for one in branch)
    ]
    if len(meant) == 1:
        for one in meant[0]:
            yield from _say(one)
        return
    allowed = [name for branch in fault.branches for one in branch for name in one.names]
    if not meant and allowed:
        kinds = " or ".join(f'"{name}"' for name in dict.fromkeys(allowed))
        value = fault.message.partition(" is not valid under")[0]
        yield at(fault.path, f"{value} is not of type {kinds}")
        return
    yield at(fault.path, fault.message)
    for number, branch in enumerate(meant, 1):
        for one in branch[:2]:
            for line in _say(one):
                yield at((), f"choice {number}: {line}").removeprefix("arguments: ")


def _short(text: str) -> str:
    """Cut a long text in the middle: a value comes first, its problem last."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:100]}…{text[-(_LONGEST - 101) :]}"


def _json_kind(value: Any) -> str:
    kinds = {
        dict: "an object that holds what JSON cannot say",
        str: "a string",
        list: "an array",
        bool: "a boolean",
        type(None): "null",
    }
    return kinds.get(cast("Any", type(value)), "a number")


def _compile(schema: JsonObject, label: str) -> _Engine:
    import jsonschema_rs  # 40 ms to load: not before the first tool call

    try:
        if not has_patterns(schema):
            return _Rust(jsonschema_rs.validator_for(schema, offline=True), schema)
        spelt = rewrite_anchors(schema)
        quick = linear(spelt)
        if quick is not None:
            return _Rust(quick, schema)
        slow = jsonschema_rs.validator_for(limit_slow_patterns(spelt), offline=True)
        return _Rust(slow, schema, effort_to_look(schema))
    except jsonschema_rs.ValidationError as error:
        if 'is not a "regex"' in error.message:
            return _python(schema, label, error.message)
        where = "/".join(map(str, error.instance_path))
        raise ConfigError(
            f"{label}: its JSON Schema is wrong{f' at {where}' if where else ''}: "
            f"{_short(error.message)}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{label}: its JSON Schema is wrong: {_short(str(error))}") from None


def _has_many_values(value: Any) -> bool:
    left, todo = _MANY, [value]
    while todo:
        node = todo.pop()
        if is_object(node):
            todo += node.values()
        elif is_list(node):
            todo += node
        left -= 1
        if left < 0:
            return True
    return False


class _Rust:
    """jsonschema-rs: a quarter of a microsecond for a small value."""

    def __init__(self, validator: Any, schema: JsonObject, effort: Effort | None = None) -> None:
        self.validator, self.schema, self.effort = validator, schema, effort
        self.is_valid = validator.is_valid

    def faults(self, instance: Any) -> Iterator[Fault]:
        if not _has_many_values(instance):
            for error in self.validator.iter_errors(instance):
                yield self._fault(error)
            return
        # it makes all errors before it hands out the first, in 8 µs each
        import jsonschema_rs

        try:
            self.validator.validate(instance)
        except jsonschema_rs.ValidationError as error:
            yield self._fault(error)

    def _fault(self, error: Any) -> Fault:
        kind = error.kind
        name: str = kind.name
        names: tuple[str, ...] = ()
        known: tuple[str, ...] = ()
        branches: tuple[tuple[Fault, ...], ...] = ()
        if name == "required":
            names = (kind.property,)
        elif name == "type":
            names = tuple(kind.types)
        elif name in ("additionalProperties", "unevaluatedProperties"):
            names = tuple(kind.unexpected)
            known = self._properties(error.schema_path[:-1])
        elif name in ("anyOf", "oneOf"):
            context = getattr(kind, "context", None) or ()
            branches = tuple(tuple(self._fault(one) for one in branch) for branch in context)
        return Fault(tuple(error.instance_path), name, error.message, names, known, branches)

    def _properties(self, path: Sequence[str | int]) -> tuple[str, ...]:
        node: Any = self.schema
        try:
            for step in path:
                node = node[step]
            return tuple(node["properties"])
        except (KeyError, IndexError, TypeError):
            return ()


def _python(schema: JsonObject, label: str, why: str) -> _Engine:
    """Build the slow validator, for patterns that the quick one does not know."""
    for pattern in patterns_in(schema):
        try:
            re.compile(pattern)
            safe = longest_text(pattern) is not None
        except (re.error, RecursionError, OverflowError) as error:
            raise ConfigError(
                f"{label}: its JSON Schema is wrong: the pattern {safe_repr(pattern)}: {error}"
            ) from None
        if not safe:
            raise ConfigError(
                f"{label}: the pattern {safe_repr(pattern)} may take for ever on some texts; "
                "write it in ECMA 262 style, which is checked in linear time"
            )
    try:
        from jsonschema import Draft202012Validator, SchemaError, validators
        from referencing import Registry
    except ImportError:
        raise ConfigError(
            f"{label}: {_short(why)}; write the pattern in ECMA 262 style, "
            "or `pip install jsonschema`, which knows more of them"
        ) from None
    cls: Any = cast("Any", validators).validator_for(schema, default=Draft202012Validator)
    cls = _limit_patterns(cls)
    try:
        cls.check_schema(schema)
    except SchemaError as error:
        raise ConfigError(f"{label}: its JSON Schema is wrong: {_short(error.message)}") from None
    # an empty registry of its own, because the default one fetches from the network
    effort = effort_to_repeat(schema)
    return _Python(cls(schema, registry=cast("Any", Registry)()), effort, find_longest_key(schema))


def _limit_patterns(cls: Any) -> Any:
    """Extend the validator so that patterns are matched on short enough texts only."""
    from jsonschema import ValidationError, validators

    def too_long(text: object, pattern: str) -> bool:
        return isinstance(text, str) and len(text) > (longest_text(pattern) or 0)

    def pattern(validator: Any, expected: str, instance: Any, schema: Any) -> Iterator[Any]:
        if too_long(instance, expected):
            yield ValidationError(f"is too long to be matched with {expected!r}")
        else:
            yield from cls.VALIDATORS["pattern"](validator, expected, instance, schema)

    def by_pattern(validator: Any, expected: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if is_object(instance):
            for key in instance:
                if any(too_long(key, one) for one in expected):
                    yield ValidationError("has a key that is too long to be matched")
                    return
        yield from cls.VALIDATORS["patternProperties"](validator, expected, instance, schema)

    guards = {"pattern": pattern, "patternProperties": by_pattern}
    return cast("Any", validators).extend(cls, guards)


class _Python:
    def __init__(self, validator: Any, effort: Effort, longest_key: int) -> None:
        self.validator, self.longest_key = validator, longest_key
        self.effort: Effort | None = effort

    def is_valid(self, instance: Any) -> bool:
        return not has_long_key(instance, self.longest_key) and self.validator.is_valid(instance)

    def faults(self, instance: Any) -> Iterator[Fault]:
        if has_long_key(instance, self.longest_key):
            yield Fault((), "patternProperties", "have a key that is too long to be matched")
            return
        for error in self.validator.iter_errors(instance):
            yield self._fault(error)

    def _fault(self, error: Any) -> Fault:
        name, instance, schema = error.validator, error.instance, error.schema
        names: tuple[str, ...] = ()
        known: tuple[str, ...] = ()
        branches: dict[int, list[Fault]] = {}
        if name == "required":
            names = tuple(key for key in error.validator_value if key not in instance)
        elif name == "type":
            allowed = error.validator_value
            names = (allowed,) if isinstance(allowed, str) else tuple(allowed)
        elif name == "additionalProperties":
            known = tuple(schema.get("properties", ()))
            patterns: tuple[str, ...] = tuple(schema.get("patternProperties", ()))
            names = tuple(
                key
                for key in instance
                if key not in known and not any(may_match(one, key) for one in patterns)
            )
        for one in error.context or ():
            branches.setdefault(one.schema_path[0], []).append(self._fault(one))
        inner = tuple(tuple(branch) for branch in branches.values())
        return Fault(tuple(error.absolute_path), name, error.message, names, known, inner)
