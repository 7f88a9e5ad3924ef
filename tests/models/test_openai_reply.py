"""What comes back over Chat Completions: every server's quirk as a small reply of our own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.errors import (
    BadReply,
    BadRequest,
    ModelError,
    QuotaExceeded,
    RateLimited,
    ServerError,
    StreamBroken,
)
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import Message, Text, Thinking, ToolCall
from windlass.models.base import Request
from windlass.models.wires.openai.chat import OpenAIChat

MODEL = OpenAIChat("gpt-test", api_key="k")
DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    body = {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": choices, **more}
    return f"data: {json.dumps(body)}\n\n".encode()


def call(index: Any = 0, id: Any = None, name: Any = None, arguments: Any = None) -> dict[str, Any]:
    function = {k: v for k, v in {"name": name, "arguments": arguments}.items() if v is not None}
    fields = {"index": index, "id": id, "function": function}
    return {"tool_calls": [{k: v for k, v in fields.items() if v is not None}]}


def run(raw: bytes, model: OpenAIChat = MODEL) -> Any:
    told: list[Any] = []
    decoder = model.decoder(Request([]), told.append)
    decoder.feed(raw)
    return decoder.finish(), told


def calls_of(*chunks: bytes) -> list[tuple[str, str, Any]]:
    response, _ = run(b"".join(chunks) + DONE)
    return [
        (c.id, c.name, c.arguments if c.raw is None else c.raw) for c in response.message.tool_calls
    ]


def test_text_usage_and_the_chunk_without_choices() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 6},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    response, told = run(
        chunk(None, prompt_filter_results=[])
        + chunk({"role": "assistant", "content": ""})
        + chunk({"content": "Hel"}, obfuscation="xx")
        + chunk({"content": "lo"})
        + chunk({}, "stop")
        + chunk(None, usage=usage)
        + DONE
    )
    assert response.message == Message("assistant", "Hello")
    assert told == [TextDelta("Hel"), TextDelta("lo")]
    got = response.usage
    assert (got.input_tokens, got.output_tokens, got.cache_read_tokens, got.reasoning_tokens) == (
        10,
        4,
        6,
        3,
    )
    assert (response.stop_reason, response.native_id, response.model) == ("end_turn", "c1", "m")


def test_parallel_calls_are_told_one_by_one() -> None:
    told: list[Any] = []
    decoder = MODEL.decoder(Request([]), told.append)
    decoder.feed(chunk(call(0, "a", "f", "")) + chunk(call(0, arguments='{"x"')))
    decoder.feed(chunk(call(0, arguments=": 1}")))
    assert told == []
    decoder.feed(chunk(call(1, "b", "g", "")))
    assert told == [ToolCallReady(ToolCall("a", "f", {"x": 1}))]
    decoder.feed(chunk(call(1, arguments="{}")) + chunk({}, "tool_calls") + DONE)
    response = decoder.finish()
    assert told == [ToolCallReady(made) for made in response.message.tool_calls]
    assert response.stop_reason == "tool_use"


def test_every_call_at_index_0_with_ids_of_their_own() -> None:
    assert calls_of(
        chunk(call(0, "a", "f", '{"x":1}')),
        chunk(call(0, "b", "f", '{"x":')),
        chunk(call(0, arguments="2}")),
    ) == [("a", "f", {"x": 1}), ("b", "f", {"x": 2})]


def test_calls_without_index() -> None:
    assert calls_of(chunk(call(None, "a", "f", '{"x":1}')), chunk(call(None, "b", "g", "{}"))) == [
        ("a", "f", {"x": 1}),
        ("b", "g", {}),
    ]


def test_calls_with_neither_index_nor_id() -> None:
    made = calls_of(
        chunk(call(None, None, "f", '{"x":1}')), chunk(call(None, None, "f", '{"x":2}'))
    )
    assert [(name, args) for _, name, args in made] == [("f", {"x": 1}), ("f", {"x": 2})]
    assert made[0][0] and made[0][0] != made[1][0]
    made = calls_of(chunk(call(None, None, "f", "")), chunk(call(None, None, "g", "")))
    assert [(name, args) for _, name, args in made] == [("f", {}), ("g", {})]


def test_one_id_for_all_calls() -> None:
    assert calls_of(chunk(call(0, "0", "f", '{"x":1}')), chunk(call(1, "0", "g", '{"y":2}'))) == [
        ("0", "f", {"x": 1}),
        ("0", "g", {"y": 2}),
    ]


def test_gaps_in_the_index_and_pieces_out_of_turn() -> None:
    assert calls_of(
        chunk(call(0, "a", "f", '{"x"')),
        chunk(call(3, "b", "g", '{"y"')),
        chunk(call(0, arguments=":1}")),
        chunk(call(3, arguments=":2}")),
    ) == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


def test_id_and_name_repeated_in_every_piece() -> None:
    assert calls_of(
        chunk(call(0, "0", "f", "")),
        chunk(call(0, "0", "f", '{"x"')),
        chunk(call(0, "0", "f", ":1}")),
    ) == [("0", "f", {"x": 1})]


@pytest.mark.parametrize("given", [None, "", "{}", "null", '"{}"', {}, '""'])
def test_no_arguments_in_any_spelling(given: Any) -> None:
    assert calls_of(chunk(call(0, "a", "f", given)), chunk({}, "stop")) == [("a", "f", {})]
    message = {
        "content": None,
        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": given}}],
    }
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    response, told = run(json.dumps(body).encode())
    assert response.message.tool_calls == (ToolCall("a", "f", {}),)
    assert told == [ToolCallReady(ToolCall("a", "f", {}))]


def test_arguments_as_an_object_or_encoded_twice() -> None:
    twice = json.dumps(json.dumps({"a": 1}))
    assert calls_of(chunk(call(0, "a", "f", {"a": 1})), chunk(call(1, "b", "g", twice))) == [
        ("a", "f", {"a": 1}),
        ("b", "g", {"a": 1}),
    ]


@pytest.mark.parametrize("finish", ["stop", "", None, "tool_calls", "function_call", "novel"])
def test_the_reply_is_judged_by_its_content(finish: str | None) -> None:
    response, _ = run(chunk(call(0, "a", "f", '{"x":1}')) + chunk({}, finish) + DONE)
    assert response.stop_reason == "tool_use"


@pytest.mark.parametrize("part", ['{"path": "/e', "", "{}"])
def test_a_call_cut_off_by_the_token_limit_is_never_complete(part: str) -> None:
    response, told = run(chunk(call(0, "a", "rm", part)) + chunk({}, "length") + DONE)
    (made,) = response.message.tool_calls
    assert made.arguments == {} and made.raw is not None
    assert response.stop_reason == "max_tokens" and told == []


def test_reasoning_is_thinking_and_goes_back_beside_calls() -> None:
    model = OpenAIChat("deepseek-reasoner", provider="deepseek", api_key="k")
    response, told = run(
        chunk({"reasoning_content": "Hm"})
        + chunk({"reasoning_content": "m"})
        + chunk(call(0, "a", "f", "{}"))
        + chunk({}, "tool_calls")
        + DONE,
        model,
    )
    assert told[:2] == [ThinkingDelta("Hm"), ThinkingDelta("m")]
    assert response.message.content[0].text == "Hmm"
    sent = json.loads(b"".join(model.encode(Request([response.message]))))["messages"][0]
    assert sent["reasoning_content"] == "Hmm"
    words, _ = run(chunk({"reasoning_content": "Hm", "content": "x"}, "stop") + DONE, model)
    sent = json.loads(b"".join(model.encode(Request([words.message]))))["messages"][0]
    assert sent == {"role": "assistant", "content": "x"}


def test_reasoning_details_go_back_unchanged() -> None:
    model = OpenAIChat("anthropic/claude", provider="openrouter", api_key="k")
    details = [
        {"type": "reasoning.text", "text": "Let me", "signature": "", "format": "f", "index": 0},
        {"type": "reasoning.text", "text": " see", "format": "f", "index": 0},
        {"type": "reasoning.text", "signature": "sig==", "format": "f", "index": 0},
        {"type": "reasoning.encrypted", "data": "xyz", "id": "r1", "index": 1},
    ]
    raw = b"".join(chunk({"content": "", "reasoning_details": [d]}) for d in details)
    response, _ = run(raw + chunk({"content": "Hi"}, "stop") + DONE, model)
    assert isinstance(response.message.content[0], Thinking)
    sent = json.loads(b"".join(model.encode(Request([response.message]))))["messages"][0]
    assert sent["reasoning_details"] == [
        {
            "type": "reasoning.text",
            "text": "Let me see",
            "signature": "sig==",
            "format": "f",
            "index": 0,
        },
        {"type": "reasoning.encrypted", "data": "xyz", "id": "r1", "index": 1},
    ]
    plain = {
        "choices": [
            {"message": {"content": "Hi", "reasoning_details": details}, "finish_reason": "stop"}
        ]
    }
    whole, _ = run(json.dumps(plain).encode(), model)
    assert whole.message == response.message
    other = OpenAIChat("other", provider="openrouter", api_key="k")
    sent = json.loads(b"".join(other.encode(Request([response.message]))))["messages"][0]
    assert sent == {"role": "assistant", "content": "Hi"}


def test_content_as_a_list_of_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "a"},
    ]
    response, told = run(chunk({"content": parts}, "stop") + DONE)
    assert response.message.text == "a" and told == [ThinkingDelta("hm"), TextDelta("a")]


def test_a_refusal_is_an_answer() -> None:
    response, _ = run(chunk({"refusal": "I can"}) + chunk({"refusal": "not"}, "stop") + DONE)
    assert response.stop_reason == "refusal" and response.message.content == (Text("I cannot"),)
    response, _ = run(chunk(call(0, "a", "f", '{"x": 1}')) + chunk({}, "content_filter") + DONE)
    assert response.stop_reason == "refusal" and response.message.content == ()


def test_usage_in_every_chunk_in_an_odd_place_or_never() -> None:
    usage = [{"prompt_tokens": 5, "completion_tokens": n} for n in range(3)]
    response, _ = run(b"".join(chunk({"content": "a"}, usage=u) for u in usage) + DONE)
    assert (response.usage.input_tokens, response.usage.output_tokens) == (5, 2)
    response, _ = run(chunk({"content": "a"}, x_groq={"usage": usage[1]}) + DONE)
    assert response.usage.output_tokens == 1
    response, _ = run(chunk({"content": "a"}, usage=None) + DONE)
    assert response.usage.total_tokens == 0 and response.usage.cost_usd is None
    response, _ = run(chunk({"content": "a"}, usage={**usage[0], "cost": 0.25}) + DONE)
    assert response.usage.cost_usd == 0.25 and MODEL.price(response.usage) == 0.25


def test_the_old_function_call_and_one_that_is_empty() -> None:
    body = {"choices": [{"message": {"function_call": {"name": "f", "arguments": '{"x":1}'}}}]}
    response, _ = run(json.dumps(body).encode())
    assert [(c.name, c.arguments) for c in response.message.tool_calls] == [("f", {"x": 1})]
    body = {
        "choices": [{"message": {"content": "a", "function_call": {"name": "", "arguments": ""}}}]
    }
    response, _ = run(json.dumps(body).encode())
    assert response.message == Message("assistant", "a")
    legacy = [
        {"function_call": {"name": "f", "arguments": '{"x"'}},
        {"function_call": {"arguments": ":1}"}},
    ]
    response, _ = run(b"".join(chunk(part) for part in legacy) + chunk({}, "function_call") + DONE)
    assert [(c.name, c.arguments) for c in response.message.tool_calls] == [("f", {"x": 1})]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "slow down", "code": 429}, RateLimited),
        ({"message": "limit", "code": 400}, BadRequest),
        ({"message": "boom", "code": 502}, ServerError),
        ({"message": "boom"}, ServerError),
        ("just words", ServerError),
        ({"message": "no money", "code": "insufficient_quota"}, QuotaExceeded),
    ],
)
def test_an_error_chunk_after_200(error: Any, expected: type[ModelError]) -> None:
    with pytest.raises(expected):
        run(chunk({"content": "a"}) + chunk({"content": ""}, "stop", error=error) + DONE)
    with pytest.raises(expected):
        run(json.dumps({"error": error}).encode())


def test_an_error_event_with_what_the_model_had_written() -> None:
    error = {
        "message": "bad call",
        "code": "tool_use_failed",
        "failed_generation": '{"n": 1}',
        "status_code": 400,
    }
    raw = (
        chunk({"reasoning": "hm"})
        + b"event: error\ndata: "
        + json.dumps({"error": error}).encode()
        + b"\n\n"
    )
    with pytest.raises(BadReply, match='bad call.*{"n": 1}') as caught:
        run(raw)
    assert caught.value.transient and caught.value.code == "tool_use_failed"


def test_a_stream_without_end_is_broken_and_one_with_a_reason_is_not() -> None:
    with pytest.raises(StreamBroken):
        run(chunk({"content": "a"}) + chunk(call(0, "a", "f", '{"x": 1}')))
    response, _ = run(chunk({"content": "a"}) + chunk({}, "stop"))
    assert response.message.text == "a"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html></html>",
        b'{"choices": []}',
        b'{"choices": [{"mess',
        DONE,
        b"data: {cut\n\n" + DONE,
        b"data: []\n\n",
    ],
)
def test_what_is_no_reply(raw: bytes) -> None:
    with pytest.raises(BadReply):
        run(raw)


def test_a_candidate_without_content_is_an_empty_answer() -> None:
    body = {
        "choices": [{"message": {"content": None}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1},
    }
    response, _ = run(json.dumps(body).encode())
    assert response.message.content == () and response.stop_reason == "end_turn"


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [None], [[]], {"function": 3}, True])
def test_any_value_anywhere_is_a_reply_or_an_error(value: Any) -> None:
    fields = ["content", "tool_calls", "reasoning", "reasoning_details", "refusal", "function_call"]
    message: dict[str, Any] = {"content": "a", **call(0, "a", "f", "{}")}
    for field in fields:
        for raw in (
            chunk({**message, field: value}) + DONE,
            chunk({"tool_calls": [{field: value, "function": value, "index": value, "id": value}]})
            + DONE,
            json.dumps({"choices": [{"message": {**message, field: value}}]}).encode(),
        ):
            try:
                run(raw)
            except ModelError:
                pass
    for field in ("id", "model", "choices", "usage", "error", "x_groq"):
        for raw in (
            chunk({"content": "a"}, **{field: value}) + DONE,
            json.dumps({field: value}).encode(),
        ):
            try:
                run(raw)
            except ModelError:
                pass
