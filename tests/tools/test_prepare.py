"""Arguments are checked before anything runs, in words a model can act on."""

import builtins
import json
from typing import Annotated, Any, Literal

import msgspec
import pytest

from windlass.errors import ConfigError
from windlass.tools.arguments.validate import MOST_PROBLEMS, unparsable
from windlass.tools.function import as_tool, tool
from windlass.tools.tool import PreparedArguments, Tool


class Edit(msgspec.Struct):
    path: str
    mode: Literal["first", "all", "nth"] = "first"
    color: str | None = None


def edit(edits: list[Edit], amount: int, ratio: float = 1.0, tags: list[str] | None = None) -> str:
    return "done"


def refund(order: str, amount: Annotated[float, msgspec.Meta(gt=0)], color: str = "red") -> str:
    return "done"


def problems(fn: Any, /, **arguments: Any) -> tuple[str, ...]:
    return as_tool(fn).prepare(arguments).problems


def test_arguments_that_fit_are_handed_back_as_they_are() -> None:
    arguments = {"order": "A", "amount": 2}
    prepared = as_tool(refund).prepare(arguments)
    assert prepared == PreparedArguments(arguments)
    assert prepared.arguments is arguments


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"amount": 1}, ("order: is required",)),
        ({}, ("order: is required", "amount: is required")),
        ({"order": 5, "amount": 1}, ('order: 5 is not of type "string"',)),
        (
            {"order": "a", "amount": 0},
            ("amount: 0 is less than or equal to the minimum of 0",),
        ),
        (
            {"order": "a", "amount": 1, "colour": "x"},
            ("colour: is not a parameter; did you mean 'color'?",),
        ),
        ({"order": "a", "amount": True}, ('amount: true is not of type "number"',)),
    ],
)
def test_problems_say_where_and_what(arguments: Any, lines: tuple[str, ...]) -> None:
    assert problems(refund, **arguments) == lines


def test_problems_inside_lists_and_objects_have_a_path() -> None:
    found = problems(edit, amount=1, edits=[{"path": "a", "mode": "frist"}, {"colour": 1}])
    assert found == (
        'edits/0/mode: "frist" is not one of "first", "all" or "nth"',
        "edits/1/colour: is not a known key; did you mean 'color'?",
        "edits/1/path: is required",
    )


def test_a_union_says_what_would_be_allowed() -> None:
    def f(x: int | list[str], y: Edit | None = None) -> None: ...

    assert problems(f, x={}) == ('x: {} is not of type "integer" or "array"',)
    assert problems(f, x=["a", 1]) == ('x/1: 1 is not of type "string"',)
    assert problems(f, x=1, y={"mode": "all"}) == ("y/path: is required",)
    assert problems(f, x=1, y=3) == ('y: 3 is not of type "object" or "null"',)


def test_an_ambiguous_union_lists_the_choices() -> None:
    class Other(msgspec.Struct):
        name: str

    def f(x: Edit | Other) -> None: ...

    found = problems(f, x={})
    assert found[1:] == ("choice 1: x/path: is required", "choice 2: x/name: is required")


def test_problems_are_few_and_short() -> None:
    def f(xs: list[int]) -> None: ...

    found = problems(f, xs=["x" * 10_000] * 1000)
    assert len(found) == MOST_PROBLEMS + 1
    assert max(map(len, found)) < 400
    assert found[0].startswith('xs/0: "xxx')
    assert found[0].endswith('is not of type "integer"')
    distinct = problems(f, xs=[f"n{i}" for i in range(1000)])
    assert (len(distinct), distinct[-1]) == (MOST_PROBLEMS + 1, "… and more")


@pytest.mark.parametrize("wrong", [[1], "x", 5, None])
def test_arguments_that_are_no_object(wrong: Any) -> None:
    [line] = as_tool(refund).prepare(wrong).problems
    assert line.startswith("arguments: ") and line.endswith('is not of type "object"')


def test_hostile_values_are_problems_and_not_exceptions() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    cycle: list[Any] = []
    cycle.append(cycle)

    def f(xs: list[int], any_: dict[str, Any] | None = None) -> None: ...

    for value in (deep, cycle, "\ud800", [object()], [b"x"], [{1: 2}], [10**5000], [float("nan")]):
        assert problems(f, xs=value) or value == [10**5000]
    for key in ("\ud800", 1):
        prepared = as_tool(f).prepare({"xs": [], "any_": {}, key: 1})
        assert prepared.problems


def test_deep_values_in_a_typed_tool_are_problems() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]

    def f(x: Any, e: Edit) -> None: ...

    assert problems(f, x=deep, e={"path": "a"}) == ("arguments: are nested too deeply",)


# --------------------------------------------------------------------------- lenient and none


def lenient(fn: Any, /, **arguments: Any) -> PreparedArguments:
    return as_tool(fn).prepare(arguments, "lenient")


def test_lenient_mends_what_is_safe_and_says_so() -> None:
    given = {
        "edits": {"path": "a", "why": 1},
        "amount": " 12 ",
        "ratio": "1.5e3",
        "tags": "one",
        "extra": 1,
    }
    before = json.dumps(given)
    prepared = as_tool(edit).prepare(given, "lenient")
    assert prepared.arguments == {
        "edits": [{"path": "a"}],
        "amount": 12,
        "ratio": 1500.0,
        "tags": ["one"],
    }
    assert prepared.problems == ()
    assert sorted(prepared.coerced) == [
        "amount: ' 12 ' was read as 12",
        "edits/0/why: was left out: nobody knows it",
        "edits: one value was put in a list",
        "extra: was left out: nobody knows it",
        "ratio: '1.5e3' was read as 1500.0",
        "tags: one value was put in a list",
    ]
    assert json.dumps(given) == before


def test_lenient_changes_nothing_that_fits() -> None:
    def f(a: str, b: int | str, c: Any = None) -> None: ...

    arguments = {"a": "12", "b": "12", "c": {"x": "3"}}
    assert as_tool(f).prepare(arguments, "lenient") == PreparedArguments(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"n": "1.5"},
        {"n": "abc"},
        {"n": ""},
        {"n": "0x10"},
        {"n": "1_000"},
        {"n": "NaN"},
        {"n": True},
        {"n": None},
        {"n": 1, "x": "1e999"},
        {"n": 1, "x": "inf"},
        {"n": 1, "xs": None},
        {"n": 1, "xs": ["a"]},
        {"n": "9" * 2000},
        {"extra": 1},
    ],
)
def test_lenient_does_not_guess(arguments: Any) -> None:
    def f(n: int, x: float = 1, xs: list[int] = ()) -> None: ...  # pyright: ignore

    prepared = as_tool(f).prepare(arguments, "lenient")
    assert prepared.problems
    assert prepared.arguments == arguments
    assert prepared.coerced == ()


def test_lenient_follows_references_and_leaves_open_objects_open() -> None:
    made = Tool(
        "t",
        parameters={
            "type": "object",
            "properties": {
                "n": {"$ref": "#/$defs/a~1b"},
                "m": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "open": {"type": "object", "properties": {"k": {"type": "integer"}}},
                "two": {"prefixItems": [{"type": "integer"}], "type": "array"},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "pat": {
                    "type": "object",
                    "patternProperties": {"^x": {}},
                    "additionalProperties": False,
                },
            },
            "additionalProperties": False,
            "$defs": {"a/b": {"type": "integer"}},
        },
    )
    prepared = made.prepare(
        {
            "n": "1",
            "m": "2",
            "open": {"k": "3", "other": "4"},
            "two": ["5"],
            "map": {"q": "6"},
            "pat": {"xy": 1, "z": 2},
        },
        "lenient",
    )
    assert prepared.arguments == {
        "n": 1,
        "m": 2,
        "open": {"k": 3, "other": "4"},
        "two": [5],
        "map": {"q": 6},
        "pat": {"xy": 1},
    }


def test_none_checks_nothing_and_strict_tools_are_always_checked() -> None:
    wrong = {"order": 1}
    assert as_tool(refund).prepare(wrong, "none") == PreparedArguments(wrong)
    always = tool(strict=True)(refund)
    for mode in ("strict", "lenient", "none"):
        assert always.prepare({"order": "a", "amount": "1"}, mode).problems


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'lenient'"):
        as_tool(refund).prepare({}, "leniant")


# --------------------------------------------------------------------------- schemas by others


NO_NUL = {"type": "object", "properties": {"p": {"type": "string", "pattern": r"[^\0]"}}}


def test_a_pattern_the_quick_validator_refuses_is_checked_by_the_other() -> None:
    schema = {
        "type": "object",
        "properties": {
            "p": {"type": "string", "pattern": r"^[^\0]+$"},
            "mode": {"enum": ["a", "b"]},
            "u": {"anyOf": [{"type": "integer"}, {"type": "object", "required": ["k"]}]},
        },
        "patternProperties": {"^x-": {}},
        "required": ["p"],
        "additionalProperties": False,
    }
    made = Tool("t", parameters=schema)
    assert made.prepare({"p": "ok", "x-y": 1}).problems == ()
    assert made.prepare({"p": "a\0b"}).problems == ("p: 'a\\x00b' does not match '^[^\\\\0]+$'",)
    assert made.prepare({"mod": "a"}).problems == (
        "p: is required",
        "mod: is not a parameter; did you mean 'mode'?",
    )
    assert made.prepare({"p": "a", "u": {}}).problems == ("u/k: is required",)
    assert made.prepare({"p": "a", "u": []}).problems[0].endswith('of type "integer" or "object"')


def test_without_the_other_validator_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def no_jsonschema(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "jsonschema":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_jsonschema)
    with pytest.raises(ConfigError, match="tool 't'.*pip install jsonschema"):
        Tool("t", parameters=NO_NUL)


def test_a_reference_is_never_fetched() -> None:
    for schema in (
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/x.json"}}},
        {
            "type": "object",
            "properties": {**NO_NUL["properties"], "a": {"$ref": "http://127.0.0.1:1/"}},
        },
        {"type": "object", "$schema": "http://127.0.0.1:1/meta"},
    ):
        with pytest.raises(ConfigError, match="tool 't': its JSON Schema is wrong"):
            Tool("t", parameters=schema)


# --------------------------------------------------------------------------- unreadable arguments


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ('{"a": 1', "delimiter"),
        ("[1, 2]", "they are an array, not an object"),
        ('"x"', "they are a string"),
        ("3", "they are a number"),
        ("null", "they are null"),
        ("", "Expecting value"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": "\ud800', "Unterminated"),
    ],
)
def test_what_a_model_is_told_about_unreadable_arguments(raw: str, words: str) -> None:
    said = unparsable(raw)
    assert words in said
    assert len(said.encode()) < 1500
