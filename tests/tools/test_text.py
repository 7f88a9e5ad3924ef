"""Anything a tool returns is text in the end: valid UTF-8, bounded in depth, never an exception."""

import collections
import collections.abc as abc
import dataclasses
import datetime
import decimal
import enum
import itertools
import json
import pathlib
import types
import uuid
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.tools.render import cap_result, clean, to_text


class Shade(enum.Enum):
    DARK = "dark"
    MIXED = (1, 2)


class Struct(msgspec.Struct):
    a: int
    b: Any = None


@dataclasses.dataclass
class Data:
    a: int
    b: Any = None


class Model(pydantic.BaseModel):
    a: int
    when: datetime.date


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class RudeMapping(abc.Mapping):
    def __len__(self) -> int:
        return 1

    def __iter__(self):
        raise OSError

    def __getitem__(self, key: Any) -> Any:
        raise OSError


class Endless(abc.Sequence):
    def __len__(self) -> int:
        return 1 << 60

    def __getitem__(self, index: Any) -> int:
        return 1


class Deepening(abc.Mapping):
    def __len__(self) -> int:
        return 1

    def __iter__(self):
        return iter("a")

    def __getitem__(self, key: Any) -> Any:
        return Deepening()


class Word(str):
    pass


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (12, "12"),
        (10**30, "1" + "0" * 30),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        ([float("nan"), 1], "[null,1]"),
        ({"a": [1, None, True]}, '{"a":[1,null,true]}'),
        ({"é": "漢"}, '{"é":"漢"}'),
        ({1: "a", 2.5: "b"}, '{"1":"a","2.5":"b"}'),
        ({(1, 2): 3, None: 4, True: 5}, '{"[1, 2]":3,"null":4,"true":5}'),
        ({3}, "[3]"),
        (b"text", "text"),
        (b"\xff", "/w=="),
        ([b"\xff"], '["/w=="]'),
        (Shade.DARK, "dark"),
        (Shade.MIXED, "[1,2]"),
        ([Shade.DARK], '["dark"]'),
        (Struct(1, [2]), '{"a":1,"b":[2]}'),
        (Data(1, pathlib.Path("x")), '{"a":1,"b":"x"}'),
        (Model(a=1, when=datetime.date(2025, 1, 2)), '{"a":1,"when":"2025-01-02"}'),
        ([Model(a=1, when=datetime.date(2025, 1, 2))], '[{"a":1,"when":"2025-01-02"}]'),
        (datetime.datetime(2025, 1, 2, 3), "2025-01-02T03:00:00"),
        (uuid.UUID(int=1), str(uuid.UUID(int=1))),
        (decimal.Decimal("1.10"), "1.10"),
        (pathlib.PurePosixPath("/a"), "/a"),
        (collections.deque([1]), "[1]"),
        (range(3), "[0,1,2]"),
        (collections.Counter("aab"), '{"a":2,"b":1}'),
        (types.MappingProxyType({"a": 1}), '{"a":1}'),
        ({"a": 1}.values(), "[1]"),
        (ValueError("x"), "ValueError: x"),
        (Word("w"), "w"),
        ("a\ud800b", "a?b"),
        (["\udfff"], '["?"]'),
        ({"\ud800": Data(1, "\ud800")}, '{"?":{"a":1,"b":"?"}}'),
        (memoryview(b"abc"), "YWJj"),
    ],
)
def test_what_a_model_reads(value: Any, text: str) -> None:
    assert to_text(value) == text


@pytest.mark.parametrize(
    ("value", "note"),
    [
        (nested(100_000), "nested too deeply"),
        (Deepening(), "nested too deeply"),
        (Rude(), "a Rude whose text cannot be shown"),
        ([Rude()], "a Rude whose text cannot be shown"),
        (RudeMapping(), "a RudeMapping that cannot be shown: OSError"),
        ({"a": RudeMapping(), "b": 1}, '"b":1'),
        ((x for x in "ab"), "return list(…)"),
        ([itertools.count()], "return list(…)"),
        (10**5000, "0x"),
        ([10**5000], "0x"),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str) else one[:12],
)
def test_what_json_cannot_say_is_noted_in_its_place(value: Any, note: str) -> None:
    text = to_text(value)
    text.encode()
    assert note in text


def test_cycles_are_cut() -> None:
    loop: dict[str, Any] = {"name": "x"}
    loop["self"] = loop
    assert json.loads(to_text(loop)) == {"name": "x", "self": "(left out: it contains itself)"}
    twice = {"k": 1}
    assert json.loads(to_text([twice, twice, {"\ud800": 0}]))[:2] == [twice, twice]


def test_large_values() -> None:
    text = "x" * 10_000_000
    assert to_text(text) is text
    assert len(to_text([text])) == len(text) + 4
    assert len(to_text("é\ud800" * 1_000_000)) == 2_000_000
    assert len(to_text(list(range(300_000)))) > 1_000_000
    assert len(to_text(Endless())) < 1_000_000


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.text() | st.integers() | st.none() | st.tuples(st.integers()), inner
            )
            | st.builds(Data, st.integers(), inner)
            | st.tuples(inner, inner)
        ),
        max_leaves=20,
    )
)
def test_any_value_is_text_that_encodes(value: Any) -> None:
    text = to_text(value)
    text.encode()
    if isinstance(value, (dict, list, tuple, Data)):
        json.loads(text)


@given(st.text(st.characters(categories=["Cs", "Lu", "So"])))
def test_clean_text_encodes_and_is_kept_where_it_can_be(text: str) -> None:
    safe = clean(text)
    safe.encode()
    assert len(safe) == len(text)
    assert all(a == b or a > "\ud7ff" for a, b in zip(text, safe, strict=True))


# --------------------------------------------------------------------------- the cap


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400), st.integers(0, 900))
def test_a_capped_text_never_exceeds_the_cap(text: str, most: int) -> None:
    shown = cap_result(text, most, "c1")
    assert len(shown.encode()) <= most
    if len(text.encode()) <= most:
        assert shown == text


def test_the_cap_keeps_both_ends_and_says_what_is_missing() -> None:
    text = "é" * 5000 + "end"
    shown = cap_result(text, 1000, "call_7")
    head, marker, tail = shown.split("\n")
    assert set(head) == {"é"} and tail.endswith("end")
    assert marker.startswith(f"[…truncated; full result {len(text.encode())} bytes]")
    assert "in the journal under call call_7" in marker
    assert len(head) > len(tail)
    assert "under the call's id" in cap_result(text, 1000)


def test_a_text_within_the_cap_is_the_same_object() -> None:
    text = "x" * 1000
    assert cap_result(text, 1000) is text
