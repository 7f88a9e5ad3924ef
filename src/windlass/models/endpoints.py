"""The providers Windlass knows: where they are, which wire they speak, which variables name a key.

Plain data; `providers.py` makes models of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec

Wire: TypeAlias = Literal[
    "anthropic", "openai_chat", "openai_responses", "gemini", "vertex", "ollama", "bedrock"
]


class Endpoint(msgspec.Struct, frozen=True):
    """A provider: its wire, its address, and what stands in the environment for it."""

    name: str
    wire: Wire
    base_url: str
    key_env: tuple[str, ...] = ()  # empty: no key is needed
    base_env: tuple[str, ...] = ()
    default_model: str | None = None
    model_env: str | None = None
    dialect: str = "plain"  # of the OpenAI wire: how it asks for reasoning, what it refuses
    also_env: dict[str, tuple[str, ...]] = {}  # what else the wire is told: keyword -> variables
    key_word: str = "api_key"  # what the wire calls its key

    def address(self, env: Mapping[str, str]) -> str | None:
        """Where the environment says that it is; None: it says nothing."""
        found = next((value for name in self.base_env if (value := env.get(name))), None)
        if found is None or "://" in found:
            return found
        # OLLAMA_HOST may be just a host, or a host and a port
        host = found.replace("0.0.0.0", "127.0.0.1")
        bare = self.name == "ollama" and ":" not in host
        return f"http://{host}:11434" if bare else f"http://{host}"

    @property
    def key_hint(self) -> str:
        """What to do about a missing or wrong key."""
        names = " or ".join(self.key_env) or f"{self.name.upper()}_API_KEY"
        return f"set {names} or pass {self.key_word}="


def _named(
    name: str,
    wire: Wire,
    base_url: str,
    *key_env: str,
    default: str | None = None,
    dialect: str = "plain",
) -> Endpoint:
    return Endpoint(
        name, wire, base_url, key_env, (f"{name.upper()}_BASE_URL",), default, dialect=dialect
    )


ENDPOINTS: Final[dict[str, Endpoint]] = {
    endpoint.name: endpoint
    for endpoint in (
        _named("anthropic", "anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY",
               default="claude-sonnet-4-20250514"),
        _named("openai", "openai_chat", "https://api.openai.com/v1", "OPENAI_API_KEY",
               default="gpt-4o", dialect="openai"),
        Endpoint("openai-responses", "openai_responses", "https://api.openai.com/v1",
                 ("OPENAI_API_KEY",), ("OPENAI_BASE_URL",), "gpt-4o", dialect="openai"),
        _named("openrouter", "openai_chat", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY",
               default="anthropic/claude-sonnet-4-20250514", dialect="openrouter"),
        _named("huggingface", "openai_chat", "https://router.huggingface.co/v1", "HF_TOKEN",
               "HUGGINGFACE_API_KEY"),
        _named("together", "openai_chat", "https://api.together.xyz/v1", "TOGETHER_API_KEY",
               dialect="together"),
        _named("groq", "openai_chat", "https://api.groq.com/openai/v1", "GROQ_API_KEY",
               dialect="groq"),
        _named("deepseek", "openai_chat", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY",
               default="deepseek-chat", dialect="deepseek"),
        _named("fireworks", "openai_chat", "https://api.fireworks.ai/inference/v1",
               "FIREWORKS_API_KEY"),
        _named("mistral", "openai_chat", "https://api.mistral.ai/v1", "MISTRAL_API_KEY",
               dialect="mistral"),
        Endpoint("azure", "openai_chat", "", ("AZURE_OPENAI_API_KEY",),
                 ("AZURE_OPENAI_ENDPOINT",), dialect="azure",
                 also_env={"api_version": ("OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION")}),
        Endpoint("gemini", "gemini", "https://generativelanguage.googleapis.com/v1beta",
                 ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
                 ("GEMINI_BASE_URL",)),
        Endpoint("vertex", "vertex", "https://aiplatform.googleapis.com/v1beta1",
                 ("VERTEX_ACCESS_TOKEN",), ("VERTEX_BASE_URL",),
                 also_env={"project": ("GOOGLE_CLOUD_PROJECT",),
                           "location": ("GOOGLE_CLOUD_LOCATION",)},
                 key_word="token"),
        Endpoint("bedrock", "bedrock", "https://bedrock-runtime.{region}.amazonaws.com",
                 ("AWS_BEARER_TOKEN_BEDROCK",),
                 ("BEDROCK_BASE_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"),
                 also_env={"region": ("AWS_REGION", "AWS_DEFAULT_REGION")}),
        Endpoint("ollama", "ollama", "http://localhost:11434", (),
                 ("OLLAMA_HOST", "OLLAMA_BASE_URL"), "llama3.2", dialect="ollama"),
        Endpoint("local", "openai_chat", "http://localhost:8000", (), ("LOCAL_LLM_BASE_URL",),
                 None, "LOCAL_LLM_MODEL", dialect="local"),
    )
}  # fmt: skip
