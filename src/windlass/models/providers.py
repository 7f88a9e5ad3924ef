"""From a name to a model: `resolve("anthropic:claude-sonnet-4-5")`, with keys from the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Final, cast

from windlass.errors import ConfigError, nearest, shown
from windlass.models import catalog
from windlass.models.base import Model
from windlass.models.endpoints import ENDPOINTS, Endpoint, Wire
from windlass.redact import Secret

# what a bare name begins with, where the catalog does not know it
_PREFIXES = (
    ("claude", "anthropic"),
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("deepseek-", "deepseek"),
    ("gemini-", "gemini"),
    ("accounts/fireworks/", "fireworks"),
)
DEFAULT = "anthropic"
# a wire is loaded when the first model of it is made
WIRES: Final[dict[Wire, tuple[str, str]]] = {
    "anthropic": ("windlass.models.wires.anthropic", "AnthropicMessages"),
    "openai_chat": ("windlass.models.wires.openai_chat", "OpenAIChat"),
    "openai_responses": ("windlass.models.wires.openai_responses", "OpenAIResponses"),
    "gemini": ("windlass.models.wires.gemini", "GeminiGenerate"),
    "vertex": ("windlass.models.wires.vertex", "VertexGenerate"),
    "ollama": ("windlass.models.wires.ollama", "OllamaChat"),
    "bedrock": ("windlass.models.wires.bedrock", "BedrockConverse"),
}


def resolve(
    model: str | Model | None = None,
    provider: str | None = None,
    *,
    api_key: str | Secret | None = None,
    base_url: str | None = None,
    headers: Mapping[str, str | Secret] | None = None,
    timeout: float | None = None,
    environ: Mapping[str, str] | None = None,
) -> Model:
    """The model that is meant: `resolve("openai:gpt-4o")`, `resolve("claude-sonnet-4-5")`,
    `resolve(provider="ollama")`, `resolve()`.

    A provider knows models that we do not, so any name is taken under a known provider; a bare name
    must be in the catalog or begin like one that is.
    """
    if isinstance(model, Model):
        return model
    for what, given in (("model", model), ("provider", provider)):
        if given is not None and not isinstance(cast("object", given), str):
            raise ConfigError(f"{what} is a name or a Model object, not {shown(given)}")
    env = os.environ if environ is None else environ
    if model is None and provider is None:
        model, provider = env.get("WINDLASS_MODEL"), env.get("WINDLASS_PROVIDER")
    provider, name = _split(model or None, provider or None, base_url)
    if provider == "mock":
        from windlass.models.mock import MockModel

        return MockModel(name or "mock")
    endpoint = _endpoint(provider, base_url)
    name = name or _default_model(endpoint, env)
    key = api_key if api_key is not None else _first(env, endpoint.key_env)
    return _wire(endpoint, name)(
        name,
        api_key=key,
        base_url=base_url or endpoint.address(env),
        headers=headers,
        timeout=timeout,
        endpoint=endpoint,
        **{word: _first(env, names) for word, names in endpoint.also_env.items()},
    )


def _wire(endpoint: Endpoint, name: str) -> Callable[..., Model]:
    """What makes the model: of the provider's wire, or of the one that the catalog wants for it."""
    info = catalog.listed(endpoint.name, name)
    module, made = WIRES[info.wire or endpoint.wire] if info is not None else WIRES[endpoint.wire]
    return getattr(import_module(module), made)


def _split(model: str | None, provider: str | None, base_url: str | None) -> tuple[str, str | None]:
    """Provider and name from what was given; a name may itself hold a colon (`llama3:8b`)."""
    if model is None:
        return provider or DEFAULT, None
    head, colon, rest = model.partition(":")
    if colon and _is_provider(head):
        if provider is not None and provider != head:
            raise ConfigError(f"model {model!r} names another provider than provider={provider!r}")
        return head, rest or None
    if provider is not None:
        return provider, model
    if model in ENDPOINTS or model == "mock":
        return model, None
    if found := _home(model):
        return found, model
    if base_url is not None:
        return "local", model
    if colon:
        hint = nearest(head, [*ENDPOINTS, "mock"]) or _nearest_model(rest)
        raise ConfigError(f"provider {shown(head)} is not known{hint}")
    raise ConfigError(
        f"model {shown(model)} is not known{_nearest_model(model) or '; write provider:name'}"
    )


def _home(model: str) -> str | None:
    """The provider of a bare name."""
    for provider in catalog.models():
        if catalog.listed(provider, model):
            return provider
    return next((provider for prefix, provider in _PREFIXES if model.startswith(prefix)), None)


def _nearest_model(name: str) -> str:
    known = {model: provider for provider, model in catalog.names()}
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean '{known[close[0]]}:{close[0]}'?" if close else ""


def _is_provider(name: str) -> bool:
    return name == "mock" or name in ENDPOINTS


def _endpoint(provider: str, base_url: str | None) -> Endpoint:
    if found := ENDPOINTS.get(provider):
        return found
    if base_url is not None:  # a server of the user's own, spoken to as OpenAI would be
        return Endpoint(provider, "openai_chat", base_url, (f"{provider.upper()}_API_KEY",))
    raise ConfigError(
        f"provider {shown(provider)} is not known{nearest(provider, [*ENDPOINTS, 'mock'])}"
    )


def _default_model(endpoint: Endpoint, env: Mapping[str, str]) -> str:
    named = env.get(endpoint.model_env) if endpoint.model_env else None
    if found := named or endpoint.default_model:
        return found
    also = f" or set {endpoint.model_env}" if endpoint.model_env else ""
    raise ConfigError(f"provider {endpoint.name!r} has no default model: name one{also}")


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := env.get(name))), None)
