"""What comes back over the Responses wire: every server's quirk as a small reply of our own."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.errors import (
    BadReply,
    BadRequest,
    ContextOverflow,
    ModelError,
    QuotaExceeded,
    RateLimited,
    Refused,
    ServerError,
    StreamBroken,
)
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import Message, Opaque, Origin, Text, Thinking, ToolCall
from windlass.models.base import Frame, Request, Response, Settings
from windlass.models.wires.openai.responses import OpenAIResponses

MODEL = OpenAIResponses("gpt-5.4", api_key="k")
ORIGIN = Origin("openai", "gpt-5.4")
USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 1},
    "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 3},
}


def event(kind: str, **fields: Any) -> bytes:
    data = json.dumps({"type": f"response.{kind}", **fields})
    return f"event: response.{kind}\ndata: {data}\n\n".encode()


def answer(*output: Any, **fields: Any) -> dict[str, Any]:
    shell = {"id": "resp_1", "object": "response", "model": "gpt-5.4-x", "status": "completed"}
    details: dict[str, Any] = {"error": None, "incomplete_details": None, "usage": USAGE}
    return {**shell, **details, "output": [*output], **fields}


CREATED = event("created", response=answer(status="in_progress", usage=None))


def message(text: str, **fields: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": [part], **fields}


def call(call_id: str | None = "c1", name: str = "f", arguments: Any = "{}", **fields: Any) -> Any:
    item = {"id": "fc_1", "type": "function_call", "status": "completed", "name": name, **fields}
    return {**item, "arguments": arguments, "call_id": call_id}


def thought(*words: str, **fields: Any) -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": text} for text in words]
    return {"id": "rs_1", "type": "reasoning", "summary": parts, **fields}


def run(raw: bytes, limit: int | None = None) -> tuple[Response, list[Any]]:
    told: list[Any] = []
    request = Request([], Frame(settings=Settings(max_tokens=limit)))
    decoder = MODEL.decoder(request, told.append)
    decoder.feed(raw)
    return decoder.finish(), told


def plain(*output: Any, limit: int | None = None, **fields: Any) -> tuple[Response, list[Any]]:
    return run(json.dumps(answer(*output, **fields)).encode(), limit)


def calls(response: Response) -> list[Any]:
    return [
        (c.id, c.name, c.arguments if c.raw is None else c.raw) for c in response.message.tool_calls
    ]


# --------------------------------------------------------------------------- streams


def test_text_usage_and_the_last_event_as_the_answer() -> None:
    response, told = run(
        CREATED
        + event("output_item.added", output_index=0, item=message("", content=[]))
        + event("output_text.delta", output_index=0, content_index=0, delta="Hel", obfuscation="x")
        + event("output_text.delta", output_index=0, content_index=0, delta="lo")
        + event("output_item.done", output_index=0, item=message("Hello"))
        + event("completed", response=answer(message("Hello")))
    )
    assert response.message == Message("assistant", "Hello")
    assert told == [TextDelta("Hel"), TextDelta("lo")]
    got = response.usage
    assert (got.input_tokens, got.output_tokens) == (10, 4)
    assert (got.cache_read_tokens, got.cache_write_tokens, got.reasoning_tokens) == (6, 1, 3)
    assert (response.stop_reason, response.native_id) == ("end_turn", "resp_1")
    assert response.model == "gpt-5.4-x"


def test_calls_are_paired_by_call_id_and_told_when_their_item_is_done() -> None:
    told: list[Any] = []
    decoder = MODEL.decoder(Request([]), told.append)
    decoder.feed(CREATED + event("output_item.added", output_index=0, item=call(arguments="")))
    decoder.feed(event("function_call_arguments.delta", output_index=0, delta='{"x": '))
    decoder.feed(event("function_call_arguments.done", output_index=0, arguments='{"x": 1}'))
    assert told == []
    done = call(arguments='{"x": 1}')
    decoder.feed(event("output_item.done", output_index=0, item=done))
    assert told == [ToolCallReady(ToolCall("c1", "f", {"x": 1}))]
    other = call("c2", "g")
    decoder.feed(event("output_item.done", output_index=1, item=other))
    assert len(told) == 2
    decoder.feed(event("completed", response=answer(done, other)))
    assert calls(decoder.finish()) == [("c1", "f", {"x": 1}), ("c2", "g", {})]
    assert len(told) == 2 and decoder.done


def test_the_last_event_wins_over_what_was_streamed() -> None:
    response, told = run(
        event("output_text.delta", output_index=0, delta="draft")
        + event("output_item.done", output_index=0, item=thought(encrypted_content="early"))
        + event("completed", response=answer(thought(encrypted_content="late"), message("final")))
    )
    assert response.message.text == "final"
    assert response.message.content[0].opaque["encrypted_content"] == "late"


def test_a_stream_without_done_events_and_an_empty_output() -> None:
    """Proxies leave the output of the last event empty; some never finish an item."""
    begun = (
        event("output_item.added", item=thought())
        + event("reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta="Hm.")
        + event("output_item.added", item=message("", content=[]))
        + event("output_text.delta", item_id="msg_1", delta="Wait.")
        + event("output_item.added", item=call(arguments="", status="in_progress"))
        + event("function_call_arguments.delta", item_id="fc_1", delta='{"x":')
        + event("function_call_arguments.delta", item_id="fc_1", delta="2}")
    )
    response, told = run(begun + event("completed", response=answer()))
    thinking, text, asked = response.message.content
    assert isinstance(thinking, Thinking) and thinking.text == "Hm."
    assert text == Text("Wait.") and asked == ToolCall("c1", "f", {"x": 2})
    assert told == [ThinkingDelta("Hm."), TextDelta("Wait."), ToolCallReady(asked)]
    with pytest.raises(StreamBroken):
        run(begun)
    with pytest.raises(StreamBroken):  # a marker is no word that a call is whole
        run(begun + b"data: [DONE]\n\n")


def test_a_routers_marker_ends_a_stream_whose_items_are_done() -> None:
    done = event("output_item.done", output_index=0, item=message("Hello"))
    response, told = run(done + b"data: [DONE]\n\n")
    assert response.message.text == "Hello" and told == [TextDelta("Hello")]
    response, _ = run(
        done + event("completed", response=answer(message("Hello"))) + b"data: [DONE]\n\n"
    )
    assert response.usage.output_tokens == 4
    with pytest.raises(StreamBroken):
        run(CREATED + b"data: [DONE]\n\n")


def test_items_are_known_by_their_place_where_ids_change() -> None:
    response, _ = run(
        event("output_item.added", output_index=0, item=call("a", id="x1", arguments=""))
        + event("output_item.added", output_index=1, item=call("b", id="x2", arguments=""))
        + event("function_call_arguments.delta", output_index=1, item_id="y2", delta='{"n":2}')
        + event("function_call_arguments.delta", output_index=0, item_id="y1", delta='{"n":1}')
        + event("completed", response=answer())
    )
    assert calls(response) == [("a", "f", {"n": 1}), ("b", "f", {"n": 2})]


def test_only_the_last_event() -> None:
    response, told = run(event("completed", response=answer(message("Hi"), call())))
    assert told == [TextDelta("Hi"), ToolCallReady(response.message.tool_calls[0])]


def test_an_id_is_made_up_once() -> None:
    item = call(None, arguments='{"x":1}')
    response, told = run(
        event("output_item.done", output_index=0, item=item)
        + event("output_item.done", output_index=1, item=item)
        + event("completed", response=answer(item, item))
    )
    ids = [asked.id for asked in response.message.tool_calls]
    assert len(set(ids)) == 2 and all(ids)
    assert [event.call.id for event in told] == ids


def test_thoughts_come_in_paragraphs() -> None:
    response, told = run(
        event("output_item.added", output_index=0, item=thought())
        + event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="One")
        + event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta=" step.")
        + event("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="Two.")
        + event("completed", response=answer(thought("One step.", "Two."), message("So.")))
    )
    shown = "".join(t.text for t in told if isinstance(t, ThinkingDelta))
    assert shown == "One step.\n\nTwo."
    assert response.message.content[0].text == shown


def test_keepalives_are_no_progress_and_unknown_events_are_none_of_our_business() -> None:
    decoder = MODEL.decoder(Request([]), lambda _: None)
    assert (
        decoder.feed(b'event: keepalive\ndata: {"type":"keepalive","sequence_number":3}\n\n')
        is False
    )
    assert decoder.feed(event("weather", sky="blue")) is True
    decoder.feed(event("web_search_call.searching", item_id="ws_1", output_index=0))
    decoder.feed(event("completed", response=answer(message("x"))))
    assert decoder.finish().message.text == "x"


# --------------------------------------------------------------------------- what an item is


def test_reasoning_and_unknown_items_are_carried_whole() -> None:
    sealed = thought("Hm.", encrypted_content="gAAA", content=[])
    search = {"id": "ws_1", "type": "web_search_call", "action": {"type": "search"}}
    response, _ = plain(sealed, search, call(namespace="ns"))
    assert response.message.content == (
        Thinking("Hm.", sealed, ORIGIN),
        Opaque(ORIGIN, search),
        ToolCall("c1", "f", {}, None, {"namespace": "ns"}, ORIGIN),
    )
    assert response.stop_reason == "tool_use"


def test_plain_reasoning_text_is_thinking() -> None:
    said = [{"type": "reasoning_text", "text": "let me see"}]
    response, told = plain(thought(content=said), message("x"))
    assert response.message.content[0].text == "let me see"
    assert told == [ThinkingDelta("let me see"), TextDelta("x")]


def test_the_phase_of_a_message_rides_before_its_words() -> None:
    response, _ = plain(message("Looking.", phase="commentary"), call())
    phase = Opaque(ORIGIN, {"type": "message", "phase": "commentary"})
    assert response.message.content[:2] == (phase, Text("Looking."))
    assert response.message.text == "Looking."


def test_a_refusal_is_an_answer_without_calls() -> None:
    part = {"type": "refusal", "refusal": "I will not."}
    response, _ = plain(message("", content=[part]), call())
    assert response.message == Message("assistant", "I will not.")
    assert response.stop_reason == "refusal"
    response, told = run(
        event("refusal.delta", output_index=0, content_index=0, delta="I will")
        + event("refusal.delta", output_index=0, content_index=0, delta=" not.")
        + event("completed", response=answer())
    )
    assert (response.message.text, response.stop_reason) == ("I will not.", "refusal")
    assert "".join(t.text for t in told) == "I will not."


@pytest.mark.parametrize("given", [None, "", "{}", "null", "  ", {}])
def test_no_arguments_in_any_spelling(given: Any) -> None:
    response, told = plain(call(arguments=given))
    assert calls(response) == [("c1", "f", {})] and len(told) == 1


def test_arguments_as_an_object_or_encoded_twice() -> None:
    given = {"x": [1]}
    for spelt in (given, json.dumps(given), json.dumps(json.dumps(given))):
        assert calls(plain(call(arguments=spelt))[0]) == [("c1", "f", given)]


def test_names_of_the_wires_own_are_turned_back() -> None:
    from windlass.messages import ToolSpec

    frame = Frame(tools=(ToolSpec("db.query", "d", {"type": "object"}),))
    decoder = MODEL.decoder(Request([], frame), lambda _: None)
    sent = json.loads(b"".join(MODEL.encode(Request([Message("user", "x")], frame))))
    decoder.feed(json.dumps(answer(call(name=sent["tools"][0]["name"]))).encode())
    assert decoder.finish().message.tool_calls[0].name == "db.query"


# --------------------------------------------------------------------------- ends

CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


@pytest.mark.parametrize("part", ["", "{", '{"x": 1', '{"x": 1}'])
def test_a_call_the_server_calls_incomplete_is_never_complete(part: str) -> None:
    whole, cut = call("c1", arguments='{"x": 1}'), call("c2", arguments=part, status="incomplete")
    response, told = plain(whole, cut, **CUT)
    assert calls(response) == [("c1", "f", {"x": 1}), ("c2", "f", part)]
    assert response.message.tool_calls[1].raw == part
    assert response.stop_reason == "max_tokens" and len(told) == 1
    streamed, told = run(
        CREATED
        + event("output_item.done", output_index=0, item=whole)
        + event("output_item.done", output_index=1, item=cut)
        + event("incomplete", response=answer(whole, cut, **CUT))
    )
    assert calls(streamed) == calls(response) and len(told) == 1


def test_a_call_the_server_calls_complete_is_complete_even_at_the_limit() -> None:
    response, told = plain(call(arguments="{}"), **CUT)
    assert calls(response) == [("c1", "f", {})] and response.stop_reason == "tool_use"
    assert len(told) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_a_server_that_calls_everything_completed_is_held_to_the_limit(stream: bool) -> None:
    """llama.cpp: no word about why it stopped, so the count of tokens says it."""

    def said(*output: Any, limit: int) -> tuple[Response, list[Any]]:
        whole = {k: v for k, v in answer(*output).items() if k != "incomplete_details"}
        if not stream:
            return run(json.dumps(whole).encode(), limit)
        items = [event("output_item.done", item={**item}) for item in output]
        return run(b"".join(items) + event("completed", response=whole), limit)

    response, told = said(call("a", id="x"), call("b", id="y"), limit=4)
    assert calls(response) == [("a", "f", {}), ("b", "f", "")]
    assert response.stop_reason == "max_tokens" and [t.call.id for t in told] == ["a"]
    response, told = said(call("a", id="x"), call("b", id="y"), limit=5)
    assert response.stop_reason == "tool_use" and [t.call.id for t in told] == ["a", "b"]
    assert said(message("so"), limit=4)[0].stop_reason == "max_tokens"


def test_why_a_reply_is_incomplete() -> None:
    for reason, stop in (
        ("max_output_tokens", "max_tokens"),
        ("content_filter", "refusal"),
        ("the_weather", "unknown"),
    ):
        details = {"status": "incomplete", "incomplete_details": {"reason": reason}}
        assert plain(message("x"), **details)[0].stop_reason == stop


FAILURES = [
    ({"code": "server_error", "message": "The server had an error."}, ServerError),
    ({"code": "rate_limit_exceeded", "message": "Rate limit reached."}, RateLimited),
    ({"code": "insufficient_quota", "message": "Quota."}, QuotaExceeded),
    ({"code": "context_length_exceeded", "message": "Your input exceeds it."}, ContextOverflow),
    ({"code": "invalid_prompt", "message": "Invalid prompt."}, BadRequest),
    ({"code": "image_content_policy_violation", "message": "No."}, Refused),
    ({"code": "of_tomorrow", "message": "?"}, ServerError),
]


@pytest.mark.parametrize(("error", "kind"), FAILURES)
def test_a_reply_that_failed_is_its_own_error(error: Any, kind: type[ModelError]) -> None:
    whole = answer(status="failed", error=error)
    ways = [
        json.dumps(whole).encode(),
        CREATED + event("failed", response=whole),
        CREATED + f"event: error\ndata: {json.dumps({'type': 'error', **error})}\n\n".encode(),
        f"data: {json.dumps({'type': 'error', 'error': error})}\n\n".encode(),
        f"data: {json.dumps({'error': error})}\n\n".encode(),
    ]
    for raw in ways:
        with pytest.raises(ModelError) as caught:
            run(raw)
        assert type(caught.value) is kind, raw


def test_what_is_no_reply() -> None:
    for raw in (
        b'{"id": "x", "object": "response"}',
        json.dumps(answer(status="in_progress")).encode(),
        json.dumps(answer(status="queued")).encode(),
    ):
        with pytest.raises(BadReply):
            run(raw)
    with pytest.raises(ServerError, match="failed"):
        run(event("failed"))
    with pytest.raises(ServerError, match="cancelled"):
        plain(status="cancelled")


def test_an_empty_answer_is_one() -> None:
    response, told = plain()
    assert response.message == Message("assistant") and told == []


# --------------------------------------------------------------------------- anything at all

words = st.sampled_from(
    [
        "type",
        "output_index",
        "item_id",
        "item",
        "id",
        "delta",
        "content_index",
        "summary_index",
        "response",
        "output",
        "status",
        "completed",
        "incomplete",
        "error",
        "usage",
        "content",
        "text",
        "summary",
        "reasoning",
        "message",
        "function_call",
        "arguments",
        "call_id",
        "name",
        "role",
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.reasoning_summary_text.delta",
        "response.completed",
        "response.failed",
        "refusal",
        "phase",
        "encrypted_content",
        "incomplete_details",
        "input_tokens",
        "output_tokens",
    ]
)
leaves = st.none() | st.booleans() | st.integers(-1, 3) | st.floats() | st.text(max_size=4) | words
shaped: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=6),
    max_leaves=25,
)


@settings(max_examples=300)
@given(events=st.lists(st.dictionaries(words, shaped, max_size=6), max_size=5), plain=st.booleans())
def test_any_value_anywhere_is_a_reply_or_an_error(events: list[Any], plain: bool) -> None:
    whole = {"output": events}
    raw = json.dumps(whole).encode()
    if not plain:
        lines = [f"event: {e.get('type')}\ndata: {json.dumps(e)}\n\n".encode() for e in events]
        raw = b"".join(lines) + event("completed", response=whole)
    try:
        response, _ = run(raw)
    except ModelError:
        return
    msgspec.json.encode(response.message)  # a journal can carry it
    json.loads(b"".join(MODEL.encode(Request([response.message]))))  # and it can be sent back
