r"""Patterns in a schema, matched against model output in bounded time.

The quick validator matches in linear time, but for patterns that look ahead or back, which it tries
at every place anew: those get a longest text. Python's engine, for what the quick one does not know,
tries one way after the other, and for `(a+)+\Z` there are more ways than there is time: what is let
through to it has few repeats, none within another, and texts of a length that fits them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, cast

import msgspec

from windlass.json_types import JsonObject, is_list, is_object

_LONGEST = {0: 100_000, 1: 2_000, 2: 200}  # characters, by how many repeats there are
_FEW = 4  # repeating this often is not worth counting
_POSSESSIVE = re.compile(r"[*+?}]\+")  # the linear engine reads it as two repeats
LONGEST_LOOK = 2_000
_MOST_STEPS = (
    8_000_000  # of an engine that goes back, for all texts of one call: up to a tenth of a second
)
_VALUES = ("enum", "const", "default", "examples")  # no schemas in there
_ANCHORS = {"A": "^", "Z": "$"}
_DEFINED = ("#/$defs/", "#/definitions/")


def patterns_in(schema: object) -> Iterator[str]:
    """Yield every pattern of a schema, also those for keys."""
    if is_object(schema):
        for key, value in schema.items():
            if key == "pattern" and isinstance(value, str):
                yield value
            elif key == "patternProperties" and is_object(value):
                yield from value
            yield from patterns_in(value)
    elif is_list(schema):
        for item in schema:
            yield from patterns_in(item)


def has_patterns(schema: object) -> bool:
    """Check whether a schema has any pattern."""
    return next(patterns_in(schema), None) is not None


def linear(schema: Any) -> Any:
    """Build a validator that matches in linear time; None if a pattern needs more."""
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(
            schema, offline=True, pattern_options=jsonschema_rs.RegexOptions()
        )
    except (jsonschema_rs.ValidationError, ValueError, RecursionError):
        return None


def looks_at_keys(schema: Any) -> bool:
    """Check whether a pattern for keys uses lookaround or backreferences."""
    todo: list[Any] = [schema]
    while todo:
        node = todo.pop()
        if is_object(node):
            fields = node
            keys = fields.get("patternProperties")
            if isinstance(keys, dict) and linear({"patternProperties": keys}) is None:
                return True
            todo += fields.values()
        elif is_list(node):
            todo += node
    return False


def has_long_key(value: object, longest: int = LONGEST_LOOK) -> bool:
    """Check whether a key is too long for a pattern with lookaround."""
    todo: list[Any] = [value]
    while todo:
        node = todo.pop()
        if is_object(node):
            fields: dict[Any, Any] = node
            if any(isinstance(key, str) and len(key) > longest for key in fields):
                return True
            todo += fields.values()
        elif is_list(node):
            todo += node
    return False


def rewrite_anchors(schema: object) -> Any:
    """Rewrite the anchors of a schema's patterns for the quick validator."""
    if is_list(schema):
        return [rewrite_anchors(item) for item in schema]
    if not is_object(schema):
        return schema
    made: JsonObject = {}
    for key, value in schema.items():
        if key == "patternProperties" and is_object(value):
            fields = value
            made[key] = {
                to_ecma_pattern(name): rewrite_anchors(one) for name, one in fields.items()
            }
        elif key == "pattern" and isinstance(value, str):
            made[key] = to_ecma_pattern(value)
        else:
            made[key] = value if key in _VALUES else rewrite_anchors(value)
    return made


def limit_slow_patterns(schema: object) -> Any:
    """Limit patterns without linear matching to short texts."""
    if is_list(schema):
        return [limit_slow_patterns(item) for item in schema]
    if not is_object(schema):
        return schema
    node = schema
    made = {
        key: value if key in _VALUES else limit_slow_patterns(value) for key, value in node.items()
    }
    pattern = node.get("pattern")
    if isinstance(pattern, str) and (
        _POSSESSIVE.search(pattern) or linear({"pattern": pattern}) is None
    ):
        _keep_short(made)
    return made


def _keep_short(node: JsonObject) -> None:
    """Limit the pattern to short texts; a long one does not fit."""
    test: JsonObject = {
        "if": {"type": "string", "maxLength": LONGEST_LOOK},
        "then": {"pattern": node.pop("pattern")},
        "else": {"not": {"type": "string"}},
    }
    others: Any = node.get("allOf")
    node["allOf"] = [*others, test] if is_list(others) else [test]


def to_ecma_pattern(pattern: str) -> str:
    r"""Convert the anchors `\A` and `\Z` of a pattern to ECMA 262."""
    if "(?" in pattern and re.search(r"\(\?[a-z-]*m", pattern):
        return pattern  # where ^ and $ mean lines
    return re.sub(r"\\(.)", lambda found: _ANCHORS.get(found[1], found[0]), pattern, flags=re.S)


@lru_cache(maxsize=256)
def count_repeats(pattern: str) -> int | None:
    """Count the repeats of a pattern in Python's engine; None if too many or nested."""
    from re import _parser  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]

    repeats = _repeats(cast("Iterable[Any]", cast("Any", _parser).parse(pattern)), within=False)
    return repeats if repeats in _LONGEST else None


def longest_text(pattern: str) -> int | None:
    """Return the longest text that may be matched; None when no length is safe."""
    repeats = count_repeats(pattern)
    return None if repeats is None else _LONGEST[repeats]


@lru_cache(maxsize=256)
def _key_matcher(pattern: str) -> Callable[[str], bool]:
    if (quick := linear({"pattern": to_ecma_pattern(pattern)})) is not None:
        return quick.is_valid
    try:
        compiled, longest = re.compile(pattern), longest_text(pattern) or 0
    except (re.error, RecursionError, OverflowError):
        return lambda _key: True
    return lambda key: len(key) > longest or compiled.search(key) is not None


def may_match(pattern: str, key: str) -> bool:
    """Check whether a key fits a pattern; True where that would take too long."""
    try:
        return _key_matcher(pattern)(key)
    except ValueError:  # a lone surrogate
        return True


def find_longest_key(schema: object) -> int:
    """Return the longest key that Python's engine may match with every key pattern."""
    longest, todo = _LONGEST[0], [schema]
    while todo:
        node = todo.pop()
        if is_object(node):
            fields = node
            keys = fields.get("patternProperties")
            if is_object(keys):
                limits = [longest_text(pattern) or 0 for pattern in keys]
                longest = min([longest, *limits])
            todo += fields.values()
        elif is_list(node):
            todo += node
    return longest


class Effort(msgspec.Struct, frozen=True):
    """The estimated work to match backtracking patterns on the texts of one call."""

    # the longest text that is tried, and the power of its length that it takes, the shortest first
    powers: tuple[tuple[int, int], ...]
    names: frozenset[str] | None  # of the fields whose texts are tried; None: all texts are

    def is_too_much(self, value: object) -> bool:
        """Check whether matching would take too long."""
        left = _MOST_STEPS
        todo: list[tuple[Any, bool]] = [(value, self.names is None)]
        while todo:
            node, tried = todo.pop()
            if isinstance(node, str):
                if tried:
                    left -= self._steps(len(node))
                    if left < 0:
                        return True
            elif is_object(node):
                for key, item in node.items():
                    todo.append((item, tried or key in cast("frozenset[str]", self.names)))
                    if self.names is None:
                        todo.append((key, True))
            elif is_list(node):
                todo += [(item, tried) for item in node]
        return False

    def _steps(self, length: int) -> int:
        for longest, power in self.powers:
            if length <= longest:
                return length**power
        return 0


def effort_to_look(schema: object) -> Effort:
    """Estimate the work of patterns with lookaround."""
    return Effort(((LONGEST_LOOK, 2),), _fields_with_patterns(schema))


def effort_to_repeat(schema: object) -> Effort:
    """Estimate the work of Python's engine."""
    repeats = {count_repeats(pattern) or 0 for pattern in patterns_in(schema)}
    powers = sorted([(_LONGEST[count], 1 + count) for count in repeats if count])
    return Effort(tuple(powers), _fields_with_patterns(schema))


def _fields_with_patterns(schema: object) -> frozenset[str] | None:
    """Return the fields with texts that are matched by a pattern; None for any text."""
    found: set[str] = set()
    todo: list[tuple[Any, str | None]] = [(schema, None)]
    while todo:
        node, name = todo.pop()
        if is_list(node):
            todo += [(item, name) for item in node]
        if not is_object(node):
            continue
        for key, value in node.items():
            if key == "pattern" and isinstance(value, str):
                if name is None:
                    return None
                found.add(name)
            elif key == "patternProperties":
                return None
            elif key == "properties" and is_object(value):
                todo += [(item, field) for field, item in value.items()]
            elif key in ("$defs", "definitions"):
                todo.append((value, None))  # the reference names the field
            elif key in ("$ref", "$dynamicRef") and not str(value).startswith(_DEFINED):
                return None
            elif key not in _VALUES:
                todo.append((value, name))
    return frozenset(found)


def _repeats(items: Iterable[Any], within: bool) -> int | None:
    """Count the repeats; None if one holds what can match in several ways."""
    total = 0
    for op, argument in items:
        found = _repeats_in(str(op), argument, within)
        if found is None:
            return None
        total += found
    return total


def _repeats_in(name: str, argument: Any, within: bool) -> int | None:
    parts: list[Any] = []
    own = 0
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, inner = argument
        if within and least != most:
            return None
        if int(most) > _FEW and least != most:
            own = 1
        within = within or int(most) > 1
        parts = [inner]
    elif name == "BRANCH":
        if within:
            return None
        parts = list(argument[1])
    elif name == "SUBPATTERN":
        parts = [argument[-1]]
    elif name in ("ASSERT", "ASSERT_NOT"):
        parts = [argument[1]]
    elif name == "ATOMIC_GROUP":
        parts = [argument]
    elif name in ("GROUPREF", "GROUPREF_EXISTS"):
        return None  # a group may have matched any length
    for part in parts:
        found = _repeats(part, within)
        if found is None:
            return None
        own += found
    return own
