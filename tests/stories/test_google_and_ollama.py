"""What a caller asks of Gemini, Vertex and Ollama through the public doors, as it arrives there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import windlass as w
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.models.wires.gemini.vertex import VertexGenerate
from windlass.models.wires.ollama.model import OllamaChat
from windlass.testing.providers import (
    FakeGemini,
    FakeOllama,
    FakeVertex,
    Reply,
)

pytestmark = pytest.mark.usefixtures("reachable")


class Place(msgspec.Struct):
    """A place."""

    city: str
    zip: int | None = None


async def test_ollamas_own_options_through_a_call_and_an_agent() -> None:
    async with FakeOllama("hi") as server:
        model = OllamaChat("qwen3", base_url=server.url)
        own: Any = {"num_ctx": 32768, "keep_alive": "30m"}
        await w.llm_call("q", model=model, ollama=own, temperature=0.5)
        await w.Agent(model, ollama=own, openai={"service_tier": "flex"}).run("q")
        with pytest.raises(w.ConfigError, match="num_ctx"):
            await w.llm_call("q", model=model, ollama={"num_ctxt": 1})
    first, second = (asked.json for asked in server.requests)
    assert first["options"]["num_ctx"] == second["options"]["num_ctx"] == 32768
    assert first["options"]["temperature"] == 0.5
    assert first["keep_alive"] == second["keep_alive"] == "30m"
    assert "service_tier" not in second


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_by_a_schema(stream: bool) -> None:
    answer = Reply('{"city": "Zürich", "zip": 8000}')
    async with FakeOllama(answer) as local, FakeGemini(answer) as google, FakeVertex(answer) as v:
        models = [
            OllamaChat("qwen3", base_url=local.url),
            GeminiGenerate("gemini-2.5-flash", api_key="k", base_url=google.url),
            VertexGenerate("gemini-3-flash-preview", token="k", base_url=v.url),
        ]
        for model in models:
            reply = await w.llm_call("Where?", model=model, schema=Place, stream=stream)
            assert reply.data in (Place("Zürich", 8000), {"city": "Zürich", "zip": 8000})
    for server in (local, google, v):
        assert not server.refused and len(server.requests) == 1
    assert local.requests[0].json["format"]["properties"].keys() == {"city", "zip"}
    for server in (google, v):
        config = server.requests[0].json["generationConfig"]
        assert config["responseMimeType"] == "application/json"
        assert "city" in str(config["responseJsonSchema"])


async def test_no_thinking_as_each_model_understands_it() -> None:
    async with FakeOllama("hi") as local, FakeGemini("hi") as google:
        for name in ("qwen3", "gpt-oss:20b"):
            await w.llm_call("q", model=OllamaChat(name, base_url=local.url), thinking=False)
        for name in ("gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-flash-preview"):
            model = GeminiGenerate(name, api_key="k", base_url=google.url)
            await w.llm_call("q", model=model, thinking={"mode": "disabled"})
    assert [asked.json.get("think") for asked in local.requests] == [False, "low"]
    configs = [asked.json["generationConfig"]["thinkingConfig"] for asked in google.requests]
    assert configs == [{"thinkingBudget": 0}, {"thinkingBudget": 128}, {"thinkingLevel": "MINIMAL"}]


@pytest.mark.parametrize("inserts", [True, False])
async def test_a_text_is_filled_in_or_asked_for_in_words(inserts: bool) -> None:
    async with FakeOllama("price * amount") as server:
        server.inserts = inserts
        model = OllamaChat("codellama", base_url=server.url)
        done = await w.llm_completion("let total = ", ";", model=model, ollama={"num_ctx": 4096})
    assert done.text == "price * amount"
    paths = [asked.path for asked in server.requests]
    assert paths == (["/api/generate"] if inserts else ["/api/generate", "/api/chat"])
    assert server.requests[0].json["options"]["num_ctx"] == 4096
