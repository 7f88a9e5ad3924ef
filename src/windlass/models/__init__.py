"""Model objects: `w.models.anthropic("claude-sonnet-4-5", api_key=…)`, `w.models.openai_chat(…)`.

The wires are loaded when the first one is made, so that importing Windlass stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.models.registry.providers import resolve as resolve
    from windlass.models.wires.anthropic.model import AnthropicMessages as anthropic
    from windlass.models.wires.bedrock.model import BedrockConverse as bedrock
    from windlass.models.wires.gemini.model import GeminiGenerate as gemini
    from windlass.models.wires.gemini.vertex import VertexGenerate as vertex
    from windlass.models.wires.ollama.model import OllamaChat as ollama
    from windlass.models.wires.openai.chat import OpenAIChat as openai_chat
    from windlass.models.wires.openai.responses import OpenAIResponses as openai_responses

__all__ = [
    "anthropic",
    "bedrock",
    "gemini",
    "ollama",
    "openai_chat",
    "openai_responses",
    "resolve",
    "vertex",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from windlass.models.registry.capabilities import WIRES

    homes = {**WIRES, "resolve": ("windlass.models.registry.providers", "resolve")}
    module, attribute = homes[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
