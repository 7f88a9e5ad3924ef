"""Generated schemas, arguments and types: typed errors, never a crash. `-s` prints what was met."""

import asyncio
import dataclasses
import datetime
import decimal
import enum
import re
import typing
import uuid
from collections import Counter
from typing import Any, Literal, Union

import jsonschema
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.helpers import context
from windlass.errors import ConfigError
from windlass.messages import ToolResult
from windlass.tools.function import as_tool
from windlass.tools.tool import Tool

NAMES = st.sampled_from(["a", "b", "type", "properties", "$ref", "required", "é", ""])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["12", "-1.5", "true", "\ud800", "2025-01-31", "x" * 5000, 10**400])
)
JSON = st.recursive(
    SCALARS,
    lambda one: st.lists(one, max_size=3) | st.dictionaries(NAMES, one, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
GOOD = st.recursive(
    st.fixed_dictionaries({"type": KINDS}) | st.just({}) | st.just({"enum": ["a", 1, None]}),
    lambda one: (
        st.fixed_dictionaries({"type": st.just("array"), "items": one})
        | st.fixed_dictionaries({"anyOf": st.lists(one, min_size=1, max_size=3)})
        | st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(NAMES, one, max_size=3),
                "additionalProperties": st.booleans(),
            }
        )
    ),
    max_leaves=6,
)
BAD = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["strng", 5, [], ["x"]])}),
    st.fixed_dictionaries({"type": st.just("string"), "pattern": st.sampled_from(["(", "[", "*"])}),
    st.fixed_dictionaries({"$ref": st.sampled_from(["#/nowhere", "http://127.0.0.1:1/x", "##"])}),
    st.fixed_dictionaries({"properties": st.sampled_from([5, [], {"a": 5}])}),
    st.fixed_dictionaries({"anyOf": st.sampled_from([5, [], [5]])}),
    st.fixed_dictionaries({"minLength": st.sampled_from(["x", -1])}),
    st.fixed_dictionaries({"required": st.sampled_from(["a", [1], 5])}),
    st.sampled_from([5, "strng", None, [1], object(), b"x", "\ud800", float("nan")]),
)


SAYINGS = (
    "is required",
    "is not a parameter",
    "is not a known key",
    "is not of type",
    "is not one of",
    "items",
    "non-unique",
    "not valid Unicode",
    "is not a date",
    "is not a UUID",
    "is not base64",
    "is not a decimal",
    "choice ",
    "not valid under any",
)


def kind_of(line: str) -> str:
    return next((saying for saying in SAYINGS if saying in line), line)


def report(title: str, counts: Counter[str], valid: str) -> float:
    """Print what was met, and give the share that was not valid."""
    total = sum(counts.values())
    share = 1 - counts[valid] / total
    print(f"\n{title}: {total} cases, {share:.0%} invalid: {dict(counts.most_common())}")
    return share


def test_generated_schemas() -> None:
    met: Counter[str] = Counter()

    @settings(max_examples=300)
    @given(st.dictionaries(NAMES, GOOD | BAD | BAD, min_size=1, max_size=3), JSON)
    def check(properties: dict[str, Any], value: Any) -> None:
        try:
            made = Tool("t", parameters={"type": "object", "properties": properties})
        except ConfigError as error:
            assert "tool 't'" in str(error)
            assert len(str(error)) < 1500
            met["ConfigError " + re.sub(r".*(wrong|not JSON).*", r"\1", str(error)[:40])] += 1
            return
        met["accepted"] += 1
        for mode in ("strict", "lenient", "none"):
            made.prepare({"a": value}, mode)

    check()
    assert report("schemas", met, "accepted") >= 0.5


def test_generated_arguments_agree_with_another_validator() -> None:
    met: Counter[str] = Counter()

    @settings(max_examples=400)
    @given(
        st.dictionaries(NAMES, GOOD, max_size=3),
        st.booleans(),
        st.dictionaries(NAMES, JSON, max_size=3) | JSON,
    )
    def check(properties: dict[str, Any], closed: bool, arguments: Any) -> None:
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if closed:
            schema["additionalProperties"] = False
        made = Tool("t", parameters=schema)
        before = repr(arguments)
        strict = made.prepare(arguments)
        lenient = made.prepare(arguments, "lenient")
        assert repr(arguments) == before
        for line in strict.problems:
            assert len(line.encode(errors="replace")) < 2500 and ": " in line
            met[kind_of(line)] += 1
        assert len(strict.problems) <= 21
        if not strict.problems:
            met["valid"] += 1
            assert lenient.coerced == ()
        elif not lenient.problems:
            met["mended"] += 1
            assert lenient.coerced
            assert not made.prepare(lenient.arguments).problems
        if _ordinary(arguments):
            other = jsonschema.Draft202012Validator(schema).is_valid(arguments)
            assert other == (not strict.problems)

    check()
    assert report("arguments", met, "valid") >= 0.5


def _ordinary(value: Any) -> bool:
    """What JSON can say: the two validators need not agree about the rest."""
    text = repr(value)
    return not any(odd in text for odd in ("nan", "inf", r"\ud", "e+", "0" * 300))


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Node:
    value: int
    next: "Node | None" = None
    when: datetime.date | None = None


class Struct(msgspec.Struct):
    a: int
    b: Literal["x", "y"] = "x"


FITTING: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    str: st.text(max_size=3),
    float: st.integers(),
    bool: st.booleans(),
    type(None): st.none(),
    Any: SCALARS,
    datetime.datetime: st.just("2025-01-31T10:00:00Z"),
    uuid.UUID: st.uuids().map(str),
    decimal.Decimal: st.just("1.5"),
    bytes: st.just("aGk="),
    Colour: st.just("red"),
    Literal["a", 1]: st.sampled_from(["a", 1]),
    Struct: st.just({"a": 1, "b": "y"}),
    Node: st.just({"value": 1, "next": {"value": 2}, "when": "2025-01-31"}),
}


def fitting(hint: Any) -> st.SearchStrategy[Any]:
    """JSON that fits the type."""
    if hint in FITTING:
        return FITTING[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, set, frozenset):
        return st.lists(fitting(args[0]), max_size=1)
    if origin is dict:
        return st.dictionaries(st.text(max_size=2), fitting(args[1]), max_size=2)
    if origin is tuple:
        return st.tuples(*map(fitting, args)).map(list)
    return st.one_of(*map(fitting, args))


HINTS = st.recursive(
    st.sampled_from(
        [
            int,
            str,
            float,
            bool,
            type(None),
            Any,
            datetime.datetime,
            uuid.UUID,
            decimal.Decimal,
            bytes,
            Colour,
            Node,
            Struct,
            Literal["a", 1],
        ]
    ),
    lambda one: (
        one.map(lambda hint: list[hint])
        | one.map(lambda hint: dict[str, hint])
        | one.map(lambda hint: tuple[hint, int])
        | st.sampled_from([set[int], set[Colour], frozenset[uuid.UUID]])
        | st.tuples(one, one).map(lambda pair: Union[pair])
    ),
    max_leaves=4,
)
SHAPED = st.recursive(
    SCALARS,
    lambda one: (
        st.lists(one, max_size=2)
        | st.fixed_dictionaries({"value": one}, optional={"next": one, "when": one})
        | st.fixed_dictionaries({"a": one}, optional={"b": one})
    ),
    max_leaves=5,
)


def test_generated_types_and_values() -> None:
    met: Counter[str] = Counter()

    @settings(max_examples=400)
    @given(HINTS, st.sampled_from([True, False, False]), st.data())
    def check(hint: Any, fits: bool, data: st.DataObject) -> None:
        value = data.draw(fitting(hint) if fits else SHAPED)

        async def f(x):
            return "fine"

        f.__annotations__["x"] = hint
        made = as_tool(f)
        jsonschema.Draft202012Validator.check_schema(made.parameters)
        problems = made.prepare({"x": value}).problems
        result = asyncio.run(made.call({"x": value}, context()))
        assert isinstance(result, ToolResult)
        if not problems:
            assert result.content == "fine"
            met["valid"] += 1
        else:
            assert all(line.startswith(("x", "arguments", "choice")) for line in problems)
            met[kind_of(problems[0])] += 1
            assert not fits

    check()
    assert report("types", met, "valid") >= 0.5
    assert met["valid"] > 50


def test_generated_answers() -> None:
    met: Counter[str] = Counter()

    @settings(max_examples=200)
    @given(GOOD, JSON)
    def check(returns: dict[str, Any], value: Any) -> None:
        made = Tool("t", handler=lambda args: value, returns=returns)
        result = made._run_blocking({}, context())
        assert isinstance(result, ToolResult)
        result.text.encode()
        met[result.outcome] += 1

    check()
    assert report("answers", met, "ok") >= 0.3
