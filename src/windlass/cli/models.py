"""`windlass models`: known models, and the doctor."""

from __future__ import annotations

import os
from typing import Any

import click
import msgspec

from windlass.cli.console import out
from windlass.cli.lazy import LazyGroup
from windlass.cli.main import debug_option
from windlass.cli.options import json_option
from windlass.errors import ConfigError, nearest
from windlass.json_types import JsonObject
from windlass.models.registry import prices as catalog
from windlass.models.registry.registry import capabilities_of
from windlass.models.registry.scope import ENDPOINTS

_COMMANDS = {
    "list": ("windlass.cli.models:show", "Known models: prices, sizes and what they can do."),
    "doctor": ("windlass.cli.doctor:doctor", "Probe a model with a few tiny calls."),
}


class _Models(LazyGroup):
    """A group that lists the models when no command is given."""

    table = _COMMANDS


provider_option = click.option("--provider", "-p", metavar="NAME", help="Of this provider alone.")


@click.group(cls=_Models, invoke_without_command=True)
@provider_option
@json_option
@debug_option
@click.pass_context
def models(ctx: click.Context, provider: str | None, as_json: bool) -> None:
    """List known models, or examine one.

    Without a command it lists them: `windlass models --provider openai`.
    """
    if ctx.invoked_subcommand is None:
        print_models(provider, as_json)
    elif provider is not None or as_json:
        name = "--provider" if provider is not None else "--json"
        raise click.UsageError(f"write {name} behind {ctx.invoked_subcommand}", ctx)


@click.command("list")
@provider_option
@json_option
@debug_option
def show(provider: str | None, as_json: bool) -> None:
    """List known models with price, size and abilities, and providers with a key.

    Prices are dollars per million tokens. Models that are not listed work too; they cost nothing on
    paper.
    """
    print_models(provider, as_json)


def print_models(provider: str | None, as_json: bool) -> None:
    """Print the list."""
    known = [*ENDPOINTS, "mock"]
    if provider is not None and provider not in known and provider not in catalog.models():
        raise ConfigError(f"provider {provider!r} is not known{nearest(provider, known)}")
    infos = [
        info
        for name, entries in catalog.models().items()
        if provider in (None, name)
        for info in entries
    ]
    providers = [_provider(name) for name in known if provider in (None, name)]
    if as_json:
        listed = [_model(info) for info in infos]
        out().json({"models": listed, "providers": providers, "prices_as_of": catalog.as_of()})
        return
    paper = out()
    if infos:
        head = ("MODEL", "IN", "OUT", "CACHED", "CONTEXT", "REPLY", "TOOLS", "ALSO")
        rows = [
            (
                f"{info.provider}:{info.name}",
                _price(info.input),
                _price(info.output),
                _price(info.cache_read),
                _size(info.context_window),
                _size(info.max_output),
                "native" if _abilities(info).native_tools else "text",
                _also(info),
            )
            for info in infos
        ]
        numbers = ("IN", "OUT", "CACHED", "CONTEXT", "REPLY")
        paper.table(head, rows, numbers, spare=("REPLY", "CACHED", "TOOLS", "ALSO"))
        paper.line((f"prices of {catalog.as_of()}", "dim"))
        paper.line("")
    rows = [(p["name"], _key_state(p), p["default_model"] or "") for p in providers]
    paper.table(("PROVIDER", "KEY", "DEFAULT MODEL"), rows)


def _abilities(info: Any) -> Any:
    return capabilities_of(info.provider, info.name)


def _also(info: Any) -> str:
    """Name the other abilities of a model."""
    can = _abilities(info)
    abilities = {
        "thinks": can.thinking,
        "schema": "schema" in can.structured,
        "search": bool(can.tool_search),
        "cache": can.prompt_caching,
    }
    return " ".join(word for word, holds in abilities.items() if holds)


def _provider(name: str) -> JsonObject:
    if name == "mock":
        return {"name": "mock", "key_env": [], "key_set": None, "default_model": "mock"}
    endpoint = ENDPOINTS[name]
    found = next((variable for variable in endpoint.key_env if os.environ.get(variable)), None)
    return {
        "name": name,
        "key_env": list(endpoint.key_env),
        "key_set": found,
        "default_model": endpoint.default_model,
    }


def _key_state(provider: JsonObject) -> str:
    if not provider["key_env"]:
        return "none needed"
    if provider["key_set"]:
        return f"{provider['key_set']} is set"
    return f"missing: {provider['key_env'][0]}"


def _model(info: Any) -> JsonObject:
    return {"name": info.name, **msgspec.to_builtins(info)}


def _price(usd: float | None) -> str:
    return "" if usd is None else f"{usd:.3f}".rstrip("0").rstrip(".") if usd else "0"


def _size(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"
