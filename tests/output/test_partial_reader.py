"""The reader of JSON that is still being written: what it shows grows, and is never taken back."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import msgspec
import pytest

from tests.output.generated_types import FAMILIES, build_object, build_spec
from tests.sizes import pick_size
from windlass.messages import Message, Text
from windlass.models.base import Frame, Response
from windlass.models.registry.capabilities import Capabilities
from windlass.output.options import OutputOptions
from windlass.output.partial import PartialObject, PartialReader
from windlass.output.partial_schema import PartialSchema
from windlass.output.plan import plan_output
from windlass.usage import NO_USAGE

TYPES = pick_size(48, 200, proof="PARTIAL")
UNSET = msgspec.UNSET


def refines(shown: Any, whole: Any, grows: Any = True) -> bool:
    """Check whether a value shown may become the whole: texts grow, containers are added to."""
    if shown is UNSET:
        return True
    if isinstance(shown, dict):
        if not isinstance(whole, dict):
            return False
        inner = grows if isinstance(grows, dict) else {}
        star = inner.get("*", grows if grows in (True, None) else True)
        return all(
            key in whole and refines(value, whole[key], inner.get(key, star))
            for key, value in shown.items()
        )
    if isinstance(shown, list):
        inner = grows[0] if isinstance(grows, list) else True
        pairs = zip(shown, whole, strict=False)
        return len(shown) <= len(whole) and all(refines(a, b, inner) for a, b in pairs)
    if isinstance(shown, str) and isinstance(whole, str) and grows is not False:
        return whole.startswith(shown)
    return type(shown) is type(whole) and shown == whole


def shown_of(schema: dict[str, Any], text: str, **how: Any) -> list[Any]:
    """Return what is shown of a text that comes character by character."""
    reader = PartialReader(PartialSchema(schema), **how)
    found = [reader.snapshot() for letter in text if reader.feed(letter)]
    if reader.finish():
        found.append(reader.snapshot())
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_partial_values_of_generated_types(family: str):
    for number in range(TYPES // len(FAMILIES)):
        r = random.Random(f"{family}-{number}")
        spec = build_object(r, family, 0) if number % 2 else build_spec(r, family)
        frame = Frame(None, ())
        plan = plan_output(OutputOptions(schema=spec.kind), Capabilities(), frame)
        assert plan is not None and plan.schema is not None
        for _ in range(3):
            check_value(r, plan, spec)


def check_value(r: random.Random, plan: Any, spec: Any) -> None:
    value = spec.make(r)
    text = json.dumps(value, ensure_ascii=r.random() < 0.5, indent=r.choice([None, 1]))
    final = plan.read(Response(Message("assistant", (Text(text),)), NO_USAGE))
    assert not final.problems, (final.problems, text)
    schema = PartialSchema(plan.schema)
    reader, last, states = PartialReader(schema), UNSET, []
    for letter in text:
        changed = reader.feed(letter)
        now = reader.snapshot()
        if changed:
            assert refines(last, now) and refines(now, value, spec.grows), (text, last, now)
            last = now
        states.append(now)
    reader.finish()
    assert reader.snapshot() == value, (text, reader.snapshot())
    for split in [r.randrange(len(text) + 1) for _ in range(6)]:
        other = PartialReader(schema)
        other.feed(text[:split])
        assert split == 0 or other.snapshot() == states[split - 1]
        other.feed(text[split:])
        other.finish()
        assert other.snapshot() == value


def test_any_json_is_read_like_a_parser_reads_it():
    def make(r: random.Random, depth: int = 0) -> Any:
        choice = r.randrange(8 if depth < 4 else 5)
        if choice == 0:
            return r.choice([True, False, None, -0.5, 1e30, 10**30])
        if choice < 5:
            return "".join(r.choice('ab "\\\n\u00e9🚚{}[],:') for _ in range(r.randrange(9)))
        if choice == 5:
            return [make(r, depth + 1) for _ in range(r.randrange(4))]
        return {f"k{i}": make(r, depth + 1) for i in range(r.randrange(4))}

    for seed in range(pick_size(60, 2000, proof="PARTIAL")):
        r = random.Random(seed)
        value = make(r)
        found = shown_of({}, json.dumps(value, ensure_ascii=r.random() < 0.5))
        assert (found[-1] if found else "") == value
        assert all(refines(a, b) for a, b in zip(found, found[1:], strict=False))


OBJECT = {"type": "object", "additionalProperties": False}


def of(**properties: Any) -> dict[str, Any]:
    return {**OBJECT, "properties": properties}


def test_numbers_literals_and_enums_appear_when_they_are_finished():
    schema = of(
        n={"type": "integer"},
        f={"type": "number"},
        b={"type": "boolean"},
        c={"enum": ["red", "reddish"]},
        d={"type": "string", "format": "date"},
        s={"type": "string"},
    )
    text = '{"n": 1234, "f": 1.5e3, "b": true, "c": "reddish", "d": "2026-01-01", "s": "ab"}'
    found = shown_of(schema, text)
    assert found == [
        {"n": 1234},
        {"n": 1234, "f": 1500.0},
        {"n": 1234, "f": 1500.0, "b": True},
        {"n": 1234, "f": 1500.0, "b": True, "c": "reddish"},
        {"n": 1234, "f": 1500.0, "b": True, "c": "reddish", "d": "2026-01-01"},
        {"n": 1234, "f": 1500.0, "b": True, "c": "reddish", "d": "2026-01-01", "s": "a"},
        {"n": 1234, "f": 1500.0, "b": True, "c": "reddish", "d": "2026-01-01", "s": "ab"},
        {"n": 1234, "f": 1500.0, "b": True, "c": "reddish", "d": "2026-01-01", "s": "ab"},
        {"n": 1234, "f": 1500.0, "b": True, "c": "reddish", "d": "2026-01-01", "s": "ab"},
    ]


def test_union_is_shown_once_its_branch_is_known():
    card = of(kind={"const": "card"}, holder={"type": "string"})
    cash = of(kind={"const": "cash"}, note={"type": "string"})
    schema = of(pay={"anyOf": [card, cash]})
    found = shown_of(schema, '{"pay": {"kind": "cash", "note": "ab"}}')
    assert found[0] == {"pay": {"kind": "cash"}}
    assert {"pay": {"kind": "cash", "note": "a"}} in found
    late = shown_of(schema, '{"pay": {"note": "ab", "kind": "cash"}}')
    assert late[0] == {"pay": {"note": "ab", "kind": "cash"}}
    wrong = shown_of(schema, '{"pay": {"kind": "gold"}}')
    assert wrong == [{}]


def test_value_of_a_wrong_kind_is_not_shown():
    schema = of(total={"type": "number"}, lines={"type": "array", "items": {"type": "integer"}})
    assert shown_of(schema, '{"total": "12.5", "lines": [1]}')[-1] == {"lines": [1]}
    assert shown_of(schema, '{"total": {"a": 1}, "lines": [1]}')[-1] == {"lines": [1]}
    assert shown_of(schema, '{"lines": [1, "2", 3], "total": 4}')[-1] == {"lines": [1]}
    assert shown_of(schema, '{"more": 1, "total": 4}')[-1] == {"total": 4}


@pytest.mark.parametrize(
    "text",
    [
        '{"s": "ab", "s": "cd"}',
        '{"s": "ab",}',
        '{"s": "ab" "t": 1}',
        '{"s": "ab\ncd"}',
        '{"s": "ab\\x"}',
        '{"s": "ab\\ud83d."}',
        '{"s": "ab", t: 1}',
        '{"s": "ab"]',
        '{"s": "ab", "t": 01}',
        '{"s": "ab", "t": nul}',
    ],
)
def test_what_is_no_json_stops_and_keeps_what_was_shown(text: str):
    reader = PartialReader(PartialSchema({}))
    for letter in text:
        reader.feed(letter)
    assert reader.is_broken
    assert refines({"s": "ab"}, reader.snapshot()) and not reader.feed('{"s": 1}')


def test_depth_without_end_is_no_trouble():
    reader = PartialReader(PartialSchema({}))
    reader.feed("[" * 100_000)
    assert reader.is_broken and reader.snapshot() is not UNSET


def test_half_an_escape_is_held_back():
    found = shown_of(of(s={"type": "string"}), '{"s": "a\\u00e9\\ud83d\\ude9a"}')
    assert [one["s"] for one in found] == ["a", "aé", "aé🚚", "aé🚚", "aé🚚"]


def test_value_may_begin_after_prose():
    schema = of(a={"type": "integer"})
    text = 'Well {so}: [1] ```json\n{"a": 12}\n``` and {"a": 13}'
    assert shown_of(schema, text, begins_anywhere=True)[-1] == {"a": 12}


def test_fields_are_attributes_and_absent_ones_are_unset():
    value = PartialObject(total=3)
    assert (value.total, value["total"], value.customer) == (3, 3, UNSET)
    assert not value.customer and not hasattr(value, "__wrapped__")


def test_recursive_type_is_followed():
    schema = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": of(
                name={"type": "string"},
                next={"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
            )
        },
    }
    found = shown_of(schema, '{"name": "a", "next": {"name": "b", "next": null}}')
    assert found[-1] == {"name": "a", "next": {"name": "b", "next": None}}
    assert {"name": "a", "next": {"name": "b"}} in found


def test_work_per_piece_does_not_grow_with_the_value():
    items = [
        {"name": f"thing {i}", "price": i * 1.5, "note": "some words here " * 3}
        for i in range(1000)
    ]
    text = json.dumps({"items": items})
    assert len(text) > 90_000
    reader = PartialReader(PartialSchema({}))
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    def read(part: str) -> int:
        nonlocal calls
        calls = 0
        sys.setprofile(count)
        try:
            for at in range(0, len(part), 10):
                if reader.feed(part[at : at + 10]):
                    reader.snapshot()
        finally:
            sys.setprofile(None)
        return calls

    first = read(text[:10_000])
    read(text[10_000:80_000])
    last = read(text[80_000:90_000])
    assert last < 1.2 * first
