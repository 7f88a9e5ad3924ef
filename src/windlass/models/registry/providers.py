"""Model names: `resolve("anthropic:claude-sonnet-4-5")`, with keys from the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import JsonObject, as_given
from windlass.models.base import Model
from windlass.models.registry import prices
from windlass.models.registry.capabilities import DEFAULT_WIRE, load_wire
from windlass.models.registry.config import Endpoint
from windlass.models.registry.registry import (
    TIERS,
    ModelRegistry,
    capabilities_of,
    current_registry,
)
from windlass.models.registry.scope import ENDPOINTS
from windlass.models.registry.scope import environ as environ_of_context
from windlass.redaction.redactor import Secret

DEFAULT = "anthropic"
_EXAMPLE = "claude-sonnet-4-5"


def resolve(
    model: str | Model | None = None,
    provider: str | None = None,
    *,
    tier: str | None = None,
    api_key: str | Secret | None = None,
    base_url: str | None = None,
    headers: Mapping[str, str | Secret] | None = None,
    timeout: float | None = None,
    environ: Mapping[str, str] | None = None,
) -> Model:
    """Return the model of a name: `resolve("openai:gpt-4o")`, `resolve(provider="ollama")`.

    Also `resolve("claude-sonnet-4-5")`, `resolve(tier="small")` and `resolve()`.

    A provider has models that are not in the catalogue, so any name is accepted with a known provider; a bare name
    must be an alias or a tier, be in the catalogue, or match `[[llm.inference]]`.
    """
    if isinstance(model, Model):
        return model
    for what, given in (("model", model), ("provider", provider), ("model_tier", tier)):
        if given is not None and not isinstance(as_given(given), str):
            raise ConfigError(f"{what} is a name or a Model object, not {safe_repr(given)}")
    if model is not None and not model.strip():
        raise ConfigError(f"model is empty: name one, such as '{DEFAULT}:{_EXAMPLE}'")
    env = environ_of_context() if environ is None else environ
    if model is None and provider is None:
        model, provider = _default_name(env, tier)
    meant, provider, key = _resolve_alias(model, provider, tier)
    try:
        provider, name = _split(meant, provider, base_url)
    except ConfigError as error:
        if key is None:
            raise
        raise ConfigError(
            f"{current_registry().where('llm', *key)}: llm.{'.'.join(key)}: {error}"
        ) from None
    if provider == "mock":
        from windlass.models.mock import MockModel

        name = name or "mock"
        rate = current_registry().rate("mock", name)
        tariff = None if rate is None else prices.tariff("mock", name)
        return MockModel(name, price=None if tariff is None else tariff.price)
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


def _default_name(env: Mapping[str, str], tier: str | None) -> tuple[str | None, str | None]:
    """Return the model and provider where code names none: the environment's, else the file's."""
    model, provider = env.get("WINDLASS_MODEL") or None, env.get("WINDLASS_PROVIDER") or None
    if tier is not None:
        return None, provider
    if model is None and provider is None:
        return current_registry().model, None
    return model, provider


def model_defaults(provider: str, model: str) -> JsonObject:
    """Return the `[llm.model_defaults]` of a model; a call's own options override them.

    `model_defaults("openai", "gpt-4o")` -> `{"temperature": 0.2}`
    """
    return current_registry().defaults(provider, model)


def _wire(endpoint: Endpoint, name: str) -> Callable[..., Model]:
    """Return the class of the model: of the provider's wire, or of the model's own."""
    return load_wire(capabilities_of(endpoint.name, name).wire or endpoint.wire)


def _resolve_alias(
    model: str | None, provider: str | None, tier: str | None
) -> tuple[str | None, str | None, tuple[str, ...] | None]:
    """Return the model and provider of an alias or tier, and the setting that defines it."""
    registry, key = current_registry(), None
    if tier is not None and model is not None:
        raise ConfigError(f"model_tier={tier!r} and model={model!r}: give one of the two")
    if tier is None and model in TIERS and model not in registry.aliases:
        tier = model
    if tier is not None:
        model, key = _of_tier(tier, provider, registry)
    alias = registry.aliases.get(model) if model is not None else None
    if alias is None:
        return model, provider, key
    if provider is not None and alias.provider not in (None, provider):
        raise ConfigError(
            f"alias {model!r} is a model of {alias.provider!r}, not of provider={provider!r}"
        )
    return alias.id, alias.provider or provider, ("aliases", str(model))


def _of_tier(
    tier: str, provider: str | None, registry: ModelRegistry
) -> tuple[str, tuple[str, ...]]:
    """Return the model of a tier, by provider or for all, and the setting that defines it."""
    if tier not in TIERS:
        hint = nearest(tier, TIERS) or f"; there is {', '.join(TIERS)}"
        raise ConfigError(f"model_tier {safe_repr(tier)} is not known{hint}")
    own = registry.tiers.get(provider) if provider is not None else None
    if isinstance(own, dict) and provider is not None and (found := own.get(tier)) is not None:
        return found, ("tiers", provider, tier)
    found = registry.tiers.get(tier)
    if provider is None and isinstance(found, str):
        return found, ("tiers", tier)
    key = f"[llm.tiers.{provider}]" if provider is not None else "[llm.tiers]"
    raise ConfigError(f"there is no {tier} model of {provider or 'any provider'}: set {key} {tier}")


def _split(model: str | None, provider: str | None, base_url: str | None) -> tuple[str, str | None]:
    """Split a model name into provider and name; a name may hold a colon (`llama3:8b`)."""
    if model is None:
        return provider or DEFAULT, None
    head, colon, rest = model.partition(":")
    if colon and _is_provider(head):
        if provider is not None and provider != head:
            raise ConfigError(
                f"model {model!r} names another provider than provider={provider!r}: "
                "leave provider out"
            )
        if not rest.strip():
            raise ConfigError(
                f"model {model!r} has no name behind the colon; write {head!r} for the default model"
            )
        return head, rest
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
        raise ConfigError(f"provider {safe_repr(head)} is not known{hint}")
    hint = _with_colon(model) or _nearest_model(model) or "; write provider:name"
    raise ConfigError(f"model {safe_repr(model)} is not known{hint}")


def _with_colon(model: str) -> str:
    """Return the hint for `openai/gpt-4o`, the way other libraries write a provider and a model."""
    head, slash, rest = model.partition("/")
    if slash and rest and _is_provider(head.lower()):
        return f"; did you mean '{head.lower()}:{rest}'?"
    return ""


def _home(model: str) -> str | None:
    """Return the provider of a bare model name."""
    for provider in prices.models():
        if prices.find_model_info(provider, model):
            return provider
    return current_registry().home(model)


def _nearest_model(name: str) -> str:
    known = {model: f"{provider}:{model}" for provider, model in prices.names()}
    known |= {alias: alias for alias in current_registry().aliases}
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean '{known[close[0]]}'?" if close else ""


def _is_provider(name: str) -> bool:
    return name == "mock" or name in ENDPOINTS


def _endpoint(provider: str, base_url: str | None) -> Endpoint:
    if found := ENDPOINTS.get(provider):
        return found
    if base_url is not None:  # a server of the user's own, with OpenAI's wire
        return Endpoint(provider, DEFAULT_WIRE, base_url, (f"{provider.upper()}_API_KEY",))
    raise ConfigError(
        f"provider {safe_repr(provider)} is not known{nearest(provider, [*ENDPOINTS, 'mock'])}"
    )


def _default_model(endpoint: Endpoint, env: Mapping[str, str]) -> str:
    named = env.get(endpoint.model_env) if endpoint.model_env else None
    if found := named or endpoint.default_model:
        return found
    also = f" or set {endpoint.model_env}" if endpoint.model_env else ""
    raise ConfigError(f"provider {endpoint.name!r} has no default model: name one{also}")


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := env.get(name))), None)
