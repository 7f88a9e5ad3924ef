"""Replies that no provider should send: a right answer or a typed error, never anything else."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.errors import ModelError
from windlass.models.base import Request, Response
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.base import HttpModel
from windlass.models.wires.bedrock.model import BedrockConverse
from windlass.models.wires.ollama.model import OllamaChat
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.testing.providers.bedrock import encode_frame

WIRES = [
    AnthropicMessages("claude-test", api_key="k"),
    OpenAIChat("gpt-test", api_key="k"),
    OllamaChat("qwen-test"),
    BedrockConverse("nova-test", api_key="k", region="r"),
]

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
words = st.sampled_from(
    [
        "type",
        "index",
        "delta",
        "content_block",
        "message",
        "usage",
        "text",
        "text_delta",
        "tool_use",
        "input_json_delta",
        "partial_json",
        "content_block_start",
        "content_block_delta",
        "id",
        "name",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "stop_reason",
        "max_tokens",
        "input",
        "choices",
        "finish_reason",
        "content",
        "tool_calls",
        "function",
        "arguments",
        "reasoning",
        "reasoning_details",
        "refusal",
        "error",
        "code",
        "length",
        "citations_delta",
        "signature_delta",
        "thinking",
        "done",
        "done_reason",
        "eval_count",
        "output",
        "toolUse",
        "toolUseId",
        "toolResult",
        "reasoningContent",
        "reasoningText",
        "redactedContent",
        "stopReason",
        "citationsContent",
    ]
)
shaped: st.SearchStrategy[Any] = st.recursive(
    values | words | st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=6),
    max_leaves=25,
)


def decode(model: HttpModel, raw: bytes) -> Response | ModelError:
    decoder = model.decoder(Request([]), lambda event: None)
    try:
        decoder.feed(raw)
        response = decoder.finish()
    except ModelError as error:
        return error
    msgspec.json.encode(response.message)  # a journal can carry it
    json.loads(b"".join(model.encode(Request([response.message]))))  # and it can be sent back
    return response


@pytest.mark.parametrize("model", WIRES, ids=lambda model: model.wire)
@settings(max_examples=150)
@given(
    events=st.lists(shaped, max_size=5),
    name=words,
    kind=st.sampled_from(["contentBlockStart", "contentBlockDelta", "contentBlockStop"]),
    plain=st.booleans(),
)
def test_made_up_events(
    model: HttpModel, events: list[Any], name: str, kind: str, plain: bool
) -> None:
    if plain:
        raw = json.dumps(events[0] if events else {}).encode()
    elif model.wire == "ollama":
        raw = b"".join(json.dumps(e).encode() + b"\n" for e in [*events, {"done": True}])
    elif model.wire == "bedrock":
        frames = [(name if at else kind, e) for at, e in enumerate(events)]
        frames.append(("messageStop", {"stopReason": "tool_use"}))
        raw = b"".join(encode_frame(json.dumps(e).encode(), event_type=of) for of, e in frames)
    else:
        raw = b"".join(f"event: {name}\ndata: {json.dumps(e)}\n\n".encode() for e in events)
        raw += b'data: {"type":"message_stop"}\n\ndata: [DONE]\n\n'
    decode(model, raw)


@pytest.mark.parametrize("model", WIRES, ids=lambda model: model.wire)
@settings(max_examples=150)
@given(raw=st.binary(max_size=60), start=st.sampled_from([b"", b"data: ", b"{", b"event: error\n"]))
def test_bytes_of_no_meaning(model: HttpModel, raw: bytes, start: bytes) -> None:
    decode(model, start + raw)


def test_half_a_character() -> None:
    half = json.dumps(
        {
            "choices": [
                {
                    "message": {
                        "content": "a\ud83d",
                        "tool_calls": [
                            {
                                "id": "\ud800",
                                "function": {"name": "f", "arguments": '{"x": "\\ud83d"}'},
                            }
                        ],
                    }
                }
            ]
        }
    )
    response = decode(WIRES[1], half.encode())
    assert isinstance(response, Response) and response.message.text == "a\ufffd"
    whole = json.dumps({"choices": [{"message": {"content": "😀"}}]})
    assert "\\ud83d\\ude00" in whole
    response = decode(WIRES[1], whole.encode())
    assert isinstance(response, Response) and response.message.text == "😀"


@pytest.mark.parametrize("model", WIRES, ids=lambda model: model.wire)
def test_ten_megabytes_and_a_hundred_thousand_brackets(model: HttpModel) -> None:
    long = "x" * 10_000_000
    deep = "[" * 100_000 + "]" * 100_000
    for text in (long, deep, json.dumps({"a": long})):
        plain = {
            "content": [{"type": "tool_use", "id": "a", "name": "f", "input": text}],
            "choices": [
                {
                    "message": {
                        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": text}}]
                    }
                }
            ],
            "message": {"tool_calls": [{"function": {"name": "f", "arguments": text}}]},
            "done": True,
            "output": {"message": {"content": [{"toolUse": {"name": "f", "input": text}}]}},
        }
        response = decode(model, json.dumps(plain).encode())
        assert isinstance(response, Response)
        (call,) = response.message.tool_calls
        assert call.raw == text or call.arguments == {"a": long}
    names = ("content", "choices", "message", "output")
    nested = "{" + ", ".join(f'"{name}": {deep}' for name in names) + "}"
    assert isinstance(decode(model, nested.encode()), ModelError)
