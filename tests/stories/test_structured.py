"""Answers of a known shape: from any kind of schema, by whatever means the model has."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

import windlass as w
from tests.stories.capable_model import able
from tests.stories.helpers import add
from windlass.models.base import Emit
from windlass.models.json_text import json_values
from windlass.models.registry.capabilities import Capabilities, Means
from windlass.models.registry.registry import capabilities_of
from windlass.testing import call, scripted

BOOK = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
    "required": ["title", "year"],
    "additionalProperties": False,
}
EMMA = {"title": "Emma", "year": 1815}


def can(*means: Means, **more: Any) -> Capabilities:
    return Capabilities(structured=means, **more)


async def emma(model: Any, schema: Any = BOOK, **options: Any) -> w.LLMResult:
    return await w.llm_call("Which book?", model=model, schema=schema, **options)


# --------------------------------------------------------------------------- the means


async def test_the_provider_is_given_the_schema_where_it_takes_one():
    model = able(json.dumps(EMMA), caps=can("schema", "tool", "prompt"))
    reply = await emma(model)
    assert reply.data == EMMA and json.loads(reply.text) == EMMA
    [request] = model.requests
    assert request.settings.schema == BOOK
    assert not request.tools and request.system is None


async def test_else_a_tool_takes_the_answer_and_nobody_sees_it():
    model = able(call("give_answer", **EMMA), caps=can("tool", "prompt"))
    reply = await emma(model)
    assert reply.data == EMMA
    assert reply.tool_calls == [] and json.loads(reply.text) == EMMA
    assert reply.stop_reason == "end_turn"
    [request] = model.requests
    assert request.settings.tool_choice == {"name": "give_answer"}
    assert request.tools[0].parameters == BOOK and request.settings.schema is None
    # and the conversation can go on: no call in it waits for a result
    follow = scripted("1815")
    await w.llm_call("When?", model=follow, transcript=reply.transcript)
    assert len(follow.requests[0].messages) == 3


async def test_else_json_mode_and_words():
    model = able(json.dumps(EMMA), caps=can("json", "prompt"))
    assert (await emma(model, system="Be brief.")).data == EMMA
    [request] = model.requests
    assert request.settings.response_format == "json"
    assert (request.system or "").startswith("Be brief.") and '"title"' in (request.system or "")


async def test_else_words_alone():
    model = able(f"Sure!\n```json\n{json.dumps(EMMA)}\n```\nThere.", caps=can("prompt"))
    assert (await emma(model)).data == EMMA
    [request] = model.requests
    assert request.settings == w.Settings() and '"title"' in (request.system or "")


async def test_a_model_without_tools_is_asked_in_words():
    model = able(json.dumps(EMMA), caps=can("tool", "prompt", native_tools=False))
    assert (await emma(model)).data == EMMA
    assert not model.requests[0].tools


async def test_a_model_of_ones_own_and_the_mock_answer_too():
    assert (await emma(scripted(call("give_answer", **EMMA)))).data == EMMA
    w.llm_mock(tool_calls=[{"name": "give_answer", "arguments": EMMA}])
    reply = await w.llm_call("Which?", provider="mock", schema=BOOK)
    assert reply.data == EMMA
    w.llm_mock(text=json.dumps(EMMA))  # who answers in words instead is understood as well
    assert (await w.llm_call("Which?", provider="mock", schema=BOOK)).data == EMMA


async def test_claude_is_not_forced_while_it_thinks():
    caps = can("tool", known=True, thinking=True, lowering="claude")
    model = able(call("give_answer", **EMMA), caps=caps)
    assert (await emma(model, thinking=True)).data == EMMA
    [request] = model.requests
    assert request.settings.tool_choice == "auto" and "give_answer" in (request.system or "")
    other = able(call("give_answer", **EMMA), caps=caps)
    await emma(other, thinking=False)
    assert other.requests[0].settings.tool_choice == {"name": "give_answer"}


# --------------------------------------------------------------------------- the schema


class Book(pydantic.BaseModel):
    title: str
    year: int


@dataclasses.dataclass
class DataBook:
    title: str
    year: int


class DictBook(TypedDict):
    title: str
    year: int


class StructBook(msgspec.Struct):
    title: str
    year: int


@pytest.mark.parametrize("kind", [Book, DataBook, StructBook])
async def test_a_type_is_a_schema_and_the_answer_one_of_it(kind: Any):
    reply = await emma(able(json.dumps(EMMA), caps=can("schema")), kind)
    assert type(reply.data) is kind and (reply.data.title, reply.data.year) == ("Emma", 1815)


async def test_a_typed_dict_stays_a_dict():
    assert (await emma(able(json.dumps(EMMA), caps=can("schema")), DictBook)).data == EMMA


async def test_fields_alone_are_a_schema():
    for schema in (
        {"title": "string", "year": "int"},
        {"title": {"type": "string"}, "year": {"type": "integer"}},
        {
            "type": "dict",
            "properties": {"title": {"type": "string"}, "year": {"type": "int"}},
            "required": ["title", "year"],
        },
    ):
        model = able("{}", json.dumps(EMMA), caps=can("schema"))
        assert (await emma(model, schema, schema_retries=1)).data == EMMA
        assert model.requests[0].settings.schema["properties"]["year"] == {"type": "integer"}  # pyright: ignore[reportOptionalSubscript]


async def test_an_openapi_schema_object():
    schema = {
        "type": "object",
        "required": ["pet", "size"],
        "properties": {
            "pet": {"$ref": "#/components/schemas/Pet"},
            "size": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "example": 3},
            "note": {"type": "string", "nullable": True, "enum": ["a"]},
        },
        "components": {
            "schemas": {
                "Pet": {
                    "oneOf": [{"type": "string"}, {"type": "integer"}],
                    "nullable": True,
                    "discriminator": {"propertyName": "kind"},
                    "xml": {"name": "pet"},
                }
            }
        },
    }
    right = {"pet": None, "size": 0.5, "note": None}
    model = able(json.dumps(right), caps=can("schema"))
    assert (await emma(model, schema)).data == right
    sent = json.dumps(model.requests[0].settings.schema)
    for word in ("nullable", "discriminator", "xml", "components", '"example"'):
        assert word not in sent
    with pytest.raises(w.BadReply, match="size"):
        await emma(able('{"pet": 1, "size": 0}', caps=can("schema")), schema)


async def test_an_example_is_one_of_the_examples_and_a_union_any_of_its_members():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "example": "x"},
            "b": {"union": [{"type": "int"}, {"type": "nil"}]},
        },
        "required": ["b"],
    }
    model = able('{"b": null}', caps=can("schema"))
    assert (await emma(model, schema)).data == {"b": None}
    sent = model.requests[0].settings.schema
    assert sent is not None and sent["properties"]["a"] == {"type": "string", "examples": ["x"]}
    with pytest.raises(w.BadReply, match="b: "):
        await emma(able('{"b": "x"}', caps=can("schema")), schema)


async def test_what_is_an_object_by_any_other_name_is_not_wrapped():
    inner = {"properties": {"a": {"type": "integer"}}}
    for schema in (inner, {"$ref": "#/$defs/A", "$defs": {"A": {**inner, "type": "object"}}}):
        model = able('{"a": 1}', caps=can("schema"))
        assert (await emma(model, schema)).data == {"a": 1}
        sent = model.requests[0].settings.schema
        assert sent is not None and sent["type"] == "object" and "a" in sent["properties"]


async def test_a_text_needs_no_quotes():
    bare = able("Emma", caps=can("prompt"))
    assert (await emma(bare, {"type": "string"})).data == "Emma"
    number = able("1984", caps=can("prompt"))
    assert (await emma(number, {"type": "string"})).data == "1984"
    with pytest.raises(w.BadReply, match="is no JSON: 'maybe'"):
        await emma(able("maybe", caps=can("prompt")), {"enum": ["yes", "no"]})


async def test_saying_nothing_is_fed_back_too():
    model = able("", json.dumps(EMMA), caps=can("schema"))
    assert (await emma(model, schema_retries=1)).data == EMMA
    assert all(message.text for message in model.requests[1].messages)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
        (list[int], [1, 2]),
        ({"type": "string"}, "Emma"),
        (Literal["yes", "no"], "yes"),
        ({"enum": ["yes", "no"]}, "no"),
        (int | None, 3),
        ({"anyOf": [{"type": "null"}, {"type": "number"}]}, None),
    ],
)
async def test_what_is_no_object_is_wrapped_where_only_an_object_will_do(schema: Any, value: Any):
    by_schema = able(json.dumps({"value": value}), caps=can("schema"))
    by_tool = able(call("give_answer", value=value), caps=can("tool"))
    by_json = able(json.dumps({"value": value}), caps=can("json"))
    for model in (by_schema, by_tool, by_json):
        assert (await emma(model, schema)).data == value
    assert by_schema.requests[0].settings.schema["type"] == "object"  # pyright: ignore[reportOptionalSubscript]
    bare = able(json.dumps(value), caps=can("prompt"))
    assert (await emma(bare, schema)).data == value
    assert '"value"' not in (bare.requests[0].system or "")
    forgotten = able(json.dumps(value), caps=can("json"))  # the model left the wrapping away
    assert (await emma(forgotten, schema)).data == value


async def test_a_wrapped_schema_that_speaks_of_itself():
    tree = {"type": "array", "items": {"$ref": "#"}}
    model = able('{"value": [[], [[]]]}', caps=can("schema"))
    assert (await emma(model, tree)).data == [[], [[]]]
    sent = model.requests[0].settings.schema
    assert sent is not None and sent["properties"]["value"]["items"] == {
        "$ref": "#/properties/value"
    }
    named = {"$defs": {"N": {"type": "array", "items": {"$ref": "#/$defs/N"}}}, "$ref": "#/$defs/N"}
    again = able('{"value": [[]]}', caps=can("schema"))
    assert (await emma(again, named)).data == [[]]
    assert "N" in again.requests[0].settings.schema["$defs"]  # pyright: ignore[reportOptionalSubscript]


@pytest.mark.parametrize(
    "schema",
    [
        "json",
        3,
        "",
        b"x",
        {"type": "wrong"},
        {"properties": 3, "type": "object"},
        {"a": 3},
        print,
        {"$ref": "https://example.com/schema"},
        {1: 2},
        {"type": "string", "pattern": "("},
    ],
)
async def test_what_is_no_schema_is_refused_before_any_call(schema: Any):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match="schema|JSON"):
        await emma(model, schema)
    assert not model.requests


@pytest.mark.parametrize(
    "options",
    [
        {"schema_retries": 1},
        {"schema": BOOK, "response_format": "text"},
        {"response_format": "xml"},
        {"schema": BOOK, "schema_retries": -1},
        {"schema": BOOK, "schema_retries": True},
    ],
)
async def test_options_that_make_no_sense_together(options: Any):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match="schema|response_format"):
        await w.llm_call("go", model=model, **options)
    assert not model.requests


async def test_a_loop_takes_a_schema_as_a_call_does():
    for name, value in {"schema": BOOK, "response_format": "json"}.items():
        model = scripted('{"title": "Emma", "year": 1815}')
        out = await w.agent_loop("go", None, {"model": model, name: value})
        assert out.data == {"title": "Emma", "year": 1815}


# --------------------------------------------------------------------------- answers that do not fit


async def test_an_answer_that_does_not_fit_is_an_error_that_says_where():
    with pytest.raises(w.BadReply, match=r"year: .*is not of type") as caught:
        await emma(able('{"title": "Emma", "year": "late"}', caps=can("schema")))
    assert caught.value.body == '{"title": "Emma", "year": "late"}'
    assert caught.value.category == "bad_reply"
    with pytest.raises(w.BadReply, match="is no JSON"):
        await emma(able("I would rather not.", caps=can("schema")))
    with pytest.raises(w.BadReply, match="empty"):
        await emma(able("", caps=can("prompt")))


async def test_what_is_wrong_is_fed_back_as_often_as_allowed():
    wrong, usage = '{"title": "Emma"}', {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.5}
    model = able(wrong, "no", json.dumps(EMMA), caps=can("schema"), usage=usage)
    reply = await emma(model, schema_retries=2)
    assert reply.data == EMMA
    assert (reply.input_tokens, reply.output_tokens, reply.cost_usd) == (30, 15, 1.5)
    first, second, third = [request.messages for request in model.requests]
    assert [m.role for m in second] == ["user", "assistant", "user"]
    assert second[1].text == wrong and "year: is required" in second[2].text
    assert third[:3] == second and len(third) == 5 and len(first) == 1
    # the conversation that goes on is the question and the answer that fits
    assert [m["role"] for m in reply.transcript["messages"]] == ["user", "assistant"]


async def test_retries_end():
    model = able("no", "no", "no", caps=can("schema"))
    with pytest.raises(w.BadReply, match="after 3 attempts"):
        await emma(model, schema_retries=2)
    assert len(model.requests) == 3


async def test_by_default_nobody_is_asked_twice():
    model = able("no", caps=can("schema"))
    with pytest.raises(w.BadReply):
        await emma(model)
    assert len(model.requests) == 1


async def test_a_wrong_call_is_fed_back_in_words():
    model = able(
        call("give_answer", title=1, year=1), call("give_answer", **EMMA), caps=can("tool")
    )
    assert (await emma(model, schema_retries=1)).data == EMMA
    again = model.requests[1].messages
    assert not any(m.tool_calls for m in again) and "title" in again[2].text


async def test_a_type_may_have_its_own_mind():
    class Late(pydantic.BaseModel):
        year: int

        @pydantic.field_validator("year")
        @classmethod
        def late(cls, year: int) -> int:
            if year < 1900:
                raise ValueError("too early")
            return year

    with pytest.raises(w.BadReply, match="year: .*too early"):
        await emma(able('{"year": 1815}', caps=can("schema")), Late)


async def test_what_is_safe_to_mend_is_mended():
    text = '{"title": "Emma", "year": "1815", "mood": "good",}'
    assert (await emma(able(text, caps=can("prompt")))).data == EMMA


async def test_a_refusal_is_one():
    said = w.Response(w.Message("assistant", "I must not."), stop_reason="refusal")
    model = able(said, caps=can("schema"))
    with pytest.raises(w.Refused, match="I must not"):
        await emma(model, schema_retries=3)
    assert len(model.requests) == 1


async def test_an_answer_that_was_cut_off_says_so():
    said = w.Response(w.Message("assistant", '{"title": "Em'), stop_reason="max_tokens")
    with pytest.raises(w.BadReply, match="cut off at max_tokens"):
        await emma(able(said, caps=can("schema")))


# --------------------------------------------------------------------------- beside tools


async def test_a_model_that_asks_for_tools_has_no_answer_yet():
    for means in ("schema", "tool", "json", "prompt"):
        model = able(call("add", a=1, b=2), caps=can(means))
        reply = await emma(model, tools=[add])
        assert reply.data is None
        assert [c.name for c in reply.tool_calls] == ["add"]


async def test_beside_tools_the_model_must_choose_one_or_answer():
    model = able(call("give_answer", **EMMA), caps=can("tool"))
    assert (await emma(model, tools=[add])).data == EMMA
    [request] = model.requests
    assert [t.name for t in request.tools] == ["add", "give_answer"]
    assert request.settings.tool_choice == "required"
    both = able([call("add", a=1, b=2), call("give_answer", **EMMA)], caps=can("tool"))
    reply = await emma(both, tools=[add])
    assert reply.data is None and [c.name for c in reply.tool_calls] == ["add"]
    none = able(call("give_answer", **EMMA), caps=can("tool"))
    await emma(none, tools=[add], tool_choice="none")
    assert none.requests[0].settings.tool_choice == {"name": "give_answer"}


async def test_a_tool_that_is_demanded_is_what_comes():
    model = able(call("add", a=1, b=2), caps=can("tool"))
    reply = await emma(model, tools=[add], tool_choice={"name": "add"})
    assert reply.tool_calls and reply.data is None
    assert model.requests[0].settings.tool_choice == {"name": "add"}
    assert [t.name for t in model.requests[0].tools] == ["add"]


async def test_a_tool_of_the_same_name_stays_its_owner_s():
    @w.tool
    def give_answer(x: int) -> int:
        """Another."""
        return x

    model = able(call("give_answer_", **EMMA), caps=can("tool"))
    assert (await emma(model, tools=[give_answer])).data == EMMA


async def test_a_schema_that_does_not_go_beside_tools_takes_the_next_means():
    caps = can("schema", "tool", schema_beside_tools=False)
    model = able(call("give_answer", **EMMA), caps=caps)
    assert (await emma(model, tools=[add])).data == EMMA
    alone = able(json.dumps(EMMA), caps=caps)
    await emma(alone)
    assert alone.requests[0].settings.schema == BOOK


async def test_a_schema_with_open_keys_takes_the_next_means_where_keys_must_be_named():
    caps = can("schema", "tool", open_schemas=False)
    counts = able(call("give_answer", counts={"a": 1}), caps=caps)
    assert (await emma(counts, {"counts": {"type": "object"}})).data
    assert counts.requests[0].settings.schema is None
    named = able(json.dumps(EMMA), caps=caps)
    await emma(named)
    assert named.requests[0].settings.schema == BOOK
    assert not capabilities_of("anthropic", "claude-opus-4-7").open_schemas


# --------------------------------------------------------------------------- JSON without a schema


async def test_json_without_a_schema_is_read_and_that_is_all():
    native = able('{"a": [1]}', caps=can("schema", "json", "prompt"))
    reply = await w.llm_call("go", model=native, response_format="json")
    assert reply.data == {"a": [1]}
    assert native.requests[0].settings.response_format == "json"
    words = able("Well: [1, 2]", caps=can("tool", "prompt"))
    assert (await w.llm_call("go", model=words, response_format="json")).data == [1, 2]
    assert words.requests[0].settings.response_format is None
    assert "JSON" in (words.requests[0].system or "")
    with pytest.raises(w.BadReply, match="is no JSON"):
        await w.llm_call("go", model=able("hm", caps=can("json")), response_format="json")
    twice = able("hm", "{}", caps=can("json"))
    reply = await w.llm_call("go", model=twice, response_format="json", schema_retries=1)
    assert reply.data == {} and len(twice.requests) == 2


async def test_text_is_text():
    model = able('{"a": 1}', caps=can("json"))
    reply = await w.llm_call("go", model=model, response_format="text")
    assert reply.data is None and model.requests[0].settings.response_format is None


# --------------------------------------------------------------------------- streams


async def streamed(model: Any, **options: Any) -> list[w.Chunk]:
    return [chunk async for chunk in w.llm_stream("go", model=model, schema=BOOK, **options)]


async def test_the_text_streams_and_the_value_comes_last():
    text = json.dumps(EMMA)
    chunks = await streamed(able(text, caps=can("schema"), stream=True))
    assert len(chunks) > 3 and "".join(map(str, chunks)) == text
    assert chunks[-1].data == EMMA and chunks[-1].finish_reason == "end_turn"
    assert all(chunk.data is None for chunk in chunks[:-1])


async def test_an_answer_by_a_tool_is_one_piece_and_no_call():
    chunks = await streamed(able(call("give_answer", **EMMA), caps=can("tool"), stream=True))
    assert all(chunk.tool_call is None for chunk in chunks)
    assert [json.loads(c.text) for c in chunks if c.text] == [EMMA]
    assert chunks[-1].data == EMMA


async def test_what_may_be_asked_again_is_not_shown_before_it_fits():
    model = able("wrong words", json.dumps(EMMA), caps=can("schema"), stream=True)
    chunks = await streamed(model, schema_retries=1)
    assert [c.text for c in chunks] == [json.dumps(EMMA), ""]
    assert chunks[-1].data == EMMA


async def test_a_stream_that_does_not_fit_ends_in_the_error():
    with pytest.raises(w.BadReply, match="no JSON"):
        await streamed(able("wrong words", caps=can("schema"), stream=True))


# --------------------------------------------------------------------------- JSON in words


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("  [1, 2]\n", [1, 2]),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a": 1}\n```', {"a": 1}),
        ('Here it is:\n\n{"a": {"b": [1]}}\n\nAnything else?', {"a": {"b": [1]}}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2, ], "b": ",}"}', {"a": [1, 2], "b": ",}"}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('I {think} so: {"a": 1}', {"a": 1}),
        ("as [1] says: [1, 2]", [1]),
        ("Note: {'no': 1} but {\"a\": 1,} yes", {"a": 1}),
        ("null", None),
    ],
)
def test_json_is_found_in_words(text: str, value: Any):
    assert next(json_values(text)) == value


@pytest.mark.parametrize(
    "text", ["", "no", '{"a": 1', "NaN", '{"a": NaN}', "{" * 5000, "[" * 100_000]
)
def test_what_is_no_json_is_not_made_up(text: str):
    assert list(json_values(text)) == []


async def test_the_value_that_fits_is_taken_among_several():
    text = f'First {{"draft": 1}}, then {json.dumps(EMMA)}.'
    assert (await emma(able(text, caps=can("prompt")))).data == EMMA


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize("depth", [400, 900, 5000])
async def test_a_schema_that_is_too_deep_is_refused_or_taken(depth: int):
    model = able("[]", caps=can("prompt"))
    try:
        await emma(model, nested(depth))
    except w.ConfigError as error:
        assert "schema" in str(error) and not model.requests
    else:
        assert len(model.requests) == 1


@pytest.mark.parametrize("depth", [400, 900, 20_000])
async def test_an_answer_that_is_too_deep_is_a_bad_reply(depth: int):
    text = '{"a": ' + "[" * depth + "]" * depth + "}"
    with pytest.raises(w.BadReply):
        await emma(able(text, caps=can("prompt")), {"a": "string"})


class Deep(w.Model):
    """Answers with something that is nested very deeply."""

    capabilities = can("schema")  # pyright: ignore[reportAssignmentType, reportIncompatibleVariableOverride]

    async def respond(self, request: w.Request, emit: Emit) -> w.Response:
        return w.Response(w.Message("assistant", '{"title": ' + "[" * 900 + "]" * 900 + "}"))


async def test_a_hostile_answer_is_a_bad_reply():
    with pytest.raises(w.BadReply):
        await emma(Deep())
