"""Types become schemas, and JSON that fits a schema becomes the type again."""

import collections
import collections.abc as abc
import dataclasses
import enum
import sys
import typing
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict

import jsonschema
import msgspec
import pytest
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel
from pydantic.dataclasses import dataclass as pydantic_dataclass

from tests.tools.helpers import context
from windlass.errors import ConfigError
from windlass.tools.function import as_tool, tool
from windlass.tools.tool import Tool

T = typing.TypeVar("T")
N = typing.TypeVar("N", int, str)
B = typing.TypeVar("B", bound=int)
UserId = NewType("UserId", int)


class Colour(enum.Enum):
    """What it looks like."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    PAIR = (1, 2)
    SINGLE = (1,)


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Slug(str):
    pass


@dataclass
class Point:
    """A place.

    Attributes:
        x: to the east
    """

    x: int
    y: float = 0.5
    tags: list[str] = field(default_factory=list)
    hidden: int = field(default=9, init=False)
    note: Annotated[str, "in words"] = field(default="", metadata={"description": "not this"})
    z: int = field(default=0, metadata={"description": "up"})


@dataclass
class Node:
    value: int
    children: "list[Node]" = field(default_factory=list)


@dataclass
class Cat:
    lives: int


@dataclass
class Dog:
    lives: str


class Address(TypedDict):
    street: str
    zip: NotRequired[str]


class Partial(TypedDict, total=False):
    when: date
    needed: typing.Required[int]


class Pair(NamedTuple):
    left: int
    right: datetime = datetime(2020, 1, 1)


class Struct(msgspec.Struct, rename="camel"):
    user_name: str
    when: date | None = None


class Tagged(msgspec.Struct, tag="dot", tag_field="type"):
    size: int = 1


class Square(msgspec.Struct, tag="square", tag_field="type"):
    size: int = 1


@dataclass
class Page(Generic[T]):
    items: list[T]
    best: T | None = None


class IntPage(Page[int]):
    pass


class Box(msgspec.Struct, Generic[T]):
    inside: T


class Model(BaseModel):
    """A pydantic model."""

    name: str = Field(description="its name", min_length=2)
    size: int = 1
    when: datetime | None = None


class Tree(BaseModel):
    title: str
    kids: "list[Tree]" = []


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    when: date


class Numbers(RootModel[list[int]]):
    pass


@pydantic_dataclass
class Checked:
    n: int = Field(gt=0)


NOON = datetime(2025, 1, 31, 12, tzinfo=UTC)
ID = uuid.UUID(int=5)
STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def tool_of(hint: Any) -> Tool:
    def f(x):
        f.got = x

    f.__annotations__["x"] = hint
    f.got = None
    return as_tool(f)


async def sent(hint: Any, value: Any) -> Any:
    """What a function of this parameter type is given for this JSON."""
    made = tool_of(hint)
    jsonschema.Draft202012Validator.check_schema(made.parameters)
    prepared = made.prepare({"x": value})
    assert not prepared.problems, (made.parameters, prepared.problems)
    assert prepared.arguments == {"x": value}
    result = await made.call(prepared.arguments, context())
    assert result.outcome == "ok", result.content
    return made.handler.got


def schema_of(hint: Any) -> dict[str, Any]:
    parameters = tool_of(hint).parameters
    extra = {"$defs": parameters["$defs"]} if "$defs" in parameters else {}
    return parameters["properties"]["x"] | extra


SCHEMAS: list[tuple[Any, Any]] = [
    (Any, {}),
    (object, {}),
    (str, STRING),
    (int, INTEGER),
    (float, NUMBER),
    (bool, {"type": "boolean"}),
    (None, {"type": "null"}),
    (list, {"type": "array"}),
    (list[int], {"type": "array", "items": INTEGER}),
    (typing.List[int], {"type": "array", "items": INTEGER}),  # noqa: UP006
    (abc.Sequence[str], {"type": "array", "items": STRING}),
    (abc.Iterable[str], {"type": "array", "items": STRING}),
    (set[int], {"type": "array", "items": INTEGER, "uniqueItems": True}),
    (frozenset, {"type": "array", "uniqueItems": True}),
    (tuple, {"type": "array"}),
    (tuple[int, ...], {"type": "array", "items": INTEGER}),
    (
        tuple[int, str],
        {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [INTEGER, STRING]},
    ),
    (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}),
    (dict, {"type": "object"}),
    (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
    (abc.Mapping[str, Any], {"type": "object"}),
    (
        dict[int, str],
        {
            "type": "object",
            "additionalProperties": STRING,
            "propertyNames": {"pattern": "^-?[0-9]+$"},
        },
    ),
    (
        dict[Literal["a", "b"], int],
        {"propertyNames": {"enum": ["a", "b"]}, "type": "object", "additionalProperties": INTEGER},
    ),
    (int | None, {"type": ["integer", "null"]}),
    (typing.Optional[str], {"type": ["string", "null"]}),  # noqa: UP045
    (int | str, {"type": ["integer", "string"]}),
    (list[int] | None, {"type": ["array", "null"], "items": INTEGER}),
    (int | list[str], {"anyOf": [INTEGER, {"type": "array", "items": STRING}]}),
    (int | Any, {}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a", 1, None, True], {"enum": ["a", 1, None, True]}),
    (Literal["a"] | None, {"type": ["string", "null"], "enum": ["a", None]}),
    (Literal[Colour.RED, "x"], {"type": "string", "enum": ["red", "x"]}),
    (Colour, {"type": "string", "enum": ["red", "blue"], "description": "What it looks like."}),
    (Level, {"type": "integer", "enum": [1, 2]}),
    (Odd, {"type": "string", "enum": ["PAIR", "SINGLE"]}),
    (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
    (
        Annotated[str, msgspec.Meta(min_length=1, max_length=3, pattern="^a", description="d")],
        STRING | {"minLength": 1, "maxLength": 3, "pattern": "^a", "description": "d"},
    ),
    (Annotated[int, msgspec.Meta(ge=1, lt=5)], INTEGER | {"minimum": 1, "exclusiveMaximum": 5}),
    (
        Annotated[list[int], msgspec.Meta(max_length=3, extra_json_schema={"title": "t"})],
        {"type": "array", "items": INTEGER, "maxItems": 3, "title": "t"},
    ),
    (Annotated[Decimal, msgspec.Meta(ge=0)], {"type": "number", "minimum": 0}),
    (
        list[Annotated[int, "each"]],
        {"type": "array", "items": {"type": "integer", "description": "each"}},
    ),
    (datetime, {"type": "string", "format": "date-time"}),
    (date, {"type": "string", "format": "date"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (Decimal, {"type": ["number", "string"]}),
    (Path, {"type": "string", "format": "path"}),
    (bytes, {"type": "string", "contentEncoding": "base64"}),
    (UserId, INTEGER),
    (T, {}),
    (N, {"type": ["integer", "string"]}),
    (B, INTEGER),
    (
        Address,
        {
            "type": "object",
            "properties": {"street": STRING, "zip": STRING},
            "additionalProperties": False,
            "required": ["street"],
        },
    ),
    (
        Annotated[int, Field(ge=1, description="count")],
        {"type": "integer", "minimum": 1, "description": "count"},
    ),
]


@pytest.mark.parametrize(("hint", "schema"), SCHEMAS, ids=lambda one: str(one)[:40])
def test_schemas(hint: Any, schema: Any) -> None:
    assert schema_of(hint) == schema


def test_a_dataclass_has_the_words_of_its_docstring_and_defaults() -> None:
    assert schema_of(Point) == {
        "type": "object",
        "description": "A place.",
        "properties": {
            "x": {"type": "integer", "description": "to the east"},
            "y": {"type": "number", "default": 0.5},
            "tags": {"type": "array", "items": STRING},
            "note": {"type": "string", "description": "in words", "default": ""},
            "z": {"type": "integer", "description": "up", "default": 0},
        },
        "additionalProperties": False,
        "required": ["x"],
    }


def test_structs_use_their_encoded_names_and_tags() -> None:
    assert schema_of(Struct)["properties"] == {
        "userName": STRING,
        "when": {"type": ["string", "null"], "format": "date", "default": None},
    }
    assert schema_of(Tagged)["properties"]["type"] == {"const": "dot"}
    assert schema_of(Tagged)["required"] == ["type"]


def test_a_recursive_type_refers_to_itself_and_others_are_written_out() -> None:
    node = schema_of(Node)
    assert node["$ref"] == "#/$defs/Node"
    assert node["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert "$defs" not in schema_of(list[Point])
    twice = schema_of(tuple[Cat, Cat])
    assert list(twice["$defs"]) == ["Cat"]


def test_two_classes_of_one_name_have_two_definitions() -> None:
    first = dataclasses.make_dataclass("Same", [("a", int)])
    second = dataclasses.make_dataclass("Same", [("b", int)])
    assert list(schema_of(tuple[first, second, first, second])["$defs"]) == ["Same", "Same_2"]


def test_the_returns_option_takes_a_type_and_writes_out_a_top_level_reference() -> None:
    schema = tool(name="n", returns=Node)(lambda: 0)
    assert schema.returns["type"] == "object"
    assert list(schema.returns["$defs"]) == ["Node"]


CONVERSIONS: list[tuple[Any, Any, Any]] = [
    (int, 3.0, 3),
    (int | None, 3.0, 3),
    (float, 3, 3),
    (Any, {"a": [1]}, {"a": [1]}),
    (set[int], [1, 2], {1, 2}),
    (frozenset[str], ["a"], frozenset("a")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (tuple[int, date], [1, "2025-01-31"], (1, date(2025, 1, 31))),
    (collections.deque[int], [1], collections.deque([1])),
    (list[date], ["2025-01-31"], [date(2025, 1, 31)]),
    (dict[int, date], {"7": "2025-01-31"}, {7: date(2025, 1, 31)}),
    (dict[Colour, int], {"red": 1}, {Colour.RED: 1}),
    (dict[UserId, int], {"-1": 1}, {-1: 1}),
    (datetime, "2025-01-31T12:00:00Z", NOON),
    (datetime, "2025-01-31 12:00", datetime(2025, 1, 31, 12)),
    (time, "09:30", time(9, 30)),
    (timedelta, "PT90M", timedelta(minutes=90)),
    (uuid.UUID, str(ID), ID),
    (Decimal, "1.10", Decimal("1.10")),
    (Decimal, 0.1, Decimal("0.1")),
    (Path, "/a/b", Path("/a/b")),
    (PurePosixPath, "a", PurePosixPath("a")),
    (bytes, "aGk=", b"hi"),
    (bytearray, "aGk=", bytearray(b"hi")),
    (Colour, "red", Colour.RED),
    (Level, 2, Level.HIGH),
    (Odd, "PAIR", Odd.PAIR),
    (Rights, 3, Rights.READ | Rights.WRITE),
    (Literal[Colour.RED, "x"], "red", Colour.RED),
    (Slug, "a", Slug("a")),
    (Point, {"x": 1, "tags": ["a"]}, Point(1, tags=["a"])),
    (Node, {"value": 1, "children": [{"value": 2}]}, Node(1, [Node(2)])),
    (Address, {"street": "s"}, {"street": "s"}),
    (Partial, {"needed": 1, "when": "2025-01-31"}, {"needed": 1, "when": date(2025, 1, 31)}),
    (Pair, {"left": 1}, Pair(1)),
    (Struct, {"userName": "a", "when": "2025-01-31"}, Struct("a", date(2025, 1, 31))),
    (Tagged | Square, {"type": "square", "size": 4}, Square(4)),
    (Page[date], {"items": ["2025-01-31"]}, Page([date(2025, 1, 31)])),
    (Page[Page[int]], {"items": [{"items": [1]}]}, Page([Page([1])])),
    (Box[Colour], {"inside": "blue"}, Box(Colour.BLUE)),
    (Model, {"name": "ab", "when": "2025-01-31T12:00:00Z"}, Model(name="ab", when=NOON)),
    (list[Model], [{"name": "ab"}], [Model(name="ab")]),
    (Model | None, None, None),
    (Tree, {"title": "a", "kids": [{"title": "b"}]}, Tree(title="a", kids=[Tree(title="b")])),
    (Strict, {"when": "2025-01-31"}, Strict(when=date(2025, 1, 31))),
    (Numbers, [1, 2], Numbers([1, 2])),
    (Checked, {"n": 1}, Checked(n=1)),
    (Annotated[int, Field(ge=1)], 4, 4),
    (Annotated[str, BeforeValidator(str.upper)], "a", "A"),
    (Cat | Dog, {"lives": "nine"}, Dog("nine")),
    (Cat | Dog, {"lives": 9}, Cat(9)),
    (datetime | str, "2025-01-31T12:00:00Z", NOON),
    (datetime | str, "tomorrow", "tomorrow"),
    (str | datetime, "2025-01-31T12:00:00Z", "2025-01-31T12:00:00Z"),
    (list[Cat] | Cat, [{"lives": 1}], [Cat(1)]),
    (date | int | None, 5, 5),
    (Annotated[datetime, msgspec.Meta(tz=True)], "2025-01-31T12:00:00Z", NOON),
]


@pytest.mark.parametrize(("hint", "given", "expected"), CONVERSIONS, ids=lambda one: str(one)[:30])
async def test_conversions(hint: Any, given: Any, expected: Any) -> None:
    got = await sent(hint, given)
    assert got == expected
    assert type(got) is type(expected)


async def test_a_subclass_of_a_generic_knows_its_type() -> None:
    assert schema_of(IntPage)["properties"]["items"] == {"type": "array", "items": INTEGER}
    assert type(await sent(IntPage, {"items": [1]})) is IntPage


MISFITS: list[tuple[Any, Any, str]] = [
    (datetime, "tomorrow", "x: 'tomorrow' is not a date and time; write it like 2025-"),
    (list[date], ["2025-01-31", "soon"], "x/1: 'soon' is not a date"),
    (uuid.UUID, "5", "x: '5' is not a UUID"),
    (bytes, "%", "x: '%' is not base64"),
    (Decimal, "much", "x: 'much' is not a decimal number"),
    (Partial, {"needed": 1, "when": "x"}, "x/when: 'x' is not a date"),
    (dict[str, uuid.UUID], {"k": "x"}, "x/k: 'x' is not a UUID"),
    (Strict, {"when": "x"}, "x/when: Input should be a valid date"),
    (Checked, {"n": 0}, "x/n: 0 is less than or equal to the minimum of 0"),
    (Annotated[datetime, msgspec.Meta(tz=True)], "2025-01-31T12:00:00", "x: Expected `datetime`"),
    (Cat | Dog, {"lives": None}, "x: {"),
]


@pytest.mark.parametrize(("hint", "given", "words"), MISFITS, ids=lambda one: str(one)[:30])
async def test_what_fits_the_schema_but_not_the_type_is_a_problem(
    hint: Any, given: Any, words: str
) -> None:
    made = tool_of(hint)
    problems = made.prepare({"x": given}).problems
    assert problems and problems[0].startswith(words), problems
    unchecked = await made.call({"x": given}, context())
    if hint not in (Checked, Cat | Dog):
        assert unchecked.outcome == "invalid"
    assert unchecked.is_error


def test_pydantic_titles_are_left_out_but_not_a_field_called_title() -> None:
    tree = schema_of(Tree)["$defs"]["Tree"]
    assert list(tree["properties"]) == ["title", "kids"]
    assert tree["properties"]["title"] == STRING
    assert schema_of(Model)["properties"]["size"] == {"type": "integer", "default": 1}


def test_pydantic_field_as_a_default() -> None:
    def f(n: int = Field(3, ge=1), name: str = Field(description="who")) -> str:
        return f"{n}{name}"

    made = as_tool(f)
    assert made.parameters["required"] == ["name"]
    assert made.parameters["properties"]["n"] == {"type": "integer", "minimum": 1, "default": 3}
    assert made.prepare({"name": "a", "n": 0}).problems == ("n: 0 is less than the minimum of 1",)


async def test_a_pydantic_default_is_filled_in() -> None:
    tagged: Any = Field(default_factory=lambda: ["t"])

    def f(n: int = Field(3), tags: list[str] = tagged) -> str:
        return f"{n}{tags}"

    assert (await as_tool(f).call({}, context())).content == "3['t']"


def test_defaults_are_shown_where_json_can_say_them() -> None:
    def f(
        when: date = date(2020, 1, 1),
        colour: Colour = Colour.RED,
        model: Model = Model(name="ab"),  # noqa: B008
        odd: Any = object(),  # noqa: B008
        number: int = None,
        name: str | None = None,
    ) -> None: ...

    shown = as_tool(f).parameters["properties"]
    assert shown["when"]["default"] == "2020-01-01"
    assert shown["colour"]["default"] == "red"
    assert shown["model"]["default"] == {"name": "ab", "size": 1, "when": None}
    assert shown["odd"] == {}
    assert shown["number"] == {"type": ["integer", "null"], "default": None}
    assert shown["name"] == {"type": ["string", "null"], "default": None}
    assert "required" not in as_tool(f).parameters


def test_the_parameters_own_words_win_over_the_types() -> None:
    def f(p: Point, m: Model, c: Annotated[Cat, "the cat"]) -> None:
        """Do it.

        Args:
            p: where
            m: which
            c: not this
        """

    shown = as_tool(f).parameters["properties"]
    assert [shown[name]["description"] for name in "pmc"] == ["where", "which", "the cat"]


class Opaque:
    pass


class ArrayLike(msgspec.Struct, array_like=True):
    a: int


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Opaque, "Opaque.*cannot express.*dataclass"),
        (list[Opaque], r"list\[.*Opaque\] \(in it, .*Opaque\)"),
        (complex, "complex"),
        (abc.Callable[[int], int], "Callable"),
        (type[int], "type"),
        (dict[tuple[int, int], str], "keys of a JSON object are strings"),
        (Literal[b"x"], "has no JSON form"),
        (ArrayLike, "array_like"),
        (set[list[int]], "use a list"),
        (frozenset[Cat], "use a list"),
        (Annotated[Opaque, Field(description="x")], "pydantic cannot make a schema"),
        (abc.Iterator[int], "Iterator"),
    ],
)
def test_a_type_without_a_schema_is_refused_with_the_function_and_the_parameter(
    hint: Any, words: str
) -> None:
    with pytest.raises(ConfigError, match=rf"(?s)tool 'f'.*parameter 'x'.*{words}"):
        tool_of(hint)


def test_a_wrong_pattern_inside_pydantic_is_found_at_definition() -> None:
    class Bad(BaseModel):
        x: str = Field(json_schema_extra={"minLength": "three"})

    with pytest.raises(ConfigError, match="tool 'f': its JSON Schema is wrong"):
        tool_of(Bad)


async def test_handlers_cannot_change_the_recorded_arguments() -> None:
    def spoil(items: list[dict[str, int]], p: Any, q: Page[Any]) -> None:
        items[0]["a"] = 5
        items.clear()
        p["deep"].append(1)
        q.items.clear()

    arguments = {"items": [{"a": 1}], "p": {"deep": []}, "q": {"items": [1, [2]]}}
    made = as_tool(spoil)
    prepared = made.prepare(arguments)
    result = await made.call(prepared.arguments, context())
    assert result.outcome == "ok"
    assert arguments == {"items": [{"a": 1}], "p": {"deep": []}, "q": {"items": [1, [2]]}}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="`type X = …` is new in 3.12")
async def test_type_aliases_may_speak_of_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from datetime import date\ntype Days = list[Days] | date\ntype Pair[T] = tuple[T, T]\n"
    (tmp_path / "aliases_of_today.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import aliases_of_today as aliases  # pyright: ignore[reportMissingImports]

    day = date(2025, 1, 31)
    assert await sent(aliases.Days, [["2025-01-31"], "2025-01-31"]) == [[day], day]
    assert await sent(aliases.Pair[date], ["2025-01-31", "2025-01-31"]) == (day, day)
