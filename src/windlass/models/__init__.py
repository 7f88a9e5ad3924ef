"""Model objects: `w.models.anthropic("claude-sonnet-4-5", api_key=…)`, `w.models.openai_chat(…)`.

The wires are loaded when the first one is made, so that importing Windlass stays quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.models.base import Frame as Frame
    from windlass.models.base import Model as Model
    from windlass.models.base import Request as Request
    from windlass.models.base import Response as Response
    from windlass.models.base import Settings as Settings
    from windlass.models.mock import llm_mock as llm_mock
    from windlass.models.mock import llm_mock_calls as llm_mock_calls
    from windlass.models.mock import llm_mock_clear as llm_mock_clear
    from windlass.models.registry.providers import resolve as resolve
    from windlass.models.registry.registry import provider_capabilities as provider_capabilities
    from windlass.models.registry.registry import (
        provider_capabilities_clear as provider_capabilities_clear,
    )
    from windlass.models.registry.registry import (
        provider_capabilities_install as provider_capabilities_install,
    )
    from windlass.models.wires.anthropic.model import AnthropicMessages as anthropic
    from windlass.models.wires.bedrock.model import BedrockConverse as bedrock
    from windlass.models.wires.gemini.model import GeminiGenerate as gemini
    from windlass.models.wires.gemini.vertex import VertexGenerate as vertex
    from windlass.models.wires.ollama.model import OllamaChat as ollama
    from windlass.models.wires.openai.chat import OpenAIChat as openai_chat
    from windlass.models.wires.openai.responses import OpenAIResponses as openai_responses

_HOMES = {
    **dict.fromkeys(("Frame", "Model", "Request", "Response", "Settings"), "base"),
    **dict.fromkeys(("llm_mock", "llm_mock_calls", "llm_mock_clear"), "mock"),
    "provider_capabilities": "registry.registry",
    "provider_capabilities_clear": "registry.registry",
    "provider_capabilities_install": "registry.registry",
    "resolve": "registry.providers",
}
__all__ = [
    "Frame",
    "Model",
    "Request",
    "Response",
    "Settings",
    "anthropic",
    "bedrock",
    "gemini",
    "llm_mock",
    "llm_mock_calls",
    "llm_mock_clear",
    "ollama",
    "openai_chat",
    "openai_responses",
    "provider_capabilities",
    "provider_capabilities_clear",
    "provider_capabilities_install",
    "resolve",
    "vertex",
]


if not TYPE_CHECKING:  # a checker that saw it would take every name for one of the package

    def __getattr__(name: str) -> object:
        if name not in __all__:
            from windlass.foreign_names import build_name_error

            raise build_name_error(__name__, name, __all__, sys._getframe(1))
        from windlass.models.registry.capabilities import WIRES

        homes: dict[str, tuple[str, str]] = {
            **WIRES,
            **{own: (f"windlass.models.{home}", own) for own, home in _HOMES.items()},
        }
        module, attribute = homes[name]
        value = getattr(import_module(module), attribute)
        globals()[name] = value
        return value
