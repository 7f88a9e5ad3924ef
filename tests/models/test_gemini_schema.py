"""JSON Schema in Gemini's words: nothing it refuses, and what was meant still holds."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.messages import Message, ToolSpec
from windlass.models.base import Frame, Request, Settings
from windlass.models.wires.gemini import rules as rules
from windlass.models.wires.gemini.model import GeminiGenerate

MODEL = GeminiGenerate("gemini-3-flash-preview", api_key="k")
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}


def taken(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema as sent, both for an answer and for a tool, after the fake's rules have seen it."""
    tool = ToolSpec("f", "", {"type": "object", "properties": {"x": {}}, **schema})
    frame = Frame(tools=(tool,), settings=Settings(schema=schema))
    body = json.loads(b"".join(MODEL.encode(Request([Message("user", "q")], frame))))
    rules.check(body)
    return body["generationConfig"]["responseJsonSchema"]


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"}, None),
        ({"type": ["string", "null"]}, None),
        ({"type": "object", "additionalProperties": False}, None),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, None),
        ({"const": "a"}, {"enum": ["a"]}),
        ({"const": None}, {"type": "null"}),
        ({"const": True}, {"type": "boolean"}),
        ({"enum": ["a", None]}, {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}),
        ({"enum": ["a", 2]}, None),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"items": [{"type": "string"}, True]}, {"prefixItems": [{"type": "string"}, {}]}),
        ({"properties": {"a": True}}, {"properties": {"a": {}}}),
        ({"$schema": "https://json-schema.org/x", "type": "object"}, {"type": "object"}),
        (
            {"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"required": ["a", "b"]}]},
            {"properties": {"a": {}}, "required": ["a", "b"]},
        ),
        ({"$ref": "https://elsewhere/x", "description": "d"}, {"description": "d"}),
        ({"properties": {"const": {"type": "string"}}}, None),
    ],
)
def test_what_is_sent_for(schema: dict[str, Any], sent: Any) -> None:
    assert taken(schema) == (schema if sent is None else sent)


def test_references_stand_alone_under_defs() -> None:
    sent = taken(
        {
            "type": "object",
            "properties": {
                "plain": {"$ref": "#/definitions/Leaf"},
                "described": {"$ref": "#/definitions/Leaf", "description": "the one"},
                "wrapped": {"allOf": [{"$ref": "#/definitions/Leaf"}], "title": "T"},
                "nowhere": {"$ref": "#/definitions/Gone"},
                "sibling": {"$ref": "#/properties/plain"},
            },
            "definitions": {"Leaf": {"const": 1}, "Unused": {"not": {}}},
        }
    )
    leaf = {"$ref": "#/$defs/Leaf"}
    assert sent == {
        "type": "object",
        "properties": {
            "plain": leaf,
            "described": {"description": "the one", "anyOf": [leaf]},
            "wrapped": {"title": "T", "anyOf": [leaf]},
            "nowhere": {},
            "sibling": {"$ref": "#/$defs/properties_plain"},
        },
        "$defs": {"Leaf": {"enum": [1]}, "properties_plain": leaf},
    }


def test_circles_long_chains_and_names_that_meet() -> None:
    assert taken({"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}) == {
        "$ref": "#/$defs/Node",
        "$defs": {"Node": NODE},
    }
    itself = taken({"type": "object", "properties": {"next": {"$ref": "#"}}})
    assert itself["properties"]["next"] == {"$ref": "#/$defs/root"}
    chain = {str(n): {"items": {"$ref": f"#/$defs/{n + 1}"}} for n in range(3000)}
    assert len(taken({"$ref": "#/$defs/0", "$defs": {**chain, "3000": {}}})["$defs"]) == 3001
    meet = {"a-b": {"const": 1}, "a_b": {"const": 2}}
    sent = taken({"anyOf": [{"$ref": "#/$defs/a-b"}, {"$ref": "#/$defs/a_b"}], "$defs": meet})
    assert sent["$defs"] == {"a_b": {"enum": [1]}, "a_b_": {"enum": [2]}}
    loop = {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]}
    assert taken({**loop, "$defs": {"A": loop}}) is not None
    doubling = {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(200)}
    assert len(json.dumps(taken({"$ref": "#/$defs/0", "$defs": {**doubling, "200": {}}}))) < 30_000


NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"const": 1},
        {"enum": ["x", None, True]},
        {"type": ["integer", "null"]},
        {"$ref": "#/$defs/a"},
        {"$ref": "#/$defs/b", "description": "d"},
        {},
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda p: {"type": "object", "properties": p}, st.dictionaries(NAMES, inner)),
        st.builds(lambda i: {"type": "array", "items": i}, inner),
        st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda one: {"allOf": [one]}, inner),
    ),
    max_leaves=6,
)
FLAT = st.sampled_from([{"type": "integer"}, {"enum": ["q"]}, {"type": "object"}])
VALUES = st.recursive(
    st.sampled_from([None, True, 1, "x", "q"]),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=2)),
    max_leaves=4,
)


@given(SCHEMAS, FLAT, FLAT, VALUES)
def test_what_was_allowed_still_is(schema: Any, a: Any, b: Any, value: Any) -> None:
    whole = {**schema, "$defs": {"a": a, "b": b}}
    sent = taken(whole)
    if jsonschema.Draft202012Validator(whole).is_valid(value):
        assert jsonschema.Draft202012Validator(sent).is_valid(value)
