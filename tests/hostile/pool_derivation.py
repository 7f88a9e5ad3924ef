"""Right and wrong values of an option, derived from its check.

A check that holds its limits (`number(1, whole=True)`, `one_of("a", "b")`, `struct(Kind)`) says by itself what
it takes. For any other check, `OWN` in `option_pools.py` names the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from windlass.options import checks
from windlass.options.group import StructCheck, read_options

Pool = tuple[list[Any], list[Any]]

HUGE = 10**400
HALF = "half a \ud83d character"


class Angry:
    """An object that answers every question with an error."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equality")

    __hash__ = object.__hash__


def cycle() -> list[Any]:
    """Build a list that holds itself."""
    ring: list[Any] = []
    ring.append(ring)
    return ring


JUNK: list[Any] = [
    b"bytes",
    object(),
    Angry(),
    cycle(),
    {1: 2},
    [None],
    ...,
    Fraction(1, 3),
    1j,
    type,
    print,
    frozenset({1}),
    memoryview(b"x"),
    [[[[[]]]]],
    {"a": {"b": [Angry()]}},
    NotImplemented,
]
NO_NUMBER: list[Any] = ["5", "", math.nan, True, False, "x" * 5000, *JUNK]
NO_WHOLE: list[Any] = [*NO_NUMBER, 1.5, math.inf, -math.inf, -1, -HUGE, 2**63, HUGE]
NO_FLAG: list[Any] = [None, 0, 1, "true", "", math.nan, *JUNK]
NO_TEXT: list[Any] = ["", 5, 1.5, True, HALF, *JUNK]
NO_LIST: list[Any] = ["", 5, True, HALF, b"x", object(), Angry(), {"a": 1}, cycle()]
NO_FUNCTION: list[Any] = [5, "f", [], {}, b"x", object(), Angry(), True]
#: What is no dict of settings, and no flag either.
NO_DICT: list[Any] = [
    5,
    1.5,
    math.nan,
    "x",
    HALF,
    {1: 2},
    {HALF: 1},
    {"": 1},
    [("a", 1)],
    *JUNK[:4],
]


def ignore(*_args: Any, **_more: Any) -> None:
    """A function that takes whatever it is given."""


def keys(
    right: dict[str, Any], wrong: Mapping[str, list[Any]], beside: dict[str, Any] | None = None
) -> list[Any]:
    """Build dicts with each wrong value of each key, and with an unknown key."""
    beside = beside or {}
    bad = [{**beside, key: value} for key, values in wrong.items() for value in values]
    return [*bad, *[{**beside, f"{key}_": value} for key, value in right.items()]]


FLAG: Pool = ([True, False], NO_FLAG)
TEXT: Pool = (["one", "zwei ß", "x" * 1000], [*NO_TEXT, None])
NAME: Pool = (["one", "two"], [*NO_TEXT, None])

_OF_FUNCTIONS: dict[Callable[..., Any], Pool] = {
    checks.boolean: FLAG,
    checks.text: TEXT,
    checks.words: (["", "one"], [5, 1.5, True, HALF, None, *JUNK]),
    checks.identifier: (["one", "two"], [*NO_TEXT, None, "a\nb", "a\0b"]),
    checks.label: (["one", "two"], [*NO_TEXT, None, "a\nb"]),
    checks.function: ([ignore, None], NO_FUNCTION),
    checks.texts: ([[], ["x"], ("x", "y")], ["add", 5, [5], [""], [HALF], {"add": 1}, True, *JUNK]),
    checks.anything: ([None], []),
}


def derive_pool(check: checks.Check) -> Pool | None:
    """Return values that a check takes and values that it refuses; None: it does not say."""
    match check:
        case checks.OptionalCheck(inner=inner):
            pool = derive_pool(inner)
            if pool is None:
                return None
            return [*pool[0], None], [value for value in pool[1] if value is not None]
        case checks.NumberCheck():
            return _derive_number(check)
        case checks.ChoiceCheck(names=names):
            return [*names], ["", names[0].upper(), f"{names[0]}x", 5, True, HALF, None, *JUNK]
        case checks.InstanceCheck():
            return [None], [5, "x", [], True, b"x", object(), Angry()]
        case StructCheck():
            return _derive_struct(check)
        case checks.LateCheck(build=build):
            return derive_pool(build())
        case _:
            return _OF_FUNCTIONS.get(check)


def _derive_number(check: checks.NumberCheck) -> Pool:
    low, high = check.low, check.high
    unbound = low <= -(2**62)
    outside = [HUGE, -HUGE] if unbound else [low - 1, HUGE, -HUGE]
    outside += [] if high is None else [high + 1]
    if check.whole:
        right = [-5, 0, 2**62] if unbound else [int(low), int(low) + 1, int(high or 10_000)]
        wrong = [value for value in NO_WHOLE if type(value) is not int or not low <= value < 2**63]
        return right, [*wrong, *outside, None]
    right = [low, high, (low + high) / 2] if high is not None else [low, low + 0.5, low + 120.0]
    return right, [*NO_NUMBER, math.inf, -math.inf, *outside, None]


def _derive_struct(check: StructCheck) -> Pool:
    right: list[Any] = [None]
    if all(not field.required for field in msgspec.structs.fields(check.kind)):
        right += [{}, check.kind()]
    right += [True, False] if check.flag else []
    pools = {name: derive_pool(option.check) for name, option in read_options(check.kind).items()}
    known = {name: pool for name, pool in pools.items() if pool is not None and pool[1]}
    unknown = {f"{name}_": [None] for name in pools}
    wrong = {name: pool[1] for name, pool in known.items()} | unknown
    return right, [*NO_DICT, *([] if check.flag else [True, False]), *keys({}, wrong)]
