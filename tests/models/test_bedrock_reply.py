"""What comes back over Bedrock's Converse: frames or plain, whole or broken, and refused."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import (
    AuthFailed,
    BadReply,
    BadRequest,
    ContextOverflow,
    ModelError,
    Overloaded,
    QuotaExceeded,
    RateLimited,
    ServerError,
    StreamBroken,
)
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import Message, Opaque, Origin, Text, Thinking, ToolCall, ToolSpec
from windlass.models.base import Frame, Request, Response
from windlass.models.transport.errors import from_http
from windlass.models.wires.bedrock.model import BedrockConverse
from windlass.testing.providers.bedrock import encode_frame
from windlass.usage import Usage

MODEL = BedrockConverse("vendor.model-v1:0", api_key="k", region="us-east-1")
HERE = Origin("bedrock", "vendor.model-v1:0")
ODD = ToolSpec("my.odd tool", "Odd.", {})


def event(name: str, at: int | None = None, **data: Any) -> bytes:
    where = {} if at is None else {"contentBlockIndex": at}
    payload = json.dumps({**where, **data, "p": "abcdef"}).encode()
    return encode_frame(
        payload, event_type=name, content_type="application/json", message_type="event"
    )


def text(at: int, said: str) -> bytes:
    return event("contentBlockDelta", at, delta={"text": said})


def thought(at: int, **said: str) -> bytes:
    return event("contentBlockDelta", at, delta={"reasoningContent": said})


def start(at: int, name: str, id: str = "tooluse_1", **more: Any) -> bytes:
    use = {"toolUseId": id, "name": name, **more}
    return event("contentBlockStart", at, start={"toolUse": use})


def piece(at: int, given: Any) -> bytes:
    return event("contentBlockDelta", at, delta={"toolUse": {"input": given}})


def stop(at: int) -> bytes:
    return event("contentBlockStop", at)


def end(reason: str, **usage: int) -> bytes:
    counted = {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8, **usage}
    return event("messageStop", stopReason=reason) + event("metadata", usage=counted, metrics={})


BEGIN = event("messageStart", role="assistant")


def decode(*chunks: bytes, model: BedrockConverse = MODEL, tools: Any = ()) -> Any:
    told: list[Any] = []
    decoder = model.decoder(Request([], Frame(tools=tools)), told.append)
    for chunk in chunks:
        decoder.feed(chunk)
    return decoder.finish(), told


def plain(content: list[Any], reason: str = "end_turn", **more: Any) -> bytes:
    message = {"role": "assistant", "content": content}
    return json.dumps({"output": {"message": message}, "stopReason": reason, **more}).encode()


STREAM = (
    BEGIN
    + thought(0, text="Hm – ")
    + thought(0, text="ja.")
    + thought(0, signature="c2ln")
    + stop(0)
    + text(1, "Ich ")
    + text(1, "rechne 🧮.")
    + stop(1)
    + start(2, "add", "tooluse_a")
    + piece(2, "")
    + piece(2, '{"a": 1, "b": [nu')
    + piece(2, 'll, "ü"]}')
    + stop(2)
    + start(3, "now", "tooluse_b")
    + piece(3, "")
    + stop(3)
    + end("tool_use", cacheReadInputTokens=10, cacheWriteInputTokens=2)
)


def test_a_stream_of_frames() -> None:
    reply, told = decode(STREAM)
    assert reply.message.content == (
        Thinking("Hm – ja.", {"signature": "c2ln"}, HERE),
        Text("Ich rechne 🧮."),
        ToolCall("tooluse_a", "add", {"a": 1, "b": [None, "ü"]}),
        ToolCall("tooluse_b", "now", {}),
    )
    assert reply.stop_reason == "tool_use"
    assert reply.usage == Usage(17, 3, 10, 2)  # what was cached is part of the prompt
    kinds = [type(one) for one in told]
    assert kinds == [ThinkingDelta] * 2 + [TextDelta] * 2 + [ToolCallReady] * 2
    assert [one.call for one in told[-2:]] == [*reply.message.tool_calls]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_split_reads_the_same(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert decode(*[STREAM[a:b] for a, b in zip(edges, edges[1:], strict=False)]) == decode(STREAM)


def test_cut_anywhere_is_an_error_or_the_whole() -> None:
    whole, _ = decode(STREAM)
    said = len(STREAM) - len(
        event(
            "metadata",
            usage={
                "inputTokens": 5,
                "outputTokens": 3,
                "totalTokens": 8,
                "cacheReadInputTokens": 10,
                "cacheWriteInputTokens": 2,
            },
            metrics={},
        )
    )
    for cut in range(len(STREAM)):
        told: list[Any] = []
        decoder = MODEL.decoder(Request([]), told.append)
        decoder.feed(STREAM[:cut])
        ready = [one.call for one in told if isinstance(one, ToolCallReady)]
        assert ready == [*whole.message.tool_calls][: len(ready)]
        if cut < said:
            with pytest.raises((StreamBroken, BadReply)):
                decoder.finish()
        else:  # only what was counted is missing
            reply = decoder.finish()
            assert reply.message == whole.message and reply.usage == Usage()


def test_metadata_ends_the_reply_and_messageStop_makes_it_whole() -> None:
    decoder = MODEL.decoder(Request([]), lambda _event: None)
    decoder.feed(BEGIN + text(0, "x") + event("messageStop", stopReason="end_turn"))
    assert (decoder.complete, decoder.done) == (True, False)
    decoder.feed(event("metadata", usage={"inputTokens": 1, "outputTokens": 1}))
    assert decoder.done
    assert decoder.finish().usage == Usage(1, 1)


def test_a_plain_reply() -> None:
    content = [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
        {"reasoningContent": {"redactedContent": "aGk="}},
        {"text": "Hi."},
        {"toolUse": {"toolUseId": "t1", "name": "add", "input": {"a": 1}}},
        {"toolUse": {"toolUseId": "t2", "name": "now", "input": {}}},
    ]
    usage = {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}
    reply, told = decode(plain(content, "tool_use", usage=usage))
    assert reply.message.content == (
        Thinking("Hm.", {"signature": "s"}, HERE),
        Thinking("", {"redactedContent": "aGk="}, HERE),
        Text("Hi."),
        ToolCall("t1", "add", {"a": 1}),
        ToolCall("t2", "now", {}),
    )
    assert (reply.usage, reply.stop_reason) == (Usage(5, 3), "tool_use")
    assert [type(one) for one in told] == [ThinkingDelta, TextDelta, ToolCallReady, ToolCallReady]
    *_, sent = json.loads(b"".join(MODEL.encode(Request([reply.message]))))["messages"]
    assert sent == {"role": "assistant", "content": content}


def test_reasoning_that_only_the_provider_reads_goes_back_as_it_came() -> None:
    blobs = [base64.b64encode(part).decode() for part in (b"first", b"and second")]
    frames = b"".join(thought(0, redactedContent=blob) for blob in blobs)
    reply, _ = decode(BEGIN + frames + stop(0) + text(1, "x") + end("end_turn"))
    *_, sent = json.loads(b"".join(MODEL.encode(Request([reply.message]))))["messages"]
    hidden = sent["content"][0]["reasoningContent"]["redactedContent"]
    assert base64.b64decode(hidden) == b"firstand second"


def test_a_tool_of_the_providers_own_is_not_ours_to_run() -> None:
    use = {"toolUseId": "t1", "name": "nova_code_interpreter", "type": "server_tool_use"}
    result = {"toolUseId": "t1", "status": "success", "type": "nova_code_interpreter_result"}
    frames = (
        BEGIN
        + event("contentBlockStart", 0, start={"toolUse": use})
        + piece(0, '{"snippet": "1"}')
        + stop(0)
        + event("contentBlockStart", 1, start={"toolResult": result})
        + event("contentBlockDelta", 1, delta={"toolResult": [{"json": {"out": "1"}}]})
        + stop(1)
        + start(2, "final", "t2", type="tool_use")
        + piece(2, "{}")
        + stop(2)
        + end("tool_use")
    )
    reply, told = decode(frames)
    native = [
        {"toolUse": {**use, "input": {"snippet": "1"}}},
        {"toolResult": {**result, "content": [{"json": {"out": "1"}}]}},
    ]
    assert [*reply.message.content[:2]] == [Opaque(HERE, one) for one in native]
    assert [call.name for call in reply.message.tool_calls] == ["final"]
    assert len([one for one in told if isinstance(one, ToolCallReady)]) == 1
    *_, sent = json.loads(b"".join(MODEL.encode(Request([reply.message]))))["messages"]
    assert sent["content"][:2] == native
    last = {"toolUseId": "t2", "name": "final", "input": {}, "type": "tool_use"}
    assert sent["content"][2] == {"toolUse": last}


@pytest.mark.parametrize("given", ["", "{}", None, {}, '"{}"'])
def test_no_arguments_in_any_spelling(given: Any) -> None:
    for raw in (
        BEGIN + start(0, "now") + piece(0, given) + stop(0) + end("tool_use"),
        plain([{"toolUse": {"toolUseId": "t", "name": "now", "input": given}}], "tool_use"),
    ):
        reply, told = decode(raw)
        [call] = reply.message.tool_calls
        assert (call.arguments, call.raw) == ({}, None)
        assert [type(one) for one in told] == [ToolCallReady]


def test_ids_and_names() -> None:
    name = json.loads(b"".join(MODEL.encode(Request([], Frame(tools=(ODD,))))))["toolConfig"][
        "tools"
    ][0]["toolSpec"]["name"]
    assert name != ODD.name
    nameless = event("contentBlockStart", 0, start={"toolUse": {"name": name}})
    reply, _ = decode(BEGIN + nameless + stop(0) + end("tool_use"), tools=(ODD,))
    [call] = reply.message.tool_calls
    assert call.name == ODD.name and call.id


@pytest.mark.parametrize("part", ["", "{", '{"a": 1, "b', "{}"])
@pytest.mark.parametrize("word", ["max_tokens", "model_context_window_exceeded"])
def test_a_call_cut_off_by_the_token_limit_is_never_complete(part: str, word: str) -> None:
    frames = BEGIN + text(0, "x") + stop(0) + start(1, "add") + piece(1, part) + stop(1) + end(word)
    reply, told = decode(frames)
    [call] = reply.message.tool_calls
    assert call.raw is not None and not call.arguments
    assert reply.stop_reason == "max_tokens"
    assert not [one for one in told if isinstance(one, ToolCallReady)]


@pytest.mark.parametrize(
    ("word", "stops"),
    [
        ("end_turn", "end_turn"),
        ("tool_use", "end_turn"),
        ("stop_sequence", "stop_sequence"),
        ("max_tokens", "max_tokens"),
        ("guardrail_intervened", "refusal"),
        ("content_filtered", "refusal"),
        ("model_context_window_exceeded", "max_tokens"),
        ("of_tomorrow", "unknown"),
    ],
)
def test_how_it_ends(word: str, stops: str) -> None:
    assert decode(BEGIN + text(0, "x") + stop(0) + end(word))[0].stop_reason == stops
    assert decode(plain([{"text": "x"}], word))[0].stop_reason == stops


def test_a_refusal_runs_nothing() -> None:
    frames = BEGIN + text(0, "No.") + stop(0) + start(1, "add") + piece(1, '{"a": 1}') + stop(1)
    reply, _ = decode(frames + end("guardrail_intervened"))
    assert reply.message.content == (Text("No."),)


def test_what_the_model_wrote_badly_is_tried_again() -> None:
    for word in ("malformed_model_output", "malformed_tool_use"):
        with pytest.raises(BadReply) as caught:
            decode(BEGIN + end(word))
        assert caught.value.transient and caught.value.code == word
    with pytest.raises(ContextOverflow):
        decode(BEGIN + end("model_context_window_exceeded"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("throttlingException", RateLimited),
        ("modelStreamErrorException", ServerError),
        ("internalServerException", ServerError),
        ("serviceUnavailableException", Overloaded),
        ("validationException", BadRequest),
        ("exceptionOfTomorrow", ServerError),
    ],
)
def test_an_exception_frame(name: str, kind: type[ModelError]) -> None:
    words = json.dumps({"message": "so it is"}).encode()
    failed = encode_frame(words, exception_type=name, content_type="a", message_type="exception")
    with pytest.raises(kind, match="so it is") as caught:
        decode(BEGIN + text(0, "x") + failed)
    assert type(caught.value) is kind and caught.value.code == name
    reply, _ = decode(BEGIN + text(0, "x") + event("messageStop", stopReason="end_turn") + failed)
    assert reply.message.text == "x"  # all of the answer was here
    bare = encode_frame(b"", error_code="500", error_message="it broke", message_type="error")
    with pytest.raises(ServerError, match="it broke"):
        decode(BEGIN + bare)


def test_a_long_prompt_told_in_the_stream() -> None:
    words = json.dumps({"message": "Input is too long for requested model."}).encode()
    failed = encode_frame(words, exception_type="validationException", message_type="exception")
    with pytest.raises(ContextOverflow):
        decode(BEGIN + failed)


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (400, "ValidationException", BadRequest),
        (400, "ServiceQuotaExceededException", QuotaExceeded),
        (403, "AccessDeniedException", AuthFailed),
        (404, "ResourceNotFoundException", BadRequest),
        (408, "ModelTimeoutException", ServerError),
        (424, "ModelErrorException", ServerError),
        (429, "ThrottlingException", RateLimited),
        (429, "ModelNotReadyException", Overloaded),
        (500, "InternalServerException", ServerError),
        (503, "ServiceUnavailableException", Overloaded),
    ],
)
def test_errors_by_their_header(status: int, name: str, kind: type[ModelError]) -> None:
    headers = {
        "x-amzn-errortype": f"{name}:http://internal.amazon.com/coral/com.amazon.bedrock/",
        "x-amzn-requestid": "r-1",
    }
    error = from_http(status, headers, b'{"message": "no."}', MODEL._source())
    assert type(error) is kind
    assert (error.code, error.request_id) == (name, "r-1")
    body = json.dumps({"__type": f"com.amazon.coral#{name}", "message": "no."}).encode()
    assert type(from_http(status, {}, body, MODEL._source())) is kind


def test_text_with_sources_is_text() -> None:
    cited = {"citationsContent": {"content": [{"text": "As "}, {"text": "said."}], "citations": []}}
    assert decode(plain([cited]))[0].message.content == (Text("As said."),)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
EVENTS = ["contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"]
KEYS = [
    "start",
    "delta",
    "toolUse",
    "reasoningContent",
    "text",
    "toolResult",
    "stopReason",
    "usage",
]


@given(JSON, st.sampled_from(EVENTS), st.lists(st.sampled_from(KEYS), max_size=3))
def test_any_value_anywhere_is_a_reply_or_an_error(value: Any, name: str, path: list[str]) -> None:
    for key in path:
        value = {key: value}
    data = value if isinstance(value, dict) else {"contentBlockIndex": value}
    odd = encode_frame(json.dumps(data).encode(), event_type=name, message_type="event")
    for raw in (BEGIN + odd + end("end_turn"), plain([data])):
        try:
            reply, _ = decode(raw)
        except ModelError:
            continue
        assert isinstance(reply, Response)


@pytest.mark.parametrize("raw", [b"", b"null", b"{}", b"<html>no</html>", b"\x00\x00", b"{"])
def test_what_is_no_reply(raw: bytes) -> None:
    with pytest.raises((BadReply, StreamBroken)):
        decode(raw)


# --------------------------------------------------------------------------- recorded exchanges

FOLDER = Path(os.environ.get("WINDLASS_WIRE_DIR", ""))
recorded = pytest.mark.skipif("WINDLASS_WIRE_DIR" not in os.environ, reason="no WINDLASS_WIRE_DIR")


def exchanges() -> list[dict[str, Any]]:
    index = json.loads((FOLDER / "index.json").read_text())["exchanges"]
    found = [entry for entry in index if entry["endpoint"] in ("converse", "converse-stream")]
    return [
        {**entry, **json.loads((FOLDER / entry["file"]).read_text()), **entry} for entry in found
    ]


def body_of(entry: dict[str, Any]) -> bytes:
    reply = entry["response"]
    if reply["body_kind"] == "base64":
        return base64.b64decode(reply["body"])
    return (
        reply["body"].encode()
        if reply["body_kind"] == "text"
        else json.dumps(reply["body"]).encode()
    )


def model_for(entry: dict[str, Any]) -> BedrockConverse:
    return BedrockConverse(entry["model"].replace("%3A", ":"), api_key="k", region="us-east-1")


@recorded
def test_recorded_exchanges_decode_to_what_they_were() -> None:
    stops = {"guardrail_intervened": "refusal"}
    for entry in exchanges():
        raw, reply, expected = body_of(entry), entry["response"], entry["expected"]
        model = model_for(entry)
        if reply["status"] != 200:
            error = from_http(reply["status"], reply["headers"], raw, model._source())
            assert (type(error), expected["finish"]) == (BadRequest, "http_error")
            continue
        whole, told = decode(raw, model=model)
        # the index counts tools that the provider ran itself; they are not ours to run
        native = [
            b.data["toolUse"] for b in whole.message.content if "toolUse" in getattr(b, "data", {})
        ]
        calls = [{"name": one["name"], "arguments": one["input"]} for one in native]
        calls += [{"name": c.name, "arguments": c.arguments} for c in whole.message.tool_calls]
        assert calls == expected["tool_calls"], entry["file"]
        assert all(one["type"] == "server_tool_use" for one in native)
        assert whole.stop_reason == stops.get(expected["finish"], expected["finish"])
        assert whole.usage.output_tokens > 0
        assert [t.call for t in told if isinstance(t, ToolCallReady)] == [*whole.message.tool_calls]
        assert "".join(t.text for t in told if isinstance(t, TextDelta)) == whole.message.text
        assert decode(*[raw[i : i + 1] for i in range(len(raw))], model=model) == (whole, told)
        if entry["stream"]:
            cut_at_every_frame(raw, model, whole)


def cut_at_every_frame(raw: bytes, model: BedrockConverse, whole: Response) -> None:
    at, ends = 0, []
    while at < len(raw):
        at += int.from_bytes(raw[at : at + 4])
        ends.append(at)
    for number, place in enumerate(ends[:-1]):
        for cut in (place, place - 1, place + 5):
            if number == len(ends) - 2 and cut >= place:  # after messageStop, before metadata
                assert decode(raw[:cut], model=model)[0].message == whole.message
                continue
            with pytest.raises(StreamBroken):
                decode(raw[:cut], model=model)


@recorded
def test_recorded_turns_go_back_as_the_next_request_sent_them() -> None:
    chains: dict[str, list[dict[str, Any]]] = {}
    for entry in exchanges():
        chains.setdefault(entry["chain"], []).append(entry)
    compared = 0
    for steps in chains.values():
        steps.sort(key=lambda entry: entry["chain_step"])
        for before, after in zip(steps, steps[1:], strict=False):
            model = model_for(before)
            reply, _ = decode(body_of(before), model=model)
            sent = json.loads(
                b"".join(model.encode(Request([Message("user", "q"), reply.message])))
            )
            [_, ours] = sent["messages"]
            turns = [m for m in after["request"]["body"]["messages"] if m["role"] == "assistant"]
            # their client leaves out the type of a call that is an ordinary one; we echo it
            for block in ours["content"]:
                if block.get("toolUse", {}).get("type") == "tool_use":
                    del block["toolUse"]["type"]
            assert ours == turns[-1]
            compared += 1
    assert compared == 2
