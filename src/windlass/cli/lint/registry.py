"""Registries of tools: whether the active providers take so many."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from windlass.cli.imports import load_tools
from windlass.cli.lint.code import Finding
from windlass.errors import ConfigError, nearest
from windlass.models.registry import prices
from windlass.models.registry.providers import DEFAULT
from windlass.models.registry.registry import capabilities_of
from windlass.models.registry.scope import ENDPOINTS


def check_registries(paths: Sequence[str], providers: Sequence[str]) -> Iterator[Finding]:
    """Find registries with more tools than a provider takes."""
    caps = list(_caps(providers))
    for path in paths:
        try:
            tools = load_tools([path], option="--registry")
        except ConfigError as error:
            yield Finding("registry", path, str(error).removeprefix(f"--registry {path}: "))
            continue
        over = [cap for cap in caps if cap[0] < len(tools)]
        smallest = min(over, key=lambda cap: cap[0], default=None)
        if smallest is not None:
            yield Finding(
                "max_tools",
                path,
                f"{len(tools)} tools, and {smallest[1]} takes {smallest[0]} at most",
                "select fewer with tool_select, or defer some: defer_loading=True and tool_search",
            )


def _caps(providers: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the limit of each active provider, with the model that has it."""
    keyed = [
        name
        for name, endpoint in ENDPOINTS.items()
        if any(os.environ.get(variable) for variable in endpoint.key_env)
    ]
    for given in providers or keyed or [DEFAULT]:
        provider, _, model = given.partition(":")
        known_provider(provider)
        default = ENDPOINTS[provider].default_model if provider in ENDPOINTS else None
        models = [model] if model else [info.name for info in prices.models().get(provider, ())]
        for name in models or [default or ""]:
            most = capabilities_of(provider, name).max_tools
            if most is not None:
                yield most, f"{provider}:{name}"


def known_provider(name: str) -> None:
    """Refuse an unknown provider."""
    if name not in ENDPOINTS:
        raise ConfigError(f"provider {name!r} is not known{nearest(name, ENDPOINTS)}")
