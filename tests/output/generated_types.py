"""Types of four families, made from a seed, with values of them as JSON."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import random
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict, Union

import msgspec
import pydantic

FAMILIES = ("dataclass", "typed_dict", "pydantic", "msgspec")
LETTERS = 'ab "\\\n\té–🚚{}[],:0'


class Spec(NamedTuple):
    """A type, how a value of it is made, and which of its texts may be shown while they grow."""

    kind: Any
    make: Any  # (random) -> JSON value
    grows: Any  # True, False, or for containers what their children are


class Color(enum.Enum):
    """An enumeration with one value that begins another."""

    red = "red"
    reddish = "reddish"


def text(r: random.Random) -> str:
    return "".join(r.choice(LETTERS) for _ in range(r.randrange(9)))


def number(r: random.Random) -> float:
    return r.choice([0.5, -12.25, 1.5e3, 1e-7, r.randrange(10**6) / 8])


def day(r: random.Random) -> str:
    return f"20{r.randrange(10, 99)}-0{r.randrange(1, 9)}-1{r.randrange(9)}"


LEAVES = [
    Spec(str, text, True),
    Spec(int, lambda r: r.randrange(-9999, 99999), False),
    Spec(float, number, False),
    Spec(bool, lambda r: r.random() < 0.5, False),
    Spec(Color, lambda r: r.choice(["red", "reddish"]), False),
    Spec(Literal["a", "ab", "abc"], lambda r: r.choice(["a", "ab", "abc"]), False),
    Spec(datetime.date, day, False),
]


def build_spec(r: random.Random, family: str, depth: int = 0) -> Spec:
    """Build a type of at most three levels."""
    choice = r.randrange(12) if depth < 3 else r.randrange(5)
    if choice < 5:
        return r.choice(LEAVES)
    inner = build_spec(r, family, depth + 1)
    if choice == 5:
        return Spec(
            Union[inner.kind, None],
            lambda r: None if r.random() < 0.3 else inner.make(r),
            inner.grows,
        )
    if choice in (6, 7):
        return Spec(
            list[inner.kind],
            lambda r: [inner.make(r) for _ in range(r.randrange(4))],
            [inner.grows],
        )
    if choice == 8:
        return Spec(
            dict[str, inner.kind],
            lambda r: {f"k{i}": inner.make(r) for i in range(r.randrange(3))},
            {"*": inner.grows},
        )
    if choice == 9:
        return Spec(
            Union[int, str], lambda r: text(r) if r.random() < 0.5 else r.randrange(99), True
        )
    if choice == 10:
        return build_union(r, family, depth)
    return build_object(r, family, depth)


def build_object(r: random.Random, family: str, depth: int, **more: Spec) -> Spec:
    """Build a class of fields, some with defaults."""
    fields = dict(more)
    for place in range(r.randrange(1, 5)):
        fields[f"field{place}"] = build_spec(r, family, depth + 1)
    name = f"Made{r.randrange(10**9)}"
    optional = {key for key in fields if key not in more and r.random() < 0.3}
    kind = make_class(family, name, {key: spec.kind for key, spec in fields.items()}, optional)

    def make(r: random.Random) -> Any:
        chosen = [key for key in fields if key not in optional or r.random() < 0.6]
        if not more:
            r.shuffle(chosen)
        return {key: fields[key].make(r) for key in chosen}

    return Spec(kind, make, {key: spec.grows for key, spec in fields.items()})


def build_union(r: random.Random, family: str, depth: int) -> Spec:
    """Build a union of two classes that a field tells apart."""
    forms = []
    for tag in ("a", "ab"):
        told = Spec(Literal[tag], lambda r, tag=tag: tag, False)
        forms.append(build_object(r, family, depth + 1, kind=told))
    if family == "msgspec":  # a union of structs needs their tags
        return forms[0]
    both: dict[str, Any] = {**forms[0].grows, **forms[1].grows}
    for key in forms[0].grows.keys() & forms[1].grows.keys():
        if forms[0].grows[key] != forms[1].grows[key]:
            both[key] = None  # either
    return Spec(Union[forms[0].kind, forms[1].kind], lambda r: r.choice(forms).make(r), both)


def make_class(family: str, name: str, fields: dict[str, Any], optional: set[str]) -> Any:
    """Make a class of the family; optional fields have a default, which no stream shows."""
    needed = {key: kind for key, kind in fields.items() if key not in optional}
    rest = {key: Union[kind, None] for key, kind in fields.items() if key in optional}
    if family == "dataclass":
        given: list[Any] = list(needed.items())
        given += [(key, kind, dataclasses.field(default=None)) for key, kind in rest.items()]
        return dataclasses.make_dataclass(name, given)
    if family == "msgspec":
        given = [*needed.items(), *[(key, kind, None) for key, kind in rest.items()]]
        return msgspec.defstruct(name, given, kw_only=True)
    if family == "pydantic":
        wanted: dict[str, Any] = {key: (kind, ...) for key, kind in needed.items()}
        wanted |= {key: (kind, None) for key, kind in rest.items()}
        return pydantic.create_model(name, **wanted)

    return TypedDict(name, {**needed, **{k: NotRequired[v] for k, v in rest.items()}})  # type: ignore[operator, misc]
