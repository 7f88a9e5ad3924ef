"""Text that goes on, on a server that nobody here wrote: llama.cpp's `/v1/completions` and `/infill`."""

from __future__ import annotations

import pytest

from windlass.events import TextDelta
from windlass.models.base import Completion, Settings
from windlass.models.registry.capabilities import Capabilities
from windlass.models.wires.openai.chat import OpenAIChat

pytestmark = pytest.mark.deep


def model_of(llama: str, way: str) -> OpenAIChat:
    model = OpenAIChat("tiny", base_url=f"{llama}/v1", api_key="none", provider="local")
    model.caps = Capabilities(known=True, completes=way)
    return model


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
async def test_text_goes_on(llama, stream):
    told = []
    settings = Settings(max_tokens=12, seed=3, temperature=0.0, stream=stream)
    reply = await model_of(llama, "completions").complete(
        Completion("let total = ", settings=settings), told.append
    )
    assert reply is not None and reply.stop_reason in ("max_tokens", "end_turn")
    assert reply.usage.input_tokens > 0 and 0 < reply.usage.output_tokens <= 12
    assert "".join(e.text for e in told if isinstance(e, TextDelta)) == reply.text


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
async def test_a_gap_is_filled(llama, stream):
    told = []
    settings = Settings(max_tokens=12, seed=3, temperature=0.0, stream=stream)
    asked = Completion("let total = ", ";", settings=settings)
    reply = await model_of(llama, "infill").complete(asked, told.append)
    assert reply is not None and reply.stop_reason in ("max_tokens", "end_turn")
    assert reply.usage.input_tokens > 0 and 0 < reply.usage.output_tokens <= 12
    assert "".join(e.text for e in told if isinstance(e, TextDelta)) == reply.text
