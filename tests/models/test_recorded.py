"""Recorded exchanges with real providers decode to what they were: whole, in bytes, cut anywhere.

`WINDLASS_WIRE_DIR` names the folder; they are not part of the project.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from windlass.errors import ModelError, StreamBroken
from windlass.events import TextDelta, ToolCallReady
from windlass.models.base import Request, Response
from windlass.models.transport.errors import from_http
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.base import HttpModel
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.models.wires.gemini.vertex import VertexGenerate
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses

FOLDER = os.environ.get("WINDLASS_WIRE_DIR")
if FOLDER is None:
    reason = "WINDLASS_WIRE_DIR is not set: recorded exchanges are not replayed"
    pytest.skip(reason, allow_module_level=True)
SHAPES = (
    "anthropic-messages",
    "chat-completions",
    "cerebras-completions",
    "ollama-openai-compat",
    "openai-responses",
    "generatecontent",
)
BLANK = re.compile(rb"\r?\n\r?\n")
FINISH = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "": "tool_use",
    "completed": "end_turn",
    None: "end_turn",
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "SAFETY": "refusal",
}


def exchanges() -> list[Any]:
    index = json.loads((Path(FOLDER or "") / "index.json").read_text())
    return [
        pytest.param(entry, id=entry["file"].removesuffix(".json"))
        for entry in index["exchanges"]
        if any(shape in entry["file"] for shape in SHAPES)
    ]


def model_for(entry: dict[str, Any]) -> HttpModel:
    if entry["provider"] == "anthropic":
        return AnthropicMessages(entry["model"], api_key="k")
    if entry["endpoint"].startswith("responses"):
        return OpenAIResponses(entry["model"], api_key="k")
    if entry["provider"] == "gemini":
        return GeminiGenerate(entry["model"], api_key="k")
    if entry["provider"] == "vertex":
        return VertexGenerate(entry["model"], token="k", project="p")
    known = ("groq", "openrouter", "deepseek", "mistral", "openai", "huggingface", "azure")
    provider = entry["provider"].removesuffix("-openai")
    provider = provider if provider in known else "elsewhere"
    return OpenAIChat(entry["model"], provider=provider, base_url="http://localhost/v1")


def body_of(entry: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    reply = json.loads((Path(FOLDER or "") / entry["file"]).read_text())["response"]
    body = reply["body"]
    return reply, body.encode() if reply["body_kind"] == "text" else json.dumps(body).encode()


def decode(entry: dict[str, Any], chunks: list[bytes]) -> tuple[Response | ModelError, list[Any]]:
    told: list[Any] = []
    decoder = model_for(entry).decoder(Request([]), told.append)
    try:
        for chunk in chunks:
            decoder.feed(chunk)
        return decoder.finish(), told
    except ModelError as error:
        return error, told


def content(response: Response) -> Any:
    """The reply without ids that are made up anew each time."""
    return [
        (block.name, block.arguments, block.raw) if hasattr(block, "arguments") else block
        for block in response.message.content
    ], response.stop_reason


@pytest.mark.parametrize("entry", exchanges())
def test_whole_and_byte_by_byte(entry: dict[str, Any]) -> None:
    reply, raw = body_of(entry)
    expected = entry["expected"]
    if reply["status"] != 200:
        error = from_http(reply["status"], reply["headers"], raw, model_for(entry)._source())
        assert expected["finish"] == "http_error"
        assert str(error) and error.http_status == reply["status"]
        return
    whole, told = decode(entry, [raw])
    if expected["error_in_stream"]:
        assert isinstance(whole, ModelError) and not any(isinstance(t, ToolCallReady) for t in told)
        return
    assert isinstance(whole, Response), whole
    calls = [{"name": c.name, "arguments": c.arguments} for c in whole.message.tool_calls]
    assert calls == expected["tool_calls"]
    assert [t.call for t in told if isinstance(t, ToolCallReady)] == [*whole.message.tool_calls]
    assert "".join(t.text for t in told if isinstance(t, TextDelta)) == whole.message.text
    finish = expected["finish"]
    assert whole.stop_reason == ("tool_use" if calls else FINISH.get(finish, finish))
    if "cache_read" in entry["features"]:
        assert 0 < whole.usage.cache_read_tokens <= whole.usage.input_tokens
    again, told_again = decode(entry, [raw[i : i + 1] for i in range(len(raw))])
    assert isinstance(again, Response)
    assert content(again) == content(whole) and len(told_again) == len(told)
    assert again.usage == whole.usage


@pytest.mark.parametrize("entry", exchanges())
def test_cut_after_every_event(entry: dict[str, Any]) -> None:
    reply, raw = body_of(entry)
    if not entry["stream"] or reply["status"] != 200:
        raw = raw.replace(b", ", b",\n\n") if reply["status"] == 200 else b""
    whole, _ = decode(entry, [raw])
    places = [blank.end() for blank in BLANK.finditer(raw)]
    for place in places:
        for end in (place, place - 1, place - 20):
            result, told = decode(entry, [raw[: max(0, end)]])
            if isinstance(result, ModelError):
                continue  # typed: the loop tries again, or ends with it
            assert isinstance(whole, Response) or entry["expected"]["error_in_stream"]
            if isinstance(whole, Response):
                assert content(result) == content(whole)
            ready = [t.call for t in told if isinstance(t, ToolCallReady)]
            assert ready == [*result.message.tool_calls]


@pytest.mark.parametrize("entry", exchanges())
def test_a_stream_without_its_end_is_broken(entry: dict[str, Any]) -> None:
    _, raw = body_of(entry)
    if entry["stream"] and raw.count(b"data:") > 1:  # Gemini's only event may be its last
        blank = BLANK.search(raw, raw.index(b"data:"))
        assert blank is not None
        result, _ = decode(entry, [raw[: blank.end()]])
        assert isinstance(result, StreamBroken)
