"""What comes back over Gemini's wire: every quirk as a small reply of our own."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
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
    Refused,
    StreamBroken,
)
from windlass.events import TextDelta, ThinkingDelta, ToolCallReady
from windlass.messages import Message, Opaque, Origin, Text, Thinking, ToolCall, ToolSpec
from windlass.models.base import Frame, Request, Response
from windlass.models.transport.errors import from_http
from windlass.models.wires.gemini.model import GeminiGenerate, wire_name
from windlass.usage import Usage

MODEL = GeminiGenerate("gemini-2.5-flash", api_key="k")
HERE = Origin("gemini", "gemini-2.5-flash")
SIGNED = "Eq+/AB=="


def chunk(*parts: dict[str, Any], finish: Any = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-x", "responseId": "r1", **more}


def call(name: str, args: Any = None, **beside: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {} if args is None else args}, **beside}


def stream(*chunks: dict[str, Any]) -> bytes:
    return b"".join(f"data: {json.dumps(each)}\r\n\r\n".encode() for each in chunks)


def run(raw: bytes, frame: Frame | None = None) -> tuple[Response, list[Any]]:
    told: list[Any] = []
    decoder = MODEL.decoder(Request([], frame or Frame()), told.append)
    decoder.feed(raw)
    return decoder.finish(), told


def plain(body: dict[str, Any]) -> tuple[Response, list[Any]]:
    return run(json.dumps(body).encode())


def sent(message: Message, model: GeminiGenerate = MODEL) -> list[dict[str, Any]]:
    body = b"".join(model.encode(Request([Message("user", "x"), message])))
    contents = json.loads(body)["contents"][1:]
    assert all(content["role"] == "model" for content in contents)
    return [part for content in contents for part in content["parts"]]


# --------------------------------------------------------------------------- words and thoughts


def test_text_is_told_as_it_comes() -> None:
    response, told = run(stream(chunk({"text": "Hel"}), chunk({"text": "lo"}, finish="STOP")))
    assert response.message == Message("assistant", "Hello")
    assert told == [TextDelta("Hel"), TextDelta("lo")]
    assert (response.stop_reason, response.model, response.native_id) == (
        "end_turn",
        "gemini-x",
        "r1",
    )


def test_a_stream_ends_with_its_finish_reason_and_with_nothing_else() -> None:
    raw = stream(chunk({"text": "a"}), chunk(call("f", {"x": 1})), chunk({"text": ""}, finish=1))
    ends = [i + 4 for i in range(len(raw)) if raw.startswith(b"\r\n\r\n", i)]
    for end in ends[:-1]:
        with pytest.raises(StreamBroken):
            run(raw[:end])
    assert run(raw)[0].stop_reason == "tool_use"
    # what counts the tokens may come after it
    late = raw + stream({"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2}})
    assert run(late)[0].usage == Usage(9, 2)


def test_thoughts_and_their_signatures_go_back_to_the_letter() -> None:
    raw = stream(
        chunk({"text": "Let me ", "thought": True}),
        chunk({"text": "see.", "thought": True}),
        chunk({"text": "So.", "thought": True, "thoughtSignature": SIGNED}),
        chunk({"text": "Hi "}),
        chunk({"text": "you"}),
        chunk({"text": "", "thoughtSignature": "Zz=="}, finish="STOP"),
    )
    response, told = run(raw)
    assert told == [
        ThinkingDelta("Let me "),
        ThinkingDelta("see."),
        ThinkingDelta("So."),
        TextDelta("Hi "),
        TextDelta("you"),
    ]
    assert response.message.content == (
        Thinking("Let me see.", None, HERE),
        Thinking("So.", {"thoughtSignature": SIGNED}, HERE),
        Text("Hi you"),
        Opaque(HERE, {"text": "", "thoughtSignature": "Zz=="}),
    )
    assert sent(response.message) == [
        {"text": "Let me see.", "thought": True},
        {"text": "So.", "thought": True, "thoughtSignature": SIGNED},
        {"text": "Hi you"},
        {"text": "", "thoughtSignature": "Zz=="},
    ]
    other = GeminiGenerate("gemini-2.5-pro", api_key="k")
    assert sent(response.message, other) == [{"text": "Hi you"}]


def test_a_signed_text_is_not_joined_with_its_neighbours() -> None:
    raw = stream(
        chunk({"text": "a"}),
        chunk({"text": "b", "thoughtSignature": SIGNED}),
        chunk({"text": "c"}, finish="STOP"),
    )
    for response in (
        run(raw)[0],
        plain(
            chunk(
                {"text": "a"},
                {"text": "b", "thoughtSignature": SIGNED},
                {"text": "c"},
                finish="STOP",
            )
        )[0],
    ):
        assert response.message.text == "abc"
        assert sent(response.message) == [
            {"text": "a"},
            {"text": "b", "thoughtSignature": SIGNED},
            {"text": "c"},
        ]
    # without the words it belonged to, the signature stands alone
    lonely = Message("assistant", response.message.content[2:])
    assert sent(lonely) == [{"text": "", "thoughtSignature": SIGNED}, {"text": "c"}]


def test_parts_only_gemini_understands_go_back_as_they_came() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": SIGNED}
    novel = {"hologram": {"shape": [1.5, None]}}
    raw = stream(chunk(code), chunk({"text": "one"}), chunk(novel), chunk(finish="STOP"))
    response, told = run(raw)
    assert told == [TextDelta("one")]
    assert sent(response.message) == [code, {"text": "one"}, novel]


# --------------------------------------------------------------------------- calls


def test_parallel_calls_without_ids_are_told_when_they_come() -> None:
    told: list[Any] = []
    decoder = MODEL.decoder(Request([]), told.append)
    decoder.feed(stream(chunk(call("f", {"x": 1}, thoughtSignature=SIGNED), call("f", {"x": 2}))))
    assert [event.call.arguments for event in told] == [{"x": 1}, {"x": 2}]
    decoder.feed(stream(chunk({"text": ""}, finish="STOP")))
    response = decoder.finish()
    first, second = response.message.tool_calls
    assert response.stop_reason == "tool_use"
    assert first.id and second.id and first.id != second.id
    assert [event.call for event in told] == [first, second]
    parts = sent(response.message)
    assert parts[0]["thoughtSignature"] == SIGNED and "thoughtSignature" not in parts[1]
    assert [part["functionCall"]["args"] for part in parts] == [{"x": 1}, {"x": 2}]
    assert [part["functionCall"]["id"] for part in parts] == [first.id, second.id]


def test_an_id_that_was_given_is_kept() -> None:
    body = chunk({"functionCall": {"name": "f", "args": {}, "id": "x8i0"}}, finish="STOP")
    response, told = plain(body)
    assert response.message.tool_calls == (ToolCall("x8i0", "f", {}),)
    assert told == [ToolCallReady(response.message.tool_calls[0])]


@pytest.mark.parametrize(
    "function",
    [
        {"name": "f"},
        {"name": "f", "args": None},
        {"name": "f", "args": {}},
        {"name": "f", "args": "{}"},
    ],
)
def test_a_call_without_arguments(function: dict[str, Any]) -> None:
    whole = chunk({"functionCall": function}, finish="STOP")
    parts = [chunk({"functionCall": function}), chunk({"text": ""}, finish="STOP")]
    for response, told in (plain(whole), run(stream(whole)), run(stream(*parts))):
        (made,) = response.message.tool_calls
        assert (made.name, made.arguments, made.raw) == ("f", {}, None)
        assert told == [ToolCallReady(made)]


def test_a_last_call_without_arguments_is_held_until_it_is_known_to_be_whole() -> None:
    told: list[Any] = []
    decoder = MODEL.decoder(Request([]), told.append)
    decoder.feed(stream(chunk(call("f"))))
    assert told == []
    decoder.feed(stream(chunk({"text": ""}, finish="MAX_TOKENS")))
    response = decoder.finish()
    assert told == [] and response.stop_reason == "max_tokens"
    assert response.message.tool_calls[0].raw == ""
    response, told = run(stream(chunk(call("f")), chunk(call("g", {"x": 1}), finish="MAX_TOKENS")))
    assert [event.call.name for event in told] == ["f", "g"]
    assert response.stop_reason == "tool_use"


def test_arguments_in_pieces_are_no_call() -> None:
    part = {"functionCall": {"name": "f", "willContinue": True}}
    with pytest.raises(BadReply, match="streamFunctionCallArguments"):
        run(stream(chunk(part)))


def test_a_tool_under_another_name_comes_back_under_its_own() -> None:
    tools = tuple(ToolSpec(name, "", {"type": "object"}) for name in ("1st.tool", "a b"))
    names = [wire_name(tool.name) for tool in tools]
    assert names[0][0].isalpha() and names[0] != wire_name("fn_1st.tool")
    raw = stream(chunk(*(call(name, {"x": 1}) for name in names), finish="STOP"))
    response, _ = run(raw, Frame(tools=tools))
    assert [made.name for made in response.message.tool_calls] == ["1st.tool", "a b"]


# --------------------------------------------------------------------------- how it ends


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("STOP", "end_turn"),
        (1, "end_turn"),
        (2, "max_tokens"),
        ("MAX_TOKENS", "max_tokens"),
        ("SAFETY", "refusal"),
        (3, "refusal"),
        ("RECITATION", "refusal"),
        ("MODEL_ARMOR", "refusal"),
        ("PROHIBITED_CONTENT", "refusal"),
        (8, "refusal"),
        ("OTHER", "unknown"),
        (999, "unknown"),
        ("SOMETHING_NEW", "unknown"),
        (-1, "unknown"),
    ],
)
def test_finish_reasons_in_words_and_numbers(finish: Any, stop: str) -> None:
    assert plain(chunk({"text": "a"}, finish=finish))[0].stop_reason == stop
    assert run(stream(chunk({"text": "a"}, finish=finish)))[0].stop_reason == stop


@pytest.mark.parametrize("finish", ["STOP", 1, "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", None])
def test_calls_decide_whatever_the_finish_reason_says(finish: Any) -> None:
    response, _ = plain(chunk(call("f", {"x": 1}), finish=finish))
    assert response.stop_reason == "tool_use"


def test_calls_in_a_refusal_are_dropped() -> None:
    response, _ = plain(chunk({"text": "a"}, call("f", {"x": 1}), finish="SAFETY"))
    assert response.stop_reason == "refusal" and response.message.tool_calls == ()


@pytest.mark.parametrize(
    "candidate",
    [
        {},
        {"content": {}},
        {"content": {"role": "model"}},
        {"content": None},
        {"content": []},
        {"content": {"parts": None}},
        {"content": {"parts": [None, "x", {}]}},
    ],
)
def test_candidates_without_content_or_parts(candidate: dict[str, Any]) -> None:
    usage = {"promptTokenCount": 15, "thoughtsTokenCount": 2, "totalTokenCount": 17}
    body = {
        "candidates": [{**candidate, "finishReason": "MAX_TOKENS"}],
        "usageMetadata": usage,
    }
    for response in (plain(body)[0], run(stream(body))[0]):
        assert response.message == Message("assistant") and response.stop_reason == "max_tokens"
        assert response.usage == Usage(15, 2, reasoning_tokens=2)


@pytest.mark.parametrize("finish", ["MALFORMED_FUNCTION_CALL", 9, "UNEXPECTED_TOOL_CALL"])
def test_a_call_nobody_could_read_is_a_bad_reply(finish: Any) -> None:
    body = chunk({"text": "I will"}, finish=finish)
    body["candidates"][0]["finishMessage"] = "Malformed function call: print(f("
    with pytest.raises(BadReply, match="print"):
        run(stream(body))


def test_a_missing_signature_will_not_come_by_asking_again() -> None:
    with pytest.raises(BadRequest):
        plain(chunk(finish="MISSING_THOUGHT_SIGNATURE"))


@pytest.mark.parametrize("reason", ["PROHIBITED_CONTENT", "SAFETY", 1])
def test_a_blocked_prompt_is_refused(reason: Any) -> None:
    body = {"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 4}}
    for raw in (json.dumps(body).encode(), stream(body)):
        with pytest.raises(Refused, match="blocked") as caught:
            run(raw)
        assert caught.value.code == str(reason) and not caught.value.transient
    harmless = {**chunk({"text": "a"}, finish="STOP"), "promptFeedback": {"safetyRatings": []}}
    assert plain(harmless)[0].message.text == "a"


def test_a_reply_without_candidates_is_a_bad_one() -> None:
    for raw in (b"{}", b'{"candidates": []}', b'{"usageMetadata": {"promptTokenCount": 4}}'):
        with pytest.raises(BadReply, match="no candidate"):
            run(raw)
    with pytest.raises(StreamBroken):
        run(stream({"usageMetadata": {"promptTokenCount": 4}}))


def test_only_the_first_candidate_is_the_answer() -> None:
    body = chunk({"text": "a"}, finish="STOP")
    body["candidates"].append({"content": {"parts": [{"text": "b"}]}, "index": 1})
    assert plain(body)[0].message.text == "a"


# --------------------------------------------------------------------------- tokens and errors


def test_usage_is_the_last_word_not_a_sum() -> None:
    first = {
        "promptTokenCount": 15,
        "candidatesTokenCount": 14,
        "thoughtsTokenCount": 742,
        "cachedContentTokenCount": 4,
    }
    last = {**first, "candidatesTokenCount": 37, "toolUsePromptTokenCount": 770}
    last.pop("cachedContentTokenCount")
    raw = stream(
        chunk({"text": "a"}, usageMetadata=first),
        chunk({"text": "b"}, finish="STOP", usageMetadata=last),
    )
    assert run(raw)[0].usage == Usage(785, 779, 4, 0, 742)
    assert run(stream(chunk({"text": "a"}, finish="STOP")))[0].usage == Usage()


def google(status: int, message: str, word: str, *details: Any) -> ModelError:
    error = {"code": status, "message": message, "status": word, "details": list(details)}
    body = json.dumps({"error": error}).encode()
    return from_http(status, {}, body, MODEL._source())


def test_what_googles_errors_mean() -> None:
    bad_key = google(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT")
    assert type(bad_key) is AuthFailed and "GEMINI_API_KEY" in str(bad_key)
    quota = "You exceeded your current quota, please check your plan and billing details."
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    limited = google(429, quota, "RESOURCE_EXHAUSTED", {"@type": "x"}, wait)
    assert type(limited) is RateLimited and limited.retry_after == 34.5
    assert limited.code == "RESOURCE_EXHAUSTED"
    assert type(google(429, quota, "RESOURCE_EXHAUSTED")) is QuotaExceeded
    long = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
    assert type(google(400, long, "INVALID_ARGUMENT")) is ContextOverflow
    assert type(google(503, "The model is overloaded.", "UNAVAILABLE")) is Overloaded
    assert type(google(400, "No.", "INVALID_ARGUMENT")) is BadRequest
    leaked = google(403, f"key AIza{'x' * 35} is blocked", "PERMISSION_DENIED")
    assert "AIza" not in str(leaked)


def test_an_error_inside_a_stream() -> None:
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    with pytest.raises(Overloaded) as caught:
        run(stream(chunk({"text": "a"}), error))
    assert caught.value.code == "UNAVAILABLE"


# --------------------------------------------------------------------------- anything at all

words = st.sampled_from(
    [
        "candidates",
        "content",
        "parts",
        "text",
        "thought",
        "thoughtSignature",
        "functionCall",
        "name",
        "args",
        "id",
        "finishReason",
        "STOP",
        "MAX_TOKENS",
        "SAFETY",
        "index",
        "error",
        "usageMetadata",
        "promptTokenCount",
        "promptFeedback",
        "blockReason",
        "executableCode",
        "beside",
    ]
)
values: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | words
)
shaped: st.SearchStrategy[Any] = st.recursive(
    values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=200)
@given(parts=st.lists(shaped, max_size=4), body=shaped, deep=st.booleans(), whole=st.booleans())
def test_made_up_replies(parts: list[Any], body: Any, deep: bool, whole: bool) -> None:
    made = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]} if deep else body
    raw = json.dumps(made).encode()
    decoder = MODEL.decoder(Request([]), lambda _event: None)
    try:
        decoder.feed(raw if whole else b"data: " + raw + b"\n\n")
        response = decoder.finish()
    except ModelError:
        return
    msgspec.json.encode(response.message)  # a journal can carry it
    json.loads(b"".join(MODEL.encode(Request([response.message]))))  # and it can be sent back
