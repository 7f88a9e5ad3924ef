"""What comes back over Anthropic's wire: every quirk as a small reply of our own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.errors import (
    BadReply,
    ContextOverflow,
    ModelError,
    Overloaded,
    RateLimited,
    StreamBroken,
)
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import Message, Opaque, Text, Thinking, ToolCall, ToolSpec
from windlass.models.base import Frame, Request, Response
from windlass.models.wires.anthropic.model import AnthropicMessages

MODEL = AnthropicMessages("claude-test", api_key="k")


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    out = event("content_block_start", index=index, content_block=start)
    for delta in deltas:
        out += event("content_block_delta", index=index, delta=delta)
    return out + event("content_block_stop", index=index)


def tool(index: int, id: str, name: str, *parts: str, **more: Any) -> bytes:
    start = {"type": "tool_use", "id": id, "name": name, "input": {}, **more}
    return block(index, start, *({"type": "input_json_delta", "partial_json": p} for p in parts))


def text(index: int, *parts: str) -> bytes:
    deltas = ({"type": "text_delta", "text": part} for part in parts)
    return block(index, {"type": "text", "text": ""}, *deltas)


def stream(*blocks: bytes, stop: str = "end_turn", usage: dict[str, Any] | None = None) -> bytes:
    start = {
        "id": "msg_1",
        "model": "claude-test-1",
        "usage": {"input_tokens": 7, "output_tokens": 1},
    }
    end = event("message_delta", delta={"stop_reason": stop}, usage=usage or {"output_tokens": 5})
    return event("message_start", message=start) + b"".join(blocks) + end + event("message_stop")


def run(raw: bytes, model: AnthropicMessages = MODEL, frame: Frame | None = None) -> Any:
    told: list[Any] = []
    decoder = model.decoder(Request([], frame or Frame()), told.append)
    decoder.feed(raw)
    return decoder.finish(), told


def test_text_is_told_as_it_comes() -> None:
    response, told = run(stream(text(0, "Hel", "lo")))
    assert response.message == Message("assistant", "Hello")
    assert told == [TextDelta("Hel"), TextDelta("lo")]
    assert (response.stop_reason, response.model, response.native_id) == (
        "end_turn",
        "claude-test-1",
        "msg_1",
    )


def test_parallel_calls_are_told_when_each_is_complete() -> None:
    raw = stream(
        tool(0, "a", "f", "", '{"x"', ": 1}"), tool(1, "b", "g", '{"y": 2}'), stop="tool_use"
    )
    told: list[Any] = []
    decoder = MODEL.decoder(Request([]), told.append)
    end_of_first = raw.index(b"event: content_block_stop") + 1
    decoder.feed(raw[:end_of_first])
    assert told == []
    decoder.feed(raw[end_of_first:])
    response = decoder.finish()
    assert response.message.tool_calls == (
        ToolCall("a", "f", {"x": 1}),
        ToolCall("b", "g", {"y": 2}),
    )
    assert told == [ToolCallReady(call) for call in response.message.tool_calls]
    assert response.stop_reason == "tool_use"


@pytest.mark.parametrize("parts", [(), ("",), ("{}",), ("", "  ")])
def test_a_call_without_arguments(parts: tuple[str, ...]) -> None:
    response, told = run(stream(tool(0, "a", "f", *parts), stop="tool_use"))
    assert response.message.tool_calls == (ToolCall("a", "f", {}),)
    assert told == [ToolCallReady(ToolCall("a", "f", {}))]


def test_usage_is_the_last_word_not_a_sum() -> None:
    usage = {
        "input_tokens": 20,
        "output_tokens": 9,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 30,
        "output_tokens_details": {"thinking_tokens": 4},
    }
    response, _ = run(stream(text(0, "x"), usage=usage))
    got = response.usage
    assert (got.input_tokens, got.output_tokens) == (150, 9)
    assert (got.cache_read_tokens, got.cache_write_tokens, got.reasoning_tokens) == (100, 30, 4)
    only_output, _ = run(stream(text(0, "x"), usage={"output_tokens": 9, "input_tokens": None}))
    assert only_output.usage.input_tokens == 7


def test_thinking_and_its_signature_go_back_to_the_letter() -> None:
    signature = "Eq+/AB=="
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Let me "},
        {"type": "thinking_delta", "thinking": "see."},
        {"type": "signature_delta", "signature": signature},
    )
    hidden = block(1, {"type": "redacted_thinking", "data": "xyz=="})
    response, told = run(stream(thinking, hidden, text(2, "Hi")))
    assert told == [ThinkingDelta("Let me "), ThinkingDelta("see."), TextDelta("Hi")]
    first, second, _ = response.message.content
    assert isinstance(first, Thinking) and first.text == "Let me see."
    assert isinstance(second, Opaque)
    sent = json.loads(b"".join(MODEL.encode(Request([response.message]))))["messages"][-1][
        "content"
    ]
    assert sent == [
        {"type": "thinking", "thinking": "Let me see.", "signature": signature},
        {"type": "redacted_thinking", "data": "xyz=="},
        {"type": "text", "text": "Hi"},
    ]
    other = AnthropicMessages("claude-other", api_key="k")
    sent = json.loads(b"".join(other.encode(Request([response.message]))))["messages"][-1][
        "content"
    ]
    assert sent == [{"type": "text", "text": "Hi"}]


def test_blocks_that_only_the_provider_understands_go_back_as_they_came() -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"e": 1.5}]}
    novel = {"type": "compaction", "content": None}
    response, told = run(
        stream(
            block(
                0,
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
                {"type": "input_json_delta", "partial_json": '{"query": '},
                {"type": "input_json_delta", "partial_json": '"x"}'},
            ),
            block(1, result),
            block(
                2,
                novel,
                {"type": "compaction_delta", "content": "so "},
                {"type": "compaction_delta", "content": "far"},
            ),
            text(3, "done"),
            stop="pause_turn",
        )
    )
    assert response.stop_reason == "pause_turn"
    assert told == [TextDelta("done")]
    sent = json.loads(b"".join(MODEL.encode(Request([response.message]))))["messages"][-1][
        "content"
    ]
    assert sent == [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        result,
        {"type": "compaction", "content": "so far"},
        {"type": "text", "text": "done"},
    ]


def test_what_a_call_carries_beside_its_arguments_goes_back_too() -> None:
    response, _ = run(stream(tool(0, "a", "f", "{}", caller={"type": "direct"}), stop="tool_use"))
    sent = json.loads(b"".join(MODEL.encode(Request([response.message]))))["messages"][-1][
        "content"
    ]
    assert sent[0]["caller"] == {"type": "direct"}


@pytest.mark.parametrize("part", ['{"path": "/etc', "", "{}"])
def test_a_call_cut_off_by_the_token_limit_is_never_complete(part: str) -> None:
    response, told = run(stream(text(0, "ok"), tool(1, "a", "rm", part), stop="max_tokens"))
    (call,) = response.message.tool_calls
    assert call.arguments == {} and call.raw is not None
    assert response.stop_reason == "max_tokens"
    assert not any(isinstance(t, ToolCallReady) for t in told)


def test_a_whole_call_before_the_token_limit_counts() -> None:
    raw = stream(tool(0, "a", "f", '{"x": 1}'), tool(1, "b", "g", '{"y'), stop="max_tokens")
    response, told = run(raw)
    first, second = response.message.tool_calls
    assert first.raw is None and second.raw == '{"y'
    assert told == [ToolCallReady(first)]


@pytest.mark.parametrize("bad", ["[1]", "12", '"words"', "{oops", "nul", "[" * 100_000])
def test_arguments_that_are_no_object_keep_their_text(bad: str) -> None:
    response, told = run(stream(tool(0, "a", "f", bad), stop="tool_use"))
    (call,) = response.message.tool_calls
    assert (call.arguments, call.raw) == ({}, bad)
    assert told == []


def test_arguments_encoded_twice_or_with_bare_line_breaks() -> None:
    twice = json.dumps(json.dumps({"a": 1}))
    response, _ = run(stream(tool(0, "a", "f", twice), tool(1, "b", "g", '{"t": "x\ny"}')))
    assert [call.arguments for call in response.message.tool_calls] == [{"a": 1}, {"t": "x\ny"}]


def test_a_missing_id_is_made_up() -> None:
    response, _ = run(stream(tool(0, "", "f", '{"x": 1}'), tool(1, "", "f", '{"x": 2}')))
    one, two = (call.id for call in response.message.tool_calls)
    assert one and two and one != two


def test_a_refusal_is_an_answer_without_calls() -> None:
    response, _ = run(stream(text(0, "I"), tool(1, "a", "f", "{}"), stop="refusal"))
    assert response.stop_reason == "refusal" and response.message == Message("assistant", "I")
    empty, _ = run(stream(stop="refusal"))
    assert empty.stop_reason == "refusal" and empty.message.content == ()


def test_unknown_words_do_no_harm() -> None:
    raw = event("from_tomorrow", x=1) + event("ping") + stream(text(0, "a"), stop="novel")
    response, _ = run(raw)
    assert response.stop_reason == "unknown" and response.message.text == "a"
    response, _ = run(stream(tool(0, "a", "f", '{"x":1}'), stop="end_turn"))
    assert response.stop_reason == "tool_use"
    response, _ = run(stream(text(0, "a"), stop="tool_use"))
    assert response.stop_reason == "end_turn"


def test_a_stream_without_its_last_event_is_broken() -> None:
    raw = stream(tool(0, "a", "f", '{"x": 1}'), stop="tool_use")
    with pytest.raises(StreamBroken):
        run(raw[: raw.index(b"event: message_stop")])


def test_nothing_after_the_last_event_matters() -> None:
    response, _ = run(stream(text(0, "a")) + text(5, "b") + event("error", error={"type": "x"}))
    assert response.message.text == "a"


def test_pings_and_comments_are_no_progress() -> None:
    decoder = MODEL.decoder(Request([]), lambda event: None)
    assert decoder.feed(event("message_start", message={})) is True
    assert decoder.feed(event("ping") + b": keep-alive\n\n" + event("ping")) is False
    assert decoder.feed(text(0, "a")[:40]) is False


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("overloaded_error", Overloaded), ("rate_limit_error", RateLimited), ("novel", ModelError)],
)
def test_an_error_inside_the_stream(kind: str, expected: type[ModelError]) -> None:
    start = stream(text(0, "a"))[:400]
    error = event("error", error={"type": kind, "message": "sorry sk-ant-abcdefgh"})
    with pytest.raises(expected, match="sorry \\[key\\]") as caught:
        run(start.rpartition(b"event:")[0] + error)
    assert caught.value.transient


def test_a_window_that_is_full() -> None:
    with pytest.raises(ContextOverflow):
        run(stream(stop="model_context_window_exceeded"))
    response, _ = run(stream(text(0, "so far"), stop="model_context_window_exceeded"))
    assert response.stop_reason == "max_tokens"


PLAIN = {
    "id": "msg_2",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "stop_reason": "tool_use",
    "content": [
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}},
    ],
    "usage": {"input_tokens": 3, "output_tokens": 4},
}


def test_a_plain_reply_is_the_same_reply() -> None:
    response, told = run(json.dumps(PLAIN).encode())
    assert isinstance(response, Response)
    assert response.message.content == (Text("a"), ToolCall("t", "f", {"x": 1}))
    assert response.stop_reason == "tool_use" and response.usage.total_tokens == 7
    assert told == [TextDelta("a"), ToolCallReady(ToolCall("t", "f", {"x": 1}))]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"  \n",
        b"<!DOCTYPE html><title>Bad gateway</title>",
        json.dumps(PLAIN).encode()[:-30],
        b'{"ok": true}',
        b"[]",
        b'event: message_start\ndata: {"type": "mess\n\n',
        b"data: 17\n\n",
        b'{"a":' * 50_000,
    ],
)
def test_what_is_no_reply(raw: bytes) -> None:
    with pytest.raises(BadReply):
        run(raw)


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [None], {"type": 3}, True])
def test_any_value_anywhere_is_a_reply_or_an_error(value: Any) -> None:
    for kind in (
        "message_start",
        "content_block_start",
        "content_block_delta",
        "message_delta",
        "content_block_stop",
        "error",
        "ping",
    ):
        for field in ("message", "content_block", "delta", "index", "usage", "error"):
            broken = event(kind, **{"index": 0, field: value})
            try:
                run(
                    stream(
                        event("content_block_start", index=0, content_block=PLAIN["content"][1]),
                        broken,
                    )
                )
            except ModelError:
                pass
    for field in PLAIN:
        try:
            run(json.dumps({**PLAIN, field: value}).encode())
        except ModelError:
            pass
    try:
        run(
            json.dumps(
                {**PLAIN, "content": [{"type": "tool_use", "name": value, "input": value}]}
            ).encode()
        )
    except ModelError:
        pass


def test_our_own_names_come_back() -> None:
    frame = Frame(tools=(ToolSpec("db.query", "", {}), ToolSpec("plain", "", {})))
    body = json.loads(b"".join(MODEL.encode(Request([], frame))))
    sent = [tool["name"] for tool in body["tools"]]
    assert sent[1] == "plain" and sent[0] != "db.query"
    response, _ = run(stream(tool(0, "a", sent[0], "{}"), tool(1, "b", "novel", "{}")), frame=frame)
    assert [call.name for call in response.message.tool_calls] == ["db.query", "novel"]
