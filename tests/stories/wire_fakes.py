"""Every wire with its fake: what a conversation that moves from one to the next goes through."""

from __future__ import annotations

from typing import Any

from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.bedrock.model import BedrockConverse
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.models.wires.gemini.vertex import VertexGenerate
from windlass.models.wires.ollama.model import OllamaChat
from windlass.models.wires.openai.chat import OpenAIChat
from windlass.models.wires.openai.responses import OpenAIResponses
from windlass.testing.providers import (
    Asked,
    FakeAnthropic,
    FakeAzure,
    FakeBedrock,
    FakeGemini,
    FakeMistral,
    FakeOllama,
    FakeOpenAI,
    FakeResponses,
    FakeServer,
    FakeVertex,
    Rejected,
)


class FakeStrictOllama(FakeOllama):
    """Ollama takes any history; this one wants its calls answered in order, as its templates do."""

    def check(self, asked: Asked) -> None:
        super().check(asked)
        waiting: list[tuple[str, str]] = []
        for message in asked.json["messages"]:
            if message["role"] == "tool":
                answered = (message["tool_call_id"], message["tool_name"])
                if not waiting or answered != waiting.pop(0):
                    raise Rejected(f"a result that nobody asked for: {answered}")
            elif waiting:
                raise Rejected(f"calls without a result: {waiting}")
            for call in message.get("tool_calls", ()):
                waiting.append((call["id"], call["function"]["name"]))


def servers(script: Any) -> dict[str, tuple[FakeServer, Any]]:
    """Return for every wire its fake, and a function that builds a model for its URL."""
    router = FakeOpenAI(
        script, api_key="k", reasoning="reasoning_details", also=["reasoning", "cache_control"]
    )
    return {
        "anthropic": (
            FakeAnthropic(script, api_key="k"),
            lambda url: AnthropicMessages("claude-sonnet-4-5", api_key="k", base_url=url),
        ),
        "openai": (
            FakeOpenAI(script, api_key="k"),
            lambda url: OpenAIChat("gpt-4o", api_key="k", base_url=url),
        ),
        "gemini": (
            FakeGemini(script, api_key="k"),
            lambda url: GeminiGenerate("gemini-3-flash-preview", api_key="k", base_url=url),
        ),
        "bedrock": (
            FakeBedrock(script, api_key="k"),
            lambda url: BedrockConverse(
                "us.anthropic.claude-sonnet-4-5-v1:0", api_key="k", base_url=url
            ),
        ),
        "responses": (
            FakeResponses(script, api_key="k"),
            lambda url: OpenAIResponses("gpt-5.4", api_key="k", base_url=url),
        ),
        "ollama": (
            FakeStrictOllama(script),
            lambda url: OllamaChat("qwen3", base_url=url),
        ),
        "openrouter": (
            router,
            lambda url: OpenAIChat(
                "anthropic/claude-sonnet-4.5", provider="openrouter", api_key="k", base_url=url
            ),
        ),
        "vertex": (
            FakeVertex(script, api_key="k"),
            lambda url: VertexGenerate("gemini-3-flash-preview", token="k", base_url=url),
        ),
        "mistral": (
            FakeMistral(script, api_key="k"),
            lambda url: OpenAIChat(
                "mistral-large-latest", provider="mistral", api_key="k", base_url=url
            ),
        ),
        "azure": (
            FakeAzure(script, api_key="k"),
            lambda url: OpenAIChat("my-gpt", provider="azure", api_key="k", base_url=url),
        ),
    }
