"""What was sent before is the beginning of what is sent next: Gemini, Vertex and Ollama."""

from __future__ import annotations

import os.path

import pytest

from windlass.messages import Image, Message, Text, Thinking, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Settings, Strand
from windlass.models.wires.base import HttpModel
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.models.wires.gemini.vertex import VertexGenerate
from windlass.models.wires.ollama.model import OllamaChat

MODELS = {
    "gemini": GeminiGenerate("gemini-3-flash-preview", api_key="k"),
    "gemini-2.5": GeminiGenerate("gemini-2.5-flash", api_key="k"),
    "vertex": VertexGenerate("gemini-3-flash-preview", token="t", project="p"),
    "ollama": OllamaChat("qwen3"),
}
FORM = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"const": 1}}}
SYSTEM = "You are a clerk. " * 20
TOOLS = tuple(ToolSpec(f"tool.{n}", "A tool. " * 5, FORM) for n in range(8))


def shared(before: bytes, sent: bytes) -> int:
    """How many bytes both begin with; most often that is all but the two that close a request."""
    if sent.startswith(before[:-2]):
        return len(before) - 2
    return len(os.path.commonprefix([before, sent]))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("thinking", [True, False])
def test_over_a_hundred_turns(name: str, thinking: bool) -> None:
    model: HttpModel = MODELS[name]
    settings = Settings(max_tokens=4096, thinking=thinking, temperature=0.2)
    frame = Frame(SYSTEM, TOOLS, settings)
    strand, before, worst = Strand(), b"", 1.0
    for turn in range(100):
        strand.items.append(Message("user", (Text(f"Question {turn} – ü?"), Image("aGk="))))
        for last in (False, True):
            sent = b"".join(model.encode(Request(strand.snapshot(), frame)))
            if before:
                worst = min(worst, shared(before, sent) / len(before))
            before = sent
            thought = Thinking("hm", None, model._origin)
            if last:
                strand.items.append(Message("assistant", (thought, Text(f"Answer {turn}."))))
                continue
            calls = [ToolCall(f"c{turn}{n}", f"tool.{n}", {"a": turn}) for n in range(2)]
            strand.items.append(Message("assistant", (thought, *calls)))
            results = [ToolResult(call.id, '{"found": 1}', name=call.name) for call in calls]
            strand.items.append(Message("tool", tuple(results)))
    assert worst >= 0.99, f"only {worst:.1%} of a request began the next one"
